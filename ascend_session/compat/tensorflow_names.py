"""What the mirrored modules need of TensorFlow, under 1.15 and 2.x alike.

What a TensorFlow has no more is a class here that says so when it is used, never when it is
imported: estimators went with 2.16, the optimizers of graph mode with Keras 3.
"""

import sys
from typing import Any

from tensorflow.core.framework import attr_value_pb2

from ascend_session.backends._tensorflow import tf1
from ascend_session.errors import UnsupportedError

tf: Any = tf1()

AS_SCRIPTS: Any = sys.modules["tensorflow"] if tf.__version__.startswith("1.") else tf
"""What ``tf`` means in a script for TensorFlow 1, which ``import *`` gives it, too."""

_NO_ESTIMATORS = f"This TensorFlow ({tf.__version__}) has no tf.estimator: it ended with 2.15."
_HINT = "Use Python 3.7 with TensorFlow 1.15, which such scripts are written for, or 2.15."


def absent_class(name: str, message: str) -> Any:
    """Make a class of which nothing can be made; each attempt raises UnsupportedError.

    Args:
        name: What this TensorFlow has not.
        message: Why not, in a sentence.
    """

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807  (it is one)
        raise UnsupportedError(f"{cls.__name__} needs {name}. {message}", hint=_HINT)

    return type(name.rpartition(".")[2], (), {"__new__": __new__, "__doc__": message})


def _estimator_class(name: str) -> Any:
    if hasattr(tf, "estimator"):
        return getattr(tf.estimator, name)
    return absent_class(f"tf.estimator.{name}", _NO_ESTIMATORS)


Estimator: Any = _estimator_class("Estimator")
EstimatorSpec: Any = _estimator_class("EstimatorSpec")
RunConfig: Any = _estimator_class("RunConfig")


def _keras_optimizer() -> Any:
    """Return the base of the optimizers that ``tf.keras`` takes in graph mode."""
    optimizers = tf.keras.optimizers
    optimizer = getattr(getattr(optimizers, "legacy", None), "Optimizer", None)
    optimizer = optimizer or getattr(optimizers, "Optimizer", None)
    if optimizer is None or not hasattr(optimizer, "get_updates"):
        return absent_class(
            "a Keras optimizer of graph mode",
            f"This TensorFlow ({tf.__version__}) has Keras 3, whose optimizers do not work in "
            "graphs.",
        )
    return optimizer


def _keras_backend() -> Any:
    """Return the backend that has the session of Keras, TensorFlow's own where Keras has none."""
    if AS_SCRIPTS is tf and hasattr(tf.keras.backend, "set_session"):
        return tf.keras.backend
    from tensorflow.python.keras import backend

    return backend


OptimizerV2: Any = _keras_optimizer()
Callback: Any = tf.keras.callbacks.Callback
keras_backend: Any = _keras_backend()


def attribute_value(value: Any) -> Any:
    """Return a value as the attribute of an operation."""
    if isinstance(value, bool):
        return attr_value_pb2.AttrValue(b=value)
    if isinstance(value, int):
        return attr_value_pb2.AttrValue(i=value)
    return attr_value_pb2.AttrValue(s=tf.compat.as_bytes(value))
