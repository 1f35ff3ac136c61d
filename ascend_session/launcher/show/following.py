"""What the ranks of a job write is read from their log files and shown.

Each rank writes into its own log files (programs that are no Python by `copying`). One thread
follows the files: it reads a block of each in turn, and waits for the screen before the next one.
So no terminal ever holds up a rank; a quiet rank's line waits for one block of each flooding rank
at most; and memory stays bounded, because what is not shown yet is on the disk.

The order of a rank's lines is that of its file. Of its two files, what has come since the last look
is shown one after the other, but no line of standard output stands within a traceback.

`Output` is all of that for one launch.
"""

import contextlib
import errno
import os
import select
import threading
import time
from typing import Callable, Collection, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ascend_session.errors import JobError
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.show.failure_filter import TRACEBACK, FailureFilter
from ascend_session.launcher.show.lines import LineSplitter, WarningFold
from ascend_session.launcher.show.screen import (
    LAUNCHER,
    Notices,
    PlainRenderer,
    Renderer,
    Screen,
    Target,
    TerminalRenderer,
    start_thread,
)
from ascend_session.spelling import option

_READ_BYTES = 64 * 1024
_LATEST_BYTES = 512
# Seconds between two looks: while files grow; when the kernel reports a growth, in case it does not
# for this file system; and the longest when it cannot report any.
_BUSY_S, _REPORTED_S, _UNREPORTED_S = 0.02, 2.0, 0.5
_TRACEBACK_S = 1.0  # that the next line of a traceback may take
_ROOM_S = 0.1  # between two looks while the screen takes nothing


class _LogFile:
    """A log file that grows; `offset` of its `size` bytes are shown by now.

    What is before `admitted` was there when no rank had failed.
    """

    def __init__(self, rank: int, stream: str, path: str) -> None:
        self.rank, self.stream, self.path = rank, stream, path
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666))
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = self.offset = self.admitted = 0
        self.grown_at = 0.0
        self.is_in_traceback = False

    @property
    def has_more(self) -> bool:
        """Whether it has bytes that were not read."""
        return self.offset < self.size

    def look(self, now: float) -> bool:
        """Note the size; return whether the file was truncated."""
        size = os.fstat(self.fd).st_size
        if size != self.size:
            self.grown_at = now
        self.size = size
        if size >= self.offset:
            return False
        self.offset = self.admitted = 0
        return True

    def read(self) -> Tuple[bytes, bool]:
        """Read the next block, and whether it was there before a rank failed."""
        is_admitted = self.offset < self.admitted
        end = self.admitted if is_admitted else self.size
        data = os.pread(self.fd, min(_READ_BYTES, end - self.offset), self.offset)
        self.offset += len(data)
        if not data:  # it was truncated this moment
            self.size = self.offset
        elif not data.strip(b"\0"):  # a hole, as a program leaves that seeks
            try:
                self.offset = min(os.lseek(self.fd, self.offset, os.SEEK_DATA), self.size)
            except OSError:  # it has no end yet
                self.offset = self.size
            data = b""
        self._look_for_traceback(data)
        return data, is_admitted

    def _look_for_traceback(self, data: bytes) -> None:
        """Note whether the file ends, as far as it was read, within a traceback."""
        if self.stream != "stderr":
            return
        begin = data.rfind(TRACEBACK)
        if begin >= 0:
            self.is_in_traceback, data = True, data[begin:].partition(b"\n")[2]
        if self.is_in_traceback:
            # Its last line is the first one that is not indented.
            lines = data.splitlines(keepends=True)
            self.is_in_traceback = all(
                line[:1] in b" \t\r\n" or not line.endswith(b"\n") for line in lines
            )


class LogFollower:
    """Follows the log files of an attempt until it is told that they are complete.

    Args:
        files: The files; they are closed at the end.
        output: Shows the lines.
    """

    def __init__(self, files: Sequence[_LogFile], output: "Output") -> None:
        self._files = files
        self._output = output
        self._ended_ranks: Set[int] = set()
        self._is_ending = False
        self._abandoned = threading.Event()
        self._failure: Optional[BaseException] = None
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._main, name="launch-follower", daemon=True)

    def start(self) -> "LogFollower":
        """Begin, in a thread of its own.

        Raises:
            JobError: If there can be no thread; all files are closed then.
        """
        try:
            start_thread(self._thread)
        except JobError:
            self.abandon()
            self._main()
            os.close(self._wake)
            raise
        return self

    def end_rank(self, rank: int) -> None:
        """Show the last line of a rank that has ended although it may not be whole."""
        self._ended_ranks.add(rank)
        os.write(self._wake, b"\0")

    def end(self) -> None:
        """Show what the files have now, and end; returns at once, see `join`."""
        self._is_ending = True
        os.write(self._wake, b"\0")

    def abandon(self) -> None:
        """End without what is not shown yet."""
        self._abandoned.set()

    def join(self, timeout_s: float) -> bool:
        """Wait until all was handed on; the screen may still be writing.

        Raises:
            BaseException: What ended the thread, if that was a mistake in this package.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1
        if self._failure is not None:
            raise self._failure
        return True

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as failure:
            self._failure = failure
        finally:
            for file in self._files:
                os.close(file.fd)
            os.close(self._woken)

    def _run(self) -> None:
        notifier = None if self._abandoned.is_set() else _watch([file.path for file in self._files])
        longest_s = _UNREPORTED_S if notifier is None else _REPORTED_S
        idle, busy = select.poll(), select.poll()
        idle.register(self._woken, select.POLLIN)
        busy.register(self._woken, select.POLLIN)
        if notifier is not None:
            idle.register(notifier, select.POLLIN)
        wait_s = _BUSY_S
        try:
            while not self._abandoned.is_set():
                # Before the look: what they had written by then is all of it.
                is_last, ended_ranks = self._is_ending, frozenset(self._ended_ranks)
                self._look()
                shown_bytes = self._show_round(ended_ranks)
                if is_last:
                    while not self._abandoned.is_set() and any(
                        each.has_more for each in self._files
                    ):
                        self._show_round(ended_ranks)
                    break
                if shown_bytes >= _READ_BYTES:
                    continue
                if shown_bytes:  # perhaps line by line: not each of them alone
                    wait_s, ready = _BUSY_S, busy.poll(1000 * _BUSY_S)
                else:
                    ready = idle.poll(1000 * (wait_s if notifier is None else longest_s))
                    wait_s = min(1.5 * wait_s, longest_s)
                for fd, _ in ready:
                    os.read(fd, 65536)
        finally:
            if notifier is not None:
                os.close(notifier)
        for file in self._files:
            self._output.end(file.rank, file.stream)

    def _look(self) -> None:
        """Note how large the files are, and whether all of that may be shown."""
        now = time.monotonic()
        for file in self._files:
            if file.look(now):
                self._output.note_truncated(file.path)
            if file.grown_at == now:
                self._output.note_growth(file.rank, now)
        if self._output.filter.admits_all():  # after the sizes: a record is there before its lines
            for file in self._files:
                file.admitted = file.size

    def _show_round(self, ended_ranks: Collection[int]) -> int:
        """Show a block of each file that has more; return the number of bytes."""
        shown_bytes = 0
        now = time.monotonic()
        in_traceback = {
            file.rank
            for file in self._files
            if file.is_in_traceback
            and (file.has_more or (now - file.grown_at < _TRACEBACK_S and not self._is_ending))
        }
        for file in self._files:
            if file.stream == "stdout" and file.rank in in_traceback:
                continue
            if not file.has_more:
                if file.rank in ended_ranks:
                    self._output.end(file.rank, file.stream)
                continue
            if not self._output.shows(file.rank):
                file.offset = max(file.offset, file.size - _LATEST_BYTES)
            while not self._output.wait_for_room(_ROOM_S):
                if self._abandoned.is_set():
                    return 0
                if not self._is_ending:
                    self._look()
            data, is_admitted = file.read()
            shown_bytes += len(data)
            if data:
                self._output.feed(file.rank, file.stream, data, file.path, is_admitted)
        return shown_bytes


_IN_MODIFY, _IN_NONBLOCK, _IN_CLOEXEC = 0x2, 0o4000, 0o2000000  # inotify(7)


def _watch(paths: Sequence[str]) -> Optional[int]:
    """Have the kernel report when files grow: a descriptor to poll, or None if it cannot."""
    import ctypes  # here, as it takes its time

    libc = ctypes.CDLL(None)
    try:
        fd: int = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        if fd < 0:
            return None
        watches = [libc.inotify_add_watch(fd, os.fsencode(path), _IN_MODIFY) for path in paths]
    except AttributeError:
        return None
    if min(watches, default=0) < 0:  # this user has too many
        os.close(fd)
        return None
    return fd


# How long whoever reads what is shown may take nothing before the launcher gives up on it; and how
# long what is left is shown after a signal, or nothing is taken then.
_READER_S, _AFTER_SIGNAL_S, _HURRIED_READER_S = 30.0, 5.0, 1.0
_SLICE_S = 0.1


class Latest(NamedTuple):
    """The end of what a rank has written so far, to both streams, shown or not.

    Attributes:
        time: When it was last seen to write, as `time.monotonic` counts.
        text: At most `_LATEST_BYTES`, as they were written; the last line may not be whole yet.
        began: When it was first seen to write.
    """

    time: float
    text: bytes
    began: float


class Output:
    """What is shown of a job's ranks; one for all attempts.

    Lines of different ranks, and of a rank's two streams, never mix within a line. One thread
    feeds; `say` and `latest` may be called from any.

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
        self._screens: List[Screen] = []  # as one may be in trouble at once
        self._screens.append(Screen(target, self.notices, renderer=renderer))
        # Two writers to one pipe or terminal would tear each other's lines.
        if (
            words is not None
            and isinstance(target, int)
            and not os.path.sameopenfile(target, words)
        ):
            self._screens.append(Screen(words, self.notices, "The launcher's output"))
        self._show = show
        self._timestamps = timestamps
        self._colour = colour
        self._splitters: Dict[Tuple[int, str], LineSplitter] = {}
        self._warnings = WarningFold()
        self._latest: Dict[int, Latest] = {}
        self._follower: Optional[LogFollower] = None
        self._is_abandoned = False

    def follow(self, ranks: Sequence[LaunchRank]) -> None:
        """Make the folders and empty log files of an attempt, and show what is written into them.

        The attached rank writes where the launcher does, and has no log files.

        Raises:
            JobError: If one cannot be made, or there can be no thread.
        """
        self._latest.clear()
        self._warnings = WarningFold()
        files: List[_LogFile] = []
        with contextlib.ExitStack() as unless_started:
            for rank in ranks:
                path = rank.folder
                try:
                    for path in (rank.folder, rank.plog, rank.work):
                        os.makedirs(path, exist_ok=True)
                    streams = [("stdout", rank.stdout), ("stderr", rank.stderr)]
                    for stream, path in [] if rank.is_attached else streams:
                        files.append(_LogFile(rank.rank, stream, path))
                        unless_started.callback(os.close, files[-1].fd)
                except OSError as failure:
                    hint = f"Free space, or give {option('log_dir')} on another disk."
                    if failure.errno in (errno.EMFILE, errno.ENFILE):
                        hint = "Raise the limit of open files (ulimit -n)."
                    raise JobError(
                        f"{path} cannot be created: {failure.strerror}.", hint=hint
                    ) from None
            self.filter = FailureFilter({rank.rank: rank.folder for rank in ranks})
            unless_started.pop_all()
        self._follower = LogFollower(files, self).start()

    def finish(self, noted: Sequence[int] = ()) -> None:
        """Show what the ranks of an attempt have written, unless nobody reads it; none lives.

        Args:
            noted: The signals to the launcher, which grow while this waits: with them it hurries.
        """
        if self._follower is None:
            return
        self._follower.end()
        reader = _Reader(self._screens[:1], noted)
        while not self._follower.join(_SLICE_S):
            if reader.is_idle():
                self._follower.abandon()
                self._follower.join(_HURRIED_READER_S)
                self._abandon()
                break
        self._follower = None

    def end_rank(self, rank: int) -> None:
        """Note that a rank has ended, so that its last line is whole."""
        if self._follower is not None:
            self._follower.end_rank(rank)

    def shows(self, rank: int) -> bool:
        """Return whether the lines of a rank are shown."""
        return rank in self._show

    def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until more should be fed; False if there is no room within the time."""
        return self._screens[0].wait_for_room(timeout_s)

    def note_growth(self, rank: int, now: float) -> None:
        """Note when a rank has written, which may be shown later."""
        before = self._latest.get(rank, Latest(now, b"", now))
        self._latest[rank] = before._replace(time=now)

    def note_truncated(self, path: str) -> None:
        """Report once that a log file has lost what it had."""
        self.notices.once(
            "truncated",
            f"The log file {path} was truncated: by logrotate, or by a program that opened "
            "/dev/stdout or /dev/stderr with > or 'w', where >> or 'a' keeps what is there.",
        )

    def feed(
        self, rank: int, stream: str, chunk: bytes, whole_in: str = "", is_admitted: bool = False
    ) -> None:
        """Take what a rank wrote; show the lines that are whole now.

        Args:
            rank: The rank.
            stream: Which of its streams, ``stdout`` or ``stderr``.
            chunk: What was read.
            whole_in: Where a line too long to be shown can be read; counts at the first chunk.
            is_admitted: Whether it is shown whatever has happened since.
        """
        now = time.monotonic()
        last, before, began = self._latest.get(rank, Latest(now, b"", now))
        # What has waited for the screen was written when it was noted.
        self._latest[rank] = Latest(last, (before + chunk)[-_LATEST_BYTES:], began)
        if rank not in self._show:
            return
        if not is_admitted:
            chunk = self.filter.admit(rank, stream, chunk, self.hides_traceback)
        if not chunk:
            self._splitters.pop((rank, stream), None)
            sentence = self.filter.take_sentence(rank)
            self._put(rank, f"{sentence}\n".encode() if sentence else b"", stream)
            return
        splitter = self._splitters.get((rank, stream))
        if splitter is None:
            splitter = LineSplitter(self._colour, whole_in)
            self._splitters[rank, stream] = splitter
        self._put(rank, splitter.feed(chunk), stream)

    def end(self, rank: int, stream: str) -> None:
        """Show the unfinished last line of a stream that has ended, if there is one."""
        splitter = self._splitters.pop((rank, stream), None)
        if splitter is not None:
            self._put(rank, splitter.end(), stream)

    def say(self, text: str) -> None:
        """Show lines of the launcher itself, without waiting."""
        lines = f"ascend-session: {text}\n".encode("utf-8", "backslashreplace")
        self._screens[-1].put(LAUNCHER, lines, self._time())

    def wait_until_said(self, timeout_s: float) -> None:
        """Wait until what the launcher has said is shown, but not longer than that."""
        self._screens[-1].wait_until_written(timeout_s)

    def latest(self, rank: int) -> Optional[Latest]:
        """Return the end of what a rank has written in this attempt; from any thread."""
        return self._latest.get(rank)

    def set_status(self, draw: Callable[[], bytes]) -> None:
        """Keep a status line below all others; see `TerminalRenderer.set_status`."""
        self._screens[0].set_status(draw)

    def close(self, noted: Sequence[int] = ()) -> None:
        """Wait until everything is shown, unless whoever reads it takes nothing for long.

        Args:
            noted: As of `finish`.
        """
        reader = _Reader(self._screens, noted)
        while not all(screen.close(_SLICE_S) for screen in self._screens):
            if self._is_abandoned or reader.is_idle():
                self._abandon()
                return

    def _abandon(self) -> None:
        if not self._is_abandoned:
            self._is_abandoned = True
            self.troubles.append(
                "Some output of the ranks was not shown, because nothing was reading it; their "
                "log files are complete."
            )

    def _put(self, rank: int, lines: bytes, stream: str) -> None:
        if stream == "stderr":
            lines = self._warnings.fold(rank, lines)
        self._screens[0].put(rank, lines, self._time())

    def _time(self) -> bytes:
        if not self._timestamps:
            return b""
        now = time.time()
        second = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        return f"{second}.{int(now * 1000) % 1000:03d} ".encode()

    def _report(self, sentence: str) -> None:
        self.troubles.append(sentence)
        if self._screens:
            self.say(sentence)


class _Reader:
    """Whoever reads what the screens write, who may have stopped doing so."""

    def __init__(self, screens: Sequence[Screen], noted: Sequence[int]) -> None:
        self._screens = screens
        self._noted = noted
        self._written = -1
        self._began = self._since = time.monotonic()

    def is_idle(self) -> bool:
        """Tell whether nothing was taken for long, or it takes long after a signal.

        After two signals nobody waits.
        """
        now, written = time.monotonic(), sum(screen.written for screen in self._screens)
        if written != self._written:
            self._written, self._since = written, now
        signals = len(self._noted)
        if signals > 1 or (signals and now - self._began >= _AFTER_SIGNAL_S):
            return True
        return now - self._since >= (_HURRIED_READER_S if signals else _READER_S)
