"""Which ranks of a stub's job are in which group, with HCCL's rules; nothing is sent here.

Source: hccl/manage/api.py and what it calls (hcom.cc): a group is made on each of its ranks and
nowhere else, its members are sorted, its name is free again after its end.
"""

from typing import Dict, List, Optional, Sequence, Tuple

from ascend_session.backends.collectives import Groups
from ascend_session.backends.exchange.messages import name_ranks
from ascend_session.errors import CollectiveError
from ascend_session.vendor import WORLD_GROUP

__all__ = ["StubGroups"]


class StubGroups(Groups):
    """The groups of one process of a stub's job; it is in all of them.

    Args:
        rank: The process's rank in the job.
        size: The number of ranks in the job.
        local_size: How many ranks there are on each host; the last one may have fewer.
        nodes: What is the same for the ranks of a host, by rank; None means `local_size` says it.
    """

    def __init__(
        self, rank: int, size: int, local_size: int, nodes: Optional[Sequence[str]] = None
    ) -> None:
        self._rank = rank
        self._nodes = nodes or [str(number // local_size) for number in range(size)]
        self._members: Dict[str, Tuple[int, ...]] = {WORLD_GROUP: tuple(range(size))}

    def create(self, group: str, ranks: Sequence[int]) -> None:
        """Make a group of world ranks, given in any order; nothing is sent."""
        refusal = f"The group {group!r} of the ranks {list(ranks)} cannot be made: "
        if group in self._members:
            raise CollectiveError(
                f"{refusal}there is a group of this name already, of "
                f"{name_ranks(self._members[group])}.",
                hint="Use another name, or hccl.destroy_group(name) first.",
            )
        world = self._members[WORLD_GROUP]
        unknown = sorted(set(ranks) - set(world))
        reason = ""
        if unknown:
            reason = f"the job has {name_ranks(world)}, not {', '.join(map(str, unknown))}"
        elif self._rank not in ranks:
            reason = f"this process is rank {self._rank}, which is not among them"
        if reason:
            raise CollectiveError(
                f"{refusal}{reason}.",
                hint="Call hccl.create_group(name, number, ranks) with the same ranks on each of "
                "them, and on no other rank.",
            )
        self._members[group] = tuple(sorted(ranks))

    def destroy(self, group: str) -> None:
        """End a group; nothing is sent."""
        self.members(group)
        del self._members[group]

    def members(self, group: str) -> Tuple[int, ...]:
        """List the group's ranks in the job, ascending.

        Raises:
            CollectiveError: If this process has made no group of this name.
        """
        if group not in self._members:
            known = ", ".join(map(repr, self._members))
            raise CollectiveError(
                f"There is no group {group!r} in this process, rank {self._rank}; it has {known}.",
                hint="hccl.create_group(name, number, ranks) makes one, on each of its ranks, "
                "inside the system in which it is used.",
            )
        return self._members[group]

    def rank(self, group: str) -> int:
        """Return this process's rank in the group."""
        return self.members(group).index(self._rank)

    def size(self, group: str) -> int:
        """Return the number of ranks of the group."""
        return len(self.members(group))

    def local_rank(self, group: str) -> int:
        """Return this process's place among the group's ranks of its host."""
        return self._neighbours(group).index(self._rank)

    def local_size(self, group: str) -> int:
        """Return how many of the group's ranks are on this process's host."""
        return len(self._neighbours(group))

    def world_rank(self, group: str, group_rank: int) -> int:
        """Return the rank in the job of a rank of the group."""
        members = self.members(group)
        if not 0 <= group_rank < len(members):
            raise CollectiveError(
                f"The group {group!r} has no rank {group_rank}: it has 0 to {len(members) - 1}."
            )
        return members[group_rank]

    def group_rank(self, world_rank: int, group: str) -> int:
        """Return the rank in the group of a rank of the job."""
        members = self.members(group)
        if world_rank not in members:
            raise CollectiveError(
                f"Rank {world_rank} of the job is not in the group {group!r}, which has "
                f"{name_ranks(members)}."
            )
        return members.index(world_rank)

    def _neighbours(self, group: str) -> List[int]:
        own = self._nodes[self._rank]
        return [rank for rank in self.members(group) if self._nodes[rank] == own]
