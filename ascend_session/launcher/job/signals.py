"""Signals to the launcher and its ranks."""

import contextlib
import os
import signal
from _thread import get_ident
from typing import Any, Dict, Iterator, List, Optional

PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that mean something to the ranks that catch them, and nothing to the launcher."""

ASKING_WHERE = signal.SIGQUIT
"""Signal to the launcher (Ctrl-\\) by which somebody asks where the ranks are."""

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals by which a person or a program asks a process to end."""

TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit status of a process that SIGTERM has ended, and of a shell around it."""

# Those that end a process as well, unless it does something about them. What a fault raises in the
# process itself is not among them, nor are SIGPIPE and SIGXFSZ, which Python ignores.
_OTHERS = (
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGXCPU,
    signal.SIGIO,
    signal.SIGPWR,
    getattr(signal, "SIGSTKFLT", 16),  # has a name in Python from 3.11 on
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)


def find_signal_name(number: int) -> Optional[str]:
    """Look up a signal's name, as ``SIGKILL``; None for those that have none."""
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time signals
        return None


def signal_name(number: int) -> str:
    """Name a signal: ``SIGKILL``, or ``signal 40`` for those that have no name."""
    return find_signal_name(number) or f"signal {number}"


def catches_signal(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal; False if that is not known."""
    return _is_in_mask(pid, "SigCgt", number)


def ignores_signal(pid: int, number: int) -> bool:
    """Tell whether a process ignores a signal; False if that is not known."""
    return _is_in_mask(pid, "SigIgn", number)


def blocks_signal(pid: int, number: int) -> bool:
    """Tell whether a process's main thread blocks a signal, as before ``sigwait``."""
    return _is_in_mask(pid, "SigBlk", number)


def _is_in_mask(pid: int, name: str, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            mask = int(file.read().partition(f"\n{name}:")[2].split()[0], 16)
    except (OSError, LookupError, ValueError):  # it has ended, or been hidden
        return False
    return bool(mask >> (number - 1) & 1)


class Signals:
    """Notes the signals that end or stop a process, which do nothing else within its block.

    One that was ignored, as SIGHUP is below ``nohup``, stays ignored. Those by which nobody asks a
    process to end, such as SIGALRM, are left to a program that has a handler for them. Signals
    reach the main thread only: in another one nothing is noted, and nothing is changed.

    Attributes:
        noted: Those that end the job, in order.
    """

    def __init__(self) -> None:
        self.noted: List[int] = []
        self._taken: List[int] = []
        self._previous: Dict[int, Any] = {}
        self._read, self._write = -1, -1
        self._previous_fd: Optional[int] = None
        self._pid = os.getpid()
        self._has_ranks = False
        self._is_to_stop = False  # SIGTSTP was noted, and nothing has stopped the process yet

    def __enter__(self) -> "Signals":
        import threading  # not needed by the guardian, which imports this module

        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        if threading.current_thread() is threading.main_thread():
            # Python runs a handler only between two of its own instructions. This descriptor is
            # written to at once, also when the signal comes right before a wait, or in a thread.
            self._previous_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
            for number in (*ASKING, *PASSED_ON, signal.SIGTSTP, *_OTHERS):
                handler = signal.getsignal(number)
                # None: a handler that was not set by Python, and could not be put back
                is_free = handler is signal.SIG_DFL
                is_asking = number in ASKING and handler not in (signal.SIG_IGN, None)
                if is_free or is_asking:
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *failure: Any) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._previous_fd is not None:
            signal.set_wakeup_fd(self._previous_fd)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """Return a descriptor that poll(2) finds readable when a signal has come."""
        return self._read

    def take(self) -> List[int]:
        """Take the signals that came since this was last asked, in order."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)
        taken, self._taken = self._taken, []
        return taken

    def take_ending(self) -> List[int]:
        """Take those of them that end the job."""
        others = (*PASSED_ON, ASKING_WHERE, signal.SIGTSTP)
        return [number for number in self.take() if number not in others]

    def forget(self, number: int) -> None:
        """Let a signal that was noted not end the job: it was for a rank."""
        self.noted.remove(number)

    def raise_again(self) -> None:
        """Send this process the first signal that was noted, for whoever else waits for it."""
        if self.noted:
            os.kill(os.getpid(), self.noted[0])

    @contextlib.contextmanager
    def over_ranks(self) -> Iterator[None]:
        """Take SIGTSTP like the others within a block; whoever takes it calls `stop_process`."""
        self._has_ranks, self._is_to_stop = True, False
        try:
            yield
        finally:
            self._has_ranks = False

    def stop_process(self) -> None:
        """Stop this process as SIGTSTP does, until it is continued."""
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # To this thread, the main one: so it has stopped before the next line.
        signal.pthread_kill(get_ident(), signal.SIGTSTP)
        self._is_to_stop = False
        signal.signal(signal.SIGTSTP, self._note)

    def _note(self, number: int, frame: Any) -> None:
        if os.getpid() != self._pid:
            # A fork of the launcher has the same handlers, but is not meant.
            signal.signal(number, self._previous[number])
            os.kill(os.getpid(), number)
            return
        if number == signal.SIGTSTP and not self._has_ranks:
            self.stop_process()
            return
        if number == signal.SIGTSTP:
            if self._is_to_stop:  # twice at once stops a process once
                return
            self._is_to_stop = True
        elif number not in (*PASSED_ON, ASKING_WHERE):
            self.noted.append(number)
        self._taken.append(number)


@contextlib.contextmanager
def drop_signals_for_ranks() -> Iterator[None]:
    """Let no signal end this process that is meant for ranks."""
    numbers = [number for number in PASSED_ON if signal.getsignal(number) is signal.SIG_DFL]
    # No SIG_IGN, which programs that are started meanwhile would inherit.
    for number in numbers:
        signal.signal(number, lambda number, frame: None)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
