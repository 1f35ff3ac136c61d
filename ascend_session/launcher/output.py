"""Where the lines of the ranks are shown: a descriptor or a stream that all share.

`Outlet` shows them fairly, and without making anyone wait. A thread does the writing, because a
terminal may take its time: forever, after Ctrl-S. Each rank has a queue. The queues are served in
turn, a block at a time, so a quiet rank's line waits for one block of each flooding rank at most. A
rank whose queue is full should not be read until there is room; so a slow terminal holds up only
ranks that write more than it takes, as it does without a launcher, and memory stays bounded.

How they are drawn there is `render`'s.

`Output` is all of that for one launch: it gives whole lines only to the outlet, and makes the log
files of its attempts.
"""

import os
import select
import threading
import time
from collections import deque
from typing import (
    TYPE_CHECKING,
    Callable,
    Collection,
    Deque,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    TextIO,
    Tuple,
    Union,
)

from ascend_session.launcher.lines import LineSplitter
from ascend_session.launcher.pump import (
    FailureFilter,
    LogFile,
    Notices,
    Pump,
    Source,
    start_thread,
)
from ascend_session.launcher.render import LAUNCHER, Block, PlainRenderer, TerminalRenderer
from ascend_session.launcher.signals import Signals

if TYPE_CHECKING:
    from ascend_session.launcher.plan import RankPlan

Target = Union[int, TextIO]
Renderer = Union[PlainRenderer, TerminalRenderer]

QUEUE_BYTES = 256 * 1024
_WRITE_BYTES = 64 * 1024


class _Queue:
    def __init__(self) -> None:
        self.blocks: Deque[Block] = deque()
        self.size = 0

    @property
    def has_room(self) -> bool:
        return self.size <= QUEUE_BYTES // 2


class Outlet:
    """Where the lines of all ranks go.

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
        on_room: Is called, in the thread that writes, when a queue may have room again.
    """

    def __init__(
        self,
        target: Target,
        notices: Notices,
        what: str = "What the ranks say",
        renderer: Optional[Renderer] = None,
    ) -> None:
        self.written = 0
        self.on_room: Callable[[], None] = lambda: None
        self._target = target
        self._notices = notices
        self._what = what
        self._renderer = renderer or PlainRenderer()
        self._changed = threading.Condition()
        self._queues: Dict[int, _Queue] = {}
        self._turns: Deque[_Queue] = deque()  # those with blocks, the next one first
        self._is_writing = False
        self._is_closing = False
        self._is_broken = False
        self._thread = threading.Thread(target=self._run, name="launch-outlet", daemon=True)
        start_thread(self._thread)

    def put(self, rank: int, lines: bytes, stamp: bytes = b"") -> bool:
        """Queue whole lines of a rank; False if its queue is full now, though they are in it."""
        with self._changed:
            if self._is_broken or self._is_closing or not lines:
                return True
            queue = self._queues.setdefault(rank, _Queue())
            if not queue.blocks:
                self._turns.append(queue)
            queue.blocks.append(Block(rank, lines, stamp))
            queue.size += len(lines)
            if len(self._turns) == 1 and len(queue.blocks) == 1:
                self._changed.notify_all()
            return queue.size < QUEUE_BYTES

    def has_room(self, rank: int) -> bool:
        """Tell whether the queue of a rank that was full is at most half full again."""
        with self._changed:
            return rank not in self._queues or self._queues[rank].has_room

    def set_status(self, draw: Callable[[], bytes]) -> None:
        """Keep a status line below all others; see `TerminalRenderer.set_status`."""
        with self._changed:
            if isinstance(self._renderer, TerminalRenderer):
                self._renderer.set_status(draw)
            self._changed.notify_all()

    def wait_until_written(self, timeout_s: float) -> None:
        """Wait until all that was put is written, but not longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: not self._turns and not self._is_writing, timeout_s)

    def close(self, timeout_s: Optional[float] = None) -> bool:
        """Write what is queued and end; what is put from now on is thrown away.

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
                if not (self._turns or self._is_closing):
                    self._changed.wait(self._renderer.due_s())
                is_open = bool(self._turns) or not self._is_closing
                blocks, has_room = self._take_blocks()
                self._is_writing = True
            if has_room:  # outside the lock, and before the write: reading goes on meanwhile
                self.on_room()
            data = self._renderer.render(blocks, is_open)
            try:
                self._write(data)
            except Exception as failure:  # a stream of the user's may raise anything
                self._give_up(failure)
                return

    def _take_blocks(self) -> Tuple[List[Block], bool]:
        """Take a block of each rank in turn, until there is enough for one write.

        Returns:
            The blocks, and whether there is room in a queue that had none.
        """
        blocks: List[Block] = []
        has_room = False
        size = 0
        while self._turns and size < _WRITE_BYTES:
            queue = self._turns.popleft()
            had_room = queue.has_room
            block = queue.blocks.popleft()
            blocks.append(block)
            size += len(block.lines)
            queue.size -= len(block.lines)
            if queue.blocks:
                self._turns.append(queue)
            has_room = has_room or (queue.has_room and not had_room)
        return blocks, has_room

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
            self._queues.clear()
            self._turns.clear()
            self._changed.notify_all()
        self.on_room()
        why = getattr(failure, "strerror", None) or str(failure)
        where = f"file descriptor {self._target}" if isinstance(self._target, int) else "sys.stdout"
        self._notices.once(
            "outlet",
            f"{self._what} is no longer shown: {why} ({where}). The job goes on, and so do its log "
            "files.",
        )


# How long whoever reads what is shown may take nothing before the launcher gives up on it: as a
# rule, and after a signal. How long an open pipe may be silent when no rank lives.
_READER_S, _HURRIED_READER_S, _QUIET_PIPE_S = 30.0, 1.0, 1.0
_SLICE_S = 0.1


_LATEST_BYTES = 512


class Latest(NamedTuple):
    """The end of what a rank has written so far, to both streams, shown or not.

    Attributes:
        time: When the last of it was read, as `time.monotonic` counts.
        text: At most `_LATEST_BYTES`, as they were written; the last line may not be whole yet.
        began: When the first of it was read.
    """

    time: float
    text: bytes
    began: float


class Output:
    """What is shown and logged of a job's ranks; one for all attempts.

    Lines of different ranks, and of a rank's two streams, never mix within a line. What a rank
    writes to both streams at the same time may change places, because two pipes carry it. One
    thread feeds; `say` and `latest` may be called from any.

    Args:
        target: The file descriptor, or the stream of text, to which lines are written.
        size: Number of ranks in the job.
        show: The ranks that are shown.
        timestamps: Whether lines begin with the local time at which they were read.
        colour: Whether the ranks' colours stay; they should only on a terminal.
        words: The file descriptor to which the launcher's own lines are written; None means
            ``target``.
        is_terminal: Whether equal lines stand there once, and a status line can.

    Attributes:
        filter: Knows what happens in the attempt, and which lines are shown because of it.
        hides_traceback: Whether the traceback of the rank that fails first is left to the log,
            because somebody else reports it.
        troubles: What could not be shown or logged, in sentences.
    """

    def __init__(
        self,
        target: Target,
        size: int,
        show: Collection[int],
        timestamps: bool = False,
        colour: bool = False,
        words: Optional[int] = None,
        is_terminal: bool = False,
    ) -> None:
        self.is_terminal = is_terminal
        self.filter = FailureFilter({})
        self.hides_traceback = False
        self.troubles: List[str] = []
        self.notices = Notices(self._report)
        digits = len(str(size - 1))
        renderer: Renderer = PlainRenderer(digits)
        if is_terminal:
            renderer = TerminalRenderer(digits, len(show), self.notices)
        self._outlets: List[Outlet] = []  # as one may be in trouble at once
        self._outlets.append(Outlet(target, self.notices, renderer=renderer))
        # Two writers to one pipe or terminal would tear each other's lines.
        if (
            words is not None
            and isinstance(target, int)
            and not os.path.sameopenfile(target, words)
        ):
            self._outlets.append(Outlet(words, self.notices, "What the launcher says"))
        self._show = show
        self._timestamps = timestamps
        self._colour = colour
        self._splitters: Dict[Tuple[int, str], LineSplitter] = {}
        self._latest: Dict[int, Latest] = {}

    def feed(self, rank: int, stream: str, chunk: bytes, whole_in: str = "") -> bool:
        """Take what a rank wrote; show the lines that are whole now.

        Args:
            rank: The rank.
            stream: Which of its streams, ``stdout`` or ``stderr``.
            chunk: What was read.
            whole_in: Where a line too long to be shown can be read; counts at the first chunk.

        Returns:
            False if the rank should not be read before it `has_room` again.
        """
        now = time.monotonic()
        _, before, began = self._latest.get(rank, Latest(now, b"", now))
        self._latest[rank] = Latest(now, (before + chunk)[-_LATEST_BYTES:], began)
        if rank not in self._show:
            return True
        chunk = self.filter.admit(rank, stream, chunk, self.hides_traceback)
        if not chunk:
            self._splitters.pop((rank, stream), None)
            sentence = self.filter.take_sentence(rank)
            return self._put(rank, f"{sentence}\n".encode() if sentence else b"")
        splitter = self._splitters.get((rank, stream))
        if splitter is None:
            splitter = LineSplitter(self._colour, whole_in)
            self._splitters[rank, stream] = splitter
        return self._put(rank, splitter.feed(chunk))

    def end(self, rank: int, stream: str) -> None:
        """Show the unfinished last line of a stream that has ended, if there is one."""
        splitter = self._splitters.pop((rank, stream), None)
        if splitter is not None:
            self._put(rank, splitter.end())

    def has_room(self, rank: int) -> bool:
        """Tell whether a rank should be read again."""
        return self._outlets[0].has_room(rank)

    def when_room(self, call: Callable[[], None]) -> None:
        """Call from now on, from another thread, when a rank may have room again."""
        self._outlets[0].on_room = call

    def say(self, text: str) -> None:
        """Show lines of the launcher itself, without waiting."""
        lines = f"ascend-session: {text}\n".encode("utf-8", "backslashreplace")
        self._outlets[-1].put(LAUNCHER, lines, self._time())

    def wait_until_said(self, timeout_s: float) -> None:
        """Wait until what the launcher has said is shown, but not longer than that."""
        self._outlets[-1].wait_until_written(timeout_s)

    def latest(self, rank: int) -> Optional[Latest]:
        """Return the end of what a rank has written in this attempt; from any thread."""
        return self._latest.get(rank)

    def set_status(self, draw: Callable[[], bytes]) -> None:
        """Keep a status line below all others; see `TerminalRenderer.set_status`."""
        self._outlets[0].set_status(draw)

    def pump(self, ranks: "Sequence[RankPlan]") -> Tuple[Pump, List[Tuple[int, int]]]:
        """Make the pipes and folders of an attempt, and a pump that is not started yet.

        A folder that cannot be made is reported once; the job goes on without its log files. The
        attached rank writes where the launcher does, and has no pipes.

        Returns:
            The pump, and the ends at which each rank writes to its standard output and error.
        """
        self._latest.clear()
        sources: List[Source] = []
        pipes: List[Tuple[int, int]] = []
        for rank in ranks:
            for folder in (rank.folder, rank.plog, rank.work):
                try:
                    os.makedirs(folder, exist_ok=True)
                except OSError as failure:
                    self.notices.once(
                        "folder",
                        f"The folder {folder} cannot be made: {failure.strerror}. The job goes on "
                        "without the files that belong there.",
                    )
            if rank.is_attached:
                pipes.append((os.dup(1), os.dup(2)))
                continue
            stdout, stderr = os.pipe(), os.pipe()
            sources += [
                Source(stdout[0], rank.rank, "stdout", LogFile(rank.stdout, self.notices)),
                Source(stderr[0], rank.rank, "stderr", LogFile(rank.stderr, self.notices)),
            ]
            pipes.append((stdout[1], stderr[1]))
        self.filter = FailureFilter({rank.rank: rank.folder for rank in ranks})
        return Pump(sources, self), pipes

    def finish(self, pump: Pump, signals: Signals) -> None:
        """Read what the ranks of an attempt have written, and end the pump.

        No rank lives. A pipe that is still open and empty is held by a process outside of the job,
        and one that is left alone waits for whoever reads what is shown.
        """
        reader = _Reader(self._outlets[:1], signals)
        while not pump.join(_SLICE_S):
            if reader.is_idle(_READER_S if pump.waits_for_reader else _QUIET_PIPE_S):
                pump.stop()
                pump.join()

    def close(self, signals: Signals) -> None:
        """Wait until everything is shown, unless whoever reads it takes nothing for long."""
        reader = _Reader(self._outlets, signals)
        while not all(outlet.close(_SLICE_S) for outlet in self._outlets):
            if reader.is_idle(_READER_S):
                self.troubles.append(
                    "Some output of the ranks was not shown, because nothing reads it. Their log "
                    "files have all of it."
                )
                return

    def _put(self, rank: int, lines: bytes) -> bool:
        return self._outlets[0].put(rank, lines, self._time())

    def _time(self) -> bytes:
        if not self._timestamps:
            return b""
        now = time.time()
        second = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        return f"{second}.{int(now * 1000) % 1000:03d} ".encode()

    def _report(self, sentence: str) -> None:
        self.troubles.append(sentence)
        if self._outlets:
            self.say(sentence)


class _Reader:
    """Whoever reads what the outlets write, who may have stopped doing so."""

    def __init__(self, outlets: Sequence[Outlet], signals: Signals) -> None:
        self._outlets = outlets
        self._signals = signals
        self._written = -1
        self._since = time.monotonic()

    def is_idle(self, limit_s: float) -> bool:
        """Tell whether nothing was taken for so long.

        Less counts after a signal, and nothing after two.
        """
        now, written = time.monotonic(), sum(outlet.written for outlet in self._outlets)
        if written != self._written:
            self._written, self._since = written, now
        signals = len(self._signals.noted)
        if signals:
            limit_s = min(limit_s, _HURRIED_READER_S) if signals == 1 else 0.0
        return now - self._since >= limit_s
