"""Whether the ranks hold one model: what each reports of its variables, and how that compares.

No rank sends its variables. It sends a summary of each: a checksum, the norm, and projections,
which are sums of all elements with fixed random signs. The mean square of the differences of two
ranks' projections estimates the square of the norm of the difference of their variables.
"""

import functools
import json
import math
import zlib
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.backends.exchange.runs import RunHistory, compare_runs, read_history
from ascend_session.backends.exchange.sentences import name_ranks
from ascend_session.backends.exchange.wire import LARGEST, Header, Operation, encode
from ascend_session.text import join_words

TOLERANCES = {
    "float64": 1e-8,
    "complex128": 1e-8,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
}
"""Relative difference up to which two ranks' variables of a dtype are the same.

Averages have the same bits on all ranks, but what is computed of them need not: its rounding
depends on threads and on the order of sparse updates, and adds up over the steps.
"""

_SMALLEST = 1e-3  # times the tolerance: a root mean square up to which elements count as zero
_SHOWN = 3  # names of variables in a sentence
_LONGEST_NAME = 1000  # characters


class Advice(NamedTuple):
    """What to do, in the words of the API that the script uses.

    Attributes:
        broadcast: How to give all ranks the same variables; completes "broadcast them".
        average: How to average gradients; completes "average the gradients".
    """

    broadcast: str = (
        "the hook training.BroadcastGlobalVariablesHook(0), or "
        "training.broadcast_global_variables(0) after the variables' initialisers"
    )
    average: str = "training.DistributedOptimizer(optimizer)"


class VariableSummary(NamedTuple):
    """The values of a variable on one rank, in a few numbers.

    Attributes:
        name: Its name in the graph.
        dtype: The name of its dtype.
        ranks: The ranks that average its gradient, ascending; all ranks if none do.
        size: The number of its elements; of complex ones twice that.
        checksum: Of its bytes.
        not_finite: Checksum of which elements are NaN, Inf and -Inf; 0 if none is. They count as 0
            in what follows.
        norm: The root of the sum of squares.
        projections: Sums of the elements with fixed random signs.
    """

    name: str
    dtype: str
    ranks: Tuple[int, ...]
    size: int
    checksum: int
    not_finite: int
    norm: float
    projections: Tuple[float, ...]

    def is_like(self, other: "VariableSummary") -> bool:
        """Return whether two ranks have the same values, but for rounding."""
        if self[3:] == other[3:]:
            return True
        if (self.dtype, self.size) != (other.dtype, other.size):
            return False
        if self.not_finite != other.not_finite:
            return False
        zero = _SMALLEST * math.sqrt(self.size)
        limit = TOLERANCES.get(self.dtype, 0.0)
        return self.estimate_difference(other) <= limit * max(self.norm, other.norm, zero)

    def estimate_difference(self, other: "VariableSummary") -> float:
        """Estimate the norm of the difference of two ranks' values, within a factor of about 2."""
        squares = [(a - b) ** 2 for a, b in zip(self.projections, other.projections)]
        return math.sqrt(sum(squares) / len(squares))


class RankReport:
    """What a rank reports when it leaves.

    Attributes:
        begun: Variables before the first step that averaged their gradients.
        averaged: The same variables after the last one.
        separate: Variables that a broadcast made equal, and that an optimizer then updated without
            averaging their gradients, after the last step.
        runs: The runs with collectives.
        has_updated: Whether an optimizer has updated variables, or may have: what runs eagerly
            cannot be seen.
    """

    def __init__(self) -> None:
        self.begun: List[VariableSummary] = []
        self.averaged: List[VariableSummary] = []
        self.separate: List[VariableSummary] = []
        self.runs: List[RunHistory] = []
        self.has_updated = False

    def encode(self) -> Iterator[bytes]:
        """Write it as messages, each well below the size limit."""
        for history in self.runs:
            yield encode({"kind": "variables", "part": "runs", "variables": [history.as_row()]})
        for part in ("begun", "averaged", "separate"):
            rows: List[Any] = []
            size = 0
            for variable in getattr(self, part):
                row = variable._replace(name=variable.name[:_LONGEST_NAME])
                rows.append(row)
                size += len(json.dumps(row))
                if size > LARGEST // 4:
                    yield encode({"kind": "variables", "part": part, "variables": rows})
                    rows, size = [], 0
            if rows:
                yield encode({"kind": "variables", "part": part, "variables": rows})

    def add(self, header: Header) -> None:
        """Add the variables of such a message; raises one of wire.MALFORMED if it is not one."""
        if header["part"] == "runs":
            self.runs.extend(map(read_history, header["variables"]))
            return
        lists = {"begun": self.begun, "averaged": self.averaged, "separate": self.separate}
        lists[header["part"]].extend(_read_summary(*row) for row in header["variables"])


def _read_summary(
    name: Any, dtype: Any, ranks: Any, size: Any, checksum: Any, other: Any, norm: Any, sums: Any
) -> VariableSummary:
    what = str(name), str(dtype), tuple(map(int, ranks)), int(size), int(checksum), int(other)
    return VariableSummary(*what, float(norm), tuple(map(float, sums)))


class ModelComparison(NamedTuple):
    """How the ranks' variables compare.

    Attributes:
        is_one_model: Whether all ranks hold one model; None if that is not known.
        error: The sentence that fails the job; None without one.
        notes: Sentences about what may be wrong.
        late_shares: By rank, the share of the steps in which the others waited for it; empty if
            too few were made.
        slow_rank: The rank for which the others waited in most of them, if there is one.
    """

    is_one_model: Optional[bool] = None
    error: Optional[str] = None
    notes: Tuple[str, ...] = ()
    late_shares: Tuple[float, ...] = ()
    slow_rank: Optional[int] = None


def is_exchange(operation: Operation) -> bool:
    """Return whether a collective is more than a broadcast of variables or what goes with it."""
    is_broadcast = operation.signature.startswith("broadcast")
    return not (is_broadcast or "broadcast_global_variables" in operation.name)


def compare_models(
    reports: Mapping[int, RankReport], size: int, has_exchanged: bool, advice: Advice
) -> ModelComparison:
    """Compare what the ranks of a job report as they leave.

    Args:
        reports: The reports by rank.
        size: The number of ranks.
        has_exchanged: Whether a collective ran that `is_exchange`.
        advice: What to do.
    """
    notes = _compare_first_values(reports, advice)
    notes += compare_runs({rank: report.runs for rank, report in reports.items()})
    averaged = _group({rank: report.averaged for rank, report in reports.items()})
    different = _find_different(averaged)
    updating = [rank for rank, report in sorted(reports.items()) if report.has_updated]
    if not has_exchanged and len(updating) > 1 and not averaged:
        notes.append(
            f"the ranks exchanged nothing; if they train, they train {size} models. Average the "
            f"gradients with {advice.average}; if the ranks are meant to be independent, launch "
            "them with --independent, or set ASCEND_SESSION_INDEPENDENT=1."
        )
        separate = []
    else:
        separate = _compare_separate(reports, advice)
        notes += separate
    if different:
        return ModelComparison(False, _describe_different(averaged, different, size), tuple(notes))
    is_one_model = _spans_all(averaged, size) and not separate
    return ModelComparison(True if is_one_model else None, None, tuple(notes))


_Values = Dict[int, VariableSummary]
"""A variable's summaries by rank."""

_Groups = Dict[Tuple[Tuple[int, ...], str], _Values]
"""Variables, by the ranks that average their gradients and by name, in the order of the graph."""


def _group(variables: Mapping[int, Iterable[VariableSummary]]) -> _Groups:
    groups: _Groups = {}
    for rank, summaries in sorted(variables.items()):
        for summary in summaries:
            if rank in summary.ranks:
                groups.setdefault((summary.ranks, summary.name), {})[rank] = summary
    return groups


def _find_different(groups: _Groups) -> List[Tuple[Tuple[int, ...], str]]:
    """Return the variables that are not the same on all of their ranks, in the graph's order."""
    return [key for key, values in groups.items() if _find_others(values)]


def _find_others(values: _Values) -> List[int]:
    """Return the ranks whose values are not those of the first rank."""
    first = values[min(values)]
    return [rank for rank, value in sorted(values.items()) if not value.is_like(first)]


def _compare_first_values(reports: Mapping[int, RankReport], advice: Advice) -> List[str]:
    begun = _group({rank: report.begun for rank, report in reports.items()})
    by_ranks: Dict[Tuple[int, Tuple[int, ...]], List[str]] = {}
    for ranks, name in _find_different(begun):
        values = begun[ranks, name]
        by_ranks.setdefault((min(values), tuple(_find_others(values))), []).append(name)
    return [
        f"{name_ranks(others)} started with other variables than rank {first}: "
        f"{_list_names(names)}; broadcast them with {advice.broadcast}."
        for (first, others), names in by_ranks.items()
    ]


def _compare_separate(reports: Mapping[int, RankReport], advice: Advice) -> List[str]:
    separate = _group({rank: report.separate for rank, report in reports.items()})
    names = list(dict.fromkeys(name for _, name in _find_different(separate)))
    if not names:
        return []
    return [
        f"{_list_names(names)}: equal on all ranks after a broadcast, then updated by an optimizer "
        "that does not average, and different at the end. If all ranks are to have the same "
        f"values, average these gradients, too, with {advice.average}."
    ]


def _describe_different(
    groups: _Groups, different: List[Tuple[Tuple[int, ...], str]], size: int
) -> str:
    ranks, name = different[0]
    models: List[int] = []  # a rank of each
    names = [key for key in groups if key[0] == ranks]
    for rank in sorted(groups[different[0]]):
        if not any(_hold_one(groups, names, rank, other) for other in models):
            models.append(rank)
    whose = f"the {size} ranks" if len(ranks) == size else name_ranks(ranks)
    how = _describe_difference(groups[different[0]])
    return f"{whose} hold {len(models)} different models: `{name}` differs first{how}."


def _describe_difference(values: _Values) -> str:
    """Say how much a variable differs at most, as far as its norm and finite elements tell."""
    first, *others = (values[rank] for rank in sorted(values))
    if any((each.size, each.not_finite) != (first.size, 0) for each in values.values()):
        return ""
    norm = max(each.norm for each in values.values())
    share = max(map(first.estimate_difference, others)) / norm if norm else 0.0
    return f", by roughly {float(f'{100 * share:.1g}'):g} % of its norm" if share else ""


def _hold_one(
    groups: _Groups, names: List[Tuple[Tuple[int, ...], str]], rank: int, other: int
) -> bool:
    both = (groups[key] for key in names if {rank, other} <= set(groups[key]))
    return all(values[rank].is_like(values[other]) for values in both)


def _spans_all(groups: _Groups, size: int) -> bool:
    """Return whether every rank is connected with all others by variables that were compared."""
    compared = {ranks for (ranks, _), values in groups.items() if len(ranks) == len(values)}
    connected = {0}
    for _ in range(size):
        for ranks in compared:
            if connected.intersection(ranks):
                connected.update(ranks)
    return len(connected) == size and bool(compared)


def _list_names(names: List[str]) -> str:
    texts = [f"`{name}`" for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        texts.append(f"{len(names) - _SHOWN} more")
    return join_words(texts)


# Summaries ----------------------------------------------------------------------------------------

_COUNT = 4  # projections
_ROW = 4096  # elements that share a row of signs
_ROWS = 64  # rows of a block


def summarize(name: str, dtype: str, ranks: Tuple[int, ...], array: Any) -> VariableSummary:
    """Summarize the values of a variable; see `VariableSummary`."""
    import numpy as np

    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)  # both parts of each number
    working = np.float64 if flat.dtype == np.float64 else np.float32
    columns = random_signs(0, _ROW).astype(working)
    square, sums = 0.0, np.zeros(_COUNT)
    not_finite, are_finite = 0, True
    for number, begin in enumerate(range(0, len(flat), _ROW * _ROWS)):
        block = flat[begin : begin + _ROW * _ROWS].astype(working, copy=False)
        dot = np.dot(block, block)
        if not np.isfinite(dot):  # NaN, Inf, or numbers whose squares are too large
            finite = np.isfinite(block)
            if not finite.all():
                are_finite = False
                kinds = np.where(finite, 0, np.where(np.isnan(block), 1, np.sign(block) + 3))
                place = f"{number} ".encode()
                not_finite = zlib.crc32(place + kinds.astype(np.uint8).tobytes(), not_finite)
            block = np.where(finite, block, 0).astype(np.float64)
            dot = np.dot(block, block)
        square += float(dot)
        if len(block) % _ROW:
            block = np.append(block, np.zeros(-len(block) % _ROW, block.dtype))
        partial = np.dot(block.reshape(-1, _ROW), columns)
        sums += (partial * random_signs(number + 1, _ROWS)[: len(partial)]).sum(axis=0)
    return VariableSummary(
        name,
        dtype,
        ranks,
        len(flat),
        zlib.crc32(flat.tobytes() if flat.dtype.kind == "V" else flat),  # V: bfloat16
        0 if are_finite else not_finite,
        math.sqrt(square),
        tuple(sums.tolist()),
    )


@functools.lru_cache(maxsize=4096)
def random_signs(seed: int, count: int) -> Any:
    """Return fixed random signs, float64 ``[count, _COUNT]``: the same on all ranks."""
    import numpy as np

    return np.random.RandomState(seed).randint(0, 2, (count, _COUNT)) * 2.0 - 1.0
