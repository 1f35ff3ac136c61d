"""Operators of the system (tf_adapter/python/npu_bridge/estimator/npu_ops.py).

Its operators for training (LARS, LSTM, Adam and others) are not here: nothing uses them.
"""

import numbers
from typing import Any

import tensorflow.compat.v1 as tf
from fake_ge import mark

from npu_bridge.helper import helper

gen_npu_ops = helper.get_gen_ops()


def NPUInit(name: Any = None) -> Any:  # noqa: N802
    """The operator that initialises the device."""
    return _system_op("NPUInit", name)


def NPUShutdown(name: Any = None) -> Any:  # noqa: N802
    """The operator that ends it."""
    return _system_op("NPUShutdown", name)


def initialize_system(name: Any = None) -> Any:
    """The operator that initialises the device; to be run once."""
    return NPUInit(name)


def shutdown_system(name: Any = None) -> Any:
    """The operator that ends it; to be run at the end."""
    return NPUShutdown(name)


def dropout(
    x: Any, keep_prob: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> Any:
    """Dropout, with the vendor's checks; TensorFlow's own computes it, for the vendor's operators
    have no kernel on the CPU."""
    _refuse_eager("npu_ops.dropout")
    x = tf.convert_to_tensor(x, name="x")
    if not x.dtype.is_floating:
        raise ValueError(f"x must be a floating point tensor. Got a {x.dtype} tensor instead.")
    if isinstance(keep_prob, numbers.Real) and not 0 < keep_prob <= 1:
        raise ValueError(
            f"keep_prob must be a float value or a scalar tensor in the range (0, 1], "
            f"got {keep_prob:g}"
        )
    if isinstance(keep_prob, float) and keep_prob == 1.0:
        return x
    return tf.nn.dropout(x, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=name)


def _refuse_eager(function: str) -> None:
    if tf.executing_eagerly():
        raise RuntimeError(f"{function}() is not compatible with eager execution.")


def _system_op(kind: str, name: Any) -> Any:
    _refuse_eager(f"tf.{kind}")
    operation = tf.no_op(name=name or kind)
    mark(operation, kind)
    return operation
