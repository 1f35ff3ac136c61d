"""Keras optimizers of graphs: a copy of the optimizer's own class that averages gradients.

Source: npu_optimizer.py, ``KerasDistributeOptimizer`` and ``npu_distributed_optimizer_wrapper``,
which do the same in ``get_gradients`` and ``_compute_gradients``. The copy keeps learning rate,
slots and name in place, so that callbacks find them and a saved model does not need this package.
"""

from typing import Any, List, Optional, Sequence

from ascend_session.training.gradients import averaged, distributed_gradients

__all__ = ["distributed_keras", "is_graph_keras"]


class _Averaging:
    """Comes before the optimizer's own class."""

    _scope: str

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> List[Any]:
        """The gradients of ``loss``, averaged; called while Keras builds its training graph."""
        return averaged(super().get_gradients(loss, params), self._scope)  # type: ignore[misc]

    def _compute_gradients(self, *args: Any, **kwargs: Any) -> List[Any]:
        """Gradients and variables, averaged; called by ``minimize``."""
        pairs = super()._compute_gradients(*args, **kwargs)  # type: ignore[misc]
        return distributed_gradients(pairs, name=self._scope)


def is_graph_keras(optimizer: Any) -> bool:
    """Whether it is an optimizer of Keras that works in graphs."""
    return hasattr(optimizer, "get_gradients") and hasattr(optimizer, "get_updates")


def distributed_keras(optimizer: Any, name: Optional[str]) -> Any:
    """An optimizer of the same class with the same state, whose gradients are averaged.

    Raises:
        TypeError: If it is one already.
    """
    if isinstance(optimizer, _Averaging):
        raise TypeError(f"This {type(optimizer).__name__} is distributed already.")
    own = type(optimizer)
    kind = type(own.__name__, (_Averaging, own), {"__doc__": own.__doc__})
    made: Any = object.__new__(kind)
    vars(made).update(vars(optimizer), _scope=name or f"Distributed{own.__name__}")
    return made
