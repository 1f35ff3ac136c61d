"""How results are drawn: folded to the width of a terminal, or whole lines for pipes and files.

Findings look the same in every command: severity, place, message, and a hint below. Messages name
options as Python does; here they are spelt as they are typed (``--rank-table``).
"""

import contextlib
import io
import json
import re
import sys
from collections import Counter
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import typer

from ascend_session.errors import AscendError
from ascend_session.findings import ERROR, INFO, OK, WARNING, Finding, Place
from ascend_session.text import format_count, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

SEVERITY_STYLES = {OK: "green", WARNING: "yellow", INFO: "cyan", ERROR: "bold red"}

# In a pipe, all columns but the first are aligned up to here; a longer cell pushes on its line.
_WIDEST = 24

_Item = TypeVar("_Item")


def is_terminal() -> bool:
    """Tell whether stdout is a terminal; pipes and files get neither colours nor folded lines."""
    return isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty()


def console() -> "Console":
    """Give the terminal, on which brackets and colons in sentences are just that."""
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
    typer.echo(f"ascend-session: {word}{_escape(spell_options(message))}", err=True)
    if hint is not None:
        typer.echo(f"  hint: {_escape(spell_options(hint))}", err=True)


def _escape(text: str) -> str:
    if text.replace("\n", "").isprintable():
        return text
    return "\n".join(printable(line, len(line)) for line in text.split("\n"))


@contextlib.contextmanager
def exit_on_error(code: int = 1, json_file: Optional[str] = None) -> Iterator[None]:
    """Report an error of ours, and end the program.

    Args:
        code: The exit code.
        json_file: The file that the command is about, for an error as JSON; None for text.
    """
    try:
        yield
    except AscendError as error:
        if json_file is None:
            complain(error.message, error.hint, ERROR)
        else:
            hint = error.hint and spell_options(error.hint)
            show_json({"file": json_file, "ok": False, "error": error.message, "hint": hint})
        raise typer.Exit(code) from None


def show_json(data: Any, on_one_line: bool = False) -> None:
    """Print JSON, indented, or on one line for programs that read line by line."""
    if on_one_line:
        typer.echo(json.dumps(data, separators=(",", ":")))
    else:
        typer.echo(json.dumps(data, indent=2))


def severity_word(severity: str) -> str:
    """Give the word for a severity on the screen."""
    return "note" if severity == INFO else severity


def show_finding(
    finding: Finding, location: str = "", indent: str = "  ", err: bool = False
) -> None:
    """Print a finding, and its hint below.

    Args:
        finding: The finding.
        location: File and line, in the form that editors and terminals can jump to; empty for
            the finding's own place.
        indent: What stands before each line.
        err: Whether it goes to the standard error stream.
    """
    place = f"{finding.place}: " if finding.place and not location else ""
    message = f"{place}{spell_options(finding.message)}"
    start = f"{indent}{location}: " if location else indent
    word = f"{'' if finding.certain else 'possible '}{severity_word(finding.severity)}:"
    hint = "" if finding.hint is None else f"\n{indent}  hint: {spell_options(finding.hint)}"
    if err or not is_terminal():
        typer.echo(_escape(f"{start}{word} {message}{hint}"), err=err)
        return
    from rich.text import Text

    style = SEVERITY_STYLES.get(finding.severity, "")
    text = Text.assemble((start, "bold"), (word, style), f" {message}{hint}")
    console().print(text, soft_wrap=True)  # so that places and commands can be copied


def finding_as_dict(finding: Finding) -> Dict[str, Any]:
    """Return a finding about a host as plain values for JSON."""
    return {
        "check": finding.rule,
        "severity": finding.severity,
        "said": finding.message,
        "hint": finding.hint,
    }


def remark_as_dict(finding: Finding) -> Dict[str, Any]:
    """Return a finding at a place of a file as plain values for JSON."""
    place = finding.place
    line, column = (place.line, place.column) if isinstance(place, Place) else (None, None)
    return {"line": line, "column": column, "message": finding.message, "hint": finding.hint}


def count_severities(findings: Sequence[Finding]) -> List[str]:
    """Count errors and warnings in words, leaving out what there is none of."""
    counts = Counter(finding.severity for finding in findings)
    return [format_count(counts[kind], kind) for kind in (ERROR, WARNING) if counts[kind]]


def label_first(label: str, items: Iterable[_Item]) -> List[Tuple[str, _Item]]:
    """Put a label before the first item, and none before the others."""
    return [("" if number else label, item) for number, item in enumerate(items)]


def show_text(text: str) -> None:
    """Print a text, folded to the width of a terminal."""
    if is_terminal():
        draw(text)
    else:
        typer.echo(text)


def show_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], whole: Iterable[int] = ()
) -> None:
    """Print a table; in a pipe, one line a row.

    Args:
        headers: The heads of the columns.
        rows: The cells of each row.
        whole: The columns that are never folded: half a number misleads.
    """
    if not is_terminal():
        typer.echo("\n".join(_align([headers, *rows])))
        return
    table = make_table(headers, rows)
    for column in whole:
        table.columns[column].no_wrap = True
    draw(table)


def show_facts(facts: Sequence[Tuple[str, str]]) -> None:
    """Print labels and texts below each other; in a pipe, one line a fact."""
    if is_terminal():
        draw(make_grid(facts))
    else:
        typer.echo("\n".join(_align(facts)))


def make_table(headers: Sequence[str], rows: "Sequence[Sequence[RenderableType]]") -> "Table":
    """Make a table for the terminal, whose cells are folded where it is too narrow."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def make_grid(facts: Sequence[Tuple[str, str]]) -> "Table":
    """Put labels and texts below each other, for the terminal."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in facts:
        grid.add_row(label, text)
    return grid


def _align(rows: Sequence[Sequence[str]]) -> List[str]:
    first, *others = [max(len(cell) for cell in column) for column in zip(*rows)]
    widths = [first, *(min(width, _WIDEST) for width in others)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]


# Names that are nothing else in a sentence: they count anywhere but in a path or a value.
_CLEAR = (
    *("chief_ip", "chief_port", "device_cores", "device_memory", "nnodes", "node_rank"),
    *("operator_cores", "job_id", "log_dir", "max_restarts", "no_rank_table", "rank_table"),
    *("stall_timeout", "static_operators", "training_memory", "tuning_parallel_num"),
    *("wait_for_devices", "wait_for_table"),
)
# Words, which are options only where a value or what they take follows.
_WORDS = (
    *("backend", "bind", "coordinator", "cwd", "devices", "env", "events", "grace"),
    *("processes", "python", "show", "timestamps"),
)
_NAMES = (
    rf"(?<![\w./'\"=-])({'|'.join(_CLEAR)})(?![\w/'\"-]|\.\w)",
    rf"(?<![\w./'\"=-])({'|'.join(_WORDS)})(?==| takes | gives )",
    r"(?:(?<=\b[Gg]ive )|(?<=\bLeave )|(?<=\bin ))(python|env|cwd)(?=[., ])",
)
# What is written otherwise in a shell.
_PHRASES = {
    "Give force": "Give --force",
    "launch with preflight=False": "launch with --no-preflight",
    'with backend="stub"': "with --backend stub",
    "wait_for_devices=600": "--wait-for-devices 10m",
    "program=": "--no-python ",
    "module=": "-m ",
    "module takes": "-m takes",
    "None means never.": "Leave it out to wait without end.",
    "or give script or module.": "or --no-python.",
    "from processes and devices.": "from -n and --devices.",
}


def spell_options(message: str) -> str:
    """Name the options in a message as they are typed: ``--rank-table`` for ``rank_table``."""
    for phrase, typed in _PHRASES.items():
        message = message.replace(phrase, typed)
    for pattern in _NAMES:
        message = re.sub(pattern, lambda match: f"--{match[1].replace('_', '-')}", message)
    return message
