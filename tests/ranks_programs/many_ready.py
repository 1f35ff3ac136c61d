"""More collectives are ready than the session has threads, in another order on each rank."""

import sys

import tensorflow.compat.v1 as tf
from one_rank import RANK, SIZE, say

from ascend_session import ascend_system, hccl

count = int(sys.argv[1])

with ascend_system():
    given = [tf.placeholder(tf.float32, []) for _ in range(count)]
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
            feed = {one: number + step * RANK for number, one in enumerate(given)}
            found = dict(zip(order, sess.run([summed[number] for number in order], feed)))
            steps = step * sum(range(SIZE))
            assert found == {number: number * SIZE + steps for number in range(count)}, found
say("done")
