"""What became of a launch, of each attempt and of each rank; plain data, which JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

if TYPE_CHECKING:  # the way to the first rank does not need the table of failures
    from ascend_session.failures import Failure, FailureClass
    from ascend_session.failures.record import ErrorRecord

__all__ = ["Attempt", "Cause", "LaunchResult", "Outcome", "RankResult"]


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


@dataclass(frozen=True)
class RankResult:
    """What became of one rank.

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
    outcome: str
    pid: Optional[int]
    status: Optional[int]
    started: Optional[float]
    ended: Optional[float]
    trouble: str
    error: Optional[ErrorRecord]
    stdout: str
    stderr: str
    plog: str

    @property
    def exit_code(self) -> int:
        """Its exit code as a shell counts: 128+n for a signal, 127 if it was not started."""
        if self.status is None:
            return 127 if self.outcome == Outcome.NOT_STARTED else 137
        return self.status if self.status >= 0 else 128 - self.status

    def as_dict(self) -> Dict[str, Any]:
        """The result as plain values."""
        found = dict(vars(self))
        found["error"] = None if self.error is None else self.error._asdict()
        return {**found, "exit_code": self.exit_code}


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
        """The cause as plain values; the failure by its code and the line that it stands in."""
        found = dict(vars(self))
        failure, kind = self.failure, self.failure_class
        found["failure"] = failure and {"code": failure.code, "line": failure.line}
        found["failure_class"] = kind and kind.value
        return found


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
        """The attempt as plain values."""
        found = dict(vars(self))
        found["ranks"] = [rank.as_dict() for rank in self.ranks]
        found["cause"] = None if self.cause is None else self.cause.as_dict()
        return found


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
        """The result as plain values, which JSON can hold."""
        found = dict(vars(self))
        return {**found, "attempts": [attempt.as_dict() for attempt in self.attempts]}
