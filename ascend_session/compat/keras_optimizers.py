"""Optimizers of Keras whose gradients are averaged; parts of npu_optimizer.

Source: npu_optimizer.py, ``KerasDistributeOptimizer`` and ``npu_distributed_optimizer_wrapper``.
"""

from typing import Any, Dict, List, Optional, Sequence

from ascend_session.compat.ranks import averaged_in_job, averaged_list
from ascend_session.compat.tensorflow_names import OptimizerV2, tf

__all__ = ["KerasDistributeOptimizer", "npu_distributed_optimizer_wrapper"]

_SCOPE = "Npu_Distributed_optimizer"


class KerasDistributeOptimizer(OptimizerV2):  # type: ignore[misc]
    """Averages the gradients over all ranks; what it wraps computes and applies them.

    Args:
        optimizer: An optimizer of Keras for graphs.
        name: Its name.
        kwargs: As of the base class.

    Raises:
        UnsupportedError: Under Keras 3, which has no such optimizers.
    """

    def __init__(self, optimizer: Any, name: str = "NpuKerasOptimizer", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._optimizer = optimizer
        inner = optimizer.get_gradients

        def get_gradients(loss: Any, params: Sequence[Any]) -> List[Any]:
            return averaged_list(inner(loss, params), name)

        optimizer.get_gradients = get_gradients

    def get_updates(self, loss: Any, params: Sequence[Any]) -> Any:
        """The operations that update the parameters; Keras calls it for its training graph."""
        return self._optimizer.get_updates(loss, params)

    def apply_gradients(self, grads_and_vars: Any, name: Optional[str] = None) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.apply_gradients(grads_and_vars, name)

    def get_config(self) -> Dict[str, Any]:
        """What it was made with."""
        return {**super().get_config(), "optimizer": self._optimizer}

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, *args: Any, **kwargs: Any
    ) -> List[Any]:
        pairs = self._optimizer._compute_gradients(loss, var_list, grad_loss, *args, **kwargs)
        return averaged_in_job(pairs, self._name)


def npu_distributed_optimizer_wrapper(optimizer: Any) -> Any:
    """Has an optimizer itself average its gradients, whichever kind it is.

    Args:
        optimizer: Of ``tf.train`` or of Keras, or the name of one of Keras.

    Returns:
        The same optimizer, changed.
    """
    if isinstance(optimizer, str):
        optimizer = tf.keras.optimizers.get(optimizer)
    if hasattr(optimizer, "compute_gradients"):
        _average_pairs(optimizer, "compute_gradients", _SCOPE)
    if hasattr(optimizer, "get_gradients"):
        inner = optimizer.get_gradients

        def get_gradients(*args: Any, **kwargs: Any) -> List[Any]:
            return averaged_list(inner(*args, **kwargs), f"{_SCOPE}_get_grads")

        optimizer.get_gradients = get_gradients
    if hasattr(optimizer, "_compute_gradients"):
        _average_pairs(optimizer, "_compute_gradients", f"{_SCOPE}_compute_grads")
    return optimizer


def _average_pairs(optimizer: Any, method: str, scope: str) -> None:
    inner = getattr(optimizer, method)

    def compute_gradients(*args: Any, **kwargs: Any) -> List[Any]:
        return averaged_in_job(inner(*args, **kwargs), scope)

    setattr(optimizer, method, compute_gradients)
