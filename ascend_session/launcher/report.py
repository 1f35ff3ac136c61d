"""Which rank's failure explains the others', or what else ended an attempt.

A rank's record and the ends of its logs say what failed; `Weight` says how much that explains.
Source: launch_facts.md, E (classes; a secondary failure is no cause where there is a primary one).
"""

import errno
import math
import os
import re
import signal
from dataclasses import replace
from enum import IntEnum
from typing import (
    TYPE_CHECKING,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ascend_session.failures import (
    Condition,
    Failure,
    FailureClass,
    Role,
    classify,
    lost_rank,
    root_cause,
)
from ascend_session.failures.record import read_stacks
from ascend_session.launcher.plan import Plan, RankPlan
from ascend_session.launcher.result import Cause, Outcome, RankResult
from ascend_session.launcher.sentences import (
    after_stop,
    how_it_ended,
    it_reported,
    last_lines,
    on_another_node,
    plogs_of,
    stalled,
    tail_text,
    told,
    without_guardian,
    without_runner,
)

if TYPE_CHECKING:
    from ascend_session.launcher.supervisor import Noticed

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
    """Say how many bytes of each file are looked at in a job of so many ranks."""
    return max(_LEAST, min(_TAIL, _IN_ALL // (3 * ranks)))


def evidence_of(rank: RankPlan, result: RankResult, limit: int) -> Evidence:
    """Look into a failed rank's record, then into the ends of its logs.

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


def definite_failure_of(rank: RankPlan, result: RankResult, limit: int) -> Optional[Failure]:
    """Find the failure of its own that a stopped rank speaks of, or None."""
    failure = _failure_in(_texts(rank, result, limit))
    return failure if failure is not None and _weight(failure) is Weight.OWN else None


def _failure_in(texts: Iterable[str]) -> Optional[Failure]:
    """Find the failure to act upon; texts that could only say it less exactly are not read."""
    failures: List[Failure] = []
    for text in texts:
        failures += classify(text)
        failure = root_cause(failures)
        if failure is not None and _is_exact(failure):
            return failure
    return root_cause(failures)


def _speaks_for_itself(result: RankResult) -> bool:
    if result.error is not None:
        name = result.error.type
        return name not in _OPEN and _PYTHONS_OWN.fullmatch(name) is not None
    return result.status is None or -result.status in _FROM_OUTSIDE


def _crashed(result: RankResult) -> bool:
    """Tell whether a signal ended it, other than GE's own way to end and the launcher's."""
    status = result.status or 0
    return status < 0 and status != -signal.SIGABRT and result.error is None


def _texts(rank: RankPlan, result: RankResult, limit: int) -> Iterator[str]:
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


_STALLED = 124  # as timeout(1)
_STACK_LINES = 20
_OUT_OF_MEMORY = (
    "If nobody sent it, 'dmesg' or 'journalctl -k' names the process that the kernel killed; then "
    "give the job more memory, or let each rank use less."
)

_ELSEWHERE = "See what the launcher of that node says, and the logs of rank {} there."
_NOT_STARTED = (
    "See that the program runs when it is started by hand in the ranks' folder, and that 'ulimit "
    "-a' leaves room for so many processes."
)


class _Blamed(NamedTuple):
    """A failed rank and what is known of its failure."""

    result: RankResult
    evidence: Evidence


def find_cause(
    planned: Plan,
    noticed: "Noticed",
    stall_timeout: Optional[float],
    conditions: Iterable[Condition],
) -> Cause:
    """Find the cause of an attempt that did not succeed; see `result.cause_of`."""
    judge = _Judge(planned, noticed.ranks, set(conditions))
    failed = judge.failed
    if failed and not all(_is_by(rank, noticed.signal) for rank in failed):
        return judge.of_failed()
    if noticed.stall:
        return judge.of_stall(stalled(stall_timeout))
    if noticed.signal is not None:
        return Cause(None, 128 + noticed.signal, told(noticed.signal))
    code = 128 + (signal.SIGKILL if noticed.guardian_died else signal.SIGTERM)
    return Cause(None, code, without_guardian(noticed.guardian_died))


class _Judge:
    def __init__(
        self, planned: Plan, ranks: Sequence[RankResult], conditions: Set[Condition]
    ) -> None:
        self._planned = planned
        self._ranks = ranks
        self._conditions = conditions
        self._limit = tail_limit(len(ranks))
        devices = [rank.physical for rank in planned.ranks if rank.physical is not None]
        if len(set(devices)) < len(devices):
            self._conditions.add(Condition.SHARED_BY_RANKS)
        self.failed = sorted((rank for rank in ranks if _has_failed(rank)), key=_when)

    def of_failed(self) -> Cause:
        """Blame one of the failed ranks, or a stopped one that says more than all of them."""
        first, evidence = self._heaviest()
        if evidence.weight is not Weight.OWN:
            stopped = self._spoken()
            if stopped is not None:
                result, failure = stopped
                sentence = after_stop(result, failure, first)
                return self._cause(result, _exit_code(first), sentence, failure)
            lost = self._lost_elsewhere(evidence)
            if lost is not None and evidence.failure is not None:
                sentence = on_another_node(first, evidence.failure)
                here = self._cause(first, _exit_code(first), sentence, evidence.failure)
                return replace(here, elsewhere=lost, advice=_ELSEWHERE.format(lost))
        sentence = how_it_ended(first)
        sentence += it_reported(evidence.failure, sentence)
        if evidence.weight is Weight.OF_ANOTHER:
            if self._planned.nodes.of == 1:
                self._conditions.add(Condition.NO_PRIMARY)
            else:
                sentence += " The cause may be on another node: see what the launchers there say."
        return self._cause(first, _exit_code(first), sentence, evidence.failure)

    def of_stall(self, sentence: str) -> Cause:
        """Report a stall, with what a rank said before it."""
        stopped = self._spoken()
        if stopped is None:
            return Cause(None, _STALLED, sentence)
        result, failure = stopped
        more = it_reported(failure).replace(" It", f" Rank {result.rank}", 1)
        return self._cause(result, _STALLED, sentence + more, failure)

    def _heaviest(self) -> _Blamed:
        """Find the failed rank that explains most, the first of those that do equally."""
        best: Optional[_Blamed] = None
        for result in self.failed:
            rank = self._planned.of(result.rank)
            blamed = _Blamed(result, evidence_of(rank, result, self._limit))
            if best is None or blamed.evidence.weight < best.evidence.weight:
                best = blamed
            if best.evidence.weight is Weight.OWN:
                break
        assert best is not None
        return best

    def _lost_elsewhere(self, evidence: Evidence) -> Optional[int]:
        """Find the rank of another node that the failed ones have missed."""
        if self._planned.nodes.of == 1 or evidence.weight is not Weight.OF_ANOTHER:
            return None
        lost = None if evidence.failure is None else lost_rank(evidence.failure.line)
        is_here = any(rank.rank == lost for rank in self._planned.ranks)
        return None if is_here else lost

    def _spoken(self) -> Optional[Tuple[RankResult, Failure]]:
        """Find the first stopped rank that speaks of a failure of its own."""
        for result in self._ranks:
            if result.outcome == Outcome.STOPPED:
                rank = self._planned.of(result.rank)
                failure = definite_failure_of(rank, result, self._limit)
                if failure is not None:
                    return result, failure
        return None

    def _cause(
        self, result: RankResult, code: int, sentence: str, failure: Optional[Failure]
    ) -> Cause:
        rank = self._planned.of(result.rank)
        advice = "" if failure is None else failure.advice
        if failure is None and result.status == -signal.SIGKILL and result.error is None:
            advice = _OUT_OF_MEMORY
        if result.outcome == Outcome.NOT_STARTED:
            advice = _NOT_STARTED
        return Cause(
            rank=result.rank,
            exit_code=code,
            said=sentence,
            failure=failure,
            failure_class=None if failure is None else failure.given(*self._conditions),
            advice=advice,
            others=tuple(other.rank for other in self.failed if other is not result),
            tail=tuple(_tail(rank) + _stack(result, rank.folder)),
            plogs=tuple(plogs_of(rank, result.pid)),
        )


def _has_failed(rank: RankResult) -> bool:
    """Tell whether it failed by itself; one that was never tried did not."""
    if rank.outcome == Outcome.NOT_STARTED:
        return rank.ended is not None
    return rank.outcome == Outcome.FAILED


def _when(rank: RankResult) -> float:
    if rank.error is not None:
        return rank.error.time
    return math.inf if rank.ended is None else rank.ended


def _is_by(rank: RankResult, number: Optional[int]) -> bool:
    """Tell whether it ended by the signal that the launcher got too, as when both get one."""
    return number is not None and rank.status == -number


def _exit_code(rank: RankResult) -> int:
    if rank.outcome == Outcome.NOT_STARTED:
        is_there = any(
            os.strerror(number) in rank.trouble for number in (errno.EACCES, errno.ENOEXEC)
        )
        return 126 if is_there else 127  # as a shell
    if rank.error is not None and (rank.status is None or rank.status < 0):
        return rank.error.exit_code  # it hung then, and was ended
    return rank.exit_code


def _tail(rank: RankPlan) -> List[str]:
    return last_lines(rank.stderr) or last_lines(rank.stdout)


def _stack(result: RankResult, folder: str) -> List[str]:
    """Give the stack that a signal left, without the frames of the runner."""
    if result.status is None or result.status >= 0:
        return []
    _, begin, rest = read_stacks(folder).rpartition("Fatal Python error")
    lines = (begin + rest).splitlines() if begin else []
    return without_runner(lines)[:_STACK_LINES]
