"""Reduces for ever in a session that the user made; says when it is in the midst of it."""

import sys

import tensorflow.compat.v1 as tf
from one_rank import RANK, say

from ascend_session import ascend_system, hccl

big = int(sys.argv[1])

with ascend_system():
    summed = hccl.allreduce(tf.fill([big], 1.0 + RANK), "sum")
    one = tf.reduce_max(summed)
    with tf.Session() as sess:
        say(float(sess.run(one)))
        say(float(sess.run(one)))
        while True:
            try:
                sess.run(one)
            except tf.errors.OpError as error:
                say([type(error).__name__, error.message])
                raise
