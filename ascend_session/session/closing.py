"""Closing several things: none is left out, and no exception is lost."""

import logging
import threading
from typing import Callable, List, Optional, Tuple

from ascend_session.session.signals import log

_logger = logging.getLogger(__name__)

Closer = Tuple[str, Callable[[], object]]
"""What is closed, as the subject of a sentence, and how."""

Failed = List[Tuple[str, BaseException]]
"""What failed while closing, each with its exception."""


def close_all(closers: List[Closer]) -> Failed:
    """Run every closer, whatever the others do; return what failed, with its exception."""
    failed: Failed = []
    for what, closer in closers:
        try:
            closer()
        except BaseException as error:  # an interrupt must not keep the device from closing
            failed.append((what, error))
    return failed


def close_at_once(closers: List[Closer], head_start_s: float = 0) -> None:
    """Run every closer in a thread of its own, and wait for all; the others wait for the first.

    For a signal: closing a session waits for its run, which may not react, and must not keep the
    others from being closed. What fails here fails again when the blocks are left.
    """
    threads: List[threading.Thread] = []
    for closer in closers:
        thread = threading.Thread(target=close_all, args=([closer],), daemon=True)
        thread.start()
        if not threads:
            thread.join(head_start_s)
        threads.append(thread)
    for thread in threads:
        thread.join()


def log_failures(failed: Failed) -> None:
    """Log what failed while closing, where nobody is left to catch it."""
    for what, error in failed:
        log(_logger.error, "%s failed: %s", what, error, exc_info=error)


def join_errors(
    first: Optional[BaseException], others: List[BaseException]
) -> Optional[BaseException]:
    """Return what the user sees of several errors: ``first``, else an interrupt, else any.

    The others are attached to it in the attribute ``closing_errors``. Those that are failures, and
    not interrupts, are logged, and from Python 3.11 on they are in its notes.
    """
    others = sorted(others, key=lambda error: isinstance(error, Exception))
    if first is None:
        if not others:
            return None
        first = others.pop(0)
    for error in others:
        earlier = getattr(first, "closing_errors", None) or ()
        first.closing_errors = [*earlier, error]  # type: ignore[attr-defined]
        if not isinstance(error, Exception):
            continue
        name = type(first).__name__
        log(_logger.error, "Closing failed after %s: %s", name, error, exc_info=error)
        if hasattr(first, "add_note"):
            first.add_note(f"Closing failed as well: {error}")
    return first
