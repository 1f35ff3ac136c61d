"""What is known of a group while the graph is built: enough to refuse what cannot fit.

Before the system is open only the job's variables say something, of other groups nothing: then
nothing is refused, and what does not fit is found when it runs.
"""

import os
from typing import Optional

from ascend_session.cluster.schedulers import read_identity
from ascend_session.errors import CollectiveError
from ascend_session.session.registry import current_system
from ascend_session.vendor import WORLD_GROUP

__all__ = ["check_member", "check_own_rank", "check_rank_size", "known_size"]


def known_size(group: str) -> Optional[int]:
    """The number of the group's ranks; None if that is not known yet."""
    system = current_system()
    if group == WORLD_GROUP:
        if system is not None:
            return system.size
        said = read_identity(os.environ).size
        return None if said is None else said.value
    if system is None:
        return None
    try:
        return system.collectives.size(group)
    except CollectiveError:
        return None  # it may be made before the graph runs


def _known_rank(group: str) -> Optional[int]:
    system = current_system()
    if system is None:
        return None
    if group == WORLD_GROUP:
        return system.rank
    try:
        return system.collectives.rank(group)
    except CollectiveError:
        return None


def check_rank_size(call: str, rank_size: int, group: str) -> None:
    """Raises ValueError if the group is known to have another number of ranks."""
    size = known_size(group)
    if size is not None and size != rank_size:
        raise ValueError(
            f"hccl.{call}: rank_size={rank_size}, but the group {group!r} has {size} ranks. Give "
            "the group's size: hccl.size(group)."
        )


def check_member(call: str, name: str, rank: int, group: str) -> None:
    """Raises ValueError if the group is known to have no such rank."""
    size = known_size(group)
    if size is not None and rank >= size:
        raise ValueError(
            f"hccl.{call}: {name}={rank} is no rank of the group {group!r}, which has the ranks 0 "
            f"to {size - 1}. It is the rank in the group, not in the job: hccl.group_rank."
        )


def check_own_rank(call: str, rank: int, group: str) -> None:
    """Raises ValueError if this process is known to have another rank in the group."""
    check_member(call, "rank", rank, group)
    own = _known_rank(group)
    if own is not None and own != rank:
        raise ValueError(
            f"hccl.{call}: rank={rank}, but this process is rank {own} of the group {group!r}. "
            "Give its own: hccl.rank(group)."
        )
