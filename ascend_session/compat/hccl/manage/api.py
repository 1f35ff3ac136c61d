"""``hccl.manage.api``: ranks and groups of the job, answered by the open system.

Before the system is up each call fails, as on a device ("get rank id error").
The vendor's errors are ValueErrors, and so are these. Source: hccl/manage/api.py.
"""

from typing import Any, Callable, TypeVar

from ascend_session import hccl
from ascend_session.compat.script_run import script_run
from ascend_session.compat.vendor_modules import mirror
from ascend_session.errors import CollectiveError, LifecycleError
from ascend_session.vendor import WORLD_GROUP

_Answer = TypeVar("_Answer")

_MAX_GROUP_NAME = 127
# HcclResult in hccl_types.h: HCCL_E_PARA, a wrong parameter; HCCL_E_PTR, nothing is there yet
_WRONG, _NOT_THERE = 1, 2


class NotUpError(LifecycleError, ValueError):
    """Ranks were asked for before the system was up, or after it was shut down."""


class GroupError(CollectiveError, ValueError):
    """A question about a group, or an action on it, that the job refuses."""


def create_group(group: Any, rank_num: Any, rank_ids: Any) -> None:
    """Create a group of ranks; call this on each of them, and on no other.

    Args:
        group: Its name.
        rank_num: The number of its ranks.
        rank_ids: Their ranks in the job, a list.

    Raises:
        ValueError: If an argument is wrong, or the group cannot be created.
    """
    _check_group(group)
    _check_number("rank_num", rank_num, 1)
    if not isinstance(rank_ids, list):
        raise ValueError(f"rank_ids must be a python list, this is {rank_ids!r}.")
    if rank_num != len(rank_ids):
        raise ValueError(f"rank_num[{rank_num}] not equal to rank_ids len[{len(rank_ids)}].")
    for rank_id in rank_ids:
        _check_number("rank_id", rank_id, 0)
    _ask("create group", hccl.create_group, group, rank_num, rank_ids)


def destroy_group(group: Any) -> None:
    """Destroy a group; raises as `create_group`."""
    _check_group(group)
    _ask("destroy group", hccl.destroy_group, group)


def get_rank_size(group: Any = WORLD_GROUP) -> int:
    """Return the number of the group's ranks; raises ValueError before the system is up."""
    _check_group(group)
    return _ask("get rank size", hccl.size, group)


def get_rank_id(group: Any = WORLD_GROUP) -> int:
    """Return this process's rank in the group; raises ValueError before the system is up."""
    _check_group(group)
    return _ask("get rank id", hccl.rank, group)


def get_local_rank_size(group: Any = WORLD_GROUP) -> int:
    """Return how many of its ranks are on this server; raises as `get_rank_size`."""
    _check_group(group)
    return _ask("get local rank size", hccl.local_size, group)


def get_local_rank_id(group: Any = WORLD_GROUP) -> int:
    """Return the index of this process among these ranks; raises as `get_rank_size`."""
    _check_group(group)
    return _ask("get local rank id", hccl.local_rank, group)


def get_world_rank_from_group_rank(group: Any, group_rank_id: Any) -> int:
    """Return the rank in the job of a rank in the group; raises as `create_group`."""
    _check_group(group)
    _check_number("group_rank_id", group_rank_id, 0)
    return _ask("get world rank from group rank", hccl.world_rank, group, group_rank_id)


def get_group_rank_from_world_rank(world_rank_id: Any, group: Any) -> int:
    """Return the rank in the group of a rank in the job; raises as `create_group`."""
    _check_group(group)
    _check_number("world_rank_id", world_rank_id, 0)
    return _ask("get group rank from world rank", hccl.group_rank, world_rank_id, group)


def _check_group(group: Any) -> None:
    if not isinstance(group, str):
        raise ValueError(f"group must be a python str, this is {group!r}.")
    if not group:
        raise ValueError("group name is empty.")
    if len(group) > _MAX_GROUP_NAME:
        raise ValueError(f"group name is invalid. group: {group[:_MAX_GROUP_NAME]}")


def _check_number(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int):
        raise ValueError(f"{name} must be a python int, this is {value!r}.")
    if value < least:
        raise ValueError(f"{name}[{value}] is less than {least}.")


def _ask(what: str, ask: Callable[..., _Answer], *arguments: Any) -> _Answer:
    """Return what ``ask`` returns for the arguments.

    Raises:
        NotUpError: If the system is not up.
        GroupError: If the job cannot answer.
    """
    if not script_run().is_device_up():
        raise NotUpError(
            f"{what} error. ret[{_NOT_THERE}]: the system is not up. On a device, too, ranks and "
            "groups are known from the first session on, or from initialize_system, until the "
            "shutdown.",
            hint="Run npu_ops.initialize_system() in a session first.",
        )
    script_run().system()
    try:
        return ask(*arguments)
    except CollectiveError as error:
        raise GroupError(f"{what} error. ret[{_WRONG}]: {error.message}", hint=error.hint) from None


__getattr__, __all__ = mirror(globals())
