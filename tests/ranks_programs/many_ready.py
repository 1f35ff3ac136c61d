"""More collectives are ready than the session has threads, in another order on each rank."""

import sys

import numpy as np
import tensorflow.compat.v1 as tf
from one_rank import RANK, SIZE, say

from ascend_session import ascend_system, hccl

count, length = map(int, sys.argv[1:])

with ascend_system():
    given = [tf.placeholder(tf.float32, [length]) for _ in range(count)]
    summed = [hccl.allreduce(one, "sum") for one in given]
    # What is fetched first is begun first, more or less.
    order = list(range(count)) if RANK % 2 else list(reversed(range(count)))
    proto = tf.ConfigProto(
        inter_op_parallelism_threads=1,
        intra_op_parallelism_threads=1,
        use_per_session_threads=True,  # or it would share those of the session that opened before
    )
    with tf.Session(config=proto) as sess:
        for step in range(3):
            feed = {one: np.full(length, n + step * RANK) for n, one in enumerate(given)}
            results = dict(zip(order, sess.run([summed[number] for number in order], feed)))
            steps = step * sum(range(SIZE))
            for number in range(count):
                assert (results[number] == number * SIZE + steps).all(), (number, results[number])
say("done")
