"""What the vendor's sample of collectives does, in its order and with its values.

hicann/tensorflow, docs/en/tfadapter_1/apiref/hccl_ops/code_example.md: every collective of it once,
of whole numbers that depend on the rank. Where that imports ``npu_init``, this has a system; the
results go to a file of each rank in the folder of the command line, instead of a log.
"""

import sys
from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from ascend_session import ascend_system, hccl

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)

ELEMENTS = 1024
ROOT = 0
REDUCTIONS = ("sum", "max", "min", "prod")


def ones_and_rank(rank: int, size: int, *shape: int) -> Any:
    """A variable of ones, to which the rank and one are added; as many rows as there are ranks."""
    ones = tf.Variable(np.ones(shape), dtype=tf.int64)
    return tf.reshape(tf.add(ones, rank + 1), [size, -1])


def collectives(rank: int, size: int, group: str) -> Dict[str, Any]:
    """The tensors of all collectives, by name."""
    found: Dict[str, Any] = {}
    summands = [ones_and_rank(rank, size, ELEMENTS) for _ in REDUCTIONS]
    for reduction, tensor in zip(REDUCTIONS, summands):
        found[f"allreduce {reduction}"] = hccl.allreduce(tensor, reduction, group=group)
    rows = [ones_and_rank(rank, size, 1, ELEMENTS)]
    found["broadcast"] = hccl.broadcast(rows, ROOT, group=group)
    found["allgather"] = hccl.allgather(summands[1], size, group=group)
    for reduction in REDUCTIONS:
        tensor = ones_and_rank(rank, size, ELEMENTS)
        result = hccl.reduce_scatter(tensor, reduction, size, group=group)
        found[f"reduce_scatter {reduction}"] = result
    for reduction in REDUCTIONS:
        tensor = ones_and_rank(rank, size, ELEMENTS)
        found[f"reduce {reduction}"] = hccl.reduce(tensor, reduction, ROOT, group=group)
    found["all_to_all_v"] = exchange(rank, size, group)
    # What the exchange is to give, which is that every rank gets all numbers in their order.
    found["expected of all_to_all_v"] = tf.Variable(np.arange(1, (ELEMENTS + rank) * size + 1))
    return found


def exchange(rank: int, size: int, group: str) -> Any:
    """To each rank one number more than to the one before it."""
    numbers = tf.Variable(np.arange(1, ELEMENTS * size + (size - 1) * size + 1))
    counts = [ELEMENTS + other for other in range(size)]
    begins = [rank * (ELEMENTS + other) for other in range(size)]
    received = [rank + ELEMENTS] * size
    places = [(rank + ELEMENTS) * other for other in range(size)]
    lists = [tf.constant(one, dtype=tf.int64) for one in (counts, begins, received, places)]
    return hccl.all_to_all_v(numbers, *lists, group=group)


with ascend_system() as system, system.session() as sess:
    own, everyone = hccl.rank(), hccl.size()
    tensors = collectives(own, everyone, "hccl_world_group")
    sess.run(tf.global_variables_initializer())
    values = sess.run(tensors)
values["broadcast"] = values["broadcast"][0]
np.savez(f"{sys.argv[1]}/{own}.npz", **values)
