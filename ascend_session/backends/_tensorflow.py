"""TensorFlow's graph-mode interface, the same under 1.15 and 2.x."""

from typing import Any

from ascend_session.config.proto import TENSORFLOW
from ascend_session.errors import BackendError, LifecycleError

__all__ = ["graph_or_default", "tf1"]


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


def graph_or_default(graph: Any) -> Any:
    """``graph``, or the current default graph if it is None.

    Raises:
        TypeError: If it is no ``tf.Graph``.
        LifecycleError: If eager execution is on, so that there is no default graph to train.
    """
    tf = tf1()
    if graph is not None:
        if not isinstance(graph, tf.Graph):
            raise TypeError(f"graph must be a tf.Graph, this is {graph!r}.")
        return graph
    if tf.executing_eagerly():
        raise LifecycleError(
            "Eager execution is on and no graph was given: what was built so far is in no graph.",
            hint="Call tf.disable_eager_execution() (tf.compat.v1 in TensorFlow 2) before building "
            "the model, or pass graph=.",
        )
    return tf.get_default_graph()
