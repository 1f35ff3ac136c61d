"""Ranks that do not do the same: the scenario is the argument."""

import signal
import sys
import threading

import numpy as np
import tensorflow.compat.v1 as tf
from one_rank import RANK, say

from ascend_session import AscendConfig, ascend_system, hccl

ODD = RANK == 1


def other_shape():
    return [hccl.allreduce(tf.ones([3 if ODD else 4]), "sum")]


def other_dtype():
    return [hccl.allreduce(tf.ones([4], tf.int32 if ODD else tf.float32), "sum")]


def other_reduction():
    return [hccl.allreduce(tf.ones([4]), "prod" if ODD else "sum")]


def other_root():
    return [hccl.broadcast([tf.ones([4])], 1 if ODD else 0)[0]]


def other_order():
    sums = {
        name: lambda name=name, size=size: hccl.allreduce(tf.ones([size], name=name), "sum")
        for name, size in (("a", 2), ("b", 5))
    }
    with tf.name_scope("first"):
        first = sums["b" if ODD else "a"]()
    with tf.name_scope("second"), tf.control_dependencies([first]):
        return [sums["a" if ODD else "b"]()]


def other_order_of_running():
    a, b = (hccl.allreduce(tf.ones([2]), "sum", group="hccl_world_group") for _ in range(2))
    return [b, a] if ODD else [a, b]


def other_place():
    a = hccl.allreduce(tf.ones([2]), "sum")  # first
    b = hccl.allreduce(tf.ones([2]), "sum")  # second
    return [b, a] if ODD else [a, b]


def other_place_of_another_shape():
    if ODD:
        return [hccl.allreduce(tf.ones([5]), "sum")]  # fourth
    return [hccl.allreduce(tf.ones([2]), "sum")]  # third


def one_less():
    a, b = hccl.allreduce(tf.ones([2]), "sum"), hccl.allreduce(tf.ones([3]), "sum")
    return [a] if ODD else [a, b]


def one_less_in_each_step():
    a, b = hccl.allreduce(tf.ones([2]), "sum"), hccl.allreduce(tf.ones([3]), "sum")
    return [a, a] if ODD else [a, b]


def twice_at_once(elements=2):
    """Rank 1's first run cannot end before its second begins: the others wait elsewhere."""
    together = threading.Barrier(2)
    with tf.control_dependencies([tf.py_func(lambda: together.wait(60) < 9, [], tf.bool)]):
        twice = hccl.allreduce(tf.ones([elements]), "sum")
    never = hccl.allreduce(tf.ones([2]), "sum")
    return [twice if ODD else never]


def much_twice_at_once():
    return twice_at_once(200_000)


def wrong_counts():
    counts = [2, 2, 3 if ODD else 2]
    zeros = [0, 2, 4]
    return [hccl.all_to_all_v(tf.range(9), [2, 2, 2], zeros, counts, zeros)]


def raising():
    if ODD:
        raise ValueError("nothing to train on")
    return [hccl.allreduce(tf.ones([2]), "sum")]


def late():
    if ODD:
        signal.pause()
    return [hccl.allreduce(tf.ones([2]), "sum")]


def run(sess, fetches):
    say(float(np.max(sess.run(fetches))))


def steps(sess, fetches):
    if sys.argv[1].endswith("twice_at_once") and ODD:
        sessions = [sess, tf.Session()]
        threads = [threading.Thread(target=run, args=(one, fetches[0])) for one in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        raise SystemExit(1)
    for fetched in fetches:
        run(sess, fetched)


config = AscendConfig(hccl_timeout=4) if sys.argv[1] == "late" else AscendConfig()
try:
    with ascend_system(config):
        graph = globals()[sys.argv[1]]()
        with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=4)) as sess:
            steps(sess, graph)
except tf.errors.OpError as error:
    say(next(line for line in error.message.splitlines() if "CollectiveError: " in line))
    raise
