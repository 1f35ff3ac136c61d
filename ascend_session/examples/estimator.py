"""``tf.estimator``, and the vendor's ``NPUEstimator`` where there is a device.

``python -m ascend_session.examples.estimator`` trains twice and shows both results; under
``ascend-session launch -n 2 -m ascend_session.examples.estimator`` two ranks share each batch. It
needs TensorFlow 1.15, or 2 up to 2.15.
"""

from pathlib import Path
from typing import Any, Dict

from ascend_session import AscendConfig, ascend_system, training
from ascend_session.examples import _plane as plane
from ascend_session.examples._plane import hand_made_proto, side_by_side

CONFIG = AscendConfig(graph_run_mode=1, precision_mode="allow_mix_precision")


def without(folder: Path) -> Dict[str, float]:
    """Run the usual script."""
    import tensorflow.compat.v1 as tf

    require_estimators()

    def model(features: Any, labels: Any, mode: str) -> Any:
        loss = plane.build_loss(features, labels)
        optimizer = tf.train.GradientDescentOptimizer(plane.RATE)
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        # An estimator's own saver is sharded, which the vendor's adapter may fail to run.
        scaffold = tf.train.Scaffold(saver=tf.train.Saver())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)

    config = tf.estimator.RunConfig(model_dir=str(folder), session_config=hand_made_proto())
    tf.estimator.Estimator(model, config=config).train(plane.batches, steps=plane.STEPS)
    return plane.load_slopes(folder)


def with_ascend_session(folder: Path) -> Dict[str, float]:
    """Run the script inside a system, which has the sessions' proto and the rank."""
    import tensorflow.compat.v1 as tf

    def model(features: Any, labels: Any, mode: str) -> Any:
        loss = plane.build_loss(features, labels)
        optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(plane.RATE))
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with ascend_system(CONFIG) as system:
        # NPUEstimator on a device. Rank 0 has the folder, every other rank one below it.
        estimator = training.estimator(model, system, str(folder))
        estimator.train(lambda: plane.batches(system.rank, system.size), steps=plane.STEPS)
    return plane.load_slopes(Path(estimator.model_dir))


def require_estimators() -> None:
    """Exit if TensorFlow has no estimators, as from 2.16 on."""
    import tensorflow.compat.v1 as tf

    if not hasattr(tf, "estimator"):
        raise SystemExit(
            f"TensorFlow {tf.__version__} has no estimators; TensorFlow 2.15 is the last with them."
        )


if __name__ == "__main__":
    side_by_side(without, with_ascend_session)
