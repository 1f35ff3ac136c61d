"""Loops on the device (tf_adapter/python/npu_bridge/estimator/npu/util.py).

Its other functions are not here: nothing uses them.
"""

from typing import Any

import tensorflow.compat.v1 as tf
from fake_ge import note
from fake_ge.loops import ITERATION_OP

_RUN_CONFIG = "npu_runconfig"
_NAMES = ("iterations_per_loop", "loop_cond", "zero", "one")


def create_or_get_var(var_name: Any) -> Any:
    """The counter of the default graph; RuntimeError if there are several."""
    collection = f"{_RUN_CONFIG}_{var_name}"
    found = tf.get_default_graph().get_collection(collection)
    if len(found) > 1:
        raise RuntimeError("Multiple var in collection.")
    if found:
        return found[0]
    with tf.variable_scope(_RUN_CONFIG, reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            var_name,
            initializer=tf.zeros_initializer(),
            shape=[],
            dtype=tf.int64,
            trainable=False,
            collections=[collection, tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )


def set_iteration_per_loop(sess: Any, train_op: Any, iterations_per_loop: Any = 1) -> Any:
    """The operator that makes several steps, in a session that is told how many."""
    _check_operation(train_op)
    _check_positive(iterations_per_loop)
    note("set_iteration_per_loop", steps=iterations_per_loop)
    if iterations_per_loop == 1:
        return train_op
    loop = IterationPerLoop()
    operation = loop.create_iteration_per_loop_var(train_op)
    loop.load_iteration_per_loop_var(sess, iterations_per_loop)
    return operation


class IterationPerLoop:
    """The same in two steps."""

    def create_iteration_per_loop_var(self, train_op: Any) -> Any:
        """The operator."""
        _check_operation(train_op)
        self._variables = [create_or_get_var(name) for name in _NAMES]
        return tf.group(train_op, name=ITERATION_OP)

    def load_iteration_per_loop_var(self, sess: Any, iterations_per_loop: Any = 1) -> None:
        """Tells a session how many steps."""
        _check_positive(iterations_per_loop)
        for variable, value in zip(self._variables, (iterations_per_loop - 1, 0, 0, 1)):
            variable.load(value, session=sess)


def _check_operation(train_op: Any) -> None:
    if not isinstance(train_op, tf.Operation):
        raise ValueError(
            f"The incoming 'train_op' type is '{train_op.dtype.name}', and the need type is "
            "'Operation'"
        )


def _check_positive(value: Any) -> None:
    if not isinstance(value, int):
        raise TypeError(f"iterations_per_loop must be int, got {type(value)}")
    if value <= 0:
        raise ValueError(f"iterations_per_loop must be positive, got {value}")
