"""Print the report of a tuning, as text and as JSON."""

import os
from typing import (
    Any,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import click

from ascend_session.aoe.result_files import (
    OPERATORS,
    SUBGRAPHS,
    WHERE_WRITTEN,
    ResultFile,
    Summary,
    TunedItem,
    find_results,
    result_folders,
)
from ascend_session.aoe.results import Results, compute_totals, in_order, read_results
from ascend_session.cli._output import (
    PLACED,
    complain,
    finding_as_dict,
    show_json,
    show_table,
)
from ascend_session.errors import ResultError
from ascend_session.findings import ERROR
from ascend_session.text import format_count, printable

_FEW = 20  # operators or names that are shown by default
_MICRO, _MILLI = "us", "ms"
_COUNTS = ("ADDED", "UPDATED", "RESERVED", "HIT", "UNSATISFIED", "TOTAL")
_TASK_COLUMNS = ("TASK", "TUNED", "OUTCOME", "SECONDS", *_COUNTS)

_KINDS = {OPERATORS: "operators", SUBGRAPHS: "sub-graphs"}
_MOST_INDENTED = 1000  # operators; JSON of more goes on one line


def read_run(paths: Sequence[str], keeps_error: bool) -> Results:
    """Read the files and folders that are named, or else those that AOE has left.

    Args:
        paths: The names.
        keeps_error: Whether a run of which nothing can be read is one, with the reason in it.

    Raises:
        ResultError: If there is nothing that can be read, unless that is kept.
    """
    try:
        names = list(paths) or find_results()
        if names:
            return read_results(names)
        folders = " nor in ".join(map(os.path.abspath, result_folders(os.environ)))
        raise ResultError(
            "There is no result file of AOE (aoe_result_opat_*.json, aoe_result_sgat_*.json) in "
            f"{folders}.",
            hint=f"Name the file or its folder. {WHERE_WRITTEN}",
        )
    except ResultError as error:
        if not keeps_error:
            raise
        return Results((), (error,))


class Section(NamedTuple):
    """The operators of a report, or its sub-graphs."""

    noun: str  # ``operator`` or ``sub-graph``
    unit: str  # of their times
    items: Sequence[TunedItem]  # in the order of the report

    @property
    def columns(self) -> List[str]:
        """The heads of the columns of `_item_row`."""
        times = [f"{name} {self.unit}" for name in ("SAVED", "BEFORE", "AFTER")]
        return [*times, "FASTER %", "WAY", "UPDATE", "TYPE", self.noun.upper()]

    def __str__(self) -> str:
        """Sum up the times of all items, in a sentence."""
        sums = compute_totals(self.items)
        if not sums.number:
            return f"{format_count(len(self.items), self.noun)}, without known times."
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
    """Results, and the selection that is shown."""

    results: Results  # all that was read
    operators: Section
    subgraphs: Section
    top: Optional[int]  # the largest number of each that is shown; None for the default

    @classmethod
    def choose(cls, results: Results, top: Optional[int] = None) -> "View":
        """Choose what is shown: what saves most comes first."""
        return cls(
            results,
            Section("operator", _MICRO, in_order(results.operators, "saved")),
            Section("sub-graph", _MILLI, in_order(results.subgraphs, "saved")),
            top,
        )

    @property
    def sections(self) -> List[Section]:
        """Operators and sub-graphs, unless there are none."""
        return [each for each in (self.operators, self.subgraphs) if each.items]


def _item_row(item: TunedItem) -> List[str]:
    """Return an operator or sub-graph as a row: its times, what became of it, and its name.

    The percentage is that of its file; it is computed where several ways tuned it, or without one.
    """
    times = [_format_number(value) for value in (item.saved, item.before, item.after)]
    texts = [
        printable(",".join(filter(None, words)), 60) or "-"
        for words in (item.ways, item.update_modes, item.types)
    ]
    is_one_way = len(item.tuned) == 1 and item.tuned[0].improvement is not None
    faster = item.tuned[0].improvement if is_one_way else item.improvement
    return [*times, _format_number(faster, 2), *texts, printable(item.name) or "-"]


def _task_rows(file: ResultFile) -> Iterator[List[str]]:
    """Return a row for each tuning of each task, with its counts; see `_TASK_COLUMNS`."""
    for task in file.tasks:
        name = printable(task.name or task.key, 80) or "-"
        seconds = "interrupted" if task.interrupted else "-"
        if task.seconds is not None:
            seconds = f"{task.seconds:,g}"
        kinds = [_KINDS[tuning.kind] for tuning in task.tunings] or ["nothing"]
        summaries = [tuning.summary or Summary() for tuning in task.tunings] or [Summary()]
        for kind, outcome, summary in zip(kinds, file.outcomes(task), summaries):
            counts = ["-" if count is None else str(count) for count in summary]
            yield [name, kind, printable(outcome, 40) or "-", seconds, *counts]


def _model_sentences(results: Results) -> List[str]:
    """Return how the time of the whole model changed, for each task that measured it."""
    sentences: List[Tuple[str, str]] = []
    for task in results.tasks:
        for model in (tuning.model for tuning in task.tunings):
            if model is None or model.before is None or model.after is None:
                continue
            reported = ""
            if model.reported is not None:
                reported = f" ({model.reported:.2f} % faster, as AOE reports)"
            sentence = (
                f"The model took {model.before:,.3f} ms before and takes {model.after:,.3f} ms, "
                f"{model.before - model.after:,.3f} ms less{reported}."
            )
            sentences.append((printable(task.name or task.key, 80), sentence))
    if len(sentences) == 1:
        return [sentences[0][1]]
    return [f"{name}: {sentence}" for name, sentence in sentences]


def _format_number(value: Optional[float], digits: int = 3) -> str:
    """Write a number with so many digits, or a dash."""
    return "-" if value is None else f"{value:,.{digits}f}"


def show_view(view: View, as_json: bool = False) -> None:
    """Print the report; files that could not be read are named on the standard error stream."""
    if as_json:
        report = _as_dict(view)
        # One line is written in a third of the time, and nobody reads so many by eye.
        show_json(report, on_one_line=len(report["operators"]) > _MOST_INDENTED)
    else:
        _show_text(view)
    for error in view.results.unread:
        complain(error.message, error.hint, ERROR)


def _show_text(view: View) -> None:
    """Print the report; the worst comes last."""
    for file in view.results.files:
        click.echo(f"{printable(file.name)}: {format_count(len(file.tasks), 'task')}")
        if file.tasks:
            show_table(_TASK_COLUMNS, list(_task_rows(file)))
        click.echo()
    for sentence in _model_sentences(view.results):
        click.echo(sentence)
    for section in view.sections:
        _show_section(view, section)
    if not view.sections:
        click.echo("There is nothing to show: no operator or subgraph was added or updated.")
    failed = view.results.failed
    if failed:
        count = format_count(len(failed), "operator")
        click.echo(f"Tuning failed for {count}: {_join_names(failed)}.")
    for file in view.results.files:
        if file.damage is not None:
            click.echo(f"damaged: {printable(file.name)}:{printable(str(file.damage))}")


def _show_section(view: View, section: Section) -> None:
    click.echo(f"{section}\n")
    items = section.items[: _FEW if view.top is None else view.top]
    show_table(section.columns, [_item_row(item) for item in items], range(4))
    if len(items) < len(section.items):
        more = len(section.items) - len(items)
        click.echo(f"... and {more:,} more; --top shows them, and --json.")
    click.echo()


def _join_names(names: Sequence[str]) -> str:
    text = ", ".join(printable(name, 200) for name in names[:_FEW])
    return text if len(names) <= _FEW else f"{text} and {len(names) - _FEW:,} more"


def _as_dict(view: View) -> Dict[str, Any]:
    """Return the report as JSON can hold it; operators' times in us, those of others in ms."""
    results = view.results
    return {
        "ok": results.ok,
        "files": [_file_as_dict(file) for file in results.files],
        "unread": [{"message": error.message, "hint": error.hint} for error in results.unread],
        "summary": results.summary._asdict(),
        "failed": list(results.failed),
        "totals": _totals_as_dict(view.operators.items, view.subgraphs.items),
        "operators": [
            {
                "name": item.name,
                "types": item.types,
                **_times_as_dict(item),
                "tuned": [way._asdict() for way in item.tuned],
            }
            for item in view.operators.items[: view.top]
        ],
        "subgraphs": [
            {
                "name": item.name,
                **_times_as_dict(item),
                "said": item.tuned[0].improvement,  # a sub-graph is tuned in one way
                "update_mode": item.tuned[0].update_mode,
            }
            for item in view.subgraphs.items[: view.top]
        ],
    }


def _file_as_dict(file: ResultFile) -> Dict[str, Any]:
    tasks = []
    for task in file.tasks:
        tunings = [
            {
                "kind": tuning.kind,
                "outcome": tuning.outcome or None,
                "operators": len(tuning.operators),
                "subgraphs": len(tuning.subgraphs),
                "summary": tuning.summary and tuning.summary._asdict(),
                "failed": list(tuning.failed),
                "model": tuning.model
                and {
                    "before": tuning.model.before,
                    "after": tuning.model.after,
                    "said": tuning.model.reported,
                },
            }
            for tuning in task.tunings
        ]
        tasks.append({**task._asdict(), "outcomes": file.outcomes(task), "tunings": tunings})
    return {
        "file": file.name,
        "damage": [] if file.damage is None else [finding_as_dict(file.damage, PLACED)],
        "tasks": tasks,
    }


def _totals_as_dict(
    operators: Sequence[TunedItem], subgraphs: Sequence[TunedItem]
) -> Dict[str, Any]:
    parts = {"operators": (operators, _MICRO), "subgraphs": (subgraphs, _MILLI)}
    report = {}
    for name, (items, unit) in parts.items():
        sums = compute_totals(items)
        times = {"before": sums.before, "after": sums.after, "saved": sums.saved}
        report[name] = {"unit": unit, "number": len(items), "known": sums.number, **times}
    return report


def _times_as_dict(item: TunedItem) -> Dict[str, Optional[float]]:
    return {name: getattr(item, name) for name in ("before", "after", "saved", "improvement")}
