"""How the ranks of a job on the stub exchange tensors: one machine, one Unix socket, no port.

Read it in this order:

- `wire`: messages, which are a line of JSON and raw bytes. `sentences` and `reductions` are what
  the hub and the ranks have in common.
- `hub`: the state of all ranks, and what follows from their messages. It has no sockets.
- `server`: the thread in rank 0's process that connects the hub with the ranks.
- `rendezvous`: where rank 0 listens, and how the others find it. `folder`: the files there.
- `group`: one rank's part: it joins, exchanges tensors, leaves. `order` says which operator may
  run, and `memory` creates the shared memory through which large tensors pass.
- `communicator` and `collectives`: HCCL's collectives, made of two: `share` and `all_reduce`.
- `models`: what the ranks report about their variables as they leave, and how that compares.
  `outcome`: what rank 0 does with the result.
"""
