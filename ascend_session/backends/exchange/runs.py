"""Whether the ranks run the same graphs: what each has run with collectives, and how that compares.

On a device a collective is known by a tag: its type, its group, and a number. The number counts the
collectives of this group in all graphs that the process has loaded so far. What a run fetches
decides which graph that is, so a fetch that is new on one rank gives the collectives of that rank
other numbers, and the ranks wait for each other for ever. Collectives that GE merges count as one
there, and singly here; ranks that have loaded another number of graphs differ in both counts.

Sources: hicann/hcomm, src/framework/hcom, ``GenerateCclOpTag``; hicann/ge,
hcom_ops_kernel_info_store.cc, ``HcomOpsKernelInfoStore::GenerateOpTagFromTaskInfo`` (a send and its
receive have a tag of their own instead); hicann/ge, hcom_all_reduce_fusion.cc,
``GenerateFusionLabel``; the vendor's manual of TensorFlow migration, "How Do I Fix
Application Errors Caused by Model Execution on Multiple Devices?", which also names summaries that
only some devices fetch:
https://www.hiascend.com/document/detail/en/TensorFlowCommercial/850/migration/tfmigr2/tfmigr2_000110.html
"""

import collections
from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.text import format_count, format_ordinal, join_words

MOST_GRAPHS = 16
"""Graphs of one set of collectives of which a rank keeps a record."""

_MOST_FETCHES = 30
_LONGEST_NAME = 200  # characters
_MOST_CHANGES = 2000
_SHOWN = 3  # names in a sentence


class LoadedGraph(NamedTuple):
    """A graph with collectives, as the device would load it for a rank.

    Attributes:
        loaded_before: How many collectives of this group the rank had loaded before.
        fetches: The names of what its runs fetch, without variables; None if these are too many.
        line: The line of the user's file with the first of these runs.
    """

    loaded_before: int
    fetches: Optional[FrozenSet[str]]
    line: str


class RunHistory:
    """The runs of one set of collectives on a rank.

    Attributes:
        ranks: The ranks of the collectives' group.
        collectives: The keys of the collectives in one text.
        count: How many runs there were.
        graphs: The graphs that were run.
        changes: Pairs of a run, from 1, and the graph that was run from there on.
        end: The last run that can be compared; None while all can.
    """

    def __init__(self, ranks: Tuple[int, ...], collectives: str) -> None:
        self.ranks = ranks
        self.collectives = collectives
        self.count = 0
        self.graphs: List[LoadedGraph] = []
        self.changes: List[Tuple[int, int]] = []
        self.end: Optional[int] = None
        self._latest = -1

    def add_graph(self, loaded_before: int, fetches: List[str], line: str) -> int:
        """Note a graph that was loaded, and return its number."""
        if len(self.graphs) < MOST_GRAPHS:
            names = frozenset(each[:_LONGEST_NAME] for each in fetches)
            is_short = len(names) <= _MOST_FETCHES
            graph = LoadedGraph(loaded_before, names if is_short else None, line[-_LONGEST_NAME:])
            self.graphs.append(graph)
            return len(self.graphs) - 1
        return MOST_GRAPHS

    def note_run(self, graph: int) -> None:
        """Note that a graph is run."""
        self.count += 1
        if graph != self._latest and self.end is None:
            if graph >= MOST_GRAPHS or len(self.changes) >= _MOST_CHANGES:
                self.end = self.count - 1
                return
            self._latest = graph
            self.changes.append((self.count, graph))

    def as_row(self) -> List[Any]:
        """Return it as plain values, well below the size limit of a message."""
        graphs = [
            [each.loaded_before, None if each.fetches is None else sorted(each.fetches), each.line]
            for each in self.graphs
        ]
        end = self.count if self.end is None else self.end
        return [self.ranks, self.collectives, end, graphs, self.changes]


def read_history(row: Any) -> RunHistory:
    """Read what `RunHistory.as_row` returned; raises one of wire.MALFORMED if it is not that."""
    ranks, collectives, end, graphs, changes = row
    history = RunHistory(tuple(map(int, ranks)), str(collectives))
    history.count = history.end = int(end)
    for loaded_before, fetches, line in graphs:
        names = None if fetches is None else frozenset(map(str, fetches))
        history.graphs.append(LoadedGraph(int(loaded_before), names, str(line)))
    history.changes = [(int(run), int(graph)) for run, graph in changes]
    if any(not 0 <= graph < len(history.graphs) for _, graph in history.changes):
        raise ValueError("a run of an unknown graph")
    return history


def compare_runs(reported: Mapping[int, List[RunHistory]]) -> List[str]:
    """Compare the runs of all ranks, and return at most one sentence about what differs.

    Ranks are compared only within a group, and in runs of the same collectives. Runs with nothing
    in common are roles that the ranks were given; for them only the numbers of collectives count.

    Args:
        reported: What each rank has reported.
    """
    alike: Dict[Any, Dict[int, RunHistory]] = collections.defaultdict(dict)
    for rank, histories in sorted(reported.items()):
        for history in histories:
            if rank in history.ranks:
                alike[history.ranks, history.collectives][rank] = history
    differences = [each for of_ranks in alike.values() for each in _find_differences(of_ranks)]
    certain = [each for each in differences if each.hangs]
    return [each.describe() for each in (certain or differences)[:1]]


class _Difference(NamedTuple):
    """Two ranks that run different graphs at once."""

    run: int
    ranks: Tuple[int, int]
    graphs: Tuple[LoadedGraph, LoadedGraph]

    @property
    def hangs(self) -> bool:
        """Whether the collectives have different numbers."""
        return self.graphs[0].loaded_before != self.graphs[1].loaded_before

    def describe(self) -> str:
        first, second = self.graphs
        ways = [f"rank {rank} in {graph.line}" for rank, graph in zip(self.ranks, self.graphs)]
        what = []
        if first.fetches is not None and second.fetches is not None:
            for rank, fetches, other in (
                (self.ranks[0], first.fetches, second.fetches),
                (self.ranks[1], second.fetches, first.fetches),
            ):
                if fetches - other:
                    also = " also" if fetches & other else ""
                    what.append(f"rank {rank}{also} fetches {_list_names(fetches - other)}")
        if self.hangs:
            counts = [format_count(each.loaded_before, "collective") for each in self.graphs]
            what.append(
                f"rank {self.ranks[0]} has loaded {counts[0]} of this group before, rank "
                f"{self.ranks[1]} {counts[1]}"
            )
            outcome = "A device hangs there: it numbers collectives in the order of loading."
        else:
            outcome = "The vendor's manual describes such jobs as hanging on devices."
        return (
            f"{join_words(ways)} run different graphs with the same collectives "
            f"(their {format_ordinal(self.run)} run): {'; '.join(what)}. {outcome} Fetch the same "
            "on all ranks whenever a run has collectives; what only one rank needs belongs in a "
            "run without them."
        )


def _find_differences(of_ranks: Mapping[int, RunHistory]) -> Iterator[_Difference]:
    """Yield the first difference, and the first one of which it is certain that it hangs."""
    end = min(
        history.count if history.end is None else history.end for history in of_ranks.values()
    )
    begins: Dict[int, Dict[int, LoadedGraph]] = collections.defaultdict(dict)
    for rank, history in of_ranks.items():
        for run, graph in history.changes:
            begins[run][rank] = history.graphs[graph]
    now: Dict[int, LoadedGraph] = {}
    has_found = False
    for run in sorted(begins):
        if run > end:
            return
        now.update(begins[run])
        difference = _compare(run, now)
        if difference is not None and (difference.hangs or not has_found):
            has_found = True
            yield difference
            if difference.hangs:
                return


def _compare(run: int, now: Mapping[int, LoadedGraph]) -> Optional[_Difference]:
    """Compare each rank with what most ranks run, or with the one that fetches least."""
    counts = collections.Counter(graph[:2] for graph in now.values())
    usual = min(now, key=lambda rank: (-counts[now[rank][:2]], len(now[rank].fetches or ()), rank))
    different = [rank for rank in sorted(now) if _is_different(now[usual], now[rank])]
    different.sort(key=lambda rank: now[rank].loaded_before == now[usual].loaded_before)
    if not different:
        return None
    ranks = different[0], usual
    return _Difference(run, ranks, (now[ranks[0]], now[ranks[1]]))


def _is_different(graph: LoadedGraph, other: LoadedGraph) -> bool:
    if graph.loaded_before != other.loaded_before:
        return True
    if graph.fetches is None or other.fetches is None:
        return False
    return graph.fetches != other.fetches and bool(graph.fetches & other.fetches)


def _list_names(names: FrozenSet[str]) -> str:
    texts = [f"`{name}`" for name in sorted(names)[:_SHOWN]]
    if len(names) > _SHOWN:
        texts.append(f"{len(names) - _SHOWN} more")
    return join_words(texts)
