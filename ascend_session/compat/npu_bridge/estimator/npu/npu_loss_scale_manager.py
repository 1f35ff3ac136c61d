"""``npu_bridge.estimator.npu.npu_loss_scale_manager``: what the loss is multiplied with.

Source: npu_loss_scale_manager.py.
"""

from typing import Any, Callable

from ascend_session import training
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.vendor_modules import mirror


class FixedLossScaleManager(training.FixedLossScaleManager):
    """A scale that never changes; see `training.FixedLossScaleManager`."""

    def __init__(self, loss_scale: float, enable_overflow_check: bool = True) -> None:
        super().__init__(loss_scale, enable_overflow_check)
        self._tensor = tf.convert_to_tensor(loss_scale, tf.float32, name="loss_scale")

    def get_loss_scale(self) -> object:
        """Return the scale, a tensor of the graph in which the manager was created."""
        return self._tensor


class ExponentialUpdateLossScaleManager(training.ExponentialUpdateLossScaleManager):
    """A scale that follows the overflows; see `training.ExponentialUpdateLossScaleManager`.

    Its variables are not resource variables: public scripts fetch the tensor ``loss_scale:0``.
    """

    def __init__(
        self,
        init_loss_scale: float,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2,
        decr_ratio: float = 0.8,
    ) -> None:
        with tf.variable_creator_scope(_without_resource):
            super().__init__(
                init_loss_scale, incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio
            )

    def get_loss_scale(self) -> object:
        """Return the variable of the scale, so that nothing is added to the graph."""
        return self._loss_scale


def _without_resource(make: Callable[..., Any], **arguments: Any) -> Any:
    return make(**{**arguments, "use_resource": False})


__getattr__, __all__ = mirror(globals(), "dtypes ops control_flow_ops gen_math_ops state_ops")
