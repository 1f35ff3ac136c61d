"""The report of a tuning for a terminal, with a picture of the times, and for pipes without."""

from typing import TYPE_CHECKING, Iterable, Sequence, Tuple

import typer

from ascend_session.aoe.result_files import TunedItem
from ascend_session.cli._aoe_bars import Bars, longest
from ascend_session.cli._aoe_view import (
    CHANGE_COLUMNS,
    COUNTS,
    FEW,
    TASK_COLUMNS,
    View,
    change_rows,
    change_sentence,
    columns,
    count_rows,
    many,
    model_sentences,
    number,
    remarks,
    row,
    saved_sentences,
    sentence,
    shown,
    tail,
    task_rows,
)
from ascend_session.cli._output import console, draw, is_terminal, show_table, table
from ascend_session.text import printable

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
    for said in model_sentences(view.results):
        typer.echo(said)
    for what, unit, items in view.parts:
        _part(view, what, unit, items)
    if not view.parts:
        typer.echo("No operator and no sub-graph is shown: none was added, updated or asked for.")
    if view.comparison is not None:
        _compared(view)
    _failed(view)
    _remarks(view)


def _part(view: View, what: str, unit: str, items: Sequence[TunedItem]) -> None:
    typer.echo(sentence(what, unit, items))
    typer.echo()
    some = shown(view, items)
    _table(columns(unit, what), [row(one) for one in some], range(4))
    if len(some) < len(items):
        typer.echo(f"... and {len(items) - len(some):,} more; --top shows them, and --json.")
    typer.echo()
    known = [
        Bars(printable(one.name, len(one.name)), one.before, one.after)
        for one in some
        if one.before is not None and one.after is not None
    ]
    if known and is_terminal():
        draw(_bars(known[:_BARS], unit))
        typer.echo()


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[int]) -> None:
    """Prints a table, of which no column of ``numbers`` is folded: half a number misleads."""
    if not is_terminal():
        show_table(heads, rows)
        return
    made = table(heads, rows)
    for place in numbers:
        made.columns[place].no_wrap = True
    draw(made)


def _bars(items: Sequence[Bars], unit: str) -> "Table":
    """Two bars below each other for each item: its time before, and after."""
    from rich.bar import Bar
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    plain = console().options.ascii_only
    most = longest(items)
    room = console().width
    letters = min(max(cell_len(one.name) for one in items), max(_NAME, room // 2))
    width = max(10, min(60, room - letters - 16))
    made = Table.grid(padding=(0, 1))
    made.title = "Before is above, after is below"
    made.add_column(no_wrap=True, overflow="ellipsis", max_width=letters)
    made.add_column(no_wrap=True)
    made.add_column(no_wrap=True)
    for one in items:
        for place, (time, colour) in enumerate(((one.before, "red"), (one.after, "green"))):
            label = tail(one.name, letters) if place == 0 else ""
            bar: RenderableType = Bar(most, 0, time, width=width, color=colour)
            if plain:
                bar = Text("#" * round(width * time / most), style=colour)
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
        _table(CHANGE_COLUMNS, changes, range(1, 4))
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
    found = list(remarks(view))
    for label, said in found[:FEW]:
        typer.echo(f"{label}: {said}")
    if len(found) > FEW:
        typer.echo(f"... and {len(found) - FEW:,} more remarks; --json has them.")
