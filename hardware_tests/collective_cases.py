"""What the contract of collectives is about: names that the tests and each rank's program share.

It imports nothing, so that a test can be collected where no TensorFlow is.
"""

from typing import List, Tuple

__all__ = [
    "EMPTY",
    "GROUP_FACTS",
    "GROUP_VALUES",
    "MOVED",
    "REDUCED",
    "REDUCING",
    "SECTIONS",
    "SHAPES",
    "WORLD_FACTS",
    "section_of",
    "split_section",
    "tolerance",
]

# hccl_ops.cc, attribute T: of what reduces, and of what moves
REDUCED = ("int8", "int16", "int32", "int64", "float16", "float32", "bfloat16")
MOVED = (*REDUCED, "uint8", "uint16", "uint32", "uint64", "float64")

# allreduce.md: "the prod operation does not support the int16 or bfp16 data type"
_NO_PRODUCT = ("int16", "bfloat16")
REDUCING: List[Tuple[str, str]] = [
    (reduction, dtype)
    for dtype in REDUCED
    for reduction in ("sum", "prod", "max", "min")
    if (reduction, dtype) not in [("prod", one) for one in _NO_PRODUCT]
]
WORLD_FACTS = ("rank", "size", "local rank", "local size", "world ranks", "group ranks")
GROUP_FACTS = ("rank", "size", "world ranks", "group ranks", "stranger", "destroyed")
GROUP_VALUES = (
    *("allreduce", "allgather", "broadcast", "reduce", "reduce_scatter"),
    *("in the next session", "made again"),
)
SHAPES = ("scalar allreduce", "scalar broadcast", "large allreduce", "large allgather")
EMPTY = ("allreduce", "allgather", "broadcast", "reduce_scatter", "all_to_all_v")

# One graph and one run of each rank, with the checks whose names end with it or begin with it.
SECTIONS = (*MOVED, "world", "group", "shape", "empty", "loop", "gradient", "session")

# Of the largest number expected; what is not here is exact. Sums of float16 may be rounded to it
# after each of eight ranks.
_TOLERANCES = {"float16": 8 * 2.0**-11, "float32": 8 * 2.0**-24, "bfloat16": 8 * 2.0**-8}


def section_of(check: str) -> str:
    """The section that a check is in."""
    first, last = check.split()[0], check.split()[-1]
    return first if first in SECTIONS else last


def split_section(section: str) -> List[str]:
    """Name the parts of a section that can be done alone, each in a graph of its own.

    Those of a type are its collectives, under the names of their checks; what is sent ``there``
    comes ``and back``, so that the two are one. Other sections have no parts.
    """
    if section not in MOVED:
        return []
    calls = ("allreduce", "reduce", "reduce_scatter")
    reductions = [reduction for reduction, dtype in REDUCING if dtype == section]
    parts = [f"{call} {reduction} {section}" for reduction in reductions for call in calls]
    moves = ("allgather", "broadcast", "all_to_all_v", "all_to_all_v_c", "there")
    return parts + [f"{call} {section}" for call in moves]


def tolerance(check: str) -> float:
    """How far off a result may be: of float sums and products, which may be added in any order."""
    words = check.split()
    rounded = "sum" in words or "prod" in words
    return _TOLERANCES.get(words[-1], 0.0) if rounded else 0.0
