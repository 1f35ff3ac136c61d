"""Whether something has overflown in this step, on any rank.

Source: npu_optimizer.py, ``_reduce_all``, and npu_loss_scale_optimizer.py, ``apply_gradients``: a
device in saturation mode, where no value becomes infinite, has a status for it; one in Inf/NaN
mode shows it in the values, and so does the stub. As long as the mode is not known, both count.
"""

from typing import Any, List, Optional, Sequence

from ascend_session import hccl
from ascend_session.backends._tensorflow import tf1
from ascend_session.session.graphs import graph_backend
from ascend_session.training.gradients import is_slices

__all__ = ["Overflow"]


class Overflow:
    """The operators with which one optimizer finds out.

    Args:
        name: Begins the names of the operators.
    """

    def __init__(self, name: str) -> None:
        self._scope = f"{name}_overflow"
        self._early: Optional[Any] = None

    def look_early(self, gradients: Sequence[Any], size: int) -> List[Any]:
        """Read the device's status before the last exchange of gradients.

        Returns:
            What that exchange has to wait for; nothing where the values alone show an overflow.
        """
        if graph_backend().has_inf_and_nan() is True:
            return []
        with tf1().name_scope(self._scope):
            self._early = _sum_over_ranks(_from_status(gradients), size)
        return [self._early]

    def none_anywhere(self, gradients: Sequence[Any], size: int) -> Any:
        """Return a bool tensor: True if nothing has overflown in this step on any rank."""
        tf = tf1()
        has_inf_and_nan = graph_backend().has_inf_and_nan()
        early, self._early = self._early, None
        counts = []
        with tf.name_scope(self._scope):
            if has_inf_and_nan is not True and early is None:
                counts.append(_from_status(gradients))
            if has_inf_and_nan is not False:
                counts.append(_from_values(gradients))
            everywhere = [_sum_over_ranks(tf.add_n(counts), size)] if counts else []
            if early is not None:
                everywhere.append(early)
            return tf.reduce_all(tf.equal(tf.add_n(everywhere), 0), name="none_anywhere")


def _from_status(gradients: Sequence[Any]) -> Any:
    """Read and clear the device's status up to these gradients, as 1 or 0, int32 [1]."""
    return graph_backend().read_overflow([value for value in gradients if value is not None])


def _from_values(gradients: Sequence[Any]) -> Any:
    """Tell whether a gradient is infinite or no number, as 1 or 0, int32 [1].

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


def _sum_over_ranks(count: Any, size: int) -> Any:
    return count if size == 1 else hccl.allreduce(count, "sum", fusion=0)
