"""The report of a tuning: for a terminal with a picture of the times, for pipes, and as JSON."""

import os
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence

import typer

from ascend_session.aoe.result_files import (
    WHERE_WRITTEN,
    ResultFile,
    TunedItem,
    find_results,
    result_folders,
)
from ascend_session.aoe.results import Results, read_results, totals
from ascend_session.cli._aoe_view import (
    CHANGE_COLUMNS,
    COUNTS,
    FEW,
    MICRO,
    MILLI,
    TASK_COLUMNS,
    Section,
    View,
    change_rows,
    comparison_sentences,
    count_rows,
    cut_name,
    format_number,
    item_row,
    model_sentences,
    remarks,
    task_rows,
    unit_of,
)
from ascend_session.cli._output import (
    complain,
    console,
    draw,
    is_terminal,
    make_table,
    remark_as_dict,
    show_json,
    show_table,
)
from ascend_session.errors import ResultError
from ascend_session.findings import ERROR
from ascend_session.text import format_count, printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_MOST_INDENTED = 1000  # operators; JSON of more goes on one line
_MOST_BARS = 10  # operators in the picture
_NAME_COLUMNS = 30  # of their names there, at least


def find_and_read_results(paths: Sequence[str]) -> Results:
    """Read the files and folders that are named, or else those that AOE has left.

    Raises:
        ResultError: If there are none, or none can be read.
    """
    names = list(paths) or find_results()
    if not names:
        folders = " nor in ".join(map(os.path.abspath, result_folders(os.environ)))
        raise ResultError(
            "There is no result file of AOE (aoe_result_opat_*.json, aoe_result_sgat_*.json) in "
            f"{folders}.",
            hint=f"Name the file or its folder. {WHERE_WRITTEN}",
        )
    return read_results(names)


def write_page(path: str, force: bool, view: View) -> None:
    """Write the report as a page.

    Raises:
        ResultError: If that is not possible.
    """
    from ascend_session.cli._aoe_page import draw_page
    from ascend_session.files import write_file

    write_file(path, draw_page(view).encode("utf-8"), force=force, error=ResultError)
    complain(f"{path}: a page of what was tuned.")


def show_results(results: Results) -> None:
    """Print all results."""
    show_view(View.of(results))


def show_view(view: View, as_json: bool = False) -> None:
    """Print what is to be seen of results; what could not be read goes to standard error."""
    if as_json:
        report = _as_dict(view)
        # A line is written in a third of the time, and nobody reads so many with their eyes.
        show_json(report, on_one_line=len(report["operators"]) > _MOST_INDENTED)
    else:
        _show_text(view)
    for error in view.unread:
        complain(error.message, error.hint, ERROR)


def _show_text(view: View) -> None:
    """Print the report; the worst comes last."""
    for file in view.results.files:
        typer.echo(f"{printable(file.name)}: {format_count(len(file.tasks), 'task')}")
        if file.tasks:
            show_table(TASK_COLUMNS, list(task_rows(file)))
        typer.echo()
    for sentence in model_sentences(view.results):
        typer.echo(sentence)
    for section in view.sections:
        _show_section(view, section)
    if not view.sections:
        typer.echo(
            "There is nothing to show: no operator or subgraph was added, updated or selected."
        )
    if view.comparison is not None:
        _show_comparison(view)
    failed = view.results.failed
    if failed:
        count = format_count(len(failed), "operator")
        typer.echo(f"Tuning failed for {count}: {_join_names(failed)}.")
    labelled = list(remarks(view))
    for label, sentence in labelled[:FEW]:
        typer.echo(f"{label}: {sentence}")
    if len(labelled) > FEW:
        typer.echo(f"... and {len(labelled) - FEW:,} more remarks; --json has them.")


def _show_section(view: View, section: Section) -> None:
    typer.echo(f"{section}\n")
    items = section.items[: FEW if view.top is None else view.top]
    _show_numbers(section.columns, [item_row(item) for item in items], range(4))
    if len(items) < len(section.items):
        more = len(section.items) - len(items)
        typer.echo(f"... and {more:,} more; --top shows them, and --json.")
    typer.echo()
    known = [item for item in items if item.before is not None and item.after is not None]
    if known and is_terminal():
        draw(_draw_bars(known[:_MOST_BARS], section.unit))
        typer.echo()


def _show_numbers(
    heads: Sequence[str], rows: Sequence[Sequence[str]], columns: Iterable[int]
) -> None:
    """Print a table, in which no column of ``columns`` is folded: half a number misleads."""
    if not is_terminal():
        show_table(heads, rows)
        return
    table = make_table(heads, rows)
    for column in columns:
        table.columns[column].no_wrap = True
    draw(table)


def _draw_bars(items: Sequence[TunedItem], unit: str) -> "Table":
    """Draw two bars below each other for each item: its time before, and after."""
    from rich.bar import Bar
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    names = [printable(item.name, len(item.name)) for item in items]
    longest = max(time or 0.0 for item in items for time in (item.before, item.after)) or 1.0
    room, is_plain = console().width, console().options.ascii_only
    columns = min(max(map(cell_len, names)), max(_NAME_COLUMNS, room // 2))
    width = max(10, min(60, room - columns - 16))
    table = Table.grid(padding=(0, 1))
    table.title = "Before is above, after is below"
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=columns)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for name, item in zip(names, items):
        labels = (cut_name(name, columns), "")
        times = (item.before or 0.0, item.after or 0.0)
        for label, time, colour in zip(labels, times, ("red", "green")):
            bar: RenderableType = Bar(longest, 0, time, width=width, color=colour)
            if is_plain:
                bar = Text("#" * round(width * time / longest), style=colour)
            table.add_row(label, bar, f"{format_number(time)} {unit}")
    return table


def _show_comparison(view: View) -> None:
    comparison, other = view.comparison, view.other
    assert comparison is not None
    assert other is not None
    typer.echo(f"Compared with {', '.join(printable(file.name) for file in other.files)}:")
    show_table(["", *COUNTS], count_rows(view))
    for sentence in comparison_sentences(view):
        typer.echo(sentence)
    changes = list(change_rows(comparison, FEW if view.top is None else view.top))
    if changes:
        typer.echo()
        _show_numbers(CHANGE_COLUMNS, changes, range(1, 4))
    failed = {"here": comparison.failed_here, "there": comparison.failed_there}
    for word, names in failed.items():
        if names:
            typer.echo(f"Tuning failed only {word}: {_join_names(names)}.")
    typer.echo()


def _join_names(names: Sequence[str]) -> str:
    text = ", ".join(printable(name, 200) for name in names[:FEW])
    return text if len(names) <= FEW else f"{text} and {len(names) - FEW:,} more"


def _as_dict(view: View) -> Dict[str, Any]:
    """Give the report as JSON can hold it; operators' times in us, those of others in ms."""
    results = view.results
    report = {
        "ok": results.ok,
        "files": [_file_as_dict(file) for file in results.files],
        "unread": _unread_as_dicts(results),
        "summary": results.summary._asdict(),
        "failed": list(results.failed),
        "totals": {
            "operators": _totals_as_dict(view.operators.items, MICRO),
            "subgraphs": _totals_as_dict(view.subgraphs.items, MILLI),
        },
        "operators": [_operator_as_dict(item) for item in view.operators.items[: view.top]],
        "subgraphs": [_subgraph_as_dict(item) for item in view.subgraphs.items[: view.top]],
    }
    if view.other is not None:
        report["against"] = _against_as_dict(view, view.other)
    return report


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
        "damage": [] if file.damage is None else [remark_as_dict(file.damage)],
        "doubts": [remark_as_dict(doubt) for doubt in file.doubts],
        "tasks": tasks,
    }


def _unread_as_dicts(results: Results) -> List[Dict[str, Optional[str]]]:
    return [{"message": error.message, "hint": error.hint} for error in results.unread]


def _totals_as_dict(items: Sequence[TunedItem], unit: str) -> Dict[str, Any]:
    sums = totals(items)
    return {
        "unit": unit,
        "number": len(items),
        "known": sums.number,
        "before": sums.before,
        "after": sums.after,
        "saved": sums.saved,
    }


def _operator_as_dict(item: TunedItem) -> Dict[str, Any]:
    ways = [way._asdict() for way in item.tuned]
    return {"name": item.name, "types": item.types, **_times_as_dict(item), "tuned": ways}


def _subgraph_as_dict(item: TunedItem) -> Dict[str, Any]:
    (way,) = item.tuned
    percent, mode = way.improvement, way.update_mode
    return {"name": item.name, **_times_as_dict(item), "said": percent, "update_mode": mode}


def _times_as_dict(item: TunedItem) -> Dict[str, Optional[float]]:
    return {name: getattr(item, name) for name in ("before", "after", "saved", "improvement")}


def _against_as_dict(view: View, other: Results) -> Dict[str, Any]:
    comparison = view.comparison
    assert comparison is not None
    damage = [
        {"file": file.name, **remark_as_dict(file.damage)}
        for file in other.files
        if file.damage is not None
    ]
    changes = {
        name: [
            {**change._asdict(), "difference": change.difference, "unit": unit_of(change)}
            for change in getattr(comparison, name)[: view.top]
        ]
        for name in ("faster", "slower", "only_here", "only_there")
    }
    return {
        "files": [file.name for file in other.files],
        "damage": damage,
        "unread": _unread_as_dicts(other),
        "summary": other.summary._asdict(),
        "totals": {
            "operators": _totals_as_dict(other.operators, MICRO),
            "subgraphs": _totals_as_dict(other.subgraphs, MILLI),
        },
        "same": comparison.same,
        **changes,
        "failed_here": list(comparison.failed_here),
        "failed_there": list(comparison.failed_there),
    }
