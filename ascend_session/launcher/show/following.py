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
from ascend_session.launcher.show.failure_filter import FailureFilter
from ascend_session.launcher.show.lines import LineSplitter, WarningFold
from ascend_session.launcher.show.log_file import READ_BYTES, LogFile, watch_growth
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

_LATEST_BYTES = 512
# Seconds between two looks while files grow; it becomes longer while they are quiet. The longest:
# before the kernel is asked to report a growth; when it reports any, in case it does not for this
# file system; and when it cannot.
_BUSY_S, _QUIET_S, _REPORTED_S, _UNREPORTED_S = 0.02, 0.2, 2.0, 0.5
_TRACEBACK_S = 1.0  # that the next line of a traceback may take
_ROOM_S = 0.1  # between two looks while the screen takes nothing


class LogFollower:
    """Follows the log files of an attempt until it is told that they are complete.

    Args:
        files: The files; they are closed at the end.
        output: Shows the lines.
    """

    def __init__(self, files: Sequence[LogFile], output: "Output") -> None:
        self._files = files
        self._output = output
        self._ended_ranks: Set[int] = set()
        self._is_ending = False
        self._abandoned = threading.Event()
        self._is_over = threading.Event()
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
            self.join(0.0)
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
        """Wait until all was handed on; the screen may still be writing. The last call if it was.

        Raises:
            BaseException: What ended the thread, if that was a mistake in this package.
        """
        if not self._is_over.wait(timeout_s):
            return False
        os.close(self._woken)
        os.close(self._wake)
        if self._failure is not None:
            raise self._failure
        return True

    def _main(self) -> None:
        with contextlib.ExitStack() as opened:
            for file in self._files:
                opened.callback(os.close, file.fd)
            try:
                self._run(opened)
            except BaseException as failure:
                self._failure = failure
            # Nobody waits for the kernel, which takes 10 ms to let go of what it watches.
            self._is_over.set()

    def _run(self, opened: contextlib.ExitStack) -> None:
        woken, woken_or_grown = select.poll(), select.poll()
        woken.register(self._woken, select.POLLIN)
        woken_or_grown.register(self._woken, select.POLLIN)
        wait_s, longest_s = _BUSY_S, _QUIET_S
        while not self._abandoned.is_set():
            # Before the look: what they had written by then is all of it.
            is_last, ended_ranks = self._is_ending, frozenset(self._ended_ranks)
            self._look()
            shown_bytes = self._show_round(ended_ranks)
            if is_last:
                while not self._abandoned.is_set() and any(each.has_more for each in self._files):
                    self._show_round(ended_ranks)
                break
            if shown_bytes >= READ_BYTES:
                continue
            if shown_bytes:  # perhaps line by line: not each of them alone
                wait_s, ready = _BUSY_S, woken.poll(1000 * _BUSY_S)
            elif wait_s == longest_s == _QUIET_S:  # once, and what grew until now is seen first
                notifier = watch_growth([file.path for file in self._files])
                longest_s = _UNREPORTED_S if notifier is None else _REPORTED_S
                if notifier is not None:
                    opened.callback(os.close, notifier)
                    woken_or_grown.register(notifier, select.POLLIN)
                continue
            else:
                ready = woken_or_grown.poll(1000 * wait_s)
                wait_s = wait_s if ready else min(1.5 * wait_s, longest_s)
            for fd, _ in ready:
                os.read(fd, 65536)
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
        self._is_given_up = False

    def follow(self, ranks: Sequence[LaunchRank]) -> None:
        """Make the folders and empty log files of an attempt, and show what is written into them.

        The attached rank writes where the launcher does, and has no log files.

        Raises:
            JobError: If one cannot be made, or there can be no thread.
        """
        self._latest.clear()
        self._warnings = WarningFold()
        files: List[LogFile] = []
        with contextlib.ExitStack() as unless_started:
            for rank in ranks:
                path = rank.folder
                try:
                    for path in (rank.folder, rank.plog, rank.work):
                        os.makedirs(path, exist_ok=True)
                    streams = [("stdout", rank.stdout), ("stderr", rank.stderr)]
                    for stream, path in [] if rank.is_attached else streams:
                        files.append(LogFile(rank.rank, stream, path))
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
        if not self._wait_for_reader(self._follower.join, self._screens[:1], noted):
            self._follower.abandon()
            self._follower.join(_HURRIED_READER_S)
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

        def close(timeout_s: float) -> bool:
            return all(screen.close(timeout_s) for screen in self._screens)

        if self._is_given_up:
            close(_SLICE_S)
        else:
            self._wait_for_reader(close, self._screens, noted)

    def _wait_for_reader(
        self, join: Callable[[float], bool], screens: Sequence[Screen], noted: Sequence[int]
    ) -> bool:
        """Join what waits for whoever reads the screens; give up if that takes nothing for long.

        It is also given up if it takes long after a signal, and at once after two.

        Returns:
            False if it was given up.
        """
        began = since = time.monotonic()
        written = -1
        while not join(_SLICE_S):
            now, before = time.monotonic(), written
            written = sum(screen.written for screen in screens)
            since = since if written == before else now
            longest_s = _HURRIED_READER_S if noted else _READER_S
            is_late = bool(noted) and now - began >= _AFTER_SIGNAL_S
            if len(noted) > 1 or is_late or now - since >= longest_s:
                if not self._is_given_up:
                    self._is_given_up = True
                    self.troubles.append(
                        "Some output of the ranks was not shown, because nothing was reading it; "
                        "their log files are complete."
                    )
                return False
        return True

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
