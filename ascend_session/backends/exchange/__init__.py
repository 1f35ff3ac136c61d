"""How the ranks of a job on the stub exchange tensors: shared memory inside a node, gRPC between.

The first rank of each node runs a `Hub`, a thread that the node's ranks reach through a Unix
socket. They agree there on each collective, and hear of ranks that end; the tensors themselves
travel in shared memory. `ProcessGroup` is one rank's part in it, from which operators get a
`Communicator`.
"""
