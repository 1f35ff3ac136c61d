"""Checks of what each rank sends to each, as far as it is known while the graph is built.

HCCL refuses lists that are too short and numbers below zero (param_check.cc); what reaches beyond
the data it would read or write all the same.
"""

import math
from typing import Any, List, Mapping, Optional

from ascend_session.backends._tensorflow import tf1

__all__ = ["check_lists", "check_matrix"]


def check_lists(call: str, data: Any, lists: Mapping[str, Any], size: Optional[int]) -> None:
    """Checks the four lists of all_to_all_v, int64 tensors by their names.

    Args:
        call: The function, for messages.
        data: The tensor that is sent.
        lists: The counts and displacements.
        size: The number of the group's ranks, None if it is not known.

    Raises:
        ValueError: If they cannot be.
    """
    for name, tensor in lists.items():
        _check_length(call, name, tensor, size)
        _check_signs(call, name, tensor)
    ours, theirs = lists["recv_counts"], lists["recv_displacements"]
    lengths = [tensor.shape.num_elements() for tensor in (ours, theirs)]
    if None not in lengths and lengths[0] != lengths[1]:
        raise ValueError(
            f"hccl.{call}: recv_counts has {lengths[0]} numbers, but recv_displacements has "
            f"{lengths[1]}."
        )
    amounts, places = _values(lists["send_counts"]), _values(lists["send_displacements"])
    if amounts is not None and places is not None:
        ends = [amount + place for amount, place in zip(amounts, places) if amount]
        _check_end(call, data, max(ends, default=0))


def check_matrix(call: str, data: Any, matrix: Any, rank: int, size: Optional[int]) -> None:
    """Checks the matrix of all_to_all_v_c, an int64 tensor; raises as `check_lists`."""
    _check_signs(call, "send_count_matrix", matrix)
    numbers = matrix.shape.num_elements()
    if numbers is None:
        return
    rows = math.floor(math.sqrt(numbers) + 0.5)
    wanted = rows if size is None else size
    if numbers != wanted * wanted or not numbers:
        ranks = "each rank" if size is None else f"each of the group's {size} ranks"
        raise ValueError(
            f"hccl.{call}: send_count_matrix needs one row and one column for {ranks}; it has the "
            f"shape {matrix.shape.as_list()}."
        )
    if rank >= wanted:
        raise ValueError(
            f"hccl.{call}: rank={rank}, but send_count_matrix has rows for the ranks 0 to "
            f"{wanted - 1}."
        )
    values = _values(matrix)
    if values is not None:
        _check_end(call, data, sum(values[rank * wanted : (rank + 1) * wanted]))


def _values(tensor: Any) -> Optional[List[int]]:
    """The numbers of a constant in one row; None for what is known only when it runs."""
    value = tf1().get_static_value(tensor)
    return None if value is None else [int(number) for number in value.flatten()]


def _check_length(call: str, name: str, tensor: Any, size: Optional[int]) -> None:
    numbers = tensor.shape.num_elements()
    if numbers is not None and size is not None and numbers < size:
        raise ValueError(
            f"hccl.{call}: {name} has {numbers} numbers, but the group has {size} ranks, and each "
            "needs one."
        )


def _check_signs(call: str, name: str, tensor: Any) -> None:
    values = _values(tensor)
    if values and min(values) < 0:
        raise ValueError(f"hccl.{call}: {name} has a number below 0: {values}.")


def _check_end(call: str, data: Any, end: int) -> None:
    elements = data.shape.num_elements()
    if elements is not None and end > elements:
        raise ValueError(
            f"hccl.{call}: {end} elements of send_data are asked for, but it has {elements}. "
            "Counts and displacements are in elements, not in bytes."
        )
