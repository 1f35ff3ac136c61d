"""What the launcher needs of its own process: signals, standard streams, limits, threads."""

import contextlib
import os
import resource
import signal
import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ascend_session.errors import JobError

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def find_signal_name(number: int) -> Optional[str]:
    """Look up a signal's name, as ``SIGKILL``; None for those that have none."""
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time signals
        return None


def signal_name(number: int) -> str:
    """Name a signal: ``SIGKILL``, or ``signal 40`` for those that have no name."""
    return find_signal_name(number) or f"signal {number}"


class Signals:
    """Notes the signals that end a process, which do nothing else within its block.

    One that was ignored, as SIGHUP is below ``nohup``, stays ignored. Signals reach the main thread
    only: in another one nothing is noted, and nothing is changed.
    """

    def __init__(self) -> None:
        self.noted: List[int] = []
        self._previous: Dict[int, Any] = {}
        self._read, self._write = -1, -1
        self._pid = os.getpid()

    def __enter__(self) -> "Signals":
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                # None: a handler that was not set by Python, and could not be put back
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *failure: Any) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """Return a descriptor that poll(2) finds readable when a signal was noted."""
        return self._read

    def take(self) -> List[int]:
        """Take the signals that came since this was last asked, in order."""
        try:
            return list(os.read(self._read, 4096))
        except BlockingIOError:
            return []

    def raise_again(self) -> None:
        """Send this process the first signal that was noted, for whoever else waits for it."""
        if self.noted:
            os.kill(os.getpid(), self.noted[0])

    def _note(self, number: int, frame: Any) -> None:
        if os.getpid() != self._pid:
            # A fork of the launcher has the same handlers and the same pipe, but is not meant.
            signal.signal(number, self._previous[number])
            os.kill(os.getpid(), number)
            return
        self.noted.append(number)
        with contextlib.suppress(BlockingIOError):  # thousands of them wait
            os.write(self._write, bytes([number]))


_FILES_PER_RANK, _OTHER_FILES = 6, 64


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Keep /dev/null where the caller has closed a standard stream.

    The next file that is opened would take its place: what is meant for the stream would get into
    the launcher's own pipes.
    """
    opened = []
    try:
        for fd in range(3):
            try:
                os.fstat(fd)
            except OSError:
                opened.append(os.open(os.devnull, os.O_RDWR))  # the lowest free number: this one
        yield
    finally:
        for fd in opened:
            os.close(fd)


@contextlib.contextmanager
def enough_open_files(ranks: int) -> Iterator[Optional[Tuple[int, int]]]:
    """Raise the limit of open files if it is too low for so many ranks, and lower it afterwards.

    Yields:
        The limits as they were, which ranks should have; None if nothing was changed.

    Raises:
        JobError: If this user may not have so many.
    """
    needed = len(os.listdir("/proc/self/fd")) + _OTHER_FILES + _FILES_PER_RANK * ranks
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        yield None
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise JobError(
            f"The launcher needs {needed} open files for {ranks} ranks, but its limit is {hard}.",
            hint="Raise the hard limit, for example by LimitNOFILE or in limits.conf.",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    try:
        yield soft, hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def start_thread(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        JobError: If this user may have no more.
    """
    try:
        thread.start()
    except RuntimeError:
        raise JobError(
            f"The launcher cannot start its thread {thread.name!r}: this user may have no more "
            "processes and threads.",
            hint="`ulimit -u` shows the limit; end others, or raise it.",
        ) from None
