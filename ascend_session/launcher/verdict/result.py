"""What became of a launch, of each attempt and of each rank; plain data, which JSON can hold."""

from __future__ import annotations

import json
import math
import os
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Iterable, Mapping, Optional, Sequence, Tuple

from ascend_session.files import replace_file
from ascend_session.launcher.job.reports import Reports
from ascend_session.rank_folder import read_replaced

if TYPE_CHECKING:
    from ascend_session.failures.failure import Failure, FailureClass
    from ascend_session.failures.record import ErrorRecord
    from ascend_session.launcher.job.events import BackgroundEnded, NotBound, Repeated, ScriptRank
    from ascend_session.launcher.plan.plan import Plan


class Outcome:
    """How a rank ended; the values are the words for reports."""

    SUCCEEDED = "succeeded"
    """With exit code 0."""

    FAILED = "failed"
    """With another code, or by a signal, before anyone stopped it."""

    STOPPED = "stopped"
    """Because the launcher ended it, or because another rank failed, whatever code it had then."""

    LEFT = "left early"
    """With exit code 0 or because it was stopped, but other ranks failed for want of it."""

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
        error: Its own record of the exception that ended it, or None.
        stdout: File with its standard output; empty for the attached rank, which has none.
        stderr: File with its standard error, likewise.
        plog: Folder of the vendor's logs.
        stop_failure: What went wrong after a signal had stopped the job, as a sentence, such as an
            exception while it saved; empty if nothing did.
        start_errno: The error's number if it could not be started; not part of `as_dict`.
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
    stop_failure: str = ""
    start_errno: Optional[int] = None

    @property
    def exit_code(self) -> int:
        """Its exit code as a shell counts: 128+n for a signal, 127 if it was not started."""
        if self.status is None:
            return 127 if self.outcome == Outcome.NOT_STARTED else 137
        return self.status if self.status >= 0 else 128 - self.status

    def as_dict(self) -> Dict[str, Any]:
        """Convert the result to plain values."""
        values = dict(vars(self))
        del values["start_errno"]
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
        place: Where in its program the rank failed, as lines, the user's own line first; empty if
            that is not known.
        stacks: The file with the stacks of a rank that crashed; empty if there are none.
        plogs: The vendor's log files of the rank's process.
        elsewhere: The rank on another node because of which ``rank`` failed, or None.
        left: Ranks that did not fail, but ended or left while others needed them.
        kind: ``different_models`` if every rank ended with 0, but they hold different models; else
            None.
    """

    rank: Optional[int]
    exit_code: int
    said: str
    failure: Optional[Failure] = None
    failure_class: Optional[FailureClass] = None
    advice: str = ""
    others: Tuple[int, ...] = ()
    tail: Tuple[str, ...] = ()
    place: Tuple[str, ...] = ()
    stacks: str = ""
    plogs: Tuple[str, ...] = ()
    elsewhere: Optional[int] = None
    left: Tuple[int, ...] = ()
    kind: Optional[str] = None

    def as_dict(self) -> Dict[str, Any]:
        """Convert the cause to plain values; the failure to its code and the line with it."""
        values = dict(vars(self))
        failure, kind = self.failure, self.failure_class
        values["failure"] = failure and {"code": failure.code, "line": failure.line}
        values["failure_class"] = kind and kind.value
        return values


@dataclass
class Attempt:
    """One attempt at the job: filled as things happen, and complete when it is judged.

    Attributes:
        number: From 1.
        job_id: Its ``JOB_ID``.
        folder: Its folder, with those of the ranks.
        started: In seconds since 1970.
        ended: Likewise; no process of the job lived then, but for those in ``left``.
        ranks: The ranks of this node, in order.
        cause: Why it failed; None if every rank ended with 0 and they hold one model, as far as
            that was compared.
        swept: What was left of the job when its ranks had ended, and was then ended.
        left: Processes that could not be ended.
        stopped: When everyone was asked to end; None if nobody was.
        first_failed: The rank whose failure explained those of the others then, if that was clear.
        signal: The signal to the launcher because of which everyone was, or None.
        killed: When what had not exited was killed; None if nothing was.
        is_kill_asked: Whether that was because of a second signal, and not after the grace.
        stall: What the ranks were doing when they stalled, in sentences; empty if they did not.
        standing: Who waited for whom when ``signal`` came to a job that stood still, as parts of a
            sentence; else empty.
        guardian_died: Whether the guardian did not live to the end.
        not_bound: The ranks that could not be bound to their CPUs.
        script_ranks: The ranks that its only rank, a script, was seen to start.
        awaited: The RANK_ID of each of these that lived on when the script had ended.
        background_failure: The first training that a rank has left running and that failed; None if
            none has.
        repeated: The rank that was seen to start others, as each does; None if none was.
        lost: Sentences about processes below ranks that failed, besides those of the cause, or
            about ranks that left no record.
        reports: What its ranks have reported.
        first_step: The global step with which rank 0 began, as `training.SaveOnPreemptionHook`
            has noted it; None if nothing did.
        is_one_model: Whether the ranks hold one model; None if nothing was compared.
        model_notes: What else is to be said about the models of the ranks.
        late_shares: By rank, the share of the steps in which all others waited for it; empty if
            there were too few steps, or this cannot be seen.
    """

    number: int
    job_id: str
    folder: str
    started: float
    ended: float = 0.0
    ranks: Tuple[RankResult, ...] = ()
    cause: Optional[Cause] = None
    swept: Tuple[str, ...] = ()
    left: Tuple[str, ...] = ()
    stopped: Optional[float] = None
    first_failed: Optional[int] = None
    signal: Optional[int] = None
    killed: Optional[float] = None
    is_kill_asked: bool = False
    stall: Tuple[str, ...] = ()
    standing: str = ""
    guardian_died: bool = False
    not_bound: Tuple[NotBound, ...] = ()
    script_ranks: Tuple[ScriptRank, ...] = ()
    awaited: Tuple[str, ...] = ()
    background_failure: Optional[BackgroundEnded] = None
    repeated: Optional[Repeated] = None
    lost: Tuple[str, ...] = ()
    reports: Reports = field(default_factory=Reports)
    first_step: Optional[int] = None
    is_one_model: Optional[bool] = None
    model_notes: Tuple[str, ...] = ()
    late_shares: Tuple[float, ...] = ()

    @classmethod
    def begin(cls, plan: Plan, started: float) -> Attempt:
        """Open the record of an attempt of which nothing has happened yet."""
        ranks = [RankResult(rank.rank, plog=rank.plog) for rank in plan.ranks]
        for planned, rank in zip(plan.ranks, ranks):
            if not planned.is_attached:
                rank.stdout, rank.stderr = planned.stdout, planned.stderr
        return cls(plan.attempt, plan.job_id, plan.folder, started, ranks=tuple(ranks))

    def of(self, rank: int) -> RankResult:
        """Return what is known of a rank, by its number in the job."""
        return self.ranks[rank - self.ranks[0].rank]

    @property
    def alive(self) -> Dict[int, int]:
        """Rank and pid of those that were started and have not ended."""
        return {
            rank.rank: rank.pid
            for rank in self.ranks
            if rank.pid is not None and rank.ended is None
        }

    def as_dict(self) -> Dict[str, Any]:
        """Convert the attempt to plain values."""
        return {
            "number": self.number,
            "job_id": self.job_id,
            "folder": self.folder,
            "started": self.started,
            "ended": self.ended,
            "ranks": [rank.as_dict() for rank in self.ranks],
            "cause": None if self.cause is None else self.cause.as_dict(),
            "swept": self.swept,
            "left": self.left,
            "first_step": self.first_step,
            "is_one_model": self.is_one_model,
            "late_shares": self.late_shares,
        }


@dataclass(frozen=True)
class LaunchResult:
    """What became of a launch.

    Attributes:
        code: 0 if all ranks ended with 0 and do not hold different models; else the root cause's
            code, 128+n for a signal.
        run: Name of the launch, and of its folder.
        backend: ``npu`` or ``stub``.
        attempts: Every attempt, in order; the last one decides.
        notes: What the user should know besides, in sentences.
        set: The options that were set from outside; None for one that was left out.
        replaced: Option, value and the script's own value, of those that this rank 0 has replaced.
    """

    code: int
    run: str
    backend: str
    attempts: Tuple[Attempt, ...]
    notes: Tuple[str, ...] = ()
    set: Mapping[str, Any] = field(default_factory=dict)
    replaced: Tuple[Tuple[str, Any, Any], ...] = ()

    def __str__(self) -> str:
        """Write the summary with which the command ends, without a newline at its end."""
        from ascend_session.launcher.verdict.summary import summarize

        return summarize(self).strip("\n")

    @property
    def ok(self) -> bool:
        """Whether the last attempt succeeded."""
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
        """Convert the result to plain values, which JSON can hold."""
        values = dict(vars(self))
        if not self.set and not self.replaced:
            del values["set"], values["replaced"]
        return {**values, "attempts": [attempt.as_dict() for attempt in self.attempts]}


RESULT_NAME = "result.json"
"""File in the folder of a launch with `LaunchResult.as_dict`."""


def format_result(result: LaunchResult) -> str:
    """Write a result as JSON, for ``--json`` and for `RESULT_NAME`."""
    return json.dumps(result.as_dict(), indent=2) + "\n"


def write_result(result: LaunchResult) -> None:
    """Write a result into the folder of its launch; others see it whole or not at all.

    Raises:
        OSError: If it cannot be written.
    """
    folder = os.path.dirname(result.attempts[-1].folder)
    replace_file(os.path.join(folder, RESULT_NAME), format_result(result).encode())


def write_result_of_killed(text: str, folders: Sequence[str], events: Iterable[Any]) -> None:
    """Write the result of a launcher that was killed; `guardian` does that when its job is over.

    Args:
        text: The result that the launcher would have had if it had been killed at the start of
            this attempt, as `format_result` gives it.
        folders: Those of the ranks, in order.
        events: What the guardian has noticed, as it reports it.

    Raises:
        OSError: If it cannot be written.
    """
    values = json.loads(text)
    last = values["attempts"][-1]
    names = [name for name in vars(RankResult(0)) if name != "start_errno"]
    ranks = tuple(RankResult(**{name: rank[name] for name in names}) for rank in last["ranks"])
    attempt = Attempt(last["number"], last["job_id"], last["folder"], last["started"], ranks=ranks)
    for event, *about in events:
        if event == "start":
            number, ranks[number].pid, ranks[number].started = about
        elif event == "exit":
            number, ranks[number].status, ranks[number].ended = about
        elif event == "not_started":
            number, tried, _, why, ranks[number].ended = about
            ranks[number].pid = ranks[number].started = None
            ranks[number].trouble = f"Rank {ranks[number].rank} could not be {tried}: {why}."
        elif event == "stopping" and about[0] != "left behind":
            attempt.stopped = about[-1]
        elif event == "left_behind":
            last["swept"] = about[0]
        elif event == "over":
            last["left"], last["ended"] = about
    _judge_ranks(folders, attempt)
    last["ranks"] = [rank.as_dict() for rank in ranks]
    if "replaced" in values:
        values["replaced"] = read_replaced(folders[0])
    path = os.path.join(os.path.dirname(attempt.folder), RESULT_NAME)
    replace_file(path, (json.dumps(values, indent=2) + "\n").encode())


def begin_result(plan: Plan, earlier: Sequence[Attempt], started: float) -> LaunchResult:
    """Make the result that a launch has if its launcher is killed at the start of an attempt."""
    attempt, code = Attempt.begin(plan, started), 128 + signal.SIGKILL
    attempt.cause = Cause(None, code, "The launcher was killed.")
    return LaunchResult(
        code,
        plan.run,
        plan.backend.name,
        (*earlier, attempt),
        tuple(plan.notes),
        set=plan.config.set,
    )


def judge(plan: Plan, attempt: Attempt) -> None:
    """Complete an attempt that is over: the outcome of each rank, and the cause if one failed.

    What finds the cause takes its time to load, and is not loaded for an attempt that succeeded.
    """
    judge_ranks(plan, attempt)
    has_failed = any(rank.outcome != Outcome.SUCCEEDED for rank in attempt.ranks)
    # Then the job still waited for what its ranks had left.
    was_stopped = attempt.stopped is not None and not has_failed
    failure = attempt.background_failure
    if failure is not None and not _is_by_signal(failure.status, attempt):
        from ascend_session.launcher.verdict.cause import blame_background

        attempt.cause = blame_background(failure)
    elif failure is not None or was_stopped:
        from ascend_session.launcher.verdict.cause import find_cause

        attempt.cause = find_cause(plan, attempt)
    elif has_failed or _have_started_ranks(plan, attempt):
        from ascend_session.launcher.verdict.cause import (
            find_cause,
            find_lost,
            find_missing,
            find_stop_failures,
        )

        lost = find_lost(plan, attempt)
        if has_failed:
            attempt.cause = find_cause(plan, attempt)
            for number in attempt.cause.left:
                attempt.of(number).outcome = Outcome.LEFT
            for number, sentence in find_stop_failures(plan, attempt).items():
                attempt.of(number).stop_failure = sentence
        elif lost:
            attempt.cause = lost.pop(0)
        else:
            attempt.cause = find_missing(plan, attempt)
        attempt.lost = tuple(cause.said for cause in lost)
    if attempt.cause is None and _may_be_unrecorded(plan, attempt):
        from ascend_session.launcher.verdict.cause import find_unrecorded

        attempt.lost = tuple(find_unrecorded(plan, attempt))


def judge_ranks(plan: Plan, attempt: Attempt) -> None:
    """Read what ranks have recorded of their end, and judge the outcome of each, so far.

    A rank that ended after everyone was asked to end is stopped, whatever its code, unless it had
    recorded an exception before; and so is one whose failure follows from another rank's, or that
    ended by the signal that the launcher got too.
    """
    _judge_ranks([rank.folder for rank in plan.ranks], attempt)


def _judge_ranks(folders: Sequence[str], attempt: Attempt) -> None:
    for folder, rank in zip(folders, attempt.ranks):
        rank.error = None
        if rank.pid is not None and rank.status != 0:
            from ascend_session.failures.record import read_record

            error = read_record(folder)
            # What a child of the rank has left after the rank's own end has not ended it.
            if error is not None and (rank.ended is None or error.time <= rank.ended):
                rank.error = error
        rank.outcome = _judge_rank(rank, attempt)
        if rank.pid is None and not rank.trouble:
            rank.trouble = f"Rank {rank.rank} was not started, because the job was already ending."
    failed = {rank.rank for rank in attempt.ranks if rank.outcome == Outcome.FAILED}
    followed = {
        rank.rank: rank.error.failed_rank
        for rank in attempt.ranks
        if rank.rank in failed and rank.error is not None and rank.error.failed_rank is not None
    }
    failed -= followed.keys()
    for rank in attempt.ranks:
        if followed.get(rank.rank) in failed:
            rank.outcome = Outcome.STOPPED


def _have_started_ranks(plan: Plan, attempt: Attempt) -> bool:
    """Tell whether there were ranks below the ranks, or should have been; a script may hide it."""
    if attempt.script_ranks or any(
        process.pid != rank.pid
        for rank in attempt.ranks
        for process in attempt.reports.list_processes(rank.rank, plan.of(rank.rank).folder)
    ):
        return True
    if plan.size != 1:
        return False
    from ascend_session.launcher.job.script_ranks import read_announced_size

    planned = plan.ranks[0]
    return bool(read_announced_size(planned.command, planned.cwd))


def _may_be_unrecorded(plan: Plan, attempt: Attempt) -> bool:
    """Tell whether ranks may have succeeded of which only exit codes are known."""
    return bool(attempt.script_ranks) or (plan.size > 1 and plan.config.program is not None)


def _is_by_signal(status: Optional[int], attempt: Attempt) -> bool:
    """Return whether a process ended by the launcher's signal, which may have come to it first."""
    return attempt.signal is not None and status in (-attempt.signal, 128 + attempt.signal)


def _judge_rank(rank: RankResult, attempt: Attempt) -> str:
    if rank.pid is None:
        return Outcome.NOT_STARTED
    if _is_by_signal(rank.status, attempt):
        return Outcome.STOPPED
    limit = math.inf if attempt.stopped is None else attempt.stopped
    failed_before = rank.error is not None and rank.error.time < limit
    ended_before = rank.ended is not None and rank.ended <= limit
    if not failed_before and not ended_before:
        return Outcome.STOPPED  # one whose end nobody saw is one that the launcher had to end
    return Outcome.SUCCEEDED if rank.status == 0 else Outcome.FAILED
