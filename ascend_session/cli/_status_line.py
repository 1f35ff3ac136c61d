"""The live line below a job's output: who runs, for how long, and what the slowest said last."""

import os
import re
import time
from typing import Callable, FrozenSet, List, Optional

from ascend_session.launcher.events import (
    Ended,
    Event,
    Killing,
    NotStarted,
    Planned,
    Restarting,
    Started,
    Stopping,
)
from ascend_session.launcher.lines import clean
from ascend_session.launcher.printer import Latest

__all__ = ["StatusLine"]

_FIRST = 1.0  # seconds; a job that ends before gets no line
_RECENT = 2.0  # seconds of silence that are not worth a number
_WIDTH = 80  # columns of a terminal that does not say how many it has
_MARGIN = 3  # columns that stay free: for ^C, and so that the cursor never leaves the line
_CONTINUATION = bytes(range(0x80, 0xC0))


class StatusLine:
    """Makes the line. Events come from one thread, and it is drawn in another.

    Args:
        fd: The terminal.
        latest: What a rank has said last.
        grace: Seconds from SIGTERM to SIGKILL.
    """

    def __init__(self, fd: int, latest: Callable[[int], Optional[Latest]], grace: float) -> None:
        self._fd = fd
        self._latest = latest
        self._grace = grace
        self._began = self._attempt_began = time.monotonic()
        self._attempt, self._size = 1, 0
        self._alive: FrozenSet[int] = frozenset()  # replaced, never changed
        self._until: Optional[float] = None  # until ranks are killed, or another attempt
        self._is_waiting = self._is_killing = False

    def note(self, event: Event) -> None:
        """Takes an event."""
        if isinstance(event, Planned):
            self._attempt, self._size = event.plan.attempt, len(event.plan.ranks)
            self._attempt_began = time.monotonic()
            self._until, self._is_waiting, self._is_killing = None, False, False
        elif isinstance(event, Started):
            self._alive = self._alive | {event.rank}
        elif isinstance(event, (Ended, NotStarted)):
            self._alive = self._alive - {event.rank}
        elif isinstance(event, Stopping):
            self._until = event.time + self._grace
        elif isinstance(event, Killing):
            self._is_killing = True
        elif isinstance(event, Restarting):
            self._until, self._is_waiting = event.time + event.wait, True

    def draw(self) -> bytes:
        """The line as it is to stand there now; empty for none."""
        if time.monotonic() - self._began < _FIRST or not _is_in_front(self._fd):
            return b""
        return _fitting(self._text(), _columns(self._fd) - _MARGIN).encode("utf-8", "replace")

    def _text(self) -> str:
        attempt = f"attempt {self._attempt}, " if self._attempt > 1 else ""
        elapsed = _clock(time.monotonic() - self._began)
        if self._is_waiting:
            return f"attempt {self._attempt + 1} in {self._left()} s, {elapsed}"
        alive = self._alive
        if self._until is not None:
            then = "killing" if self._is_killing else f"killed in {self._left()} s"
            return f"{attempt}stopping {len(alive)} of {self._size} ranks, {then}, {elapsed}"
        head = f"{attempt}{len(alive)} of {self._size} ranks running, {elapsed}"
        return f"{head} | {self._slowest(alive)}" if alive else head

    def _left(self) -> int:
        return max(0, round((self._until or 0.0) - time.time()))

    def _slowest(self, alive: FrozenSet[int]) -> str:
        """The rank that has been silent longest, and its last line."""
        heard = {rank: self._heard(rank) for rank in alive}
        began = self._attempt_began
        times = {rank: latest.time if latest else began for rank, latest in heard.items()}
        rank = min(sorted(alive), key=lambda one: times[one])
        silent, latest = time.monotonic() - times[rank], heard[rank]
        if latest is None:
            return f"[{rank}] has said nothing yet"
        ago = f" {_clock(silent)} ago:" if silent >= _RECENT else ""
        return f"[{rank}]{ago} {_last_line(latest.text)}"

    def _heard(self, rank: int) -> Optional[Latest]:
        """What a rank has said in this attempt."""
        found = self._latest(rank)
        return None if found is None or found.time < self._attempt_began else found


def _last_line(text: bytes) -> str:
    """The last line that is not blank, or the last state of a progress bar."""
    whole = text.lstrip(_CONTINUATION)  # the beginning may be cut within a character
    said: List[bytes] = [line for line in re.split(rb"[\r\n]", whole) if line.strip()]
    line = clean(said[-1] + b"\n", colour=False) if said else b""
    return " ".join(line.decode("utf-8", "replace").split())


def _fitting(text: str, columns: int) -> str:
    from rich.cells import cell_len, set_cell_size

    if columns < 1:
        return ""
    return text if cell_len(text) <= columns else set_cell_size(text, columns)


def _columns(fd: int) -> int:
    try:
        return os.get_terminal_size(fd).columns or _WIDTH
    except OSError:  # it is gone, which whoever writes to it will find out
        return _WIDTH


def _is_in_front(fd: int) -> bool:
    """Whether the terminal is this job's; in the background its line would be in others' way."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # a terminal, but not one that controls this process
        return True


def _clock(seconds: float) -> str:
    """Seconds as in 0:07, 12:34 or 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
