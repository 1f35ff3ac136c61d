"""The report of a tuning for a terminal, with a picture of the times, and for pipes without."""

from typing import TYPE_CHECKING, Sequence, Tuple

import typer

from ascend_session.cli._aoe_view import (
    CHANGE_COLUMNS,
    COUNTS,
    FEW,
    TASK_COLUMNS,
    Item,
    View,
    change_rows,
    change_sentence,
    columns,
    count_rows,
    many,
    model_sentence,
    number,
    remarks,
    row,
    saved_sentences,
    sentence,
    shown,
    tail,
    task_rows,
)
from ascend_session.cli._output import console, draw, is_terminal, show_table
from ascend_session.cluster.rank_table.values import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["show"]

_BARS = 10  # operators in the picture
_NAME = 30  # letters of their names there, at least


def show(view: View) -> None:
    """Prints the report; the worst comes last."""
    for file in view.results.files:
        typer.echo(f"{printable(file.name)}: {many(len(file.tasks), 'task')}")
        if file.tasks:
            show_table(TASK_COLUMNS, list(task_rows(file)))
        typer.echo()
    for tuning in view.results.tunings:
        said = model_sentence(tuning)
        if said is not None:
            typer.echo(said)
    for what, unit, items in view.parts:
        _part(view, what, unit, items)
    if not view.parts:
        typer.echo("No operator and no sub-graph is shown: none was added, updated or asked for.")
    if view.comparison is not None:
        _compared(view)
    _failed(view)
    _remarks(view)


def _part(view: View, what: str, unit: str, items: Sequence[Item]) -> None:
    typer.echo(sentence(what, unit, items))
    typer.echo()
    some = shown(view, items)
    show_table(columns(unit, what), [row(one) for one in some])
    if len(some) < len(items):
        typer.echo(f"... and {len(items) - len(some):,} more; --top shows them, and --json.")
    typer.echo()
    if is_terminal():
        draw(_bars(some[:_BARS], unit))
        typer.echo()


def _bars(items: Sequence[Item], unit: str) -> "Table":
    """Two bars below each other for each item: its time before, and after."""
    from rich.bar import Bar
    from rich.table import Table
    from rich.text import Text

    plain = console().options.ascii_only
    most = max((one.before or 0.0) for one in items) or 1.0
    room = console().width
    letters = min(max(len(one.name) for one in items), max(_NAME, room // 2))
    width = max(10, min(60, room - letters - 16))
    made = Table.grid(padding=(0, 1))
    made.title = "Before is above, after is below"
    made.add_column(no_wrap=True, overflow="ellipsis", max_width=letters)
    made.add_column(no_wrap=True)
    made.add_column(no_wrap=True)
    for one in items:
        for place, (time, colour) in enumerate(((one.before, "red"), (one.after, "green"))):
            label = printable(tail(one.name, letters)) if place == 0 else ""
            long = min(time or 0.0, most)
            bar: RenderableType = Bar(most, 0, long, width=width, color=colour)
            if plain:
                bar = Text("#" * round(width * long / most), style=colour)
            made.add_row(label, bar, f"{number(time, 3)} {unit}")
    return made


def _compared(view: View) -> None:
    found, other = view.comparison, view.other
    assert found is not None
    assert other is not None
    names = ", ".join(printable(file.name) for file in other.files)
    typer.echo(f"Compared with {names}:")
    show_table(["", *COUNTS], count_rows(view))
    for said in saved_sentences(view):
        typer.echo(said)
    typer.echo(change_sentence(found))
    changes = list(change_rows(found, FEW if view.top is None else view.top))
    if changes:
        typer.echo()
        show_table(CHANGE_COLUMNS, changes)
    for word, failed in (("here", found.failed_here), ("there", found.failed_there)):
        if failed:
            typer.echo(f"Tuning failed only {word}: {_names(failed)}.")
    typer.echo()


def _failed(view: View) -> None:
    failed = view.results.failed
    if failed:
        typer.echo(f"Tuning failed for {many(len(failed), 'operator')}: {_names(failed)}.")


def _names(names: Tuple[str, ...]) -> str:
    told = ", ".join(printable(name, 200) for name in names[:FEW])
    return told if len(names) <= FEW else f"{told} and {len(names) - FEW:,} more"


def _remarks(view: View) -> None:
    found = list(remarks(view.results))
    for label, said in found[:FEW]:
        typer.echo(f"{label}: {said}")
    if len(found) > FEW:
        typer.echo(f"... and {len(found) - FEW:,} more remarks; --json has them.")
