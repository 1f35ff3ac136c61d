"""``npu_bridge.estimator.npu.npu_loss_scale_optimizer``: steps with an overflow are left out.

An overflow is one that shows in the gradients, as on a device in Inf/NaN mode. Source:
npu_loss_scale_optimizer.py, and the optimizer of tf.contrib.mixed_precision that it extends.
"""

from typing import Any, Sequence

from ascend_session.compat.optimizers import COMPUTE_GRADIENTS, multiply_dense, rank_count
from ascend_session.compat.tensorflow_names import tf as tf1
from ascend_session.compat.vendor_modules import mirror, with_signature
from ascend_session.training.optimizer import WrappingOptimizer

# Public scripts fetch it: get_tensor_by_name("overflow_status_reduce_all:0").
_FINITE = "overflow_status_reduce_all"


class NPULossScaleOptimizer(WrappingOptimizer):
    """Scales the loss up and the gradients back; the wrapped optimizer does the rest.

    Args:
        opt: A ``tf.train.Optimizer``.
        loss_scale_manager: Has the factor of the loss.
        is_distributed: Whether an overflow on any rank counts on all.

    Raises:
        ValueError: If ``opt`` is no optimizer.
    """

    def __init__(self, opt: Any, loss_scale_manager: Any, is_distributed: bool = False) -> None:
        if not isinstance(opt, tf1.train.Optimizer):
            raise ValueError(f'"opt" must be an instance of Optimizer, but got: {type(opt)}.')
        self._loss_scale_manager = loss_scale_manager
        self._is_distributed = is_distributed
        super().__init__(opt, loss_scale_manager, "NPULossScaleOptimizer")

    def __getattr__(self, attr: str) -> Any:
        if attr == "_opt":
            raise AttributeError(attr)
        return getattr(self._opt, attr)

    compute_gradients = with_signature(COMPUTE_GRADIENTS)(WrappingOptimizer.compute_gradients)

    def _multiply(self, gradient: Any, factor: Any) -> Any:
        return multiply_dense(gradient, factor)

    def _rank_count(self) -> int:
        return rank_count() if self._is_distributed else 1

    def _is_finite(self, gradients: Sequence[Any]) -> Any:
        present = [gradient for gradient in gradients if gradient is not None]
        finite = super()._is_finite(present)
        return tf1.constant(True) if finite is None else tf1.identity(finite, name=_FINITE)


__getattr__, __all__ = mirror(
    globals(),
    "tf os control_flow_ops gen_control_flow_ops gen_math_ops math_ops optimizer context "
    "hccl_ops npu_ops FixedLossScaleManager helper npu_plugin gen_npu_ops",
)
