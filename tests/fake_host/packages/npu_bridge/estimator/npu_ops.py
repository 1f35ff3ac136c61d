"""Operators of the system (tf_adapter/python/npu_bridge/estimator/npu_ops.py)."""

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
    """Dropout; on the CPU TensorFlow's own."""
    return tf.nn.dropout(x, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=name)


def _system_op(kind: str, name: Any) -> Any:
    if tf.executing_eagerly():
        raise RuntimeError(f"tf.{kind}() is not compatible with eager execution.")
    operation = tf.no_op(name=name or kind)
    mark(operation, kind)
    return operation
