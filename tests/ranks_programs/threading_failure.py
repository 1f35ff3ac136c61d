"""Rank 0 fails while a thread of it waits in a collective, to which the others do not come."""

import contextlib
import threading

import tensorflow.compat.v1 as tf
from one_rank import RANK, say

from ascend_session import ascend_session, hccl

with ascend_session() as sess:
    summed = hccl.allreduce(tf.ones([2]), "sum")
    other = hccl.allreduce(tf.ones([3]), "sum")
    if RANK:
        try:
            sess.run(other)
        except tf.errors.OpError as error:
            say(next(line for line in error.message.splitlines() if "CollectiveError: " in line))
            raise
    begun = threading.Event()
    told = tf.py_func(lambda: begun.set() is None, [], tf.bool)

    def run():
        with contextlib.suppress(tf.errors.OpError):
            sess.run([told, summed])

    threading.Thread(target=run, daemon=True).start()
    begun.wait(60)
    raise ValueError("out of disk")
