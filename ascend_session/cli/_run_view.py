"""How the report of a run is drawn on a terminal."""

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ascend_session.cli._output import table

if TYPE_CHECKING:
    from ascend_session.compat.report import RunReport

__all__ = ["show"]


def show(report: "RunReport", head: str) -> None:
    """Prints the report on standard error, folded to the width of the terminal.

    Args:
        report: What there is to say.
        head: The first line.
    """
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    console.print(Text(head, style="bold"))
    if report.rows:
        console.print(
            table(["option", "value", "sessions", "what becomes of it"], report.rows),
            soft_wrap=False,
        )
    for sentence in report.sentences:
        console.print(sentence)
