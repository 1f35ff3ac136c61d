"""What another file makes of the gradients, or of the optimizer, is not known."""

import tensorflow.compat.v1 as tf

from ascend_session import ascend_system
from helpers import average, build, make_optimizer

with ascend_system() as system:
    dataset = tf.data.Dataset.range(80).shard(system.size, system.rank).batch(8).repeat()
    loss = build(tf.data.make_one_shot_iterator(dataset).get_next())
    optimizer = tf.train.AdamOptimizer(1e-3)
    train_op = optimizer.apply_gradients(average(optimizer.compute_gradients(loss)))
    other_op = make_optimizer().minimize(loss)
    with system.session() as sess:
        sess.run([train_op, other_op])
