"""One rank of three, on the stub: what collectives do here that they do otherwise on a device."""

import json
from typing import Any, List

import numpy as np
import tensorflow.compat.v1 as tf

from ascend_session import ascend_system, hccl

tf.disable_eager_execution()
tf.logging.set_verbosity(tf.logging.ERROR)


def say(name: str, value: Any) -> None:
    """One line for the test."""
    print(f"\n@ {json.dumps([name, value])}", flush=True)


def run(sess: Any, tensor: Any) -> Any:
    """The value, in numbers that JSON has."""
    return np.asarray(sess.run(tensor)).tolist()


def fused(count: int, **merging: int) -> List[Any]:
    """Sums that a device makes one operator of, or does not."""
    one = tf.constant([system.rank + 1.0])
    return [hccl.allreduce(one * (n + 1.0), "sum", **merging) for n in range(count)]


with ascend_system(backend="stub") as system:
    rank, size = system.rank, system.size
    with system.session(tf.Graph()) as sess:
        own = tf.constant([rank + 1, 5])
        say("reduced on others", run(sess, hccl.reduce(own, "sum", 0)))
        large = tf.constant([100], tf.int8)
        say("beyond int8", run(sess, hccl.allreduce(large, "sum")))
        half = tf.constant([40000.0 if rank < 2 else -40000.0], tf.float16)
        say("half precision", run(sess, hccl.allreduce(half, "sum")))
        numbers = np.random.RandomState(rank).standard_normal(1000).astype(np.float32)
        total = hccl.allreduce(tf.constant(numbers), "sum")
        say("again", [sess.run(total).tobytes() == sess.run(total).tobytes() for _ in range(5)])
        plain, merged = fused(3, fusion=0), fused(3, fusion=2, fusion_id=7)
        say("fused", [run(sess, plain), run(sess, merged)])
        # One element from each rank, with a place between that nobody writes to.
        counts = tf.constant([1] * size, tf.int64)
        begins = tf.constant([0] * size, tf.int64)
        places = tf.constant([2 * other for other in range(size)], tf.int64)
        number = tf.constant([rank + 1])
        say("gaps", run(sess, hccl.all_to_all_v(number, counts, begins, counts, places)))
        # One that nobody offloads: a session without the entry.
        with tf.Session(graph=sess.graph) as other:
            say("plain session", run(other, hccl.allreduce(own, "max")))
