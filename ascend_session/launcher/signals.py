"""The signals that ask the launcher to end, noted until it looks."""

import contextlib
import os
import signal
import threading
from typing import Any, Dict, List, Optional

__all__ = ["Signals", "name_of", "signal_name"]

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def name_of(number: int) -> Optional[str]:
    """A signal's name, as ``SIGKILL``; None for those that have none."""
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time signals
        return None


def signal_name(number: int) -> str:
    """A signal's name; or what stands for it, for those that have none."""
    return name_of(number) or f"signal {number}"


class Signals:
    """Within its block these signals do nothing but to be noted.

    One that was ignored, as SIGHUP is below ``nohup``, stays so. Signals reach the main thread
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
            for number in _NUMBERS:
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
        """Becomes readable when a signal was noted, for poll(2)."""
        return self._read

    def take(self) -> List[int]:
        """The signals that came since this was last asked, in order."""
        try:
            return list(os.read(self._read, 4096))
        except BlockingIOError:
            return []

    def raise_again(self) -> None:
        """Sends this process the first signal that was noted, for whoever else waits for it."""
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
