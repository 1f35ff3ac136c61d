"""Whether a rank's process lives, and what it computes, as the kernel says it.

The end of a connection is heard at once, but does not come while a child that the process forked
keeps it open. Only processes of this machine can be looked at; each rank says itself what it
computes to a rank 0 on another.
"""

import os
import threading
from typing import Any, Callable, Optional

__all__ = ["EndedError", "RankProcess", "tell_use", "watch_for_end"]

_INTERVAL = 1.0  # seconds between two looks


class EndedError(Exception):
    """The process is no more, or only a zombie."""


class RankProcess:
    """The process of a rank."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._process: Any = None

    def processor_seconds(self) -> Optional[float]:
        """What it has used until now, all threads together; None if that cannot be seen.

        Raises:
            EndedError: If it has ended.
        """
        import psutil  # only ranks that wait need it

        try:
            if self._process is None:
                self._process = psutil.Process(self._pid)
            if not self._process.is_running() or self._process.status() == psutil.STATUS_ZOMBIE:
                raise EndedError
            times = self._process.cpu_times()
        except psutil.NoSuchProcess as error:
            raise EndedError from error
        except psutil.Error:
            return None
        return float(times.user + times.system)


def watch_for_end(
    pid: int, matters: Callable[[], bool], is_over: threading.Event, tell: Callable[[], None]
) -> None:
    """Looks every second whether a process has ended, and calls ``tell`` then.

    Args:
        pid: The process.
        matters: Whether anybody waits for it; it is not looked at otherwise.
        is_over: Set when it is not to be looked at any more.
        tell: Called at most once.
    """
    process = RankProcess(pid)
    try:
        while not is_over.wait(_INTERVAL):
            if matters():
                process.processor_seconds()
    except EndedError:
        tell()


def tell_use(
    matters: Callable[[], bool], is_over: threading.Event, tell: Callable[[float], None]
) -> None:
    """Says every second what this process has computed.

    Args:
        matters: Whether this process waits for others; nothing is said otherwise.
        is_over: Set when nothing is to be said any more.
        tell: Gets processor seconds.
    """
    process = RankProcess(os.getpid())
    while not is_over.wait(_INTERVAL):
        used = process.processor_seconds() if matters() else None
        if used is not None:
            tell(used)
