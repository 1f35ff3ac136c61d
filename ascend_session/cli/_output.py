"""How results are drawn: folded to the width of a terminal, or whole lines for pipes and files."""

import io
import json
import sys
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

__all__ = [
    "complain",
    "console",
    "draw",
    "facts_grid",
    "is_terminal",
    "show_facts",
    "show_json",
    "show_json_line",
    "show_table",
    "table",
]

# In a pipe, all columns but the first are aligned up to here; a longer cell pushes on its line.
_WIDEST = 24


def is_terminal() -> bool:
    """Whether a person reads this; pipes and files get neither colours nor folded lines."""
    return isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty()


def draw(*items: "RenderableType") -> None:
    """Prints rich items or text to the terminal, folded to its width."""
    console().print(*items, sep="\n")


def show_json(data: Any) -> None:
    """Prints ``data`` as indented JSON."""
    typer.echo(json.dumps(data, indent=2))


def show_json_line(data: Any) -> None:
    """Prints ``data`` as JSON on one line, for programs that read line by line."""
    typer.echo(json.dumps(data, separators=(",", ":")))


def complain(message: str, hint: Optional[str] = None) -> None:
    """Prints a sentence on the standard error stream; nothing in it controls a terminal."""
    typer.echo(f"ascend-session: {_harmless(message)}", err=True)
    if hint is not None:
        typer.echo(f"  hint: {_harmless(hint)}", err=True)


def show_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table; in a pipe, one line a row."""
    if is_terminal():
        draw(table(headers, rows))
    else:
        typer.echo("\n".join(_aligned([headers, *rows])))


def show_facts(facts: Sequence[Tuple[str, str]]) -> None:
    """Prints labels and texts below each other; in a pipe, one line a fact."""
    if is_terminal():
        draw(facts_grid(facts))
    else:
        typer.echo("\n".join(_aligned(facts)))


def table(headers: Sequence[str], rows: "Sequence[Sequence[RenderableType]]") -> "Table":
    """A table for the terminal, whose cells are folded where it is too narrow."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        made.add_column(header, overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def facts_grid(facts: Sequence[Tuple[str, str]]) -> "Table":
    """Labels and texts below each other, for the terminal."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for label, text in facts:
        made.add_row(label, text)
    return made


def console() -> "Console":
    """The terminal, on which brackets and colons in sentences are just that."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _harmless(text: str) -> str:
    if text.replace("\n", "").isprintable():
        return text
    from ascend_session.text import printable

    return "\n".join(printable(line, len(line)) for line in text.split("\n"))


def _aligned(rows: Sequence[Sequence[str]]) -> List[str]:
    first, *others = [max(len(cell) for cell in column) for column in zip(*rows)]
    widths = [first, *(min(width, _WIDEST) for width in others)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]
