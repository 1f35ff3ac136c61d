"""Signals that a test, or one of its programs, sends to itself."""

import signal
import threading

__all__ = ["signal_this_thread"]


def signal_this_thread(number: int) -> None:
    """Send the main thread, which calls this, a signal whose handler has then run.

    After `os.kill` that is not certain: another thread may get the signal, and Python runs the
    handler in the main thread a moment later.
    """
    signal.pthread_kill(threading.get_ident(), number)
