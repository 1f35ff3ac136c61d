"""Loss scaling as the vendor's two optimizers do it.

Source: npu_optimizer.py, npu_loss_scale_optimizer.py and the optimizer of tf.contrib that it
extends.
"""

from typing import Any, Callable, List, Sequence

from ascend_session.compat.tensorflow_names import tf

__all__ = ["applied_if_finite", "downscaled", "scaled"]


def scaled(loss: Any, scale: Any) -> Any:
    """The loss, or what the function gives, times the scale."""
    value = loss() if callable(loss) else loss
    return value * tf.cast(scale, value.dtype.base_dtype)


def downscaled(pairs: Sequence[Any], scale: Any) -> List[Any]:
    """The gradients divided by the scale; IndexedSlices become dense, as with the vendor's."""
    factor = tf.reciprocal(scale)
    made = []
    for gradient, variable in pairs:
        if gradient is not None:
            dense = tf.convert_to_tensor(gradient)
            gradient = dense * tf.cast(factor, dense.dtype.base_dtype)
        made.append((gradient, variable))
    return made


def applied_if_finite(finite: Any, apply: Callable[[], Any], manager: Any) -> Any:
    """An operation that applies if ``finite`` is true, and tells the manager what it was.

    Args:
        finite: A bool tensor.
        apply: Adds what applies.
        manager: Changes the scale.
    """
    update = tf.cond(finite, lambda: tf.group(apply()), tf.no_op)
    return tf.group(update, manager.update_loss_scale(finite))
