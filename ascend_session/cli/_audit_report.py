"""What ``ascend-session audit`` prints: findings, what to write instead, and how many there are."""

import sys
from typing import TYPE_CHECKING, Any, Iterator, Optional

import typer

from ascend_session.cli._output import draw, is_terminal

if TYPE_CHECKING:
    from ascend_session.audit.report import AuditReport
    from ascend_session.findings import Finding

__all__ = ["Progress", "lines", "show"]

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def show(report: "AuditReport") -> None:
    """Prints the report; on a terminal in colours."""
    if not is_terminal():
        typer.echo("\n".join(lines(report)))
        return
    from rich.text import Text

    for one in report.findings:
        text = Text(_where(one), style="bold")
        text.append(_kind(one), style=_STYLES[one.severity])
        draw(text.append(f" {one.message}  [{one.rule}]", style="not bold"))
        if one.hint is not None:
            draw(f"    {one.hint}")
    for line in _ending(report):
        draw(line)


def lines(report: "AuditReport") -> Iterator[str]:
    """The report, line by line, as a pipe gets it."""
    for one in report.findings:
        yield f"{_where(one)}{_kind(one)} {one.message}  [{one.rule}]"
        if one.hint is not None:
            yield f"    {one.hint}"
    yield from _ending(report)


def _where(one: "Finding") -> str:
    from ascend_session.audit.report import place_of

    return f"{place_of(one).file}:{one.place}: "


def _kind(one: "Finding") -> str:
    return f"{one.severity}:" if one.certain else f"possible {one.severity}:"


def _ending(report: "AuditReport") -> Iterator[str]:
    for file, why in report.skipped:
        yield f"{file}: not read. {why}"
    counts = [
        _count(report.count(severity), word)
        for severity, word in (("error", "error"), ("warning", "warning"), ("info", "note"))
    ]
    are = "is" if report.known == 1 else "are"
    known = f" {report.known:,} more {are} in the baseline." if report.known else ""
    yield (
        f"{_count(report.files, 'file')} read, {report.looked_at:,} with options for Ascend: "
        f"{', '.join(counts)}.{known}"
    )


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


class Progress:
    """A bar on the standard error stream, if that is a terminal.

    Args:
        wanted: Whether to draw one at all.
    """

    def __init__(self, wanted: bool) -> None:
        self._bar: Optional[Any] = None
        self._task: Any = None
        if wanted and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, more: int, total: int) -> None:
        """Draws that ``more`` of ``total`` files are done."""
        if self._bar is None:
            return
        if self._task is None:
            self._task = self._bar.add_task("", total=total)
        self._bar.advance(self._task, more)
