"""TensorFlow's graph-mode interface, the same under 1.15 and 2.x."""

from typing import Any

from ascend_session.config.proto import TENSORFLOW
from ascend_session.errors import BackendError, LifecycleError

__all__ = ["default_graph", "tf1"]


def tf1() -> Any:
    """``tensorflow.compat.v1``, which 1.15 and 2.x share.

    Raises:
        BackendError: If TensorFlow is not installed.
    """
    try:
        import tensorflow.compat.v1 as module
    except ImportError as error:
        raise BackendError(
            f"TensorFlow cannot be imported: {error}.",
            hint=TENSORFLOW,
        ) from error
    return module


def default_graph() -> Any:
    """The current default graph.

    Raises:
        LifecycleError: If eager execution is on, so that there is none to train.
    """
    tf = tf1()
    if tf.executing_eagerly():
        raise LifecycleError(
            "Eager execution is on and no graph was given: what was built so far is in no graph.",
            hint="Call tf.disable_eager_execution() (tf.compat.v1 in TensorFlow 2) before building "
            "the model, or pass graph=.",
        )
    return tf.get_default_graph()
