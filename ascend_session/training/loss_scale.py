"""Loss scaling: the factor of the loss, and how it changes from step to step.

Source: npu_loss_scale_manager.py, and the managers of tf.contrib.mixed_precision that it extends,
which TensorFlow 2 does not have. Variables have the same names, so that checkpoints can be loaded.
"""

import abc
import contextlib
import math
import sys
from typing import Any, Callable, List

from ascend_session.backends._tensorflow import mark_operators, tf1
from ascend_session.backends.averaging import note_skipped_overflows
from ascend_session.config.grammars import show_value
from ascend_session.errors import ConfigError, warn_at
from ascend_session.session.graphs import graph_backend, job_rank
from ascend_session.text import shorten
from ascend_session.user_code import user_line

# Limits of the scale (npu_loss_scale_manager.py): almost the largest float32, and 1.
_LARGEST, _SMALLEST = 3.4e38, 1.0


class LossScaleManager(abc.ABC):
    """The interface through which `DistributedOptimizer` gets the loss scale."""

    @abc.abstractmethod
    def get_loss_scale(self) -> Any:
        """Return the scale as a float32 scalar tensor."""

    @abc.abstractmethod
    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Return an operation that adapts the scale, given whether the gradients were finite.

        Args:
            finite_grads: A scalar bool tensor.
        """

    def get_enable_overflow_check(self) -> bool:
        """Return whether steps with an overflow are skipped."""
        return True


class FixedLossScaleManager(LossScaleManager):
    """A scale that never changes.

    Args:
        loss_scale: At least 1.
        enable_overflow_check: Whether to skip steps with an overflow; if not, variables are always
            updated.

    Raises:
        ConfigError: If the scale is below 1, or not a finite float32.
    """

    def __init__(self, loss_scale: float, enable_overflow_check: bool = True) -> None:
        self._loss_scale = _read_scale("loss_scale", loss_scale)
        self._enable_overflow_check = enable_overflow_check

    def get_loss_scale(self) -> Any:
        """Return the scale as a constant of the default graph."""
        return tf1().constant(self._loss_scale, tf1().float32, name="loss_scale")

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Return an operation that does nothing."""
        return tf1().no_op()

    def get_enable_overflow_check(self) -> bool:
        """Return ``enable_overflow_check``."""
        return self._enable_overflow_check


class ExponentialUpdateLossScaleManager(LossScaleManager):
    """A scale that grows after steps without overflow, and shrinks after steps with one.

    Its constructor adds three variables, which are not trainable, to the default graph. Unlike the
    vendor's, it may be called under ``tf.control_dependencies``.

    Args:
        init_loss_scale: The scale at first, at least 1.
        incr_every_n_steps: After so many steps without overflow the scale is multiplied by
            ``incr_ratio``, unless the result would exceed float32.
        decr_every_n_nan_or_inf: After so many steps with an overflow the scale is multiplied by
            ``decr_ratio``, but stays at least 1. As in the vendor's manager, a step without
            overflow does not reset this count.
        incr_ratio: At least 1.
        decr_ratio: Above 0, at most 1.

    Raises:
        ConfigError: If an argument is no number, or out of its range.
    """

    def __init__(
        self,
        init_loss_scale: float,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2,
        decr_ratio: float = 0.8,
    ) -> None:
        scale = _read_scale("init_loss_scale", init_loss_scale)
        self._incr_every_n_steps = int(_read_at_least_1("incr_every_n_steps", incr_every_n_steps))
        self._decr_every_n = int(
            _read_at_least_1("decr_every_n_nan_or_inf", decr_every_n_nan_or_inf)
        )
        self._incr_ratio = _read_at_least_1("incr_ratio", incr_ratio)
        self._decr_ratio = _read_number("decr_ratio", decr_ratio)
        if not 0 < self._decr_ratio <= 1:
            raise _refuse("decr_ratio", decr_ratio, "above 0 and at most 1")
        tf = tf1()
        with tf.control_dependencies(None):
            self._variables = [
                # As a resource, so that an assignment does not change values that were read before.
                tf.Variable(value, name=name, dtype=dtype, trainable=False, use_resource=True)
                for name, value, dtype in (
                    ("loss_scale", scale, tf.float32),
                    ("good_steps", 0, tf.int32),
                    ("bad_steps", 0, tf.int32),
                )
            ]
        self._loss_scale = self._variables[0]

    def variables(self) -> List[Any]:
        """Return the variables with the scale and the two counts of steps."""
        return list(self._variables)

    def get_loss_scale(self) -> Any:
        """Return the current value of the scale."""
        return self._loss_scale.read_value()

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Return an operation that counts the step and, when it is due, changes the scale."""
        tf = tf1()
        with tf.control_dependencies([finite_grads]):
            scale, good, bad = (variable.read_value() for variable in self._variables)
        grows = tf.logical_and(finite_grads, good + 1 >= self._incr_every_n_steps)
        overflown = tf.logical_not(finite_grads)
        shrinks = tf.logical_and(overflown, bad + 1 >= self._decr_every_n)
        larger = tf.where_v2(scale < _LARGEST / self._incr_ratio, scale * self._incr_ratio, scale)
        smaller = tf.maximum(_SMALLEST, scale * self._decr_ratio)
        new_scale = tf.where_v2(grows, larger, tf.where_v2(shrinks, smaller, scale))
        starts_again = tf.logical_or(grows, shrinks)
        zero = tf.zeros([], tf.int32)
        new_good = tf.where_v2(tf.logical_or(starts_again, overflown), zero, good + 1)
        new_bad = tf.where_v2(starts_again, zero, tf.where_v2(overflown, bad + 1, bad))
        values = (new_scale, new_good, new_bad)
        return tf.group(*(v.assign(value) for v, value in zip(self._variables, values)))


def scale_loss(loss: Any, scale: Any) -> Any:
    """Multiply the loss, or the result of a function without arguments, by the scale."""
    value = loss() if callable(loss) else loss
    return value * tf1().cast(scale, value.dtype.base_dtype)


def checks_overflow(manager: Any) -> bool:
    """Return whether steps with an overflow are skipped.

    They are with managers of TensorFlow's interface, which has no ``get_enable_overflow_check``.
    """
    return bool(getattr(manager, "get_enable_overflow_check", lambda: True)())


def apply_if_finite(finite: Any, apply: Callable[[], Any], manager: Any) -> Any:
    """Return an operation that applies gradients if they are finite, and updates the scale.

    Args:
        finite: A scalar bool tensor.
        apply: Adds the operations that apply the gradients.
        manager: The loss scale manager.
    """
    tf = tf1()
    graph = tf.get_default_graph()
    note_skipped_overflows(graph)
    update = tf.cond(finite, lambda: tf.group(apply()), tf.no_op)
    adapt = manager.update_loss_scale(finite)
    # A device would have to leave its graph for a function of Python.
    if graph_backend().name != "stub":
        return tf.group(update, adapt)
    with mark_operators(graph), graph.device("/device:CPU:0"):
        with tf.control_dependencies([adapt]):
            scale = tf.cast(manager.get_loss_scale(), tf.float32)
        watch = tf.numpy_function(_SkipWatch().note_step, [finite, scale], [])
    return tf.group(update, adapt, watch)


_MOST_SKIPPED = 100  # steps in a row with any scale
_MOST_SKIPPED_AT_MINIMUM = 10


class _SkipWatch:
    """Warns, once, if a training updates nothing any more because each step overflows."""

    def __init__(self) -> None:
        self._where = user_line(sys._getframe())  # that has the optimizer apply gradients
        self._skipped = 0
        self._has_warned = False

    def note_step(self, finite: Any, scale: Any) -> None:
        """Count a step.

        Args:
            finite: Whether it was applied.
            scale: The scale of the next one.
        """
        self._skipped = 0 if finite else self._skipped + 1
        is_at_minimum = scale <= _SMALLEST and self._skipped >= _MOST_SKIPPED_AT_MINIMUM
        if self._has_warned or not (is_at_minimum or self._skipped >= _MOST_SKIPPED):
            return
        self._has_warned = True
        if job_rank() != 0:
            return  # the same on all ranks
        where = ", its minimum" if scale <= _SMALLEST else ""
        text = (
            f"The last {self._skipped} steps were skipped, because gradients were not finite; the "
            f"loss scale is {scale:g}{where}. Nothing is trained: look for NaN in the loss itself "
            "(ascend-session explain NaN)."
        )
        warn_at(self._where, text)


def _read_scale(name: str, value: Any) -> float:
    return _read_at_least_1(name, value, "a number that float32 holds")


def _read_at_least_1(name: str, value: Any, kind: str = "a finite number") -> float:
    number = _read_number(name, value, kind)
    if number < _SMALLEST:
        raise _refuse(name, value, f"at least {_SMALLEST:g}")
    return number


def _read_number(name: str, value: Any, kind: str = "a finite number") -> float:
    """Convert a number of any type, such as NumPy's, to float.

    Raises:
        ConfigError: If it is no number (text and bool are not), or too large for float32.
    """
    number = math.nan
    if not isinstance(value, (str, bytes, bool)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            number = float(value)
    if not number <= _LARGEST:  # NaN neither
        raise _refuse(name, value, kind)
    return number


def _refuse(name: str, value: Any, need: str) -> ConfigError:
    return ConfigError(f"{name}={shorten(show_value(value))} must be {need}.")
