"""What became of a launch, of each attempt and of each rank; plain data, which JSON can hold.

An attempt that succeeded is judged without the table of failures, which takes its time to load.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, Optional, Tuple

from ascend_session.launcher.plan import Plan, RankPlan

if TYPE_CHECKING:
    from ascend_session.failures import Condition, Failure, FailureClass
    from ascend_session.failures.record import ErrorRecord
    from ascend_session.launcher.events import NotStarted
    from ascend_session.launcher.supervisor import Noticed


class Outcome:
    """How a rank ended; the values are the words for reports."""

    SUCCEEDED = "succeeded"
    """With exit code 0."""

    FAILED = "failed"
    """With another code, or by a signal, before anyone stopped it."""

    STOPPED = "stopped"
    """Because the launcher ended it, whatever code it had then."""

    NOT_STARTED = "not started"
    """Its program could not be started."""


@dataclass
class RankResult:
    """What becomes of one rank: filled as it is noticed, and complete when the attempt is judged.

    Attributes:
        rank: Its number, from 0.
        outcome: One of `Outcome`.
        pid: Its process; None if there was none.
        status: Its exit code, 0 to 255; negative if a signal ended it, as in ``subprocess``; None
            if it was never started, or did not end although it was killed.
        started: When it was started, in seconds since 1970; None if it was not.
        ended: When its end was noticed, likewise.
        trouble: Why it could not be started, as a sentence; empty if it was.
        error: What it recorded of its own exception, or None.
        stdout: File with what it wrote to standard output.
        stderr: File with what it wrote to standard error.
        plog: Folder of the vendor's logs.
    """

    rank: int
    outcome: str = Outcome.NOT_STARTED
    pid: Optional[int] = None
    status: Optional[int] = None
    started: Optional[float] = None
    ended: Optional[float] = None
    trouble: str = ""
    error: Optional[ErrorRecord] = None
    stdout: str = ""
    stderr: str = ""
    plog: str = ""

    @classmethod
    def of(cls, rank: RankPlan) -> RankResult:
        """Begin the record of a rank that nothing has become of yet."""
        return cls(rank.rank, stdout=rank.stdout, stderr=rank.stderr, plog=rank.plog)

    @property
    def exit_code(self) -> int:
        """Its exit code as a shell counts: 128+n for a signal, 127 if it was not started."""
        if self.status is None:
            return 127 if self.outcome == Outcome.NOT_STARTED else 137
        return self.status if self.status >= 0 else 128 - self.status

    def as_dict(self) -> Dict[str, Any]:
        """Give the result as plain values."""
        values = dict(vars(self))
        values["error"] = None if self.error is None else self.error._asdict()
        return {**values, "exit_code": self.exit_code}


@dataclass(frozen=True)
class Cause:
    """Why an attempt failed.

    Attributes:
        rank: The rank that failed first or whose failure explains the others'; None if it was no
            rank, but a signal to the launcher.
        exit_code: What the launch ends with because of it.
        said: What happened, in one sentence.
        failure: The known failure of the vendor's stack behind it, or None.
        failure_class: Its class in this job, or None.
        advice: What to do, in full sentences; may be empty.
        others: Ranks that failed too, in the order in which they did.
        tail: The last lines that the rank wrote.
        plogs: The vendor's log files of the rank's process.
        elsewhere: The rank on another node because of which ``rank`` failed, or None.
    """

    rank: Optional[int]
    exit_code: int
    said: str
    failure: Optional[Failure] = None
    failure_class: Optional[FailureClass] = None
    advice: str = ""
    others: Tuple[int, ...] = ()
    tail: Tuple[str, ...] = ()
    plogs: Tuple[str, ...] = ()
    elsewhere: Optional[int] = None

    def as_dict(self) -> Dict[str, Any]:
        """Give the cause as plain values; the failure by its code and the line with it."""
        values = dict(vars(self))
        failure, kind = self.failure, self.failure_class
        values["failure"] = failure and {"code": failure.code, "line": failure.line}
        values["failure_class"] = kind and kind.value
        return values


@dataclass(frozen=True)
class Attempt:
    """One attempt at the job.

    Attributes:
        number: From 1.
        job_id: Its ``JOB_ID``.
        folder: Its folder, with those of the ranks.
        started: In seconds since 1970.
        ended: Likewise; no process of the job lived then, but for those in ``left``.
        ranks: The ranks, in order.
        cause: Why it failed; None if every rank ended with 0.
        swept: What was left of the job when its ranks had ended, and was then ended.
        left: Processes that could not be ended.
    """

    number: int
    job_id: str
    folder: str
    started: float
    ended: float
    ranks: Tuple[RankResult, ...]
    cause: Optional[Cause]
    swept: Tuple[str, ...] = ()
    left: Tuple[str, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        """Give the attempt as plain values."""
        values = dict(vars(self))
        values["ranks"] = [rank.as_dict() for rank in self.ranks]
        values["cause"] = None if self.cause is None else self.cause.as_dict()
        return values


@dataclass(frozen=True)
class LaunchResult:
    """What became of a launch.

    Attributes:
        code: 0 if all ranks ended with 0; else the root cause's code, 128+n for a signal.
        run: Name of the launch, and of its folder.
        backend: ``npu`` or ``stub``.
        attempts: Every attempt, in order; the last one decides.
        notes: What the user should know besides, in sentences.
    """

    code: int
    run: str
    backend: str
    attempts: Tuple[Attempt, ...]
    notes: Tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every rank of the last attempt ended with 0."""
        return self.code == 0

    @property
    def cause(self) -> Optional[Cause]:
        """Why the last attempt failed, or None."""
        return self.attempts[-1].cause

    @property
    def ranks(self) -> Tuple[RankResult, ...]:
        """The ranks of the last attempt."""
        return self.attempts[-1].ranks

    def as_dict(self) -> Dict[str, Any]:
        """Give the result as plain values, which JSON can hold."""
        values = dict(vars(self))
        return {**values, "attempts": [attempt.as_dict() for attempt in self.attempts]}


def judge(planned: Plan, noticed: Noticed, stall_timeout: Optional[float] = None) -> Attempt:
    """Say what became of an attempt: `judge_ranks` and `cause_of` together.

    Args:
        planned: The attempt.
        noticed: What was noticed of it.
        stall_timeout: The seconds after which it counted as stalled.
    """
    judge_ranks(planned, noticed)
    return Attempt(
        number=planned.attempt,
        job_id=planned.job_id,
        folder=planned.folder,
        started=noticed.began,
        ended=noticed.over,
        ranks=tuple(noticed.ranks),
        cause=cause_of(planned, noticed, stall_timeout=stall_timeout),
        swept=noticed.swept,
        left=noticed.left,
    )


def judge_ranks(planned: Plan, noticed: Noticed) -> None:
    """Complete what is known of each rank: what it recorded of its exception, and its outcome.

    A rank that ended after everyone was asked to end is stopped, whatever its code, unless it had
    recorded an exception before.
    """
    for rank, result in zip(planned.ranks, noticed.ranks):
        result.error = None
        if result.pid is not None and result.status != 0:
            from ascend_session.failures.record import read_record

            result.error = read_record(rank.folder)
        result.outcome = _outcome_of(result, noticed.stopped)
        if result.pid is None and not result.trouble:
            result.trouble = (
                f"Rank {rank.rank} was not started, because the job was ending by then."
            )


def cause_of(
    planned: Plan,
    noticed: Noticed,
    *,
    stall_timeout: Optional[float] = None,
    conditions: Iterable[Condition] = (),
) -> Optional[Cause]:
    """Find out why the attempt failed; None if every rank ended with 0 by itself.

    Args:
        planned: The attempt.
        noticed: What was noticed of it, after `judge_ranks`.
        stall_timeout: The seconds after which it counted as stalled, for the sentence.
        conditions: What is known besides the texts; what the plan and the ranks say of it
            (``NO_PRIMARY``, ``SHARED_BY_RANKS``) is found here.
    """
    if all(rank.outcome == Outcome.SUCCEEDED for rank in noticed.ranks):
        return None
    from ascend_session.launcher.report import find_cause

    return find_cause(planned, noticed, stall_timeout, conditions)


def why_not_started(rank: RankPlan, event: NotStarted) -> str:
    """Say in a sentence why the program of a rank could not be started."""
    what, text = "", event.text
    if event.tried == "started":
        what = f"{rank.command[0]}: "
        if event.number == errno.ENOENT and os.path.isfile(rank.command[0]):
            text += " (the file is there; the interpreter that its first line names is not)"
    return f"Rank {rank.rank} could not be {event.tried}: {what}{text}."


def _outcome_of(result: RankResult, stopped: Optional[float]) -> str:
    if result.pid is None:
        return Outcome.NOT_STARTED
    error = result.error
    failed_before = error is not None and (stopped is None or error.time < stopped)
    # One whose end nobody saw is one that the launcher had to end.
    ended_before = result.ended is not None and (stopped is None or result.ended <= stopped)
    if not failed_before and not ended_before:
        return Outcome.STOPPED
    return Outcome.SUCCEEDED if result.status == 0 else Outcome.FAILED
