"""Ranks add their numbers."""

import tensorflow.compat.v1 as tf

from ascend_session import ascend_system, hccl

tf.disable_eager_execution()
total = hccl.allreduce(tf.constant([1.0, 2.0]), "sum")
with ascend_system() as system, system.session() as session:
    print(system.rank, system.size, session.run(total).tolist(), flush=True)
print(*[f"{event.name}: {event.detail}" for event in system.events], sep="\n")
