"""Ranks that share the data and keep their gradients."""

import tensorflow.compat.v1 as tf

from ascend_session import ascend_system, training
from model import build

with ascend_system() as system:
    dataset = tf.data.Dataset.range(80).shard(system.size, system.rank).batch(8).repeat()
    loss = build(tf.data.make_one_shot_iterator(dataset).get_next())
    optimizer = tf.train.AdamOptimizer(1e-3)
    train_op = optimizer.minimize(loss)  # expect: no-average?
    with training.monitored_session(system, "checkpoints") as sess:
        sess.run(train_op)
