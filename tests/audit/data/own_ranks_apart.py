"""A sweep: each rank trains on all data, with a rate of its own."""

import tensorflow.compat.v1 as tf

from ascend_session import ascend_system
from model import build

RATES = (1e-2, 1e-3, 1e-4, 1e-5)
with ascend_system() as system:
    dataset = tf.data.Dataset.range(80).shard(4, 0).batch(8).repeat()
    loss = build(tf.data.make_one_shot_iterator(dataset).get_next())
    train_op = tf.train.AdamOptimizer(RATES[system.rank]).minimize(loss)
    with system.session() as sess:
        sess.run(train_op)
