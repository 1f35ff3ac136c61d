"""Ranks that a script has started below a rank, and how they ended, which the script may hide.

Most scripts for eight devices end with a bare ``wait``, which gives 0 whatever became of the ranks
(guides/facts/launch.md#scripts-for-eight-devices). What counts is what the processes have written
down that had joined the job (`cluster.member`). Any other program is the script's business.
"""

from typing import List, Tuple

from ascend_session.cluster.member import Member, read_members
from ascend_session.failures import JOB_CANNOT_GO_ON
from ascend_session.launcher.plan import Plan
from ascend_session.launcher.result import Attempt, Cause, RankResult
from ascend_session.text import format_ranges

_HIDDEN = 1  # the exit code, where the rank's own is 0
_ADVICE = "Read their output where the script sends it. A bare `wait` gives 0 even if they failed."


def find_lost(plan: Plan, attempt: Attempt) -> List[Tuple[RankResult, str]]:
    """Find the ranks below which processes of the job ended with an exception or a signal.

    Those that ended because everyone was asked to end do not count.

    Returns:
        Each with a sentence.
    """
    lost = []
    for rank in attempt.ranks:
        if rank.ended is not None and (attempt.stopped is None or rank.ended <= attempt.stopped):
            below = [one for one in read_members(plan.of(rank.rank).folder) if one.pid != rank.pid]
            ended = [member for member in below if member.is_lost]
            if ended:
                lost.append((rank, _describe(rank, ended, len(below))))
    return lost


def blame_lost(rank: RankResult, sentence: str) -> Cause:
    """Make the cause of an attempt that failed although its ranks ended with 0."""
    return Cause(rank.rank, _HIDDEN, sentence, advice=_ADVICE)


def _describe(rank: RankResult, ended: List[Member], count: int) -> str:
    hides = ", which its exit code 0 hides" if rank.status == 0 else ""
    first = min(ended, key=_weigh)
    others = sorted({member.rank for member in ended} - {first.rank})
    kind, _, text = first.error.partition(": ")
    if kind in ("SystemExit", "Terminated"):
        how = f"ended with exit code {text}"
    else:
        how = (
            f"raised {first.error}"
            if first.error
            else "ended without an exception, as after a signal"
        )
    how = how if how.endswith((".", "!", "?")) else f"{how}."
    noun = "other was rank" if len(others) == 1 else "others were ranks"
    more = f" The {noun} {format_ranges(others)}." if others else ""
    return (
        f"{len(ended)} of the {count} processes that joined the job below rank {rank.rank} ended "
        f"with an exception or a signal{hides}: rank {first.rank} {how}{more}"
    )


def _weigh(member: Member) -> Tuple[int, float]:
    """Tell how little an end explains the others'; then the time counts."""
    if JOB_CANNOT_GO_ON in member.error:
        return 2, member.time
    return (0 if member.error else 1), member.time
