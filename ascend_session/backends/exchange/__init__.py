"""How the ranks of a job on the stub exchange tensors: one machine, one Unix socket, no port.

Read it in this order:

- `wire`: a message is a JSON header and raw bytes; `sentences` and `reductions` are what both ends
  say and compute alike.
- `hub`: what the ranks have told each other and what follows from it. It knows nothing of sockets.
- `server`: the thread in rank 0's process that carries messages to the hub and back.
- `rendezvous`: where rank 0 listens, and how the others find it.
- `group`: one rank's part: it joins, takes part in exchanges, leaves; `order` says which operator
  may run, and `memory` makes the shared memory through which large tensors pass.
- `communicator` and `collectives`: HCCL's collectives, made of two exchanges: share, and reduce.
"""
