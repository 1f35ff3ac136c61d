"""Programs that are asked end together with this one."""

import contextlib
import signal
import sys
from typing import Any, Iterator

__all__ = ["programs_ended_with_this"]


@contextlib.contextmanager
def programs_ended_with_this() -> Iterator[None]:
    """Turns the signals that end a process into an exit.

    A program that is asked just then has a session of its own: it would outlive this one.
    """

    def leave(number: int, frame: Any) -> None:
        sys.exit(128 + number)

    # With nohup, SIGHUP is ignored, and stays so.
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    previous = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
