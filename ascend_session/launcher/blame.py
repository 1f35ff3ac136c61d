"""Which rank's failure explains the others', or what else ended an attempt.

Source: launch_facts.md, E (classes; a secondary failure is no cause where there is a primary one).
"""

import errno
import math
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from ascend_session.failures import Condition, Failure
from ascend_session.failures.record import read_stacks
from ascend_session.failures.rows.stub import lost_rank
from ascend_session.launcher.evidence import (
    Evidence,
    Weight,
    definite_failure_of,
    evidence_of,
    tail_limit,
)
from ascend_session.launcher.plan import Plan
from ascend_session.launcher.rank import Rank
from ascend_session.launcher.result import Cause, Outcome, RankResult
from ascend_session.launcher.sentences import (
    after_stop,
    how_it_ended,
    it_reported,
    on_another_node,
    stalled,
    told,
    without_guardian,
)
from ascend_session.launcher.tails import last_lines, plogs_of, without_runner

if TYPE_CHECKING:
    from ascend_session.launcher.supervisor import Noticed

__all__ = ["blame"]

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


def blame(
    planned: Plan,
    noticed: "Noticed",
    ranks: Sequence[RankResult],
    stall_timeout: Optional[float],
    conditions: Iterable[Condition],
) -> Cause:
    """The cause of an attempt that did not succeed; see `why.cause_of`."""
    judge = _Judge(planned, ranks, set(conditions))
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
        """One of the failed ranks, or a stopped one that says more than all of them."""
        first, evidence = self._heaviest()
        if evidence.weight is not Weight.OWN:
            spoken = self._spoken()
            if spoken is not None:
                result, failure = spoken
                said = after_stop(result, failure, first)
                return self._cause(result, _exit_code(first), said, failure)
            lost = self._lost_elsewhere(evidence)
            if lost is not None and evidence.failure is not None:
                said = on_another_node(first, evidence.failure)
                here = self._cause(first, _exit_code(first), said, evidence.failure)
                return replace(here, elsewhere=lost, advice=_ELSEWHERE.format(lost))
        said = how_it_ended(first)
        said += it_reported(evidence.failure, said)
        if evidence.weight is Weight.OF_ANOTHER:
            if self._planned.nodes.of == 1:
                self._conditions.add(Condition.NO_PRIMARY)
            else:
                said += " The cause may be on another node: see what the launchers there say."
        return self._cause(first, _exit_code(first), said, evidence.failure)

    def of_stall(self, said: str) -> Cause:
        """A stall, with what a rank said before it."""
        spoken = self._spoken()
        if spoken is None:
            return Cause(None, _STALLED, said)
        result, failure = spoken
        more = it_reported(failure).replace(" It", f" Rank {result.rank}", 1)
        return self._cause(result, _STALLED, said + more, failure)

    def _heaviest(self) -> _Blamed:
        """The failed rank that explains most, the first of those that do equally."""
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
        """The rank of another node that the failed ones have missed."""
        if self._planned.nodes.of == 1 or evidence.weight is not Weight.OF_ANOTHER:
            return None
        lost = None if evidence.failure is None else lost_rank(evidence.failure.line)
        is_here = any(rank.rank == lost for rank in self._planned.ranks)
        return None if is_here else lost

    def _spoken(self) -> Optional[Tuple[RankResult, Failure]]:
        """The first stopped rank that speaks of a failure of its own."""
        for result in self._ranks:
            if result.outcome == Outcome.STOPPED:
                rank = self._planned.of(result.rank)
                failure = definite_failure_of(rank, result, self._limit)
                if failure is not None:
                    return result, failure
        return None

    def _cause(self, result: RankResult, code: int, said: str, failure: Optional[Failure]) -> Cause:
        rank = self._planned.of(result.rank)
        advice = "" if failure is None else failure.advice
        if failure is None and result.status == -signal.SIGKILL and result.error is None:
            advice = _OUT_OF_MEMORY
        if result.outcome == Outcome.NOT_STARTED:
            advice = _NOT_STARTED
        return Cause(
            rank=result.rank,
            exit_code=code,
            said=said,
            failure=failure,
            failure_class=None if failure is None else failure.given(*self._conditions),
            advice=advice,
            others=tuple(other.rank for other in self.failed if other is not result),
            tail=tuple(_tail(rank) + _stack(result, rank.folder)),
            plogs=tuple(plogs_of(rank, result.pid)),
        )


def _has_failed(rank: RankResult) -> bool:
    """Whether it failed by itself; one that was never tried did not."""
    if rank.outcome == Outcome.NOT_STARTED:
        return rank.ended is not None
    return rank.outcome == Outcome.FAILED


def _when(rank: RankResult) -> float:
    if rank.error is not None:
        return rank.error.time
    return math.inf if rank.ended is None else rank.ended


def _is_by(rank: RankResult, number: Optional[int]) -> bool:
    """Whether it ended by the signal that the launcher got too, as when both are told at once."""
    return number is not None and rank.status == -number


def _exit_code(rank: RankResult) -> int:
    if rank.outcome == Outcome.NOT_STARTED:
        is_there = any(os.strerror(one) in rank.trouble for one in (errno.EACCES, errno.ENOEXEC))
        return 126 if is_there else 127  # as a shell
    if rank.error is not None and (rank.status is None or rank.status < 0):
        return rank.error.exit_code  # it hung then, and was ended
    return rank.exit_code


def _tail(rank: Rank) -> List[str]:
    return last_lines(rank.stderr) or last_lines(rank.stdout)


def _stack(result: RankResult, folder: str) -> List[str]:
    """The stack that a signal left, without the frames of the runner."""
    if result.status is None or result.status >= 0:
        return []
    _, begin, rest = read_stacks(folder).rpartition("Fatal Python error")
    lines = (begin + rest).splitlines() if begin else []
    return without_runner(lines)[:_STACK_LINES]
