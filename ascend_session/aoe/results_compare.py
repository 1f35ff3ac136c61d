"""Two runs of tuning side by side: what became faster, slower, new or is gone."""

from collections import defaultdict
from typing import TYPE_CHECKING, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

from ascend_session.aoe.results_model import OPERATORS, SUBGRAPHS, Operator, Subgraph

if TYPE_CHECKING:
    from ascend_session.aoe.results import Results

__all__ = ["Change", "Comparison", "compare"]

_Any = Union[Operator, Subgraph]
_Key = Tuple[str, int]


class Change(NamedTuple):
    """One operator or sub-graph in two runs.

    Attributes:
        kind: `OPERATORS`, whose times are in microseconds, or `SUBGRAPHS`, in milliseconds.
        name: Its name, or its key.
        there: Its time after the tuning of the other run.
        here: Its time after the tuning of this run.
    """

    kind: str
    name: str
    there: Optional[float]
    here: Optional[float]

    @property
    def difference(self) -> float:
        """How much longer it takes here; 0 if one of the times is not known."""
        return 0.0 if self.there is None or self.here is None else self.here - self.there


class Comparison(NamedTuple):
    """What differs between two runs.

    Attributes:
        faster: What takes less time in this run, the largest difference first.
        slower: What takes more, the largest difference first.
        same: How many take the same time, or an unknown one.
        only_here: What only this run has tuned; its ``there`` is None.
        only_there: What only the other has.
        failed_here: Operators whose tuning failed in this run only.
        failed_there: Operators whose tuning failed in the other only.
    """

    faster: Tuple[Change, ...]
    slower: Tuple[Change, ...]
    same: int
    only_here: Tuple[Change, ...]
    only_there: Tuple[Change, ...]
    failed_here: Tuple[str, ...]
    failed_there: Tuple[str, ...]


def compare(here: "Results", there: "Results") -> Comparison:
    """Compares a run with another; of equal names, the first is compared with the first."""
    both: List[Change] = []
    only_here: List[Change] = []
    only_there: List[Change] = []
    for kind, ours, theirs in (
        (OPERATORS, _numbered(here.operators), _numbered(there.operators)),
        (SUBGRAPHS, _numbered(here.subgraphs), _numbered(there.subgraphs)),
    ):
        for key, one in ours.items():
            other = theirs.get(key)
            change = Change(kind, key[0], other.after if other else None, one.after)
            (both if other else only_here).append(change)
        for key, one in theirs.items():
            if key not in ours:
                only_there.append(Change(kind, key[0], one.after, None))
    both.sort(key=lambda one: one.difference)
    faster = tuple(one for one in both if one.difference < 0)
    slower = tuple(one for one in reversed(both) if one.difference > 0)
    return Comparison(
        faster,
        slower,
        len(both) - len(faster) - len(slower),
        tuple(only_here),
        tuple(only_there),
        _without(here.failed, there.failed),
        _without(there.failed, here.failed),
    )


def _numbered(items: Iterable[_Any]) -> Dict[_Key, _Any]:
    """By name, and for those of the same name by number."""
    seen: Dict[str, int] = defaultdict(int)
    found: Dict[_Key, _Any] = {}
    for one in items:
        found[one.name, seen[one.name]] = one
        seen[one.name] += 1
    return found


def _without(names: Iterable[str], others: Iterable[str]) -> Tuple[str, ...]:
    known = set(others)
    return tuple(dict.fromkeys(name for name in names if name not in known))
