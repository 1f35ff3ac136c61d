"""The live line below a job's output: who runs, for how long, and what the slowest said last.

A rank starts until it has written something or opens a system: before that it loads TensorFlow, and
nobody can tell.
"""

import os
import re
import time
from typing import Callable, Dict, FrozenSet, List, Mapping, Optional, Set

from ascend_session.cluster.member import read_members
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
from ascend_session.launcher.pump import Latest

_FIRST_S = 1.0  # a job that ends before gets no line
_RECENT_S = 2.0  # silence that is not worth a number
_COLUMNS = 80  # of a terminal that does not say how many it has
_MARGIN = 3  # columns that stay free: for ^C, and so that the cursor never leaves the line
_CONTINUATION = bytes(range(0x80, 0xC0))


class StatusLine:
    """The state of a job in one line. Events come from one thread; another one draws it.

    Args:
        fd: The terminal.
        latest: Gives what a rank has written last.
        grace_s: Seconds from SIGTERM to SIGKILL.
    """

    def __init__(self, fd: int, latest: Callable[[int], Optional[Latest]], grace_s: float) -> None:
        self._fd = fd
        self._latest = latest
        self._grace_s = grace_s
        self._began = self._attempt_began = time.monotonic()
        self._attempt, self._size = 1, 0
        self._alive: FrozenSet[int] = frozenset()  # replaced, never changed
        self._folders: Dict[int, str] = {}
        self._joined: Set[int] = set()
        self._until: Optional[float] = None  # until ranks are killed, or another attempt
        self._is_waiting = self._is_killing = False

    def note(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, Planned):
            self._attempt, self._size = event.plan.attempt, len(event.plan.ranks)
            self._attempt_began = time.monotonic()
            self._folders = {rank.rank: rank.folder for rank in event.plan.ranks}
            self._joined = set()
            self._until, self._is_waiting, self._is_killing = None, False, False
        elif isinstance(event, Started):
            self._alive = self._alive | {event.rank}
        elif isinstance(event, (Ended, NotStarted)):
            self._alive = self._alive - {event.rank}
        elif isinstance(event, Stopping):
            self._until = event.time + self._grace_s
        elif isinstance(event, Killing):
            self._is_killing = True
        elif isinstance(event, Restarting):
            self._until, self._is_waiting = event.time + event.wait, True

    def draw(self) -> bytes:
        """Give the line as it is to stand there now; empty for none."""
        if time.monotonic() - self._began < _FIRST_S or not _is_in_front(self._fd):
            return b""
        try:
            columns = os.get_terminal_size(self._fd).columns or _COLUMNS
        except OSError:  # it is gone, which whoever writes to it will find out
            columns = _COLUMNS
        return _fit(self._describe(), columns - _MARGIN).encode("utf-8", "replace")

    def _describe(self) -> str:
        attempt = f"attempt {self._attempt}, " if self._attempt > 1 else ""
        elapsed = _format_clock(time.monotonic() - self._began)
        left_s = max(0, round((self._until or 0.0) - time.time()))
        if self._is_waiting:
            return f"attempt {self._attempt + 1} in {left_s} s, {elapsed}"
        alive = self._alive
        if self._until is not None:
            then = "killing" if self._is_killing else f"killed in {left_s} s"
            return f"{attempt}stopping {len(alive)} of {self._size} ranks, {then}, {elapsed}"
        # What a rank has written in an earlier attempt does not count.
        latest = {rank: self._latest(rank) for rank in alive}
        began = self._attempt_began
        lines = {rank: line for rank, line in latest.items() if line and line.time >= began}
        running = [rank for rank in alive if rank in lines or self._has_joined(rank)]
        starting = len(alive) - len(running)
        if alive and not running:
            return f"{attempt}{starting} of {self._size} ranks starting, {elapsed}"
        head = f"{attempt}{len(running)} of {self._size} ranks running, "
        head += f"{starting} starting, {elapsed}" if starting else elapsed
        return f"{head} | {self._describe_slowest(alive, lines)}" if alive else head

    def _has_joined(self, rank: int) -> bool:
        if rank not in self._joined and read_members(self._folders[rank]):
            self._joined.add(rank)
        return rank in self._joined

    def _describe_slowest(self, alive: FrozenSet[int], lines: Mapping[int, Latest]) -> str:
        """Name the rank that has been silent longest, and give its last line."""
        began = self._attempt_began
        times = {rank: lines[rank].time if rank in lines else began for rank in alive}
        rank = min(sorted(alive), key=times.__getitem__)
        if rank not in lines:
            return f"[{rank}] has said nothing yet"
        silent_s = time.monotonic() - times[rank]
        ago = f" {_format_clock(silent_s)} ago:" if silent_s >= _RECENT_S else ""
        return f"[{rank}]{ago} {_last_line(lines[rank].text)}"


def _last_line(text: bytes) -> str:
    """Give the last line that is not blank, or the last state of a progress bar."""
    whole = text.lstrip(_CONTINUATION)  # the beginning may be cut within a character
    lines: List[bytes] = [line for line in re.split(rb"[\r\n]", whole) if line.strip()]
    line = clean(lines[-1] + b"\n", colour=False) if lines else b""
    return " ".join(line.decode("utf-8", "replace").split())


def _fit(text: str, columns: int) -> str:
    from rich.cells import cell_len, set_cell_size

    if columns < 1:
        return ""
    return text if cell_len(text) <= columns else set_cell_size(text, columns)


def _is_in_front(fd: int) -> bool:
    """Tell whether the terminal is this job's; in the background its line would be in the way."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # a terminal, but not one that controls this process
        return True


def _format_clock(seconds: float) -> str:
    """Write seconds as in 0:07, 12:34 or 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
