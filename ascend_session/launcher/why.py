"""How each rank ended, and why an attempt failed.

An attempt that succeeded is judged without the table of failures, which takes its time to load.
"""

import errno
import os
from typing import TYPE_CHECKING, Iterable, Optional, Sequence, Tuple

from ascend_session.launcher.plan import Plan
from ascend_session.launcher.rank import Rank
from ascend_session.launcher.result import Attempt, Cause, Outcome, RankResult

if TYPE_CHECKING:
    from ascend_session.failures import Condition
    from ascend_session.failures.record import ErrorRecord
    from ascend_session.launcher.supervisor import Noticed, NoticedRank

__all__ = ["cause_of", "judged", "results_of"]


def judged(planned: Plan, noticed: "Noticed", stall_timeout: Optional[float] = None) -> Attempt:
    """What became of an attempt: `results_of` and `cause_of` together.

    Args:
        planned: The attempt.
        noticed: What was noticed of it.
        stall_timeout: The seconds after which it counted as stalled.
    """
    ranks = results_of(planned, noticed)
    return Attempt(
        number=planned.attempt,
        job_id=planned.job_id,
        folder=planned.folder,
        started=noticed.began,
        ended=noticed.over,
        ranks=ranks,
        cause=cause_of(planned, noticed, ranks, stall_timeout=stall_timeout),
        swept=noticed.swept,
        left=noticed.left,
    )


def results_of(planned: Plan, noticed: "Noticed") -> Tuple[RankResult, ...]:
    """What became of each rank, in order.

    A rank that ended after everyone was asked to end is stopped, whatever its code, unless it had
    recorded an exception before.
    """
    pairs = zip(planned.ranks, noticed.ranks)
    return tuple(_result(rank, seen, noticed.stopped) for rank, seen in pairs)


def cause_of(
    planned: Plan,
    noticed: "Noticed",
    ranks: Sequence[RankResult],
    *,
    stall_timeout: Optional[float] = None,
    conditions: "Iterable[Condition]" = (),
) -> Optional[Cause]:
    """Why the attempt failed; None if every rank ended with 0 by itself.

    Args:
        planned: The attempt.
        noticed: What was noticed of it.
        ranks: What `results_of` made of that.
        stall_timeout: The seconds after which it counted as stalled, for the sentence.
        conditions: What is known besides the texts; what the plan and the ranks say of it
            (``NO_PRIMARY``, ``SHARED_BY_RANKS``) is found here.
    """
    if all(rank.outcome == Outcome.SUCCEEDED for rank in ranks):
        return None
    from ascend_session.launcher.blame import blame

    return blame(planned, noticed, ranks, stall_timeout, conditions)


def _result(rank: Rank, seen: "NoticedRank", stopped: Optional[float]) -> RankResult:
    error = None
    if seen.pid is not None and seen.status != 0:
        from ascend_session.failures.record import read_record

        error = read_record(rank.folder)
    return RankResult(
        rank=rank.rank,
        outcome=_outcome(seen, error, stopped),
        pid=seen.pid,
        status=seen.status,
        started=seen.started,
        ended=seen.ended,
        trouble=_trouble(rank, seen),
        error=error,
        stdout=rank.stdout,
        stderr=rank.stderr,
        plog=rank.plog,
    )


def _outcome(seen: "NoticedRank", error: "Optional[ErrorRecord]", stopped: Optional[float]) -> str:
    if seen.pid is None:
        return Outcome.NOT_STARTED
    failed_before = error is not None and (stopped is None or error.time < stopped)
    # One whose end nobody saw is one that the launcher had to end.
    ended_before = seen.ended is not None and (stopped is None or seen.ended <= stopped)
    if not failed_before and not ended_before:
        return Outcome.STOPPED
    return Outcome.SUCCEEDED if seen.status == 0 else Outcome.FAILED


def _trouble(rank: Rank, seen: "NoticedRank") -> str:
    if seen.pid is not None:
        return ""
    failed = seen.not_started
    if failed is None:
        return f"Rank {rank.rank} was not started, because the job was ending by then."
    what, text = "", failed.text
    if failed.tried == "started":
        what = f"{rank.command[0]}: "
        if failed.number == errno.ENOENT and os.path.isfile(rank.command[0]):
            text += " (the file is there; the interpreter that its first line names is not)"
    return f"Rank {rank.rank} could not be {failed.tried}: {what}{text}."
