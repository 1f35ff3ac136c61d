"""Rank 0 waits in a collective to which the others do not come, until a signal ends it."""

import logging
import signal
import sys

import tensorflow.compat.v1 as tf
from one_rank import RANK, say

from ascend_session import ascend_session, ascend_system, hccl

logging.basicConfig(format="%(levelname)s %(message)s")
own = sys.argv[1] == "own"

with ascend_system():
    summed = hccl.allreduce(tf.ones([2]), "sum")
    if RANK:
        say("open")
        signal.pause()
    # The first value comes from inside the run.
    told = tf.py_func(lambda: say("in") is None, [], tf.bool)
    try:
        with tf.Session() if own else ascend_session() as sess:
            sess.run([told, summed])
    finally:
        say("left")
