"""``npu_bridge.estimator.npu.npu_loss_scale_optimizer``: steps with an overflow are left out.

An overflow is one that shows in the gradients, as on a device in Inf/NaN mode. Source:
npu_loss_scale_optimizer.py, and the optimizer of tf.contrib.mixed_precision that it extends.
"""

from typing import Any, List, Optional

from ascend_session.compat.optimizers import COMPUTE_GRADIENTS, downscaled, rank_count
from ascend_session.compat.signatures import with_signature
from ascend_session.compat.tensorflow_names import tf as tf1
from ascend_session.compat.vendor_modules import mirror
from ascend_session.training.gradients import Overflow
from ascend_session.training.loss_scale import apply_if_finite, checks_overflow, scale_loss
from ascend_session.training.optimizer import WrappingOptimizer

# Public scripts fetch it: get_tensor_by_name("overflow_status_reduce_all:0").
_FINITE = "overflow_status_reduce_all"


class NPULossScaleOptimizer(WrappingOptimizer):
    """Scales the loss, and the gradients back; what it wraps computes and applies them.

    Args:
        opt: A ``tf.train.Optimizer``.
        loss_scale_manager: Says what the loss is multiplied with.
        is_distributed: Whether an overflow on any rank counts on all.

    Raises:
        ValueError: If ``opt`` is no optimizer.
    """

    def __init__(self, opt: Any, loss_scale_manager: Any, is_distributed: bool = False) -> None:
        if not isinstance(opt, tf1.train.Optimizer):
            raise ValueError(f'"opt" must be an instance of Optimizer, but got: {type(opt)}.')
        self._opt = opt
        self._loss_scale_manager = loss_scale_manager
        self._is_distributed = is_distributed
        super().__init__(use_locking=False, name="NPULossScaleOptimizer")

    def __getattr__(self, attr: str) -> Any:
        if attr == "_opt":
            raise AttributeError(attr)
        return getattr(self._opt, attr)

    @with_signature(COMPUTE_GRADIENTS)
    def compute_gradients(self, loss: Any, **given: Any) -> List[Any]:
        """Gradients and variables; see ``tf.train.Optimizer``."""
        scale = self._loss_scale_manager.get_loss_scale()
        return downscaled(self._opt.compute_gradients(scale_loss(loss, scale), **given), scale)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None
    ) -> Any:
        """Applies them if nothing has overflown, or if the manager wants no check."""
        pairs = list(grads_and_vars)
        finite = tf1.constant(True)
        if checks_overflow(self._loss_scale_manager):
            gradients = [gradient for gradient, _ in pairs if gradient is not None]
            size = rank_count() if self._is_distributed else 1
            finite = Overflow(self.get_name()).none_anywhere(gradients, size)
            finite = tf1.identity(finite, name=_FINITE)
        return apply_if_finite(
            finite,
            lambda: self._opt.apply_gradients(pairs, global_step, name),
            self._loss_scale_manager,
        )


__getattr__, __all__ = mirror(
    globals(),
    "tf os control_flow_ops gen_control_flow_ops gen_math_ops math_ops optimizer context "
    "hccl_ops npu_ops FixedLossScaleManager helper npu_plugin gen_npu_ops",
)
