"""The place of each collective in its graph, by which the ranks tell which ones belong together.

The same script gives the same places on all ranks of a group, whatever its operators are called.
"""

import collections
import weakref
from typing import Any, Counter, NamedTuple

from ascend_session.backends._tensorflow import tf1

__all__ = ["Place", "next_place"]


class Place(NamedTuple):
    """Where an operator stands.

    Attributes:
        key: Unique in this process: ``graph 1, hccl_world_group, collective 3``.
        group: Name of the ranks that take part.
    """

    key: str
    group: str


class _Graph:
    """One graph of this process, and how many collectives of each group it has."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts: Counter[str] = collections.Counter()


_graphs: "weakref.WeakKeyDictionary[Any, _Graph]" = weakref.WeakKeyDictionary()
_numbered = 0


def next_place(group: str) -> Place:
    """The next place of a group's collective in the default graph.

    Graphs are numbered in the order in which they get their first collective.
    """
    global _numbered
    graph = _outermost(tf1().get_default_graph())
    if graph not in _graphs:
        _numbered += 1
        _graphs[graph] = _Graph(_numbered)
    known = _graphs[graph]
    known.counts[group] += 1
    return Place(f"graph {known.number}, {group}, collective {known.counts[group]}", group)


def _outermost(graph: Any) -> Any:
    """The graph of the session that will run it: functions and loops have graphs inside."""
    while True:
        outer = getattr(graph, "outer_graph", None) or getattr(graph, "_outer_graph", None)
        if outer is None:
            return graph
        graph = outer
