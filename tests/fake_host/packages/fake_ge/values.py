"""What a collective makes of the tensors of all ranks.

Source: hicann/tensorflow, docs/en/tfadapter_1/apiref/hccl_ops: the page of each operator; the shape
of what comes out of all_to_all_v and all_to_all_v_c: HCCL's operators, HcomAllToAllVInferShape ("up
to the last that is received") and HcomAllToAllVCInferShape ("the sum of the rank's column"), one
dimension in both.

ASSUMED: reductions go in the order of the ranks, each step rounded to the tensor's type; what is
too large for a whole number wraps around.
"""

from typing import Any, List, Sequence

from fake_ge.faults import fault

__all__ = ["arrived", "exchanged", "gathered", "reduced", "scattered", "unwritten"]


def arrived(result: Any, place: int) -> Any:
    """What a rank gets of a result; ``place`` is its rank in the group."""
    import numpy as np

    if fault("hccl-differs") is None or not place or not result.size:
        return result
    data = bytearray(result.tobytes())
    data[0] ^= 1
    return np.ndarray(result.shape, result.dtype, data)


def reduced(reduction: str, tensors: Sequence[Any]) -> Any:
    """The tensors of all ranks, by rank, as one; ``reduction`` is max, min, prod or sum."""
    import numpy as np

    steps = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
    taken = tensors[:-1] if fault("hccl-forgets") is not None else tensors
    result = taken[0]
    for one in taken[1:]:
        result = _in_its_type(steps[reduction], result, one)
    return np.asarray(result)


def gathered(tensors: Sequence[Any]) -> Any:
    """All tensors, one behind the other in the order of the ranks."""
    import numpy as np

    return np.concatenate(tensors[::-1] if fault("hccl-order") is not None else tensors)


def scattered(tensor: Any, size: int, place: int) -> Any:
    """This rank's part of a tensor."""
    place = (place + 1) % size if fault("hccl-parts") is not None else place
    length = tensor.shape[0] // size
    return tensor[place * length : (place + 1) * length]


def exchanged(parts: Sequence[Any], displacements: Sequence[int]) -> Any:
    """What came from each rank, each at its place."""
    import numpy as np

    if fault("hccl-parts") is not None:
        parts = [part[::-1] + part.dtype.type(1) for part in parts]
    ends = [where + part.size for where, part in zip(displacements, parts)]
    result = unwritten(np.empty(max(ends), parts[0].dtype))
    for where, end, part in zip(displacements, ends, parts):
        result[where:end] = part
    return result


def unwritten(like: Any) -> Any:
    """Memory that nobody wrote to, in which nobody may rely on anything."""
    # HcclReduce.md: the result is sent "to the recvBuf of the root node"; of those of the others
    # no page says anything
    import numpy as np

    data = b"\x5a" * (like.size * like.dtype.itemsize)
    return np.ndarray(like.shape, like.dtype, bytearray(data))


def _in_its_type(step: Any, one: Any, other: Any) -> Any:
    import numpy as np

    if one.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            return step(one, other)
    # bfloat16, for which numpy has no functions of its own
    found: List[Any] = [each.astype(np.float32) for each in (one, other)]
    return step(*found).astype(one.dtype)
