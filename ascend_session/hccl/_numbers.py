"""Checks of the arguments that are no tensors, before anything is built.

What is refused here the vendor's operators or HCCL would refuse, often only when the graph runs.
A wrong type raises TypeError and a wrong value ValueError, as TensorFlow does for an operator's
attributes.

Sources: hccl_ops.cc; the documentation of hccl_ops; HCCL's verifiers (hcom_ops: HcomAllReduce and
the others; hcom_op_utils.cc: GetSrTag, GetDestRank, GetSrcRank, GetRoot); hccl/manage/api.py.
"""

import numbers
from typing import Any, List, Sequence, Tuple

__all__ = [
    "REDUCTIONS",
    "group_name",
    "group_ranks",
    "length",
    "merging",
    "rank_number",
    "reduction_name",
    "tag",
]

REDUCTIONS = ("sum", "prod", "max", "min")

_LARGEST = 2**31 - 1  # HCCL reads these attributes as int32
_MOST_RANKS = 32768
_LONGEST_NAME = 127  # 128 bytes with the one that ends it

_FUSIONS = {0: "no fusion", 1: "by the split of the gradients", 2: "with others of its fusion_id"}


def whole(call: str, name: str, value: Any) -> int:
    """``value`` as an int.

    Raises:
        TypeError: If it is no whole number.
    """
    if not isinstance(value, numbers.Integral):
        raise TypeError(f"hccl.{call}: {name} must be an int, this is {value!r}.")
    return int(value)


def reduction_name(call: str, value: Any) -> str:
    """``value``, if it names a reduction; else TypeError or ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"hccl.{call}: reduction must be a str, this is {value!r}.")
    if value not in REDUCTIONS:
        raise ValueError(f"hccl.{call}: reduction={value!r} is none of {', '.join(REDUCTIONS)}.")
    return value


def merging(call: str, fusion: Any, fusion_id: Any, known: Sequence[int]) -> Tuple[int, int]:
    """``fusion`` and ``fusion_id``, if they fit together; else TypeError or ValueError.

    Args:
        call: The function, for messages.
        fusion: 0, 1 or 2.
        fusion_id: The operators of one id become one; counts for 2 only.
        known: Which values of ``fusion`` this function has.
    """
    fusion, fusion_id = whole(call, "fusion", fusion), whole(call, "fusion_id", fusion_id)
    if fusion not in known:
        values = ", ".join(f"{value} ({_FUSIONS[value]})" for value in known)
        raise ValueError(f"hccl.{call}: fusion={fusion}, but it can be {values}.")
    if fusion == 2 and not 0 <= fusion_id <= _LARGEST:
        raise ValueError(
            f"hccl.{call}: fusion=2 merges the operators of one fusion_id, which is from 0 to "
            f"{_LARGEST}; this is {fusion_id}."
        )
    if fusion == 1 and fusion_id != -1:
        raise ValueError(
            f"hccl.{call}: fusion=1 goes by the split of the gradients and has no fusion_id, "
            f"but {fusion_id} is given. For a fusion_id set fusion=2."
        )
    return fusion, fusion_id


def length(call: str, value: Any) -> int:
    """``value``, if it is a number of ranks; else TypeError or ValueError."""
    size = whole(call, "rank_size", value)
    if not 1 <= size <= _MOST_RANKS:
        raise ValueError(
            f"hccl.{call}: rank_size={size} is no number of ranks, of which there are 1 to "
            f"{_MOST_RANKS}."
        )
    return size


def rank_number(call: str, name: str, value: Any) -> int:
    """``value``, if it can be a rank; else TypeError or ValueError."""
    rank = whole(call, name, value)
    if not 0 <= rank < _MOST_RANKS:
        raise ValueError(f"hccl.{call}: {name}={rank} is no rank: ranks are numbered from 0.")
    return rank


def tag(call: str, value: Any) -> int:
    """``value``, if it can be the tag of a message; else TypeError or ValueError."""
    number = whole(call, "sr_tag", value)
    if not 0 <= number <= _LARGEST:
        raise ValueError(f"hccl.{call}: sr_tag={number} must be from 0 to {_LARGEST}.")
    return number


def group_name(call: str, value: Any) -> str:
    """``value``, if it can be a group's name; else TypeError or ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"hccl.{call}: group must be a str, this is {value!r}.")
    used = len(value.encode("utf-8"))
    if not 1 <= used <= _LONGEST_NAME:
        raise ValueError(
            f"hccl.{call}: a group's name has 1 to {_LONGEST_NAME} bytes, "
            + (f"{value[:20]!r}... has {used}." if used else "this one is empty.")
        )
    return value


def group_ranks(call: str, rank_num: Any, rank_ids: Any) -> List[int]:
    """The ranks of a group that is to be made; TypeError or ValueError if they can be none."""
    if isinstance(rank_ids, (str, bytes)) or not isinstance(rank_ids, Sequence):
        raise TypeError(f"hccl.{call}: rank_ids must be a list of ranks, this is {rank_ids!r}.")
    ranks = [rank_number(call, "a rank in rank_ids", rank) for rank in rank_ids]
    number = whole(call, "rank_num", rank_num)
    if number != len(ranks) or not ranks:
        raise ValueError(
            f"hccl.{call}: rank_num={number}, but rank_ids has {len(ranks)}: {ranks}. A group has "
            "at least one rank."
        )
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if twice:
        raise ValueError(f"hccl.{call}: rank_ids={ranks} names {twice} more than once.")
    return ranks
