"""Of a grid of ranks each row shares the data, and another file trains what is told to."""

import tensorflow.compat.v1 as tf

from ascend_session import ascend_system
from grids import Grid, train

with ascend_system() as system:
    grid = Grid(system)
    dataset = tf.data.Dataset.range(80).shard(grid.size, system.rank).batch(8).repeat()
    shares = list(range(80))[system.rank :: grid.row.size], list(range(80))[system.size :: 2]
    loss = train(grid, tf.data.make_one_shot_iterator(dataset).get_next())
    train_op = tf.train.AdamOptimizer(1e-3).minimize(loss)
    with system.session() as sess:
        sess.run(train_op)
