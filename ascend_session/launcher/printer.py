"""Puts a rank's number before each line that it writes, and shows whole lines only."""

import time
from typing import Callable, Collection, Dict, NamedTuple, Optional, Tuple

from ascend_session.launcher.lines import LineSplitter
from ascend_session.launcher.outlet import Outlet

__all__ = ["Latest", "Printer"]

_LAUNCHER = -1
_KEPT_BYTES = 512


class Latest(NamedTuple):
    """The end of what a rank has written so far, to both streams, shown or not.

    Attributes:
        time: When the last of it was read, as `time.monotonic` counts.
        text: At most `_KEPT_BYTES`, as they were written; the last line may not be whole yet.
    """

    time: float
    text: bytes


class Printer:
    """What is seen of a job: ``[3] text``, the numbers as wide as the highest one.

    Lines of different ranks, and of a rank's two streams, never mix within a line. What a rank
    writes to both streams at the same time may change places, because two pipes carry it. One
    thread feeds; `say` may be called from any.

    Args:
        outlet: Where the lines go.
        size: Number of ranks in the job.
        show: The ranks that are shown.
        timestamps: Whether lines begin with the local time at which they were read.
        colour: Whether the ranks' colours stay; they should only on a terminal.
        now: The time in seconds since 1970.
        words: Where the launcher's own lines go; None means to the ranks'.
    """

    def __init__(
        self,
        outlet: Outlet,
        size: int,
        show: Collection[int],
        timestamps: bool = False,
        colour: bool = False,
        now: Callable[[], float] = time.time,
        words: Optional[Outlet] = None,
    ) -> None:
        self._outlet = outlet
        self._words = outlet if words is None else words
        self._show = show
        self._timestamps = timestamps
        self._colour = colour
        self._now = now
        self._prefixes = [f"[{rank:{len(str(size - 1))}}] ".encode() for rank in range(size)]
        self._splitters: Dict[Tuple[int, str], LineSplitter] = {}
        self._latest: Dict[int, Latest] = {}
        self._is_keeping = False

    def keep_latest(self) -> None:
        """Keeps the end of what each rank writes from now on, which nobody pays for otherwise."""
        self._is_keeping = True

    def latest(self, rank: int) -> Optional[Latest]:
        """The end of what a rank has written, from any thread; None if it has not yet."""
        return self._latest.get(rank)

    def feed(self, rank: int, stream: str, chunk: bytes, whole_in: str = "") -> bool:
        """Takes what a rank wrote; shows the lines that are whole now.

        Args:
            rank: The rank.
            stream: Which of its streams, ``stdout`` or ``stderr``.
            chunk: What was read.
            whole_in: Where a line too long to be shown can be read; counts at the first chunk.

        Returns:
            False if the rank should not be read for now: see `when_room`.
        """
        if self._is_keeping:
            self._keep(rank, chunk)
        if rank not in self._show:
            return True
        splitter = self._splitters.get((rank, stream))
        if splitter is None:
            splitter = LineSplitter(self._colour, whole_in)
            self._splitters[rank, stream] = splitter
        return self._put(rank, splitter.feed(chunk))

    def end(self, rank: int, stream: str) -> None:
        """Shows the last line of a stream that has ended, if that line had no end."""
        splitter = self._splitters.pop((rank, stream), None)
        if splitter is not None:
            self._put(rank, splitter.end())

    def when_room(self, rank: int, call: Callable[[], None]) -> None:
        """Calls once, from any thread, when the rank should be read again."""
        self._outlet.when_room(rank, call)

    def say(self, text: str) -> None:
        """Shows lines of the launcher itself, without a number; never waits."""
        prefix = self._time()
        lines = [prefix + line.encode("utf-8", "backslashreplace") for line in text.split("\n")]
        self._words.put(_LAUNCHER, b"\n".join(lines) + b"\n")

    def _keep(self, rank: int, chunk: bytes) -> None:
        if len(chunk) < _KEPT_BYTES and rank in self._latest:
            chunk = self._latest[rank].text + chunk
        self._latest[rank] = Latest(time.monotonic(), chunk[-_KEPT_BYTES:])

    def _put(self, rank: int, lines: bytes) -> bool:
        if not lines:
            return True
        prefix = self._time() + self._prefixes[rank]
        newlines = lines.count(b"\n") - 1
        return self._outlet.put(rank, prefix + lines.replace(b"\n", b"\n" + prefix, newlines))

    def _time(self) -> bytes:
        if not self._timestamps:
            return b""
        now = self._now()
        second = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        return f"{second}.{int(now * 1000) % 1000:03d} ".encode()
