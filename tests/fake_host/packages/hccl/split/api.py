"""How gradients are fused (hccl/split/api.py); the fake takes it and does nothing."""

from typing import Any

from fake_ge import hcom

from hccl.manage.api import check_group

__all__ = ["set_split_strategy_by_idx", "set_split_strategy_by_size"]


def set_split_strategy_by_idx(idxList: Any, group: Any = "hccl_world_group") -> None:  # noqa: N803
    """Splits by the index of the last gradient of each part."""
    _set("set_split_strategy_by_idx", "idxList", idxList, group)


def set_split_strategy_by_size(
    dataSizeList: Any,  # noqa: N803
    group: Any = "hccl_world_group",
) -> None:
    """Splits by percent of the data."""
    _set("set_split_strategy_by_size", "dataSizeList", dataSizeList, group)


def _set(call: str, name: str, values: Any, group: Any) -> None:
    check_group(group)
    if not isinstance(values, list):
        raise ValueError(f"{name} must be a python list")
    if not values:
        raise ValueError(f"{name} length is 0")
    try:
        hcom.ask(call, group)
    except hcom.HcclError as error:
        raise ValueError(f"{call} error. ret[{error.args[0]}]") from None
