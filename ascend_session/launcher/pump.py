"""Reads what the ranks write into a log file for each stream, and decides who is shown.

`Pump` reads the pipes of all ranks in one thread. It sleeps until a pipe has something. Each time,
it reads at most `READ_BYTES` from each pipe that has, so a rank that floods gets no more than its
turn. What is read goes to the rank's log file and to the output. If the output has enough of a
rank, that rank's pipes are left alone until there is room: they fill, and that rank waits in its
next write. Nothing else waits for a slow terminal, and the launcher does not grow. A log file on a
file system that hangs does hold up everyone.

`FailureFilter` decides whose lines are still shown once a rank has failed, or the launcher was told
to stop. The screen belongs to the cause: what merely follows from it goes to the logs, which always
have everything. A rank records its failure before the others hear of it, and those that hear of it
record that before they write anything; so a look for records whenever lines come is in time. A
program may catch the failure and open another system, which removes the record. So until a rank
ends because of it, only the standard error of the others is hidden, and no longer than it is there.
"""

import array
import contextlib
import fcntl
import os
import selectors
import signal
import termios
import threading
import time
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

from ascend_session.errors import JobError
from ascend_session.rank_folder import RECORD_NAME

if TYPE_CHECKING:
    from ascend_session.failures.record import ErrorRecord
    from ascend_session.launcher.output import Output

READ_BYTES = 64 * 1024


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


class LogFile:
    """A new file; what an earlier one of this name held is gone, and each write goes to its end.

    A file that cannot be opened is reported once and takes nothing. When the disk is full, what it
    does not take is lost, which is reported once; if there is room again, the file says how much
    was lost and goes on. No method raises OSError.

    Args:
        path: The file; its folder is there.
        notices: Takes the reports.
    """

    def __init__(self, path: str, notices: "Notices") -> None:
        self.path = path
        self._notices = notices
        self._lost = 0
        self._fd: Optional[int] = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o666)
        except OSError as failure:
            self._report(failure, "cannot be opened")

    def write(self, chunk: bytes) -> None:
        """Append the bytes."""
        if self._fd is None:
            return
        if self._lost:
            mark = f"\n[{self._lost} bytes are missing here: they could not be written]\n".encode()
            if self._append(mark) < len(mark):
                self._lost += len(chunk)
                return
            self._lost = 0
        self._lost += len(chunk) - self._append(chunk)

    def close(self) -> None:
        """Close the file, if it is open."""
        fd, self._fd = self._fd, None
        if fd is not None:
            try:
                os.close(fd)
            except OSError as failure:  # some file systems say only now that there was no room
                self._report(failure, "is not complete")

    def _append(self, data: bytes) -> int:
        """Write, and return how many of the bytes the file took."""
        assert self._fd is not None
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:] if done else data)
        except OSError as failure:
            self._report(failure, "is not complete")
        return done

    def _report(self, failure: OSError, what: str) -> None:
        self._notices.once(
            f"log file, errno {failure.errno}",
            f"The log file {self.path} {what}: {failure.strerror}. The job goes on; "
            "other log files that fail for the same reason are not reported.",
        )


class Source(NamedTuple):
    """A pipe to read.

    Attributes:
        fd: Its end for reading; the pump closes it.
        rank: The rank that writes.
        stream: ``stdout`` or ``stderr``.
        log: Gets the bytes untouched and is closed at the end.
    """

    fd: int
    rank: int
    stream: str
    log: LogFile


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


class Pump:
    """Reads until every pipe has ended, or until it is stopped.

    When the ranks have ended, stop it: a pipe may be held open by a process that a rank left
    behind, or be left alone because the terminal takes nothing.

    Args:
        sources: The pipes.
        output: Shows the lines.
    """

    def __init__(self, sources: Sequence[Source], output: "Output") -> None:
        self._output = output
        self._open: Dict[int, List[Source]] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        for source in sources:
            self._open.setdefault(source.rank, []).append(source)
            self._selector.register(source.fd, selectors.EVENT_READ, source)
        self._lock = threading.Lock()  # guards the pipe that wakes
        self._has_ended = False
        self._paused: Set[int] = set()
        self._is_stopping = False
        self._failure: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._main, name="launch-pump", daemon=True)
        output.when_room(self._wake)  # which may be called from now on

    def start(self) -> "Pump":
        """Begin to read, in a thread of its own.

        Raises:
            JobError: If there can be no thread; all pipes are closed then.
        """
        try:
            start_thread(self._thread)
        except JobError:
            self.stop()
            self._main()
            raise
        return self

    def stop(self) -> None:
        """End it although pipes may not have ended; returns at once, see `join`.

        What is in the pipes at that moment is still read.
        """
        self._is_stopping = True
        self._wake()

    def join(self, timeout_s: Optional[float] = None) -> bool:
        """Wait until all was read and handed on; the output may still be writing.

        Returns:
            Whether it has ended within the time.

        Raises:
            BaseException: What ended the thread, if that was a mistake in this package.
        """
        self._thread.join(timeout_s)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    @property
    def waits_for_reader(self) -> bool:
        """Whether a rank is left alone because whoever reads what is shown takes nothing."""
        return bool(self._paused)

    def wrote_at(self, rank: int) -> Optional[float]:
        """Say when a rank last wrote something (`time.monotonic`); None if it has not yet.

        A rank that is not read because the terminal is slow counts as writing now: what it does
        cannot be known, and it must not be taken for one that hangs.
        """
        if rank in self._paused:
            return time.monotonic()
        latest = self._output.latest(rank)
        return None if latest is None else latest.time

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as failure:
            self._failure = failure
        finally:
            for source in self._open_sources():
                self._end(source)
            self._selector.close()
            with self._lock:
                self._has_ended = True
                os.close(self._wake_read)
                os.close(self._wake_write)

    def _run(self) -> None:
        while self._open:
            if self._is_stopping:
                self._drain()
                return
            for key, _ in self._selector.select():
                if key.data is None:
                    os.read(self._wake_read, 4096)
                    self._resume()
                elif key.data.rank not in self._paused:
                    self._read(key.data, READ_BYTES)

    def _open_sources(self) -> List[Source]:
        return [source for sources in self._open.values() for source in sources]

    def _read(self, source: Source, size: int) -> None:
        try:
            chunk = os.read(source.fd, size)
        except OSError:  # EIO: the other side of a pseudo terminal is closed
            chunk = b""
        if not chunk:
            self._end(source)
            return
        source.log.write(chunk)
        if not self._output.feed(source.rank, source.stream, chunk, source.log.path):
            self._pause(source.rank)

    def _end(self, source: Source) -> None:
        if source.rank not in self._paused:
            self._selector.unregister(source.fd)
        os.close(source.fd)
        self._open[source.rank].remove(source)
        if not self._open[source.rank]:
            del self._open[source.rank]
        source.log.close()
        self._output.end(source.rank, source.stream)

    def _pause(self, rank: int) -> None:
        if rank not in self._paused:  # as it may be while draining
            self._paused.add(rank)
            for source in self._open[rank]:
                self._selector.unregister(source.fd)

    def _resume(self) -> None:
        for rank in [rank for rank in self._paused if self._output.has_room(rank)]:
            self._paused.remove(rank)
            for source in self._open.get(rank, ()):
                self._selector.register(source.fd, selectors.EVENT_READ, source)

    def _wake(self) -> None:
        with self._lock:
            if not self._has_ended:
                # If that pipe is full, the thread wakes anyway.
                with contextlib.suppress(BlockingIOError):
                    os.write(self._wake_write, b"\0")

    def _drain(self) -> None:
        """Read what is in the pipes now, and not what comes meanwhile: that may never end."""
        for source in self._open_sources():
            count = array.array("i", [0])
            fcntl.ioctl(source.fd, termios.FIONREAD, count)
            left = count[0]
            while left > 0 and source in self._open.get(source.rank, ()):
                self._read(source, min(left, READ_BYTES))
                left -= READ_BYTES


_TRACEBACK = b"Traceback (most recent call last)"
_LOOK_S = 0.1  # between two looks because of lines on standard output


class FailureFilter:
    """Decides which lines of an attempt are shown.

    Lines are looked at by one thread; what happens is noted by another one.

    Args:
        folders: The folder of each rank, in which it leaves its record.

    Attributes:
        first_failed: The rank that failed first, as far as is known; None while none has.
    """

    def __init__(self, folders: Mapping[int, str]) -> None:
        self.first_failed: Optional[int] = None
        self._folders = folders
        self._records: Dict[int, ErrorRecord] = {}
        self._reported: Set[int] = set()
        self._with_traceback: Set[int] = set()  # ranks whose traceback has begun after a stop
        self._is_stopped = self._has_traceback = self._is_final = False
        self._next_look = 0.0
        self._lock = threading.Lock()

    def note_end(self, rank: int) -> None:
        """Note that a rank has ended in another way than with exit code 0."""
        with self._lock:
            self._look()
            self._is_final = True
            if self.first_failed is None:
                self.first_failed = rank

    def note_first_failed(self, rank: int) -> None:
        """Note which rank failed first, by more than the times of records."""
        with self._lock:
            self.first_failed, self._is_final = rank, True

    def note_stop(self) -> None:
        """Note that the launcher asks everyone to end, although no rank has failed."""
        with self._lock:
            self._is_stopped = self.first_failed is None

    def admit(self, rank: int, stream: str, chunk: bytes, hides_traceback: bool) -> bytes:
        """Give what is shown of what a rank has just written.

        Args:
            rank: The rank.
            stream: ``stdout`` or ``stderr``.
            chunk: What it has written.
            hides_traceback: Whether somebody else reports the exception that ends the program of
                the rank that failed first.
        """
        with self._lock:
            if stream == "stderr" or time.monotonic() >= self._next_look:
                self._look()
            record = self._records.get(rank)
            if self._is_stopped:  # what it writes besides, such as of a checkpoint, is shown
                if stream != "stderr" or record is None:
                    return chunk
                before, traceback, _ = chunk.partition(_TRACEBACK)
                shown = b"" if rank in self._with_traceback else before
                if traceback:
                    self._with_traceback.add(rank)
                return shown
            if self.first_failed is None:
                follows = record is not None and record.failed_rank is not None
                return b"" if follows and stream == "stderr" else chunk
            if rank != self.first_failed:
                return b"" if self._is_final or stream == "stderr" else chunk
            if not hides_traceback or stream != "stderr" or record is None:
                return chunk
            if self._has_traceback:
                return b""
            if not record.ends_program:
                return chunk
            before, traceback, _ = chunk.partition(_TRACEBACK)
            self._has_traceback = bool(traceback)
            return before

    def take_sentence(self, rank: int) -> str:
        """Say, once, that a rank ends because another one failed; empty for any other one."""
        record = self._records.get(rank)
        if self._is_stopped or record is None or record.failed_rank is None:
            return ""
        if self.first_failed is None and self._is_terminated(record.failed_rank):
            return ""  # perhaps all ranks were
        if rank in self._reported:
            return ""
        self._reported.add(rank)
        return f"rank {rank}: stopped, because rank {record.failed_rank} failed"

    def _is_terminated(self, rank: int) -> bool:
        """Tell whether a rank exits because of SIGTERM, which others may get as well."""
        record = self._records.get(rank)
        return (
            record is not None
            and record.failed_rank is None
            and record.exit_code == 128 + signal.SIGTERM
        )

    def _look(self) -> None:
        self._next_look = time.monotonic() + _LOOK_S
        for rank, folder in self._folders.items():
            known = self._records.get(rank)
            if known is not None and known.ends_program:
                continue
            record = None
            if os.path.exists(os.path.join(folder, RECORD_NAME)):
                from ascend_session.failures.record import read_record

                record = read_record(folder)
            if record is None:
                self._records.pop(rank, None)
                self._reported.discard(rank)
            else:
                self._records[rank] = record
        if self._is_final or self._is_stopped:
            return
        # A rank that was asked to exit reports no more of the cause than what it had heard before.
        failed = [
            rank
            for rank, record in self._records.items()
            if not self._is_terminated(rank if record.failed_rank is None else record.failed_rank)
        ]
        self._is_final = any(self._records[rank].ends_program for rank in failed)
        self.first_failed = None
        if failed:
            first = min(failed, key=lambda rank: self._records[rank].time)
            other = self._records[first].failed_rank
            self.first_failed = first if other is None else other
