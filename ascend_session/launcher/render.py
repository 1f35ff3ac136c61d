"""How the lines of the ranks are drawn: one way for a terminal, and one for everything else.

In a pipe or a file every line stands behind its rank, as in ``[3] text``, and is written at once.
On a terminal, lines that several ranks write within `EQUAL_S` stand there once, as in ``[0-7]
text``, and a status line stays below all others. The lines of each rank keep their order. Equal
lines may begin with different seconds of the same minute.
"""

import dataclasses
import itertools
import os
import re
import time
from bisect import bisect_right
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ascend_session.launcher.pump import Notices
from ascend_session.text import format_ranges

EQUAL_S = 0.2
"""Seconds for which a line on a terminal waits for other ranks to write the same."""

LAUNCHER = -1
"""Stands for the launcher itself where others have the number of a rank."""

# What loggers put before a line. The seconds are not compared, nor is absl's thread. The date and
# the minute are, so that rows of data that begin with a time do not look equal.
_TIME = re.compile(
    rb"(\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d):\d\d(?:[.,]\d{3,})?(?=, |[^\d.,\n])"
    rb"|([DIWEF]\d{4} \d\d:\d\d):\d\d\.\d+ +\d+(?= )"
)
_HELD_BYTES = 64 * 1024  # of lines that wait for equal ones
_STATUS_EVERY_S = 1.0  # when nothing else is written
_STATUS_LEAST_S = 0.1  # and when much is
_ERASE = b"\r\x1b[2K"


def can_redraw(fd: int) -> bool:
    """Tell whether a descriptor is a terminal that can erase a line."""
    return os.isatty(fd) and os.environ.get("TERM") not in (None, "", "dumb")


class Block(NamedTuple):
    """Whole lines of a rank, and the time that stands before each; it may be empty."""

    rank: int
    lines: bytes
    stamp: bytes = b""


class PlainRenderer:
    """Puts its rank before each line.

    Args:
        digits: Of the highest rank; 0 for lines that get no rank.
    """

    def __init__(self, digits: int = 0) -> None:
        self._digits = digits

    def due_s(self) -> Optional[float]:
        """Compute the seconds until there is something to draw without a new block; None here."""
        return None

    def render(self, blocks: Sequence[Block], is_open: bool) -> bytes:
        """Draw what has come; ``is_open`` says whether there may be more later."""
        drawn = []
        for rank, lines, stamp in blocks:
            prefix = stamp + _name(rank, self._digits)
            newlines = lines.count(b"\n") - 1
            drawn.append(prefix + lines.replace(b"\n", b"\n" + prefix, newlines))
        return b"".join(drawn)


@dataclasses.dataclass
class _Line:
    """A line that waits for the ranks that write the same."""

    number: int  # in the order in which lines stand on the terminal
    key: Tuple[bool, bytes]  # what equal lines have in common
    ranks: List[int]
    text: bytes
    stamp: bytes
    due: float


class TerminalRenderer:
    """Draws equal lines of several ranks once, and keeps a status line below all others.

    Args:
        digits: Of the highest rank.
        ranks: How many ranks are shown; a line that all of them have written waits no longer.
        notices: Takes the report of a status line that cannot be drawn.
    """

    def __init__(self, digits: int, ranks: int, notices: Notices) -> None:
        self._digits = digits
        self._ranks = ranks
        self._notices = notices
        self._status: Optional[Callable[[], bytes]] = None
        self._drawn, self._drawn_at = b"", 0.0
        self._held: Dict[int, _Line] = {}  # by number, in order
        self._held_bytes = self._next_number = 0
        self._numbers: Dict[Tuple[bool, bytes], List[int]] = {}  # of the lines held, by `key`
        self._latest: Dict[int, int] = {}  # the number of each rank's last line

    def set_status(self, draw: Callable[[], bytes]) -> None:
        """Keep a line below all others; ``draw`` gives it, without an end, and must not wait."""
        self._status, self._drawn_at = draw, 0.0

    def due_s(self) -> Optional[float]:
        """Compute the seconds until something is to be drawn though no block comes."""
        dues = [line.due for line in itertools.islice(self._held.values(), 1)]
        if self._status is not None:
            dues.append(self._drawn_at + _STATUS_EVERY_S)
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def render(self, blocks: Sequence[Block], is_open: bool) -> bytes:
        """Draw what has waited long enough, above the status line; empty if nothing changes."""
        now = time.monotonic()
        for block in blocks:
            for text in block.lines.splitlines(keepends=True):
                self._hold(block.rank, text, block.stamp, now)
        lines = self._release(now, is_open)
        before = self._drawn
        if not is_open:
            self._drawn = b""
        elif self._status is not None:
            every_s = _STATUS_LEAST_S if lines else _STATUS_EVERY_S
            if not before or now - self._drawn_at >= every_s:
                self._drawn, self._drawn_at = self._draw_status(self._status), now
        if not lines and self._drawn == before:
            return b""
        return (_ERASE if before else b"") + lines + self._drawn

    def _hold(self, rank: int, text: bytes, stamp: bytes, now: float) -> None:
        """Add a rank to an equal line, or hold a new line."""
        begin = _TIME.match(text)
        compared = text if begin is None else (begin[1] or begin[2]) + text[begin.end() :]
        key = rank == LAUNCHER, compared
        numbers = self._numbers.setdefault(key, [])
        # One that stands before the rank's own last line would change the rank's order.
        place = bisect_right(numbers, self._latest.get(rank, -1))
        if place < len(numbers):
            line = self._held[numbers[place]]
            line.ranks.append(rank)
            if len(line.ranks) == self._ranks:
                line.due = now
        else:
            wait_s = 0.0 if rank == LAUNCHER or self._ranks == 1 else EQUAL_S
            line = _Line(self._next_number, key, [rank], text, stamp, now + wait_s)
            self._next_number += 1
            self._held[line.number] = line
            self._held_bytes += len(text)
            numbers.append(line.number)
        self._latest[rank] = line.number

    def _release(self, now: float, is_open: bool) -> bytes:
        """Take out the first lines as long as they need not wait."""
        drawn = []
        while self._held:
            line = next(iter(self._held.values()))
            if is_open and line.due > now and self._held_bytes <= _HELD_BYTES:
                break
            del self._held[line.number]
            self._held_bytes -= len(line.text)
            numbers = self._numbers[line.key]
            del numbers[0]
            if not numbers:
                del self._numbers[line.key]
            drawn += [line.stamp, _name_all(line.ranks, self._digits), line.text]
        return b"".join(drawn)

    def _draw_status(self, draw: Callable[[], bytes]) -> bytes:
        try:
            return draw()
        except Exception as failure:  # it must not leave the job without a reader
            self._status = None
            self._notices.once("status", f"The status line is switched off: {failure!r}.")
            return b""


def _name(rank: int, digits: int) -> bytes:
    return b"" if rank == LAUNCHER or not digits else f"[{rank:{digits}}] ".encode()


def _name_all(ranks: Sequence[int], digits: int) -> bytes:
    if len(ranks) == 1:
        return _name(ranks[0], digits)
    return f"[{format_ranges(ranks, ',')}] ".encode()
