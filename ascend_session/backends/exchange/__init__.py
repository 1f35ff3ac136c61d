"""How the ranks of a job on the stub exchange tensors: one machine, one Unix socket, no port.

Read it in this order:

- `wire`: a message is a JSON header and raw bytes.
- `hub`: what the ranks have told each other and what follows from it. It knows nothing of sockets.
- `server`: the thread in rank 0's process that carries messages to the hub and back.
- `rendezvous`: where rank 0 listens, and how the others find it.
- `memory`: the shared memory through which large tensors pass.
- `group`: one rank's part in all of that.
- `collectives`: HCCL's collectives, made of what a group does.
"""
