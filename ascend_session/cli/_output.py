"""How results are drawn: folded to the width of a terminal, or whole lines for pipes and files."""

import io
import json
import sys
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["complain", "draw", "is_terminal", "show_facts", "show_json", "show_table"]

# In a pipe, all columns but the first are aligned up to here; a longer cell pushes on its line.
_WIDEST = 24


def is_terminal() -> bool:
    """Whether a person reads this; pipes and files get neither colours nor folded lines."""
    return isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty()


def draw(*items: "RenderableType") -> None:
    """Prints rich items or text to the terminal, folded to its width."""
    _console().print(*items, sep="\n")


def show_json(data: Any) -> None:
    """Prints ``data`` as indented JSON."""
    typer.echo(json.dumps(data, indent=2))


def complain(message: str, hint: Optional[str] = None) -> None:
    """Prints a sentence on the standard error stream."""
    typer.echo(f"ascend-session: {message}", err=True)
    if hint is not None:
        typer.echo(f"  hint: {hint}", err=True)


def show_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table; in a pipe, one line a row."""
    if not is_terminal():
        typer.echo("\n".join(_aligned([headers, *rows])))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    draw(table)


def show_facts(facts: Sequence[Tuple[str, str]]) -> None:
    """Prints labels and texts below each other; in a pipe, one line a fact."""
    if not is_terminal():
        typer.echo("\n".join(_aligned(facts)))
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in facts:
        table.add_row(label, text)
    draw(table)


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _aligned(rows: Sequence[Sequence[str]]) -> List[str]:
    first, *others = [max(len(cell) for cell in column) for column in zip(*rows)]
    widths = [first, *(min(width, _WIDEST) for width in others)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]
