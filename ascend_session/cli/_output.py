"""Print results: folded to the width of a terminal, or in whole lines to pipes and files.

Findings look the same in every command: severity, place, message, and a hint below. Messages name
options as Python does; here they are spelt as they are typed (``--rank-table``).
"""

import contextlib
import io
import json
import shlex
import sys
from collections import Counter
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import click
from click.exceptions import Exit

from ascend_session.errors import AscendError
from ascend_session.findings import ERROR, INFO, OK, WARNING, Finding, Place
from ascend_session.spelling import spell
from ascend_session.text import format_count, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

SEVERITY_STYLES = {OK: "green", WARNING: "yellow", INFO: "cyan", ERROR: "bold red"}

# In a pipe, all columns but the first are aligned up to here; a longer cell pushes on its line.
_WIDEST = 24

# The keys of findings in JSON: of those about a host, and of those at a place in a file.
CHECKED = ("check", "severity", "said", "hint")
PLACED = ("line", "column", "message", "hint")

# A text, or pieces of one, each with or without its style.
Cell = Union[str, Sequence[Union[str, Tuple[str, str]]]]


# Options with another name in a shell than in Python, and a blank before their value.
_OTHERWISE = {"module": "-m", "program": "--no-python", "script": "SCRIPT"}


def in_command(message: str) -> str:
    """Name the options in a message as they are typed: ``--rank-table`` for ``rank_table``."""
    return spell(message, _spell_as_typed)


def _spell_as_typed(name: str, written: Optional[str]) -> str:
    flag = _OTHERWISE.get(name) or f"--{name.replace('_', '-')}"
    if written is None:
        return flag
    if written in ("True", "False"):
        return flag if written == "True" else flag.replace("--", "--no-", 1)
    import ast  # few messages need it

    try:
        word = str(ast.literal_eval(written))
    except (SyntaxError, ValueError):  # of an object, which only Python can give
        word = written
    if name.startswith("wait_") and word.isdecimal() and int(word) % 60 == 0:
        word = f"{int(word) // 60}m"
    return f"{flag}{' ' if name in _OTHERWISE else '='}{shlex.quote(word)}"


def is_terminal() -> bool:
    """Return whether stdout is a terminal; pipes and files get neither colours nor folded lines."""
    return isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty()


def console() -> "Console":
    """Return the terminal, on which brackets and colons in sentences are just that."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def draw(*items: "RenderableType") -> None:
    """Print rich items or text to the terminal, folded to its width."""
    console().print(*items, sep="\n")


def complain(message: str, hint: Optional[str] = None, severity: str = "") -> None:
    """Print a sentence on the standard error stream; nothing in it controls a terminal.

    Args:
        message: A sentence.
        hint: What to do about it.
        severity: `ERROR`, `WARNING` or `INFO`; empty for progress.
    """
    word = f"{severity_word(severity)}: " if severity else ""
    click.echo(f"ascend-session: {word}{_escape(in_command(message))}", err=True)
    if hint is not None:
        click.echo(f"  hint: {_escape(in_command(hint))}", err=True)


def fail(message: str, hint: Optional[str] = None) -> NoReturn:
    """Print an error on the standard error stream, and end the program with exit code 1."""
    complain(message, hint, ERROR)
    raise Exit(1)


def _escape(text: str) -> str:
    if text.replace("\n", "").isprintable():
        return text
    return "\n".join(printable(line, len(line)) for line in text.split("\n"))


@contextlib.contextmanager
def exit_on_error(code: int = 1, as_json: bool = False, **facts: Any) -> Iterator[None]:
    """Report an error of ours, and end the program.

    Args:
        code: The exit code.
        as_json: Whether it is printed as JSON.
        facts: Other members of that JSON, such as the file that the command is about.
    """
    try:
        yield
    except AscendError as error:
        if as_json:
            hint = error.hint and in_command(error.hint)
            show_json({**facts, "ok": False, "error": error.message, "hint": hint})
        else:
            complain(error.message, error.hint, ERROR)
        raise Exit(code) from None


def show_json(data: Any, on_one_line: bool = False) -> None:
    """Print JSON, indented, or on one line for programs that read line by line."""
    if on_one_line:
        click.echo(json.dumps(data, separators=(",", ":")))
    else:
        click.echo(json.dumps(data, indent=2))


def severity_word(severity: str) -> str:
    """Return the word for a severity on the screen."""
    return "note" if severity == INFO else severity


def show_verdict(
    name: str, findings: Sequence[Finding], words: Sequence[str] = (), more: Sequence[str] = ()
) -> None:
    """Print a line about a file: what it is, and how many errors and warnings it has.

    Args:
        name: The file.
        findings: The findings about it.
        words: Its description, before the counts.
        more: Words after the counts.
    """
    counts = Counter(finding.severity for finding in findings)
    numbers = [format_count(counts[kind], kind) for kind in (ERROR, WARNING) if counts[kind]]
    click.echo(f"{name}: {', '.join([*words, *numbers, *more])}")


def show_finding(
    finding: Finding,
    file: str = "",
    indent: str = "  ",
    err: bool = False,
    spelling: Callable[[str], str] = in_command,
) -> None:
    """Print a finding, and its hint below.

    It begins with its place: for one in a file, in the form that editors and terminals can jump to.

    Args:
        finding: The finding.
        file: Its file; if empty, the file of its place is used, if there is one.
        indent: The beginning of each line.
        err: Whether it is printed on the standard error stream.
        spelling: Names the options in its sentences; ``str`` for a finding about Python.
    """
    place, within = finding.place, ""
    if isinstance(place, Place):
        file = file or place.file
        start = f"{file}:{place}" if file else str(place)
    else:
        start, within = file, f"{place}: " if place else ""
    message = f"{within}{spelling(finding.message)}"
    start = f"{indent}{start}: " if start else indent
    word = f"{'' if finding.certain else 'possible '}{severity_word(finding.severity)}:"
    hint = "" if finding.hint is None else f"\n{indent}  hint: {spelling(finding.hint)}"
    if err or not is_terminal():
        click.echo(_escape(f"{start}{word} {message}{hint}"), err=err)
        return
    from rich.text import Text

    style = SEVERITY_STYLES.get(finding.severity, "")
    text = Text.assemble((start, "bold"), (word, style), f" {message}{hint}")
    console().print(text, soft_wrap=True)  # so that places and commands can be copied


def finding_as_dict(finding: Finding, keys: Sequence[str]) -> Dict[str, Any]:
    """Return the values of a finding for JSON.

    Args:
        finding: The finding.
        keys: Their names: `CHECKED` for findings about the host, `PLACED` for those in a file.
    """
    place = finding.place
    line, column = (place.line, place.column) if isinstance(place, Place) else (None, None)
    values = {
        **finding._asdict(),
        "check": finding.rule,
        "said": finding.message,
        "place": place or "",
        "line": line,
        "column": column,
    }
    return {key: values[key] for key in keys}


def show_text(text: str) -> None:
    """Print a text, folded to the width of a terminal."""
    if is_terminal():
        draw(text)
    else:
        click.echo(text)


def show_table(
    headers: Sequence[str], rows: Sequence[Sequence[Cell]], whole: Iterable[int] = ()
) -> None:
    """Print a table; in a pipe, one line a row.

    Args:
        headers: The heads of the columns.
        rows: The cells of each row.
        whole: The columns that are never folded: half a number misleads.
    """
    if is_terminal():
        draw(make_table(headers, rows, whole))
    else:
        click.echo("\n".join(_align([headers, *rows])))


def show_facts(facts: Sequence[Sequence[Cell]]) -> None:
    """Print labels and texts below each other; in a pipe, one line a fact."""
    if is_terminal():
        draw(make_grid(facts))
    else:
        click.echo("\n".join(_align(facts)))


def make_table(
    headers: Sequence[str], rows: Sequence[Sequence[Cell]], whole: Iterable[int] = ()
) -> "Table":
    """Make a table for the terminal, whose cells are folded where it is too narrow."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, header in enumerate(headers):
        table.add_column(header, overflow="fold", no_wrap=number in whole)
    _add_rows(table, rows)
    return table


def make_grid(facts: Sequence[Sequence[Cell]]) -> "Table":
    """Put labels and texts below each other, for the terminal; only the texts are folded."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    *labels, _ = facts[0]
    for number, _ in enumerate(labels):
        grid.add_column(style="" if number else "bold", no_wrap=True)
    grid.add_column(overflow="fold")
    _add_rows(grid, facts)
    return grid


def _add_rows(table: "Table", rows: Sequence[Sequence[Cell]]) -> None:
    from rich.text import Text

    for row in rows:
        cells: List[RenderableType] = [
            cell if isinstance(cell, str) else Text.assemble(*cell) for cell in row
        ]
        table.add_row(*cells)


def _align(rows: Sequence[Sequence[Cell]]) -> List[str]:
    texts = [list(map(_plain, row)) for row in rows]
    first, *others = [max(map(len, column)) for column in zip(*texts)]
    widths = [first, *(min(width, _WIDEST) for width in others)]
    indent = " " * sum(width + 2 for width in widths[:-1])
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in texts)
    return [line.rstrip().replace("\n", f"\n{indent}") for line in lines]


def _plain(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in cell)
