"""Reductions of arrays: which NumPy function does them, and in which dtype."""

from typing import Any, Dict, Sequence

_FUNCTIONS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
_DTYPES = {"float64", "float32", "float16"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
_WIDER: Dict[Any, str] = {("sum", "float16"): "float32", ("prod", "float16"): "float32"}


def check_plan(plan: str) -> str:
    """Give a plan for an exchange back: ``gather``, or a reduction and a dtype.

    Raises:
        ValueError: If it is neither.
    """
    if plan != "gather":
        reduction, dtype = plan.split()
        if reduction not in _FUNCTIONS or dtype not in _DTYPES:
            raise ValueError(f"{plan!r} is no plan for an exchange")
    return plan


def reduction_dtype(reduction: str, dtype: str) -> str:
    """Give the dtype in which arrays are reduced: single precision for half precision's sums."""
    return _WIDER.get((reduction, dtype), dtype)


def reduce_arrays(reduction: str, arrays: Sequence[Any]) -> Any:
    """Reduce arrays of one dtype and shape, one after the other, in that dtype.

    Returns:
        A new array.
    """
    import numpy as np

    function = getattr(np, _FUNCTIONS[reduction])
    total = arrays[0].copy()
    for array in arrays[1:]:
        function(total, array, out=total)
    return total
