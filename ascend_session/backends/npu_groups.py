"""HCCL's ranks and groups, through the vendor's package (hccl/manage/api.py)."""

from typing import Any, Callable, Dict, List, Mapping, Sequence

from ascend_session.backends.collectives import Groups
from ascend_session.cluster.variables import uses_collectives
from ascend_session.errors import CollectiveError

__all__ = ["NpuGroups"]


class NpuGroups(Groups):
    """HCCL's groups.

    Args:
        api: The vendor's ``hccl.manage.api``.
        environ: The environment to go by.
        bring_up: Initialises again if HCCL is down, restores the groups, and does nothing else.
    """

    def __init__(self, api: Any, environ: Mapping[str, str], bring_up: Callable[[], None]) -> None:
        self._api = api
        self._environ = environ
        self._bring_up = bring_up
        self._groups: Dict[str, List[int]] = {}  # their ranks, in the order of making

    def create(self, group: str, ranks: Sequence[int]) -> None:
        """Make a group of world ranks, given in any order."""
        self._call("create_group", group, len(ranks), list(ranks))
        self._groups[group] = list(ranks)

    def destroy(self, group: str) -> None:
        """End a group."""
        self._call("destroy_group", group)
        self._groups.pop(group, None)

    def rank(self, group: str) -> int:
        """Return this process's rank in the group."""
        return int(self._call("get_rank_id", group))

    def size(self, group: str) -> int:
        """Return the number of ranks of the group."""
        return int(self._call("get_rank_size", group))

    def local_rank(self, group: str) -> int:
        """Return this process's place among the group's ranks of its host."""
        return int(self._call("get_local_rank_id", group))

    def local_size(self, group: str) -> int:
        """Return how many of the group's ranks are on this process's host."""
        return int(self._call("get_local_rank_size", group))

    def world_rank(self, group: str, group_rank: int) -> int:
        """Return the rank in the job of a rank of the group."""
        return int(self._call("get_world_rank_from_group_rank", group, group_rank))

    def group_rank(self, world_rank: int, group: str) -> int:
        """Return the rank in the group of a rank of the job."""
        return int(self._call("get_group_rank_from_world_rank", world_rank, group))

    def restore(self) -> None:
        """Make those groups again that went with HCCL.

        Closing the last session ends GE and HCCL
        (guides/facts/process.md#life-of-ge-in-a-process), while graphs still have operators in
        these groups.

        Raises:
            CollectiveError: If HCCL refuses one.
        """
        for group, ranks in self._groups.items():
            try:
                self._api.get_rank_size(group)
            except ValueError:
                self._call_once("create_group", group, len(ranks), ranks)

    def _call(self, function: str, *arguments: Any) -> Any:
        """Call HCCL, which is brought up first if it went down with the last session.

        Raises:
            CollectiveError: If it refuses; of the reason it gives a number at most.
        """
        try:
            return getattr(self._api, function)(*arguments)
        except ValueError:
            self._bring_up()
        return self._call_once(function, *arguments)

    def _call_once(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._api, function)(*arguments)
        except ValueError as error:
            call = f"{function}({', '.join(map(repr, arguments))})"
            if uses_collectives(self._environ):
                hint = (
                    "A group exists from hccl.create_group to hccl.destroy_group, and only on its "
                    "own ranks. Name each rank once. HCCL's own log says more."
                )
            else:
                hint = (
                    "HCCL is not up in this process, which is in no job. Start it with "
                    "`ascend-session launch -n 1`, or ask the system: system.rank, system.size."
                )
            raise CollectiveError(
                f"HCCL refused {call}: {str(error).rstrip('.')}.", hint=hint
            ) from error
