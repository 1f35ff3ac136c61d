"""What rank 0's process does once all ranks have left: it compares their models.

It reports the comparison to the launcher. Where there is none, or none that can be reached, it
logs the notes, and prints an error when the process exits, with code 1.
"""

import ctypes
import logging
import sys
from typing import Mapping

from ascend_session import channel
from ascend_session.backends.exchange.lateness import Lateness
from ascend_session.backends.exchange.models import (
    Advice,
    ModelComparison,
    RankReport,
    compare_models,
)
from ascend_session.errors import write_stderr
from ascend_session.process import on_fork

_logger = logging.getLogger("ascend_session")

_advice = Advice()
_comparison = ModelComparison()  # of all systems of this process
_is_reported = False  # to the launcher


def set_advice(advice: Advice) -> None:
    """Have messages name the functions of another API."""
    global _advice
    _advice = advice


def current_advice() -> Advice:
    """Return what messages advise in this process."""
    return _advice


def publish(
    reports: Mapping[int, RankReport], size: int, has_exchanged: bool, lateness: Lateness
) -> None:
    """Compare the models of a system's ranks; report the result with that of earlier systems."""
    global _comparison, _is_reported
    earlier, new = _comparison, compare_models(reports, size, has_exchanged, _advice)
    slow = lateness.find_slow()
    sentences = [] if slow is None else [slow.sentence]
    notes = tuple(dict.fromkeys([*earlier.notes, *new.notes, *sentences]))
    latest = earlier if earlier.error or new.is_one_model is None else new
    _comparison = latest._replace(
        notes=notes,
        late_shares=lateness.measure_shares() or earlier.late_shares,
        slow_rank=earlier.slow_rank if slow is None else slow.rank,
    )
    _is_reported = channel.send("models", **_comparison._asdict())
    if _is_reported:
        return
    for note in notes[len(earlier.notes) :]:
        _logger.warning("%s%s", note[0].upper(), note[1:])


def settle() -> None:
    """Print the error, unless the launcher does, and have the process exit with 1; at exit.

    A program that fails keeps its own exit code, as far as it can be known here: not the code of
    ``sys.exit(3)``.
    """
    error = _comparison.error
    if error is None or _is_reported:
        return
    write_stderr(f"ascend-session: error: {error}\n")
    if getattr(sys, "last_value", None) is None:
        libc = ctypes.CDLL(None)
        # Called by the C library in reverse order once Python has ended: fflush(NULL), _exit(1).
        libc.__cxa_atexit(libc._exit, 1, None)
        libc.__cxa_atexit(libc.fflush, None, None)


def _forget_in_child() -> None:
    global _comparison
    _comparison = ModelComparison()


on_fork(_forget_in_child)
