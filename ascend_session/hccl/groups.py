"""Groups of ranks, and this process's place in them; all of it inside ``with ascend_system()``.

Source: hccl/manage/api.py, with shorter names.
"""

from typing import Sequence

from ascend_session.backends.collectives import Collectives
from ascend_session.errors import LifecycleError
from ascend_session.hccl import _numbers
from ascend_session.session.registry import current_system
from ascend_session.vendor import WORLD_GROUP

__all__ = [
    "create_group",
    "destroy_group",
    "group_rank",
    "local_rank",
    "local_size",
    "rank",
    "size",
    "world_rank",
]


def create_group(group: str, rank_num: int, rank_ids: Sequence[int]) -> None:
    """Makes a group. Call it on each of its ranks, and on no other, with the same arguments.

    Args:
        group: Its name: 1 to 127 bytes, not that of the whole job.
        rank_num: The number of its ranks.
        rank_ids: Their ranks in the job, each once. The group numbers them in ascending order,
            however they are listed.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If its value cannot be.
        LifecycleError: If no system is open.
        CollectiveError: If the group exists, or this job has no such ranks, or if this process is
            not one of them.
    """
    call = "create_group"
    name = _own_name(call, group)
    ranks = _numbers.group_ranks(call, rank_num, rank_ids)
    _open(call).create_group(name, len(ranks), ranks)


def destroy_group(group: str) -> None:
    """Ends a group; its name is free again.

    Raises:
        TypeError, ValueError, LifecycleError: As `create_group`.
        CollectiveError: If there is no such group in this process.
    """
    call = "destroy_group"
    name = _own_name(call, group)
    _open(call).destroy_group(name)


def rank(group: str = WORLD_GROUP) -> int:
    """This process's rank in the group; raises as `destroy_group`."""
    name = _numbers.group_name("rank", group)
    return _open("rank").rank(name)


def size(group: str = WORLD_GROUP) -> int:
    """The number of the group's ranks; raises as `destroy_group`."""
    name = _numbers.group_name("size", group)
    return _open("size").size(name)


def local_rank(group: str = WORLD_GROUP) -> int:
    """This process's place among the group's ranks of its host; raises as `destroy_group`."""
    name = _numbers.group_name("local_rank", group)
    return _open("local_rank").local_rank(name)


def local_size(group: str = WORLD_GROUP) -> int:
    """How many of the group's ranks are on this host; raises as `destroy_group`."""
    name = _numbers.group_name("local_size", group)
    return _open("local_size").local_size(name)


def world_rank(group: str, group_rank: int) -> int:
    """The rank in the job of a rank of the group.

    Raises:
        TypeError, ValueError, LifecycleError: As `create_group`.
        CollectiveError: If there is no such group in this process, or no such rank in it.
    """
    call = "world_rank"
    name = _numbers.group_name(call, group)
    number = _numbers.rank_number(call, "group_rank", group_rank)
    return _open(call).world_rank(name, number)


def group_rank(world_rank: int, group: str) -> int:
    """The rank in the group of a rank of the job; raises as `world_rank`."""
    call = "group_rank"
    name = _numbers.group_name(call, group)
    number = _numbers.rank_number(call, "world_rank", world_rank)
    return _open(call).group_rank(number, name)


def _own_name(call: str, group: str) -> str:
    """``group``, if it can be the name of a group of one's own; else TypeError or ValueError."""
    name = _numbers.group_name(call, group)
    if name == WORLD_GROUP:
        raise ValueError(
            f"hccl.{call}: {WORLD_GROUP!r} is the group of all ranks, which is there as long as "
            "the system is open. Take another name."
        )
    return name


def _open(call: str) -> Collectives:
    """The collectives of the open system.

    Raises:
        LifecycleError: If none is open.
    """
    system = current_system()
    if system is None:
        raise LifecycleError(
            f"hccl.{call} was called, but no Ascend system is open in this process; ranks and "
            "groups are there only inside one.",
            hint="Call it inside the block: with ascend_system() as system: ...",
        )
    return system.collectives
