"""``npu_bridge.estimator.npu.npu_optimizer``: gradients averaged over the ranks, losses scaled.

The mathematics is the vendor's, the exchange that of `ascend_session.training`. An overflow is one
that shows in the gradients, as on a device in Inf/NaN mode. Source: npu_optimizer.py.
"""

from typing import Any, Dict, List, Optional, Sequence

from ascend_session import hccl
from ascend_session.compat.npu_bridge.estimator.npu.npu_common import NPUBasics
from ascend_session.compat.optimizers import (
    COMPUTE_GRADIENTS,
    averaged_in_job,
    multiply_dense,
    note_local_gradients,
    note_wrapper,
    rank_count,
)
from ascend_session.compat.tensorflow_names import OptimizerV2
from ascend_session.compat.tensorflow_names import tf as tf1
from ascend_session.compat.vendor_modules import mirror, with_signature
from ascend_session.errors import UnsupportedError
from ascend_session.training.gradients import is_slices
from ascend_session.training.optimizer import WrappingOptimizer
from ascend_session.vendor import WORLD_GROUP


def allreduce(tensor: Any, average: Any = True, old_average: Any = None) -> Any:
    """Return the sum or mean of the ranks' tensors; IndexedSlices are concatenated.

    Args:
        tensor: A tensor, a variable or IndexedSlices.
        average: True for the mean; in releases of 2020 this argument is the variable.
        old_average: True for the mean, in a call of that form.
    """
    if not isinstance(average, (bool, int)):
        average = True if old_average is None else old_average
    size = NPUBasics("").size()
    if is_slices(tensor):
        return _gathered(tensor, size, average)
    return _mean(hccl.allreduce(tensor, "sum"), size, average)


def _gathered(slices: Any, size: int, average: Any, group: str = WORLD_GROUP) -> Any:
    values = hccl.allgather(slices.values, size, group)
    indices = hccl.allgather(slices.indices, size, group)
    return tf1.IndexedSlices(_mean(values, size, average), indices, dense_shape=slices.dense_shape)


def _mean(total: Any, size: int, average: Any) -> Any:
    return tf1.div(total, tf1.cast(size, total.dtype)) if average else total


class NPUOptimizer(WrappingOptimizer):
    """Averages gradients, scales the loss, or both; the wrapped optimizer applies gradients.

    Args:
        opt: A ``tf.train.Optimizer``.
        loss_scale_manager: Has the factor of the loss.
        is_distributed: Whether gradients are averaged over the ranks.
        is_loss_scale: Whether the loss is scaled.
        is_tailing_optimization: How the device orders the last exchange; no effect here.
        name: Its name.

    Raises:
        ValueError: If the loss is to be scaled and there is no manager.
    """

    def __init__(
        self,
        opt: Any,
        loss_scale_manager: Any = None,
        is_distributed: bool = False,
        is_loss_scale: bool = False,
        is_tailing_optimization: bool = False,
        name: Optional[str] = None,
    ) -> None:
        if is_loss_scale and loss_scale_manager is None:
            raise ValueError("is_loss_scale is True, loss_scale_manager can not be None")
        self._loss_scale_manager = loss_scale_manager
        self._is_distributed = is_distributed
        self._is_loss_scale = is_loss_scale
        self._is_tailing_optimization = is_tailing_optimization
        manager = loss_scale_manager if is_loss_scale else None
        super().__init__(opt, manager, name or f"NPUOptimizer{type(opt).__name__}")
        if is_distributed:
            note_wrapper("NPUOptimizer")

    compute_gradients = with_signature(COMPUTE_GRADIENTS)(WrappingOptimizer.compute_gradients)

    def _check_applied(self, pairs: Sequence[Any]) -> None:
        if self._is_distributed:
            note_local_gradients(pairs, "NPUOptimizer")

    def _average(self, pairs: Sequence[Any]) -> List[Any]:
        return averaged_in_job(pairs, self.get_name()) if self._is_distributed else list(pairs)

    def _multiply(self, gradient: Any, factor: Any) -> Any:
        return multiply_dense(gradient, factor)

    def _rank_count(self) -> int:
        return NPUBasics("").size() if self._is_distributed else 1

    def _is_finite(self, gradients: Sequence[Any]) -> Any:
        # Whatever the manager wants, as the vendor's.
        return self._overflow.none_anywhere(gradients, self._rank_count())


class NPUDistributedOptimizer(WrappingOptimizer):
    """Optimizer that averages gradients over all ranks; the wrapped one computes and applies them.

    Args:
        optimizer: A ``tf.train.Optimizer``.
        is_weight_update_sharding: Must be False. Releases of 2020 have ``name`` here, so a str is
            taken as the name.
        name: Its name.

    Raises:
        UnsupportedError: For weight update sharding.
    """

    def __init__(
        self,
        optimizer: Any,
        is_weight_update_sharding: Any = False,
        name: Optional[str] = None,
    ) -> None:
        if isinstance(is_weight_update_sharding, str):
            name, is_weight_update_sharding = is_weight_update_sharding, False
        if is_weight_update_sharding:
            raise UnsupportedError(
                "Weight update sharding (NPUDistributedOptimizer) was used, but only a device runs "
                "it, and there is no Ascend processor here.",
                hint="Leave is_weight_update_sharding out.",
            )
        super().__init__(optimizer, None, name or f"Distributed{type(optimizer).__name__}")
        note_wrapper("NPUDistributedOptimizer")

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Any]:
        """Return the averaged gradients and their variables; see ``tf.train.Optimizer``."""
        return super().compute_gradients(*args, **kwargs)

    def _average(self, pairs: Sequence[Any]) -> List[Any]:
        return averaged_in_job(pairs, self.get_name())

    def _check_applied(self, pairs: Sequence[Any]) -> None:
        note_local_gradients(pairs, "NPUDistributedOptimizer")


def npu_allreduce(
    values: Any,
    reduction: str = "mean",
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
) -> Any:
    """Reduce the ranks' tensors by ``mean`` or a reduction of `hccl.allreduce`.

    A mean is the sum divided by the number of ranks of the job, also in another group.

    Args:
        values: A tensor or IndexedSlices, or a list of those, for which a list is returned.
        reduction: The name of the reduction.
        fusion: As for `hccl.allreduce`.
        fusion_id: As for `hccl.allreduce`.
        group: The group of ranks.
    """
    if not isinstance(values, (list, tuple)):
        return npu_allreduce([values], reduction, fusion, fusion_id, group)[0]
    size, is_mean = rank_count(), reduction == "mean"
    reduction = "sum" if is_mean else reduction
    return [
        _gathered(each, size, is_mean, group)
        if is_slices(each)
        else _mean(hccl.allreduce(each, reduction, fusion, fusion_id, group), size, is_mean)
        for each in values
    ]


_SCOPE = "Npu_Distributed_optimizer"


class KerasDistributeOptimizer(OptimizerV2):  # type: ignore[misc]
    """Optimizer that averages gradients over all ranks; the wrapped one computes and applies them.

    Args:
        optimizer: An optimizer of Keras for graphs.
        name: Its name.
        kwargs: Arguments of the base class.

    Raises:
        UnsupportedError: Under Keras 3, which has no such optimizers.
    """

    def __init__(self, optimizer: Any, name: str = "NpuKerasOptimizer", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._optimizer = optimizer
        _average_list(optimizer, name)
        note_wrapper("KerasDistributeOptimizer")

    def get_updates(self, loss: Any, params: Sequence[Any]) -> Any:
        """Return the operations that update the parameters, for Keras's training graph."""
        return self._optimizer.get_updates(loss, params)

    def apply_gradients(self, grads_and_vars: Any, name: Optional[str] = None) -> Any:
        """Apply gradients with the wrapped optimizer."""
        pairs = list(grads_and_vars)
        note_local_gradients(pairs, "KerasDistributeOptimizer")
        return self._optimizer.apply_gradients(pairs, name)

    def get_config(self) -> Dict[str, Any]:
        """Return the arguments of the optimizer."""
        return {**super().get_config(), "optimizer": self._optimizer}

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, *args: Any, **kwargs: Any
    ) -> List[Any]:
        pairs = self._optimizer._compute_gradients(loss, var_list, grad_loss, *args, **kwargs)
        return averaged_in_job(pairs, self._name)


def npu_distributed_optimizer_wrapper(optimizer: Any) -> Any:
    """Change an optimizer of any kind so that it averages its gradients over the ranks.

    Args:
        optimizer: An optimizer of ``tf1.train`` or Keras, or the name of one of Keras.

    Returns:
        The same optimizer, changed.
    """
    if isinstance(optimizer, str):
        optimizer = tf1.keras.optimizers.get(optimizer)
    if hasattr(optimizer, "compute_gradients"):
        _average_pairs(optimizer, "compute_gradients", _SCOPE)
    if hasattr(optimizer, "get_gradients"):
        _average_list(optimizer, f"{_SCOPE}_get_grads")
    if hasattr(optimizer, "_compute_gradients"):
        _average_pairs(optimizer, "_compute_gradients", f"{_SCOPE}_compute_grads")
    if hasattr(optimizer, "apply_gradients"):
        _watch_applied(optimizer)
    note_wrapper("npu_distributed_optimizer_wrapper")
    return optimizer


def _watch_applied(optimizer: Any) -> None:
    inner = optimizer.apply_gradients

    def apply_gradients(grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        note_local_gradients(pairs, type(optimizer).__name__)
        return inner(pairs, *args, **kwargs)

    optimizer.apply_gradients = apply_gradients


def _average_pairs(optimizer: Any, method: str, scope: str) -> None:
    inner = getattr(optimizer, method)

    def compute_gradients(*args: Any, **kwargs: Any) -> List[Any]:
        return averaged_in_job(inner(*args, **kwargs), scope)

    setattr(optimizer, method, compute_gradients)


def _average_list(optimizer: Any, scope: str) -> None:
    inner = optimizer.get_gradients

    def get_gradients(loss: Any, params: Sequence[Any]) -> List[Any]:
        return averaged_in_job(inner(loss, params), scope, params)

    optimizer.get_gradients = get_gradients


__getattr__, __all__ = mirror(
    globals(),
    "os tf control_flow_ops gen_control_flow_ops gen_math_ops math_ops optimizer_v2 "
    "optimizers logging NPUBasics util hccl_ops helper npu_scope gen_npu_ops npu_ops "
    "optimizer context",
)
