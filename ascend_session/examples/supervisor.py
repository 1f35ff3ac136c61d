"""``Supervisor``: the older session with a log folder, which initialises or restores by itself.

``python -m ascend_session.examples.supervisor`` trains twice and shows both results; under
``ascend-session launch -n 2 -m ascend_session.examples.supervisor`` two ranks share each batch.
"""

from pathlib import Path
from typing import Dict

from ascend_session import AscendConfig, ascend_system, training
from ascend_session.examples import _plane as plane
from ascend_session.examples._plane import hand_made_proto, side_by_side

CONFIG = AscendConfig(graph_run_mode=1, precision_mode="allow_mix_precision")


def without(folder: Path) -> Dict[str, float]:
    """Run the usual script."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default():
        loss = plane.build_loss(*tf.data.make_one_shot_iterator(plane.batches()).get_next())
        optimizer = tf.train.GradientDescentOptimizer(plane.RATE)
        # The step is a second variable: the adapter fails to look whether a single one is ready.
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        supervisor = tf.train.Supervisor(logdir=str(folder), summary_op=None)
        with supervisor.managed_session(config=hand_made_proto()) as sess:
            for _ in range(plane.STEPS):
                sess.run(train_op)
            supervisor.saver.save(sess, supervisor.save_path)
    return plane.load_slopes(folder)


def with_ascend_session(folder: Path) -> Dict[str, float]:
    """Run the script inside a system, which has the session's target and proto, and the rank."""
    import tensorflow.compat.v1 as tf

    with ascend_system(CONFIG) as system, tf.Graph().as_default():
        dataset = plane.batches(system.rank, system.size)
        loss = plane.build_loss(*tf.data.make_one_shot_iterator(dataset).get_next())
        optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(plane.RATE))
        # The step is a second variable: the adapter fails to look whether a single one is ready.
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        start = training.broadcast_global_variables(0)  # before the graph is finalized
        logdir = str(folder) if system.rank == 0 else None
        supervisor = tf.train.Supervisor(logdir=logdir, summary_op=None)
        with supervisor.managed_session(system.target, config=system.session_config()) as sess:
            sess.run(start)
            for _ in range(plane.STEPS):
                sess.run(train_op)
            if system.rank == 0:
                supervisor.saver.save(sess, supervisor.save_path)
        del sess  # what it holds on the device goes with it, before the device is shut down
    return plane.load_slopes(folder)


if __name__ == "__main__":
    side_by_side(without, with_ascend_session)
