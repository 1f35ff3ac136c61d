"""``tf.estimator``, and the vendor's ``NPUEstimator`` where there is a device.

``python -m ascend_session.examples.estimator`` trains twice and shows both results; under
``ascend-session launch -n 2 -m ascend_session.examples.estimator`` two ranks share each batch. It
needs TensorFlow 1.15, or 2 up to 2.15.
"""

import importlib
import os
from pathlib import Path
from typing import Any, Dict

from ascend_session import AscendConfig, AscendSystem, ascend_system, training
from ascend_session.examples import _plane as plane
from ascend_session.examples._side_by_side import hand_made_proto, side_by_side

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
        # An estimator's own saver is sharded, which the vendor's adapter may fail to run.
        scaffold = tf.train.Scaffold(saver=tf.train.Saver())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)

    with ascend_system(CONFIG) as system:
        # A folder for each rank: an estimator reads its own checkpoints again.
        model_dir = folder / f"rank_{system.rank}"
        estimator = estimator_for(system, model, str(model_dir))
        hooks = [training.BroadcastGlobalVariablesHook(0)]
        estimator.train(lambda: plane.batches(system.rank, system.size), hooks, plane.STEPS)
    return plane.load_slopes(model_dir)


def estimator_for(system: AscendSystem, model: Any, model_dir: str) -> Any:
    """Return the vendor's estimator on a device, TensorFlow's on the stub, with the same options.

    NPUEstimator makes the NpuOptimizer entry from the options in `NPURunConfig`. Do not pass it a
    proto that has an entry: it would add a second one, whose values and defaults win
    (guides/facts/adapter.md#npurunconfig-and-npuestimator).
    """
    import tensorflow.compat.v1 as tf

    if system.capabilities["offload"] is True:
        vendor = "npu_bridge.estimator.npu"  # npu_init would change every session of the process
        os.environ.setdefault("JOB_ID", str(os.getpid()))  # required; a launch sets it
        npu_run_config = importlib.import_module(f"{vendor}.npu_config").NPURunConfig
        npu_estimator = importlib.import_module(f"{vendor}.npu_estimator").NPUEstimator
        run_config = npu_run_config(model_dir=model_dir, **CONFIG.to_run_config_kwargs())
        return npu_estimator(model, config=run_config)
    run_config = tf.estimator.RunConfig(model_dir, session_config=system.session_config())
    return tf.estimator.Estimator(model, config=run_config)


def require_estimators() -> None:
    """Exit if TensorFlow has no estimators, as from 2.16 on."""
    import tensorflow.compat.v1 as tf

    if not hasattr(tf, "estimator"):
        raise SystemExit(
            f"TensorFlow {tf.__version__} has no estimators; TensorFlow 2.15 is the last with them."
        )


if __name__ == "__main__":
    side_by_side(without, with_ascend_session)
