"""``hccl.split.api``: in which parts gradients are exchanged; checked, and then without effect.

The parts affect when a device exchanges them, and never a result. Source: hccl/split/api.py.
"""

from typing import Any

from ascend_session.compat.hccl.manage import api
from ascend_session.compat.vendor_modules import mirror
from ascend_session.vendor import WORLD_GROUP

_MAX_UINT32 = 4294967295
_WHOLE = 100


def set_split_strategy_by_idx(idxList: Any, group: Any = WORLD_GROUP) -> None:  # noqa: N803
    """Split the gradients after those with these numbers.

    Args:
        idxList: Whole numbers of 32 bit, ascending.
        group: The group's name.

    Raises:
        ValueError: If an argument is wrong.
    """
    _check_group(group)
    _check_list("idxList", idxList)
    for index in idxList:
        if not isinstance(index, int):
            raise ValueError(f"idx val[{index}] in idxList is not python int type.")
        if not 0 <= index <= _MAX_UINT32:
            raise ValueError(
                f"idx val[{index}] in idxList is an out-of-range value, the correct value range is "
                f"0 to {_MAX_UINT32}"
            )
    if any(second <= first for first, second in zip(idxList, idxList[1:])):
        raise ValueError("idx in idxList is not ascending")


def set_split_strategy_by_size(
    dataSizeList: Any,  # noqa: N803
    group: Any = WORLD_GROUP,
) -> None:
    """Split the gradients by shares of the data.

    Args:
        dataSizeList: Percentages, 100 together.
        group: The group's name.

    Raises:
        ValueError: If an argument is wrong.
    """
    _check_group(group)
    _check_list("dataSizeList", dataSizeList)
    for size in dataSizeList:
        if not isinstance(size, (int, float)):
            raise ValueError(
                f"dataSize val[{size}] in dataSizeList is not python int or float type."
            )
        if size < 0:
            raise ValueError(f"dataSize val[{size}] in dataSizeList cannot be a negative number.")
    if sum(dataSizeList) != _WHOLE:
        raise ValueError("size percentage list sum is not 100%")


def _check_group(group: Any) -> None:
    if isinstance(group, str) and len(group) > api._MAX_GROUP_NAME:
        raise ValueError(f"group name len[{len(group)}] too long, Max len[{api._MAX_GROUP_NAME}].")
    api._check_group(group)


def _check_list(name: str, values: Any) -> None:
    if not isinstance(values, list):
        raise ValueError(f"{name} must be a python list, this is {values!r}.")
    if not values:
        raise ValueError(f"{name} length is 0")


__getattr__, __all__ = mirror(globals())
