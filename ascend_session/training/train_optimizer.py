"""The wrapper of a ``tf.train.Optimizer``; imports TensorFlow, whose class it extends.

Source: npu_optimizer.py (``NPUDistributedOptimizer``, ``NPUOptimizer``) and
npu_loss_scale_optimizer.py (``NPULossScaleOptimizer``).
"""

from typing import Any, List, Optional

from ascend_session.backends._tensorflow import tf1
from ascend_session.training.gradients import averaged, is_slices
from ascend_session.training.overflow import Overflow
from ascend_session.training.ranks import job_size

__all__ = ["TrainOptimizer"]

_Base: Any = tf1().train.Optimizer


class TrainOptimizer(_Base):  # type: ignore[misc]
    """What `DistributedOptimizer` makes of a ``tf.train.Optimizer``.

    Args:
        optimizer: The wrapped optimizer, which computes and applies.
        manager: Scales the loss, or None.
        tailing: Whether the last exchange waits for the overflow's, as the vendor's does.
        name: The optimizer's name.
    """

    def __init__(
        self, optimizer: Any, manager: Optional[Any], tailing: bool, name: Optional[str]
    ) -> None:
        super().__init__(name=name or f"Distributed{type(optimizer).__name__}", use_locking=False)
        self._optimizer = optimizer
        self._manager = manager
        self._tailing = tailing
        self._overflow = Overflow(self.get_name()) if _checks_overflow(manager) else None

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> List[Any]:
        """The averaged gradients and their variables; see ``tf.train.Optimizer``."""
        if self._manager is None:
            return self._averaged(self._optimizer.compute_gradients(loss, *args, **kwargs))
        scale = self._manager.get_loss_scale()
        value = loss() if callable(loss) else loss
        scaled = value * tf1().cast(scale, value.dtype.base_dtype)
        pairs = self._averaged(self._optimizer.compute_gradients(scaled, *args, **kwargs))
        # The tensor that has scaled the loss, not the variable, which this step may change.
        return [(_times(gradient, 1.0 / scale), variable) for gradient, variable in pairs]

    def _averaged(self, pairs: List[Any]) -> List[Any]:
        gradients = [gradient for gradient, _ in pairs]
        waits: List[Any] = []
        if self._tailing and self._overflow is not None and self._size > 1:
            waits = self._overflow.look_early(gradients, self._size)
        means = averaged(gradients, self.get_name(), waits)
        return [(mean, variable) for mean, (_, variable) in zip(means, pairs)]

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None
    ) -> Any:
        """Applies them with the wrapped optimizer, if nothing has overflown on any rank."""
        tf = tf1()
        pairs = list(grads_and_vars)
        if self._manager is None:
            return self._optimizer.apply_gradients(pairs, global_step, name)
        if self._overflow is None:
            update = self._optimizer.apply_gradients(pairs, global_step, name)
            return tf.group(update, self._manager.update_loss_scale(tf.constant(True)))
        finite = self._overflow.none_anywhere([gradient for gradient, _ in pairs], self._size)
        update = tf.cond(
            finite,
            lambda: tf.group(self._optimizer.apply_gradients(pairs, global_step, name)),
            tf.no_op,
        )
        return tf.group(update, self._manager.update_loss_scale(finite))

    @property
    def _size(self) -> int:
        return job_size("DistributedOptimizer")

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.variables()


def _checks_overflow(manager: Optional[Any]) -> bool:
    if manager is None:
        return False
    enabled = getattr(manager, "get_enable_overflow_check", None)
    return True if enabled is None else bool(enabled())


def _times(gradient: Any, factor: Any) -> Any:
    tf = tf1()
    if gradient is None:
        return None
    if is_slices(gradient):  # the vendor's makes it dense
        values = gradient.values * tf.cast(factor, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, dense_shape=gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype.base_dtype)
