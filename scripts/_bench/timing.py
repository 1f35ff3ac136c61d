"""Knows how to compare durations on a machine that does other things as well.

What is compared is done in turns, so that a slow minute hits all of it; and of each part the
shortest time counts, because other programs can only make it longer.
"""

import math
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional

# Does something once; gives the durations of its parts in seconds, always the same number of them.
Work = Callable[[], List[float]]


class Row(NamedTuple):
    """One comparison: times in milliseconds, and the limit for their ratio, or for ours alone.

    Without a limit it only says how things are.
    """

    what: str
    ours: float
    without: str
    theirs: float
    limit: Optional[float] = None
    limits_ratio: bool = True

    @property
    def ratio(self) -> float:
        """How many times as long ours takes; no number, if theirs takes no time."""
        return self.ours / self.theirs if self.theirs else math.nan

    @property
    def is_ok(self) -> bool:
        """Whether what was measured keeps to the limit."""
        measured = self.ratio if self.limits_ratio else self.ours
        return self.limit is None or measured <= self.limit


def best(works: Mapping[str, Work], repeat: int) -> Dict[str, float]:
    """Do each work once to warm up and ``repeat`` times in turns; return milliseconds."""
    for work in works.values():
        work()
    return {name: sum(parts) for name, parts in best_parts(works, repeat).items()}


def best_parts(works: Mapping[str, Work], repeat: int) -> Dict[str, List[float]]:
    """Do each work ``repeat`` times in turns; return the milliseconds of each of its parts.

    For works that warm up themselves: nothing is done beforehand.
    """
    turns: Dict[str, List[List[float]]] = {name: [] for name in works}
    for turn in range(repeat):
        # To and fro, because it may matter what comes after what.
        for name in sorted(works, reverse=turn % 2 == 1):
            turns[name].append(works[name]())
    return {name: [1000 * min(times) for times in zip(*turns[name])] for name in works}
