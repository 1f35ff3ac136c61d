"""What ``ascend-session aoe report`` shows of results, and the words that all its forms share."""

from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ascend_session.aoe.result_files import (
    OPERATORS,
    SUBGRAPHS,
    ResultFile,
    Summary,
    TunedItem,
    Tuning,
)
from ascend_session.aoe.results import Change, Comparison, Results, totals
from ascend_session.text import printable

__all__ = [
    "CHANGE_COLUMNS",
    "COUNTS",
    "FEW",
    "MICRO",
    "MILLI",
    "TASK_COLUMNS",
    "View",
    "change_rows",
    "change_sentence",
    "columns",
    "count_rows",
    "many",
    "model_sentences",
    "number",
    "remarks",
    "row",
    "saved_sentences",
    "sentence",
    "shown",
    "tail",
    "task_rows",
    "unit_of",
]

FEW = 20  # operators, remarks or names that are shown if nothing else is asked for
MICRO, MILLI = "us", "ms"
COUNTS = ("ADDED", "UPDATED", "RESERVED", "HIT", "UNSATISFIED", "TOTAL")
CHANGE_COLUMNS = ("CHANGE", "DIFFERENCE", "THERE", "HERE", "UNIT", "NAME")
TASK_COLUMNS = ("TASK", "TUNED", "OUTCOME", "SECONDS", *COUNTS)

_KINDS = {OPERATORS: "operators", SUBGRAPHS: "sub-graphs"}


class View(NamedTuple):
    """Results, and what of them is to be seen.

    Attributes:
        results: All that was read.
        operators: Those operators that were asked for, in order.
        subgraphs: The same of sub-graphs.
        top: How many of each are shown at most; None if nobody said.
        other: Those of another run that were asked for.
        comparison: The results compared with it.
    """

    results: Results
    operators: Tuple[TunedItem, ...]
    subgraphs: Tuple[TunedItem, ...]
    top: Optional[int]
    other: Optional[Results]
    comparison: Optional[Comparison]

    @property
    def parts(self) -> List[Tuple[str, str, Sequence[TunedItem]]]:
        """What they are, the unit of their times, and they themselves; none that is empty."""
        both: List[Tuple[str, str, Sequence[TunedItem]]] = [
            ("operator", MICRO, self.operators),
            ("sub-graph", MILLI, self.subgraphs),
        ]
        return [part for part in both if part[2]]


def sentence(what: str, unit: str, items: Sequence[TunedItem]) -> str:
    """How much time is saved by all of them."""
    if not items:
        return f"no {what}."
    found = totals(items)
    if not found.number:
        return f"{many(len(items), what)}, of which no time is known."
    faster = f" ({100 * (found.before / found.after - 1):.2f} % faster)" if found.after else ""
    rest = len(items) - found.number
    times, are = ("time", "is") if rest == 1 else ("times", "are")
    unknown = f" The {times} of {rest:,} more {are} not known." if rest else ""
    return (
        f"{many(found.number, what)}: {found.before:,.3f} {unit} before, {found.after:,.3f} {unit} "
        f"after, {found.saved:,.3f} {unit} saved{faster}.{unknown}"
    )


def row(one: TunedItem, limit: int = 400) -> List[str]:
    """An operator or sub-graph as a row: its times, what became of it, and its name."""
    return [
        number(one.saved, 3),
        number(one.before, 3),
        number(one.after, 3),
        number(one.improvement, 2),
        words(one.ways),
        words(one.update_modes),
        words(one.types),
        printable(one.name, limit) or "-",
    ]


def columns(unit: str, what: str) -> List[str]:
    """The heads of the columns of `row`."""
    times = [f"{name} {unit}" for name in ("SAVED", "BEFORE", "AFTER")]
    return [*times, "FASTER %", "WAY", "UPDATE", "TYPE", what.upper()]


def task_rows(file: ResultFile) -> Iterator[List[str]]:
    """A row for each tuning of each task, with its counts; see `TASK_COLUMNS`."""
    for task in file.tasks:
        name = printable(task.name or task.key, 80) or "-"
        seconds = "interrupted" if task.interrupted else "-"
        if task.seconds is not None:
            seconds = f"{task.seconds:,g}"
        kinds = [_KINDS[tuning.kind] for tuning in task.tunings] or ["nothing"]
        summaries = [tuning.summary or Summary() for tuning in task.tunings] or [Summary()]
        for kind, outcome, summary in zip(kinds, file.outcomes(task), summaries):
            yield [name, kind, printable(outcome, 40) or "-", seconds, *counts(summary)]


def counts(summary: Summary) -> List[str]:
    """The six counts, in the order of `COUNTS`."""
    return ["-" if count is None else str(count) for count in summary]


def count_rows(view: View) -> List[List[str]]:
    """The counts of another run, and of this."""
    there = Summary() if view.other is None else view.other.summary
    return [["there", *counts(there)], ["here", *counts(view.results.summary)]]


def saved_sentences(view: View) -> Iterator[str]:
    """What another run saved, and what this one does."""
    if view.other is None:
        return
    pairs: List[Tuple[str, str, Sequence[TunedItem], Sequence[TunedItem]]] = [
        ("operator", MICRO, view.other.operators, view.operators),
        ("sub-graph", MILLI, view.other.subgraphs, view.subgraphs),
    ]
    for what, unit, there, here in pairs:
        if there or here:
            yield f"There: {sentence(what, unit, there)}"
            yield f"Here:  {sentence(what, unit, here)}"


def change_sentence(found: Comparison) -> str:
    """How much differs between two runs."""
    return (
        f"After tuning: {len(found.faster):,} faster, {len(found.slower):,} slower, "
        f"{found.same:,} the same, {len(found.only_here):,} only here, "
        f"{len(found.only_there):,} only there."
    )


def change_rows(found: Comparison, most: int) -> Iterator[List[str]]:
    """A row for each difference, at most so many of each kind; see `CHANGE_COLUMNS`."""
    for word, group in (
        ("slower", found.slower),
        ("faster", found.faster),
        ("only here", found.only_here),
        ("only there", found.only_there),
    ):
        for one in group[:most]:
            yield [
                word,
                _difference(one),
                number(one.there, 3),
                number(one.here, 3),
                unit_of(one.kind),
                printable(one.name) or "-",
            ]


def unit_of(kind: str) -> str:
    """The unit of the times of what was tuned."""
    return MICRO if kind == OPERATORS else MILLI


def _difference(one: Change) -> str:
    known = one.there is not None and one.here is not None
    return f"{one.difference:+,.3f}" if known else "-"


def model_sentences(results: Results) -> List[str]:
    """How the time of the whole model changed, for each task that measured it."""
    made = [
        (task.name or task.key, said)
        for task in results.tasks
        for said in map(_model_sentence, task.tunings)
        if said is not None
    ]
    if len(made) == 1:
        return [said for _, said in made]
    return [f"{printable(name, 80)}: {said}" for name, said in made]


def _model_sentence(tuning: Tuning) -> Optional[str]:
    model = tuning.model
    if model is None or model.before is None or model.after is None:
        return None
    said = "" if model.reported is None else f" ({model.reported:.2f} % faster, says AOE)"
    saved = model.before - model.after
    return (
        f"The model took {model.before:,.3f} ms before and takes {model.after:,.3f} ms, "
        f"{saved:,.3f} ms less{said}."
    )


def remarks(view: View) -> Iterator[Tuple[str, str]]:
    """What there is to say against the files: ``damaged`` or ``doubtful``, and a sentence.

    Of another run only the damage, since what is lost there is missing in the comparison.
    """
    for file in (*view.results.files, *(view.other.files if view.other is not None else ())):
        if file.damage is not None:
            yield "damaged", f"{printable(file.name)}:{printable(str(file.damage))}"
    for file in view.results.files:
        for one in file.doubts:
            yield "doubtful", f"{printable(file.name)}:{printable(str(one))}"


def shown(view: View, items: Sequence[TunedItem]) -> Sequence[TunedItem]:
    """Those that are shown."""
    return items[: FEW if view.top is None else view.top]


def tail(name: str, letters: int) -> str:
    """The end of a name, where operators differ most, not wider than so many Latin letters."""
    from rich.cells import cell_len

    if cell_len(name) <= letters:
        return name
    kept = name[3 - letters :]
    while cell_len(kept) > letters - 3:
        kept = kept[1:]
    return f"...{kept}"


def number(value: Optional[float], digits: int) -> str:
    """A number with so many digits, or a dash."""
    return "-" if value is None else f"{value:,.{digits}f}"


def words(texts: Sequence[str]) -> str:
    """A short list, or a dash."""
    return printable(",".join(text for text in texts if text), 60) or "-"


def many(count: int, word: str) -> str:
    """A count with its word."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
