"""What became of a launch: plain data, which JSON can hold, from what was seen of each attempt."""

from __future__ import annotations

import json
import math
import os
import signal
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ascend_session.failures.record import read_record
from ascend_session.files import replace_file
from ascend_session.launcher.job.attempt import Attempt, Cause
from ascend_session.launcher.job.events import (
    BackgroundEnded,
    Ended,
    FromGuardian,
    Killing,
    LeftBehind,
    NotBound,
    NotStarted,
    Over,
    Repeated,
    Reported,
    ScriptRank,
    Stalled,
    Standing,
    Started,
    Stopping,
)
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.plan.rank import LaunchRank, Outcome
from ascend_session.launcher.verdict.summary import summarize


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
        replaced: Option, value and the script's own value, of those that the first rank here has
            replaced.
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
        return summarize(self.code, self.attempts, self.notes).strip("\n")

    @property
    def ok(self) -> bool:
        """Whether the last attempt succeeded."""
        return self.code == 0

    @property
    def cause(self) -> Optional[Cause]:
        """Why the last attempt failed, or None."""
        return self.attempts[-1].cause

    @property
    def ranks(self) -> Tuple[LaunchRank, ...]:
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


def note_event(attempt: Attempt, event: FromGuardian) -> None:
    """Note in an attempt what the guardian reports of it."""
    if isinstance(event, Started):
        rank = attempt.of(event.rank)
        rank.pid, rank.started = event.pid, event.time
    elif isinstance(event, NotStarted):
        from ascend_session.launcher.verdict.descriptions import describe_not_started

        rank = attempt.of(event.rank)
        rank.pid = rank.started = None
        rank.ended, rank.start_errno = event.time, event.number
        rank.trouble = describe_not_started(rank, event)
    elif isinstance(event, Ended):
        rank = attempt.of(event.rank)
        rank.status, rank.ended = event.status, event.time
    elif isinstance(event, Reported):
        if event.message["kind"] == "gaps":
            attempt.gaps.note(event.rank, event.pid, event.message)
        attempt.reports.note(event.rank, event.pid, event.message)
    elif isinstance(event, NotBound):
        attempt.not_bound += (event,)
    elif isinstance(event, Stopping):
        if event.why != "left behind":
            attempt.stopped = event.time
    elif isinstance(event, Killing):
        attempt.killed = event.time
    elif isinstance(event, ScriptRank):
        attempt.script_ranks += (event,)
    elif isinstance(event, BackgroundEnded):
        if event.status and attempt.background_failure is None:
            attempt.background_failure = event
    elif isinstance(event, Repeated):
        attempt.repeated = event
    elif isinstance(event, Standing):
        attempt.standing = event.text
    elif isinstance(event, Stalled):
        attempt.stall = event.report
    elif isinstance(event, LeftBehind):
        attempt.swept = event.processes
    elif isinstance(event, Over):
        attempt.ended = event.time
        attempt.left = event.living
        attempt.guardian_died = not event.orderly


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
    judge_ranks(attempt)
    has_failed = any(rank.outcome != Outcome.SUCCEEDED for rank in attempt.ranks)
    background = attempt.background_failure
    if background is not None and not _is_by_signal(background.status, attempt):
        from ascend_session.launcher.verdict.script_ranks import blame_background

        attempt.cause = blame_background(background)
    elif has_failed and background is None:
        _judge_failure(plan, attempt)
    elif has_failed or background is not None or attempt.stopped is not None:
        # Ranks may have ended in order before: the job still waited for what they had left.
        from ascend_session.launcher.verdict.cause import find_cause

        attempt.cause = find_cause(plan, attempt)
    else:
        _look_below(plan, attempt)


def _judge_failure(plan: Plan, attempt: Attempt) -> None:
    """Find the cause of a failed attempt, and what else went wrong below ranks and in a stop."""
    from ascend_session.launcher.verdict.cause import find_cause, find_stop_failures
    from ascend_session.launcher.verdict.script_ranks import find_lost

    attempt.lost = tuple(each.said for each in find_lost(attempt))
    attempt.cause = find_cause(plan, attempt)
    for number in attempt.cause.left:
        attempt.of(number).outcome = Outcome.LEFT
    for number, sentence in find_stop_failures(plan, attempt).items():
        attempt.of(number).stop_failure = sentence


def _look_below(plan: Plan, attempt: Attempt) -> None:
    """Find out what exit codes of 0 hide: ranks of a script, and ranks that left no record."""
    may_be_unrecorded = plan.size > 1 and plan.config.program is not None
    if not (attempt.script_ranks or may_be_unrecorded or _have_started_ranks(plan, attempt)):
        return
    from ascend_session.launcher.verdict import script_ranks

    lost = script_ranks.find_lost(attempt)
    attempt.cause = lost.pop(0) if lost else script_ranks.find_missing(plan, attempt)
    attempt.lost = tuple(each.said for each in lost)
    if attempt.cause is None and (attempt.script_ranks or may_be_unrecorded):
        attempt.lost = tuple(script_ranks.find_unrecorded(plan, attempt))


def judge_ranks(attempt: Attempt) -> None:
    """Read what ranks have recorded of their end, and judge the outcome of each, so far.

    A rank that ended after everyone was asked to end is stopped, whatever its code, unless it had
    recorded an exception before; and so is one whose failure follows from another rank's, or that
    ended by the signal that the launcher got too.
    """
    for rank in attempt.ranks:
        rank.error = None
        if rank.pid is not None and rank.status != 0:
            error = read_record(rank.folder)
            # What a child of the rank has left after the rank's own end has not ended it.
            if error is not None and (rank.ended is None or error.time <= rank.ended):
                rank.error = error
        rank.outcome = _judge_rank(rank, attempt)
        if rank.pid is None and not rank.trouble:
            rank.trouble = (
                f"Rank {rank.rank} was not started, because the job was already stopping."
            )
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
    if any(
        process.pid != rank.pid
        for rank in attempt.ranks
        for process in attempt.reports.list_processes(rank.rank)
    ):
        return True
    if plan.size != 1:
        return False
    from ascend_session.launcher.verdict.script_text import read_announced_size

    planned = plan.ranks[0]
    return bool(read_announced_size(planned.command, planned.cwd))


def _is_by_signal(status: Optional[int], attempt: Attempt) -> bool:
    """Return whether a process ended by the launcher's signal, which may have come to it first."""
    return attempt.signal is not None and status in (-attempt.signal, 128 + attempt.signal)


def _judge_rank(rank: LaunchRank, attempt: Attempt) -> str:
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
