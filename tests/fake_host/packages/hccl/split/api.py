"""How gradients are fused (hccl/split/api.py); the fake checks what it gets and then does nothing.

The file comes with HCCL and is public since 2025; the checks, their order and their sentences are
its own. Every refusal is a ValueError.
"""

from typing import Any, Callable

from fake_ge import hcom

__all__ = ["set_split_strategy_by_idx", "set_split_strategy_by_size"]

MAX_GROUP_NAME_LEN = 127
MAX_VALUE_UINT32 = 4294967295


def set_split_strategy_by_idx(idxList: Any, group: Any = "hccl_world_group") -> None:  # noqa: N803
    """Splits by the index of the last gradient of each part: ascending whole numbers of 32 bit."""
    _check_group(group, f"[{MAX_GROUP_NAME_LEN}]")
    _check_list("idxList", idxList, _check_index)
    if sorted(set(idxList)) != idxList:
        raise ValueError("idx in idxList is not ascending")
    _set("set_split_strategy_by_idx", group, "split error. ")


def set_split_strategy_by_size(
    dataSizeList: Any,  # noqa: N803
    group: Any = "hccl_world_group",
) -> None:
    """Splits by percent of the data: numbers whose sum is 100."""
    # this one's sentence formats a set, hence the braces
    _check_group(group, f"[{{{MAX_GROUP_NAME_LEN}}}]")
    _check_list("dataSizeList", dataSizeList, _check_size)
    if sum(dataSizeList) != 100:
        raise ValueError("size percentage list sum is not 100%")
    _set("set_split_strategy_by_size", group, "split error, ")


def _check_group(group: Any, longest: str) -> None:
    if not isinstance(group, str):
        raise ValueError("group must be a python str")
    if len(group) > MAX_GROUP_NAME_LEN:
        raise ValueError(f"group name len[{len(group)}] too long, Max len{longest}.")
    if not group:
        raise ValueError("group name is empty.")


def _check_list(name: str, values: Any, check: Callable[[Any], None]) -> None:
    if not isinstance(values, list):
        raise ValueError(f"{name} must be a python list")
    if not values:
        raise ValueError(f"{name} length is 0")
    for value in values:
        check(value)


def _check_index(index: Any) -> None:
    if not isinstance(index, int):
        raise ValueError(f"idx val[{index}] in idxList is not python int type.")
    if not 0 <= index <= MAX_VALUE_UINT32:
        raise ValueError(
            f"idx val[{index}] in idxList is an out-of-range value, "
            f"the correct value range is 0 to {MAX_VALUE_UINT32}"
        )


def _check_size(size: Any) -> None:
    if not isinstance(size, (int, float)):
        raise ValueError(f"dataSize val[{size}] in dataSizeList is not python int or float type.")
    if size < 0:
        raise ValueError(f"dataSize val[{size}] in dataSizeList cannot be a negative number.")


def _set(call: str, group: str, error: str) -> None:
    try:
        hcom.ask(call, group)
    except hcom.HcclError as cause:
        raise ValueError(f"{error}ret[{cause.args[0]}]") from None
