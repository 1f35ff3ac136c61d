"""Closing several things so that nothing is left open and no exception is lost."""

import logging
import threading
from typing import Callable, List, Optional, Sequence, Tuple

_logger = logging.getLogger(__name__)

Closer = Tuple[str, Callable[[], object]]


def close_all(closers: Sequence[Closer]) -> List[Tuple[str, BaseException]]:
    """Run every closer, whatever the others do; return what failed, with its exception."""
    failed: List[Tuple[str, BaseException]] = []
    for what, closer in closers:
        try:
            closer()
        except BaseException as error:  # an interrupt must not keep the device from closing
            failed.append((what, error))
    return failed


def close_at_once(closers: Sequence[Closer], head_start_s: float = 0) -> None:
    """Run every closer in a thread of its own, and wait for all of them.

    For a signal: closing a session waits for its run, which may not react, and must not keep the
    others from being closed. What fails here fails again when the blocks are left.

    Args:
        closers: What to run.
        head_start_s: How long the others wait for the first.
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


def log_failures(failed: Sequence[Tuple[str, BaseException]]) -> None:
    """Log what failed while closing, where nobody is left to catch it."""
    for what, error in failed:
        _logger.error("%s failed: %s", what, error, exc_info=error)


def keep_body_error(body: BaseException, closing: BaseException) -> None:
    """The user sees ``body``; what failed while closing is logged and attached to it.

    It is found in the attribute ``closing_errors`` and, from Python 3.11 on, in the notes.
    """
    _logger.error("Closing failed after %s: %s", type(body).__name__, closing, exc_info=closing)
    errors: Optional[List[BaseException]] = getattr(body, "closing_errors", None)
    if errors is None:
        errors = []
        body.closing_errors = errors  # type: ignore[attr-defined]
    errors.append(closing)
    add_note = getattr(body, "add_note", None)
    if add_note is not None:
        add_note(f"Closing failed as well: {closing}")
