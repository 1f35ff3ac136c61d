"""What a rank's record and logs say about its failure, and how much that explains."""

import re
import signal
from enum import IntEnum
from typing import Iterable, Iterator, List, NamedTuple, Optional

from ascend_session.failures import Failure, FailureClass, Role, classify, root_cause
from ascend_session.launcher.rank import Rank
from ascend_session.launcher.result import RankResult
from ascend_session.launcher.tails import plogs_of, tail_text

__all__ = ["Evidence", "Weight", "definite_failure_of", "evidence_of", "tail_limit"]

_TAIL = 256 * 1024  # bytes of each file that are looked at
_IN_ALL = 16 * 1024 * 1024  # bytes of all files of a job: about two seconds
_LEAST = 8 * 1024

# Signals by which others end a process; what it wrote before does not explain them.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# Exceptions of Python that scripts and libraries raise because of what the device said. All others
# speak for themselves: what else stands in the logs does not explain a KeyError.
_OPEN = ("Exception", "OSError", "RuntimeError", "SystemError", "SystemExit")
_PYTHONS_OWN = re.compile(r"[A-Z][A-Za-z]*")


class Weight(IntEnum):
    """How well a failure explains those of other ranks; less is better."""

    OWN = 0
    """A failure of its own: a code that says so, or an end without any code of the vendor."""

    UNCLEAR = 1
    """A code that may be the rank's own fault or not."""

    OF_ANOTHER = 2
    """A code that says that another rank failed first."""

    UNSAID = 3
    """A text that only says that something failed."""


class Evidence(NamedTuple):
    """What is known of one rank's failure.

    Attributes:
        weight: How well it explains those of others.
        failure: The known failure of the vendor's stack, or None.
    """

    weight: Weight
    failure: Optional[Failure]


def tail_limit(ranks: int) -> int:
    """How many bytes of each file are looked at in a job of so many ranks."""
    return max(_LEAST, min(_TAIL, _IN_ALL // (3 * ranks)))


def evidence_of(rank: Rank, result: RankResult, limit: int) -> Evidence:
    """Looks into a failed rank's record, then into the ends of its logs.

    Args:
        rank: As it was planned.
        result: What became of it.
        limit: Bytes of each log that are looked at.
    """
    failure = _failure_in(_record_text(result))
    if failure is None and _speaks_for_itself(result):
        return Evidence(Weight.OWN, None)
    if failure is None or not _is_exact(failure):
        failure = _failure_in(_texts(rank, result, limit))
    if failure is None or (_crashed(result) and _weight(failure)):
        return Evidence(Weight.OWN, None)
    return Evidence(_weight(failure), failure)


def definite_failure_of(rank: Rank, result: RankResult, limit: int) -> Optional[Failure]:
    """The failure of its own that a stopped rank speaks of, or None."""
    failure = _failure_in(_texts(rank, result, limit))
    return failure if failure is not None and _weight(failure) is Weight.OWN else None


def _failure_in(texts: Iterable[str]) -> Optional[Failure]:
    """What is to be acted upon; texts that could only say it less exactly are not read."""
    found: List[Failure] = []
    for text in texts:
        found += classify(text)
        failure = root_cause(found)
        if failure is not None and _is_exact(failure):
            return failure
    return root_cause(found)


def _speaks_for_itself(result: RankResult) -> bool:
    if result.error is not None:
        name = result.error.type
        return name not in _OPEN and _PYTHONS_OWN.fullmatch(name) is not None
    return result.status is None or -result.status in _FROM_OUTSIDE


def _crashed(result: RankResult) -> bool:
    """Whether a signal ended it that is not GE's own way to end a process, nor the launcher's."""
    status = result.status or 0
    return status < 0 and status != -signal.SIGABRT and result.error is None


def _texts(rank: Rank, result: RankResult, limit: int) -> Iterator[str]:
    yield from _record_text(result)
    yield tail_text(rank.stderr, limit)
    yield tail_text(rank.stdout, limit)
    paths = plogs_of(rank, result.pid)
    for path in paths:
        yield tail_text(path, limit // len(paths))


def _record_text(result: RankResult) -> Iterator[str]:
    if result.error is not None:
        yield f"{result.error.message}\n{result.error.traceback}"


def _is_exact(failure: Failure) -> bool:
    is_cause = failure.definition.role is Role.CAUSE
    return is_cause and not failure.vague and _weight(failure) is Weight.OWN


def _weight(failure: Failure) -> Weight:
    if failure.definition.role is Role.WRAPPER:
        return Weight.UNSAID
    if failure.failure_class is FailureClass.SECONDARY:
        return Weight.OF_ANOTHER
    return Weight.UNCLEAR if failure.failure_class is FailureClass.AMBIGUOUS else Weight.OWN
