"""What ``ascend-session aoe report`` shows of results: rows and sentences that all forms share."""

from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ascend_session.aoe.result_files import OPERATORS, SUBGRAPHS, ResultFile, Summary, TunedItem
from ascend_session.aoe.results import (
    Change,
    Comparison,
    Filter,
    Results,
    compare,
    in_order,
    totals,
)
from ascend_session.errors import ResultError
from ascend_session.text import format_count, printable

FEW = 20  # operators, remarks or names that are shown by default
MICRO, MILLI = "us", "ms"
COUNTS = ("ADDED", "UPDATED", "RESERVED", "HIT", "UNSATISFIED", "TOTAL")
CHANGE_COLUMNS = ("CHANGE", "DIFFERENCE", "THERE", "HERE", "UNIT", "NAME")
TASK_COLUMNS = ("TASK", "TUNED", "OUTCOME", "SECONDS", *COUNTS)

_KINDS = {OPERATORS: "operators", SUBGRAPHS: "sub-graphs"}


class Section(NamedTuple):
    """The operators of a report, or its sub-graphs.

    Attributes:
        noun: ``operator`` or ``sub-graph``.
        unit: The unit of their times.
        items: The operators or sub-graphs, in the order of the report.
    """

    noun: str
    unit: str
    items: Sequence[TunedItem]

    @property
    def columns(self) -> List[str]:
        """The heads of the columns of `item_row`."""
        times = [f"{name} {self.unit}" for name in ("SAVED", "BEFORE", "AFTER")]
        return [*times, "FASTER %", "WAY", "UPDATE", "TYPE", self.noun.upper()]

    def __str__(self) -> str:
        """Sum up the times of all items, in a sentence."""
        if not self.items:
            return f"no {self.noun}."
        sums = totals(self.items)
        if not sums.number:
            return f"{format_count(len(self.items), self.noun)}, of which no time is known."
        faster = f" ({100 * (sums.before / sums.after - 1):.2f} % faster)" if sums.after else ""
        rest = len(self.items) - sums.number
        times, are = ("time", "is") if rest == 1 else ("times", "are")
        unknown = f" The {times} of {rest:,} more {are} not known." if rest else ""
        return (
            f"{format_count(sums.number, self.noun)}: {sums.before:,.3f} {self.unit} before, "
            f"{sums.after:,.3f} {self.unit} after, {sums.saved:,.3f} {self.unit} saved{faster}."
            f"{unknown}"
        )


class View(NamedTuple):
    """Results, and which of them are shown.

    Attributes:
        results: All that was read.
        operators: The operators that the filters select.
        subgraphs: The sub-graphs that they select.
        top: The largest number of each that is shown; None for the default.
        other: The same selection of another run.
        comparison: The results compared with it.
    """

    results: Results
    operators: Section
    subgraphs: Section
    top: Optional[int]
    other: Optional[Results]
    comparison: Optional[Comparison]

    @classmethod
    def of(
        cls,
        results: Results,
        sort: str = "saved",
        top: Optional[int] = None,
        filters: Tuple[Filter, ...] = (),
        other: Optional[Results] = None,
    ) -> "View":
        """Choose what is shown.

        Args:
            results: What was read.
            sort: One of ``results.SORTS``.
            top: How many operators are shown at most.
            filters: Which are.
            other: Another run, to compare them with.
        """
        here = results.only(filters)
        there = None if other is None else other.only(filters)
        return cls(
            results,
            Section("operator", MICRO, in_order(here.operators, sort)),
            Section("sub-graph", MILLI, in_order(here.subgraphs, sort)),
            top,
            there,
            None if there is None else compare(here, there),
        )

    @property
    def sections(self) -> List[Section]:
        """Operators and sub-graphs, unless there are none."""
        return [each for each in (self.operators, self.subgraphs) if each.items]

    @property
    def unread(self) -> Tuple[ResultError, ...]:
        """Why files of this run, or of the other, could not be read."""
        return (*self.results.unread, *(self.other.unread if self.other is not None else ()))


def item_row(item: TunedItem) -> List[str]:
    """Give an operator or sub-graph as a row: its times, what became of it, and its name."""
    times = [format_number(value) for value in (item.saved, item.before, item.after)]
    texts = [
        printable(",".join(filter(None, words)), 60) or "-"
        for words in (item.ways, item.update_modes, item.types)
    ]
    return [*times, format_number(item.improvement, 2), *texts, printable(item.name) or "-"]


def task_rows(file: ResultFile) -> Iterator[List[str]]:
    """Give a row for each tuning of each task, with its counts; see `TASK_COLUMNS`."""
    for task in file.tasks:
        name = printable(task.name or task.key, 80) or "-"
        seconds = "interrupted" if task.interrupted else "-"
        if task.seconds is not None:
            seconds = f"{task.seconds:,g}"
        kinds = [_KINDS[tuning.kind] for tuning in task.tunings] or ["nothing"]
        summaries = [tuning.summary or Summary() for tuning in task.tunings] or [Summary()]
        for kind, outcome, summary in zip(kinds, file.outcomes(task), summaries):
            yield [name, kind, printable(outcome, 40) or "-", seconds, *_count_cells(summary)]


def count_rows(view: View) -> List[List[str]]:
    """Give the counts of another run, and of this, in the order of `COUNTS`."""
    there = Summary() if view.other is None else view.other.summary
    return [["there", *_count_cells(there)], ["here", *_count_cells(view.results.summary)]]


def _count_cells(summary: Summary) -> List[str]:
    return ["-" if count is None else str(count) for count in summary]


def comparison_sentences(view: View) -> Iterator[str]:
    """Say what another run saved and what this one does, and how much differs between them."""
    comparison, other = view.comparison, view.other
    if comparison is None or other is None:
        return
    for here, items in ((view.operators, other.operators), (view.subgraphs, other.subgraphs)):
        if here.items or items:
            yield f"There: {here._replace(items=items)}"
            yield f"Here:  {here}"
    yield (
        f"After tuning: {len(comparison.faster):,} faster, {len(comparison.slower):,} slower, "
        f"{comparison.same:,} the same, {len(comparison.only_here):,} only here, "
        f"{len(comparison.only_there):,} only there."
    )


def change_rows(comparison: Comparison, most: int) -> Iterator[List[str]]:
    """Give a row for each difference, at most so many of each kind; see `CHANGE_COLUMNS`."""
    for word, changes in (
        ("slower", comparison.slower),
        ("faster", comparison.faster),
        ("only here", comparison.only_here),
        ("only there", comparison.only_there),
    ):
        for change in changes[:most]:
            is_known = change.there is not None and change.here is not None
            yield [
                word,
                f"{change.difference:+,.3f}" if is_known else "-",
                format_number(change.there),
                format_number(change.here),
                unit_of(change),
                printable(change.name) or "-",
            ]


def unit_of(change: Change) -> str:
    """Give the unit of the times of what has changed."""
    return MICRO if change.kind == OPERATORS else MILLI


def model_sentences(results: Results) -> List[str]:
    """Say how the time of the whole model changed, for each task that measured it."""
    sentences: List[Tuple[str, str]] = []
    for task in results.tasks:
        for model in (tuning.model for tuning in task.tunings):
            if model is None or model.before is None or model.after is None:
                continue
            reported = ""
            if model.reported is not None:
                reported = f" ({model.reported:.2f} % faster, says AOE)"
            sentence = (
                f"The model took {model.before:,.3f} ms before and takes {model.after:,.3f} ms, "
                f"{model.before - model.after:,.3f} ms less{reported}."
            )
            sentences.append((printable(task.name or task.key, 80), sentence))
    if len(sentences) == 1:
        return [sentences[0][1]]
    return [f"{name}: {sentence}" for name, sentence in sentences]


def remarks(view: View) -> Iterator[Tuple[str, str]]:
    """Give what there is to say against the files: ``damaged`` or ``doubtful``, and a sentence.

    Of another run only the damage, since what is lost there is missing in the comparison.
    """
    for file in (*view.results.files, *(view.other.files if view.other is not None else ())):
        if file.damage is not None:
            yield "damaged", f"{printable(file.name)}:{printable(str(file.damage))}"
    for file in view.results.files:
        for doubt in file.doubts:
            yield "doubtful", f"{printable(file.name)}:{printable(str(doubt))}"


def cut_name(name: str, columns: int) -> str:
    """Keep the end of a name, where operators differ most, not wider than so many columns."""
    from rich.cells import cell_len

    if cell_len(name) <= columns:
        return name
    end = name[3 - columns :]
    while cell_len(end) > columns - 3:
        end = end[1:]
    return f"...{end}"


def format_number(value: Optional[float], digits: int = 3) -> str:
    """Write a number with so many digits, or a dash."""
    return "-" if value is None else f"{value:,.{digits}f}"
