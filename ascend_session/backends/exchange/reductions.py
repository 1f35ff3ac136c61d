"""Reductions of arrays: which NumPy function does them, and in which dtype."""

from typing import Any, Dict, Sequence

_FUNCTIONS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
_DTYPES = {"float64", "float32", "float16"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
_WIDER: Dict[Any, str] = {("sum", "float16"): "float32", ("prod", "float16"): "float32"}


def check_plan(plan: str, size_bytes: int) -> None:
    """Raise ValueError for an unknown plan, or one that does not fit the size.

    A plan is ``gather``, or a reduction and a dtype: ``sum float32``.
    """
    import numpy as np

    if size_bytes < 0:
        raise ValueError(f"{size_bytes} is not a number of bytes")
    if plan != "gather":
        reduction, dtype = plan.split()
        if reduction not in _FUNCTIONS or dtype not in _DTYPES:
            raise ValueError(f"unknown plan {plan!r}")
        if size_bytes % np.dtype(dtype).itemsize:
            raise ValueError(f"{size_bytes} bytes are not a whole number of {dtype}")


def combine(plan: str, payloads: Sequence[bytes]) -> bytes:
    """Compute the result of a collective from its ranks' tensors, in their order.

    Args:
        plan: ``gather``, or a reduction and a dtype.
        payloads: The tensors; for a reduction, all of one length.
    """
    import numpy as np

    if plan == "gather":
        return b"".join(payloads)
    reduction, dtype = plan.split()
    arrays = np.frombuffer(bytearray().join(payloads), dtype).reshape(len(payloads), -1)
    reduce_arrays(reduction, arrays)
    return bytes(arrays[0].data)


def reduction_dtype(reduction: str, dtype: str) -> str:
    """Return the dtype in which arrays are reduced: float32 for sums and products of float16."""
    return _WIDER.get((reduction, dtype), dtype)


def reduce_arrays(reduction: str, arrays: Any) -> None:
    """Reduce the rows of an array into the first one, in order: the bits depend on it."""
    import numpy as np

    function = getattr(np, _FUNCTIONS[reduction])
    total = arrays[0]
    with np.errstate(all="ignore"):  # loss scales look for gradients that overflow
        for array in arrays[1:]:
            function(total, array, out=total)
