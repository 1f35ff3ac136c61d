"""A terminal, or what else takes lines in its time (never, after Ctrl-S), and how they look there.

In a pipe or a file every line stands behind its rank, as in ``[3] text``, and is written at once.
On a terminal, lines that several ranks write within `EQUAL_S` stand there once, as in ``[0-7]
text``, and a status line stays below all others. The lines of each rank keep their order. Equal
lines may begin with different seconds of the same minute.

`Screen` writes in a thread of its own, so nobody else has to wait for whoever reads.
"""

import dataclasses
import itertools
import os
import re
import select
import threading
import time
from bisect import bisect_right
from collections import deque
from typing import (
    Callable,
    Deque,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    TextIO,
    Tuple,
    Union,
)

from ascend_session.errors import JobError
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


class Notices:
    """Passes on the first sentence of each kind, from whatever thread it comes.

    Args:
        say: Takes the sentence.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._kinds: Set[str] = set()

    def once(self, kind: str, sentence: str) -> None:
        """Pass on the sentence, unless there was one of this kind before."""
        with self._lock:
            is_new = kind not in self._kinds
            self._kinds.add(kind)
        if is_new:
            self._say(sentence)


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
            prefix = stamp + _name([rank], self._digits)
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
            drawn += [line.stamp, _name(line.ranks, self._digits), line.text]
        return b"".join(drawn)

    def _draw_status(self, draw: Callable[[], bytes]) -> bytes:
        try:
            return draw()
        except Exception as failure:  # it must not leave the job without a reader
            self._status = None
            self._notices.once("status", f"The status line is switched off: {failure!r}.")
            return b""


def _name(ranks: Sequence[int], digits: int) -> bytes:
    if len(ranks) > 1:
        return f"[{format_ranges(ranks, ',')}] ".encode()
    return b"" if ranks[0] == LAUNCHER or not digits else f"[{ranks[0]:{digits}}] ".encode()


Target = Union[int, TextIO]
Renderer = Union[PlainRenderer, TerminalRenderer]

_WRITE_BYTES = 64 * 1024
_ROOM_BYTES = 2 * _WRITE_BYTES  # of lines that wait to be written


def start_thread(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        JobError: If this user may have no more.
    """
    try:
        thread.start()
    except RuntimeError:
        from ascend_session.failures.table import PROCESS_LIMIT

        raise JobError(
            f"The launcher cannot start its thread {thread.name!r}.", hint=PROCESS_LIMIT
        ) from None


class Screen:
    """Where lines are shown.

    A target that takes no more (a closed terminal, a reader that has gone, a full disk) is
    reported once; from then on everything is thrown away, and nobody has to wait.

    Args:
        target: The file descriptor, or a stream of text such as a notebook's; it stays open. A
            descriptor that does not block is waited for.
        notices: Takes the report.
        what: What is written here, as the beginning of a sentence.
        renderer: Draws the lines; None for lines without a rank before them.

    Attributes:
        written: Bytes that were written, so that whoever waits sees whether somebody reads.
    """

    def __init__(
        self,
        target: Target,
        notices: Notices,
        what: str = "The ranks' output",
        renderer: Optional[Renderer] = None,
    ) -> None:
        self.written = 0
        self._target = target
        self._notices = notices
        self._what = what
        self._renderer = renderer or PlainRenderer()
        self._changed = threading.Condition()
        self._blocks: Deque[Block] = deque()
        self._size = 0
        self._is_writing = False
        self._is_closing = False
        self._is_broken = False
        self._thread = threading.Thread(target=self._run, name="launch-screen", daemon=True)
        start_thread(self._thread)

    def put(self, rank: int, lines: bytes, stamp: bytes = b"") -> None:
        """Add whole lines of a rank to what is to be written."""
        with self._changed:
            if lines and not (self._is_broken or self._is_closing):
                self._blocks.append(Block(rank, lines, stamp))
                self._size += len(lines)
                self._changed.notify_all()

    def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until more should be put; False if there is no room within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._size < _ROOM_BYTES, timeout_s)

    def set_status(self, draw: Callable[[], bytes]) -> None:
        """Keep a status line below all others; see `TerminalRenderer.set_status`."""
        with self._changed:
            if isinstance(self._renderer, TerminalRenderer):
                self._renderer.set_status(draw)
            self._changed.notify_all()

    def wait_until_written(self, timeout_s: float) -> None:
        """Wait until all that was put is written, but not longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._blocks or self._is_writing), timeout_s)

    def close(self, timeout_s: Optional[float] = None) -> bool:
        """Write what was put and end; what is put from now on is thrown away.

        Returns:
            Whether all is written within the time, or was thrown away because nothing can be. If
            not, the thread stays at it until the process ends.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        is_open = True
        while is_open:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                if not (self._blocks or self._is_closing):
                    self._changed.wait(self._renderer.due_s())
                is_open = bool(self._blocks) or not self._is_closing
                blocks = self._take_blocks()
                self._is_writing = True
                self._changed.notify_all()  # there is room
            data = self._renderer.render(blocks, is_open)
            try:
                self._write(data)
            except Exception as failure:  # a stream of the user's may raise anything
                self._give_up(failure)
                return

    def _take_blocks(self) -> List[Block]:
        """Take blocks until there is enough for one write."""
        blocks: List[Block] = []
        size = 0
        while self._blocks and size < _WRITE_BYTES:
            blocks.append(self._blocks.popleft())
            size += len(blocks[-1].lines)
        self._size -= size
        return blocks

    def _write(self, data: bytes) -> None:
        if not isinstance(self._target, int):
            if data:
                self._target.write(data.decode("utf-8", "backslashreplace"))
                self._target.flush()
                self.written += len(data)
            return
        view = memoryview(data)
        while view:
            try:
                written = os.write(self._target, view)
                view = view[written:]
                self.written += written
            except BlockingIOError:
                select.select([], [self._target], [])

    def _give_up(self, failure: Exception) -> None:
        with self._changed:
            self._is_broken, self._is_writing = True, False
            self._blocks.clear()
            self._size = 0
            self._changed.notify_all()
        why = getattr(failure, "strerror", None) or str(failure)
        where = f"file descriptor {self._target}" if isinstance(self._target, int) else "sys.stdout"
        self._notices.once(
            "screen",
            f"{self._what} is no longer shown: {why} ({where}). The job continues, and so do its "
            "log files.",
        )
