"""``MonitoredTrainingSession``: a session with hooks and checkpoints, which TensorFlow opens.

``python -m ascend_session.examples.monitored`` trains twice and shows both results; under
``ascend-session launch -n 2 -m ascend_session.examples.monitored`` two ranks share each batch.
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
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        with tf.train.MonitoredTrainingSession(
            config=hand_made_proto(),
            checkpoint_dir=str(folder),
            # The session's own saver would be sharded, which the vendor's adapter may fail to run.
            scaffold=tf.train.Scaffold(saver=tf.train.Saver()),
            hooks=[tf.train.StopAtStepHook(plane.STEPS)],
        ) as sess:
            while not sess.should_stop():
                sess.run(train_op)
    return plane.load_slopes(folder)


def with_ascend_session(folder: Path) -> Dict[str, float]:
    """Run the script inside a system, which has the session's target and proto, and the rank."""
    import tensorflow.compat.v1 as tf

    with ascend_system(CONFIG) as system, tf.Graph().as_default():
        dataset = plane.batches(system.rank, system.size)
        loss = plane.build_loss(*tf.data.make_one_shot_iterator(dataset).get_next())
        optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(plane.RATE))
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        hooks = [tf.train.StopAtStepHook(plane.STEPS)]
        with training.monitored_session(system, str(folder), hooks) as sess:
            while not sess.should_stop():
                sess.run(train_op)
    return plane.load_slopes(folder)


if __name__ == "__main__":
    side_by_side(without, with_ascend_session)
