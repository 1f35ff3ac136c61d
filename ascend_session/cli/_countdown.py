"""How long is still waited, and what for: one line that changes, or some lines in a file."""

import os
import sys
from typing import Any

import typer

from ascend_session.cli._durations import shown_duration
from ascend_session.cluster.rank_table.source import WaitProgress

__all__ = ["Countdown"]

_EACH = 60.0  # seconds between lines where they stay
_COLUMNS = 80  # of a terminal that does not say how many it has
_CLEAR = "\r\x1b[K"


class Countdown:
    """Tells on the standard error stream how a wait goes on.

    Args:
        what: What is waited for.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_terminal = sys.stderr.isatty()
        self._why, self._left = "", 0.0

    def __enter__(self) -> "Countdown":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._is_terminal and self._why:
            typer.echo(_CLEAR, nl=False, err=True)

    def tell(self, now: WaitProgress) -> None:
        """Draws the line, or where lines stay, one each minute and when something changes."""
        said = f"{shown_duration(now.left)} left, waiting for {self._what}: {now.why}"
        if self._is_terminal:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
            typer.echo(f"{_CLEAR}{said[: columns - 1]}", nl=False, err=True)
        elif now.why != self._why or self._left - now.left >= _EACH:
            typer.echo(f"ascend-session: {said}", err=True)
            self._left = now.left
        self._why = now.why
