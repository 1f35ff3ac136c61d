"""Reductions of the ranks' arrays, whatever their dtype.

TensorFlow's all-reduce takes four dtypes, and only sums and products on 1.15. Half precision is
summed in single precision and rounded once; small integers are summed in 32 bits, of which the low
ones are what the sum is in their own; the largest and smallest are found among all ranks' arrays.
"""

from typing import Any, Dict, List, Sequence

from ascend_session.backends.ranks.exchange import Channel
from ascend_session.backends.ranks.runtime import REDUCED
from ascend_session.backends.ranks.words import from_words, to_words

__all__ = ["reduced"]

_MERGES = {"sum": "Add", "prod": "Mul"}
_WIDER = {"float16": "float32", "int8": "int32", "int16": "int32"}


def reduced(channel: Channel, arrays: Sequence[Any], reduction: str) -> List[Any]:
    """The reduction of all members' arrays, one by one, the same bits on each member.

    Args:
        channel: The ranks.
        arrays: This rank's, of the same dtypes and shapes on each.
        reduction: ``sum``, ``prod``, ``max`` or ``min``.
    """
    if channel.size == 1:
        return [array.copy() for array in arrays]
    if reduction in _MERGES:
        return _merged(channel, arrays, _MERGES[reduction])
    return _chosen(channel, arrays, reduction)


def _merged(channel: Channel, arrays: Sequence[Any], merge: str) -> List[Any]:
    """All arrays that are added in one dtype travel as one."""
    import numpy as np

    results: List[Any] = [None] * len(arrays)
    for dtype, places in _by_dtype(arrays).items():
        flat = [arrays[place].reshape(-1).astype(dtype, copy=False) for place in places]
        # Several exchanges need names of their own; one has the collective's.
        part = "" if len(places) == len(arrays) else dtype
        whole = flat[0] if len(flat) == 1 else np.concatenate(flat)
        merged = channel.reduce(whole, merge, part)
        start = 0
        for place, one in zip(places, flat):
            piece = merged[start : start + len(one)].reshape(arrays[place].shape)
            results[place] = piece.astype(arrays[place].dtype)
            start += len(one)
    return results


def _by_dtype(arrays: Sequence[Any]) -> Dict[str, List[int]]:
    """The places of the arrays that are added in each dtype, in the order of the first ones."""
    found: Dict[str, List[int]] = {}
    for place, array in enumerate(arrays):
        name = _WIDER.get(array.dtype.name, array.dtype.name)
        assert name in REDUCED, name
        found.setdefault(name, []).append(place)
    return found


def _chosen(channel: Channel, arrays: Sequence[Any], reduction: str) -> List[Any]:
    import numpy as np

    forms = [(array.dtype, array.shape) for array in arrays]
    rows = channel.gather(to_words(arrays))
    everyone = [from_words(row, forms) for row in rows]
    choose = np.maximum if reduction == "max" else np.minimum
    return [choose.reduce(list(of_all)) for of_all in zip(*everyone)]
