"""Whether something has overflown in this step, on any rank.

Source: npu_optimizer.py, ``_reduce_all``, and npu_loss_scale_optimizer.py, ``apply_gradients``: a
device in saturation mode, where no value becomes infinite, has a status for it; one in Inf/NaN
mode shows it in the values, and so does the stub.
"""

from typing import Any, List, NamedTuple, Optional, Sequence

from ascend_session import hccl
from ascend_session.backends._tensorflow import tf1
from ascend_session.training.gradients import is_slices
from ascend_session.training.machine import on_npu

__all__ = ["Overflow"]


class _Ways(NamedTuple):
    status: bool
    values: bool


class Overflow:
    """Finds out for one optimizer.

    Args:
        name: Begins the names of the operators.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._early: Optional[Any] = None

    def look_early(self, gradients: Sequence[Any], size: int) -> List[Any]:
        """Reads the device's status before the last exchange of gradients.

        Returns:
            What that exchange has to wait for; nothing where the values alone show it.
        """
        if not _ways().status:
            return []
        with tf1().name_scope(f"{self._name}_overflow"):
            self._early = _on_all(_from_status(gradients), size)
        return [self._early]

    def none_anywhere(self, gradients: Sequence[Any], size: int) -> Any:
        """A bool tensor: True if nothing has overflown in these gradients' step on any rank."""
        tf = tf1()
        ways = _ways()
        found = []
        with tf.name_scope(f"{self._name}_overflow"):
            if ways.status and self._early is None:
                found.append(_from_status(gradients))
            if ways.values:
                found.append(_from_values(gradients))
            everywhere = [_on_all(tf.add_n(found), size)] if found else []
            if self._early is not None:
                everywhere.append(self._early)
                self._early = None
            return tf.reduce_all(tf.equal(tf.add_n(everywhere), 0), name="none_anywhere")


def _ways() -> _Ways:
    """Where to look; at both, as long as the device's mode is not known."""
    if not on_npu():
        return _Ways(status=False, values=True)
    from ascend_session.backends.npu_training import has_inf_and_nan

    known = has_inf_and_nan()
    return _Ways(status=known is not True, values=known is not False)


def _from_status(gradients: Sequence[Any]) -> Any:
    """1 or 0 as int32 [1]: what the device has noticed up to these gradients; cleared then."""
    from ascend_session.backends.npu_training import clear_float_status, float_status

    tf = tf1()
    with tf.control_dependencies([one for one in gradients if one is not None]):
        status = float_status()
    with tf.control_dependencies([status]):
        cleared = clear_float_status()
    with tf.control_dependencies([cleared]):
        return tf.cast(tf.reduce_any(tf.not_equal(status, 0), keepdims=True), tf.int32)


def _from_values(gradients: Sequence[Any]) -> Any:
    """1 or 0 as int32 [1]: whether a gradient is infinite or no number.

    By comparison: not every device has IsFinite (tf_finite_manual_port.md).
    """
    tf = tf1()
    finite = []
    for gradient in gradients:
        if gradient is None:
            continue
        values = gradient.values if is_slices(gradient) else gradient
        if values.dtype.base_dtype == tf.bfloat16:
            values = tf.cast(values, tf.float32)
        finite.append(tf.reduce_all(tf.abs(values) <= values.dtype.max))
    all_finite = tf.reduce_all(tf.stack(finite)) if finite else tf.constant(True)
    return tf.reshape(tf.cast(tf.logical_not(all_finite), tf.int32), [1])


def _on_all(overflown: Any, size: int) -> Any:
    return overflown if size == 1 else hccl.allreduce(overflown, "sum", fusion=0)
