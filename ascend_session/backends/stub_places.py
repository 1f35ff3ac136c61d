"""The place of each collective in its graph, by which the ranks tell which ones belong together.

The same script gives the same places on all ranks of a group, whatever its operators are called.
"""

import collections
import weakref
from typing import Any, Counter, Dict, NamedTuple, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.stub_job import members_now

__all__ = ["Place", "next_place"]


class Place(NamedTuple):
    """Where an operator stands.

    Attributes:
        key: Unique in this process: ``graph 1, hccl_world_group, collective 3``.
        group: Name of the ranks that take part.
    """

    key: str
    group: str


_graphs: "weakref.WeakKeyDictionary[Any, Dict[str, Tuple[int, int]]]" = weakref.WeakKeyDictionary()
_numbered: Counter[str] = collections.Counter()


def next_place(group: str) -> Place:
    """The next place of a group's collective in the default graph.

    Graphs are numbered for each set of ranks, in the order in which they get their first
    collective of it: only its members build those, and a name may stand for others later.
    """
    known = _graphs.setdefault(_outermost(tf1().get_default_graph()), {})
    ranks = members_now(group)
    if ranks not in known:
        _numbered[ranks] += 1
        known[ranks] = (_numbered[ranks], 0)
    graph, count = known[ranks]
    known[ranks] = (graph, count + 1)
    return Place(f"graph {graph}, {group}, collective {count + 1}", group)


def _outermost(graph: Any) -> Any:
    """The graph of the session that will run it: functions and loops have graphs inside."""
    while True:
        outer = getattr(graph, "outer_graph", None) or getattr(graph, "_outer_graph", None)
        if outer is None:
            return graph
        graph = outer
