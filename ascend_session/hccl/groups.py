"""Groups of ranks, and this process's place in them; all of it inside ``with ascend_system()``.

Source: hccl/manage/api.py, with shorter names.
"""

from typing import Sequence

from ascend_session.backends.collectives import Collectives
from ascend_session.errors import LifecycleError, with_short_traceback
from ascend_session.hccl._arguments import Arguments
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


@with_short_traceback
def create_group(group: str, rank_num: int, rank_ids: Sequence[int]) -> None:
    """Make a group. Call it on each of its ranks, and on no other, with the same arguments.

    CollectiveError if the group exists, if this job has no such ranks, or if this process is not
    one of them.

    Args:
        group: Its name: 1 to 127 bytes, not that of the whole job.
        rank_num: The number of its ranks.
        rank_ids: Their ranks in the job, each once. The group numbers them in ascending order,
            however they are listed.
    """
    arguments = Arguments("create_group", group)
    arguments.check_not_world()
    ranks = arguments.new_group_ranks(rank_num, rank_ids)
    _open_collectives(arguments).create_group(group, len(ranks), ranks)


@with_short_traceback
def destroy_group(group: str) -> None:
    """End a group; its name is free again."""
    arguments = Arguments("destroy_group", group)
    arguments.check_not_world()
    _open_collectives(arguments).destroy_group(group)


@with_short_traceback
def rank(group: str = WORLD_GROUP) -> int:
    """Return this process's rank in the group."""
    return _open_collectives(Arguments("rank", group)).rank(group)


@with_short_traceback
def size(group: str = WORLD_GROUP) -> int:
    """Return the number of the group's ranks."""
    return _open_collectives(Arguments("size", group)).size(group)


@with_short_traceback
def local_rank(group: str = WORLD_GROUP) -> int:
    """Return this process's place among the group's ranks of its host."""
    return _open_collectives(Arguments("local_rank", group)).local_rank(group)


@with_short_traceback
def local_size(group: str = WORLD_GROUP) -> int:
    """Return how many of the group's ranks are on this host."""
    return _open_collectives(Arguments("local_size", group)).local_size(group)


@with_short_traceback
def world_rank(group: str, group_rank: int) -> int:
    """Return the rank in the job of a rank of the group."""
    arguments = Arguments("world_rank", group)
    number = arguments.rank("group_rank", group_rank)
    return _open_collectives(arguments).world_rank(group, number)


@with_short_traceback
def group_rank(world_rank: int, group: str) -> int:
    """Return the rank in the group of a rank of the job."""
    arguments = Arguments("group_rank", group)
    number = arguments.rank("world_rank", world_rank)
    return _open_collectives(arguments).group_rank(number, group)


def _open_collectives(arguments: Arguments) -> Collectives:
    system = current_system()
    if system is None:
        raise LifecycleError(
            f"hccl.{arguments.call} was called, but no Ascend system is open in this process; "
            "ranks and groups are there only inside one.",
            hint="Call it inside the block: with ascend_system() as system: ...",
        )
    return system.graph_backend.collectives
