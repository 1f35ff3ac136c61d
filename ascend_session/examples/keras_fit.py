"""Keras in graph mode, whose ``fit`` runs in the session that it was given.

``python -m ascend_session.examples.keras_fit`` trains twice and shows both results; under
``ascend-session launch -n 2 -m ascend_session.examples.keras_fit`` two ranks share each batch. It
needs ``tf.keras`` of TensorFlow 1.15, or ``tf.compat.v1.keras`` up to TensorFlow 2.15.
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

    require_sessions()
    inputs, goals = plane.points()
    with tf.Graph().as_default(), tf.Session(config=hand_made_proto()) as sess:
        tf.keras.backend.set_session(sess)
        model = build_model(tf.keras.optimizers.SGD(plane.RATE))
        model.fit(inputs, goals, plane.BATCH, plane.EPOCHS, shuffle=False, verbose=0)
        return plane.name_slopes(model.get_weights()[0])


def with_ascend_session(folder: Path) -> Dict[str, float]:
    """Run the script in a session of the system, which has the rank."""
    import tensorflow.compat.v1 as tf

    with ascend_system(CONFIG) as system, tf.Graph().as_default(), system.session() as sess:
        inputs, goals = plane.points(system.rank, system.size)
        tf.keras.backend.set_session(sess)
        model = build_model(training.DistributedOptimizer(tf.keras.optimizers.SGD(plane.RATE)))
        start = training.broadcast_global_variables(0)
        tf.keras.backend.get_session().run(start)  # get_session initialises the variables
        batch = plane.share_of_batch(system.size)
        model.fit(inputs, goals, batch, plane.EPOCHS, shuffle=False, verbose=0)
        return plane.name_slopes(model.get_weights()[0])


def build_model(optimizer: Any) -> Any:
    """Build and compile a model of one layer, a matrix product."""
    import tensorflow.compat.v1 as tf

    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(3,))
    model = tf.keras.Sequential([layer])
    model.compile(optimizer, "mse")
    return model


def require_sessions() -> None:
    """Exit if Keras has no sessions, as from TensorFlow 2.16 on."""
    import tensorflow.compat.v1 as tf

    if not hasattr(tf.keras.backend, "set_session"):
        raise SystemExit(
            f"TensorFlow {tf.__version__} has Keras {tf.keras.__version__}, which has no graph "
            "mode and no sessions; TensorFlow 2.15 is the last with a Keras that has."
        )


if __name__ == "__main__":
    side_by_side(without, with_ascend_session)
