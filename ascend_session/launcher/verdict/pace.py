"""How fast the ranks of an attempt have trained, from the steps that they have reported."""

from typing import Dict, Optional

from ascend_session.cluster.variables import is_independent
from ascend_session.launcher.job.attempt import Attempt, Pace
from ascend_session.launcher.job.reports import RankPace
from ascend_session.launcher.plan.plan import Plan
from ascend_session.text import format_count, format_ranges


def measure_pace(plan: Plan, attempt: Attempt) -> Optional[Pace]:
    """Return the pace of an attempt; None if no rank has reported two steps.

    Independent ranks have no pace in common.
    """
    if is_independent(plan.ranks[0].environment):
        return None
    paces = _find_paces(plan, attempt)
    counted = {rank: pace for rank, pace in paces.items() if pace.steps and pace.seconds > 0}
    if not counted:
        return None
    best = max(counted.values(), key=lambda pace: pace.steps / pace.seconds)
    rate = best.steps / best.seconds
    firsts = [each.first_step_s for each in counted.values() if each.first_step_s is not None]
    per_step = {rank: each.samples / each.steps for rank, each in counted.items() if each.samples}
    size = max(plan.size, len(paces))
    return Pace(
        first_step_s=round(max(firsts), 3) if firsts else None,
        steps=best.steps,
        seconds=round(best.seconds, 3),
        steps_per_s=float(f"{rate:.6g}"),
        samples_per_s=float(f"{sum(per_step.values()) * rate:.6g}") if per_step else None,
        sample_ranks=tuple(sorted(per_step)),
        has_all_samples=len(per_step) == size,
        slow_rank=attempt.slow_rank,
    )


def _find_paces(plan: Plan, attempt: Attempt) -> Dict[int, RankPace]:
    """Find the pace of each rank; of its latest process, if several have reported steps.

    The ranks that a script starts have their own numbers.
    """
    paces = {}
    for rank, by_pid in attempt.reports.paces.items():
        members = attempt.reports.members.get(rank, {}) if plan.size == 1 else {}
        for pid, pace in by_pid.items():
            paces[members[pid].rank if pid in members else rank] = pace
    return paces


def describe_pace(pace: Pace) -> str:
    """Describe a pace in one line, without a full stop."""
    first = "" if pace.first_step_s is None else f"first step {pace.first_step_s:.3g} s, then "
    text = f"{first}{format_rate(pace.steps_per_s)} steps/s"
    if pace.samples_per_s is not None:
        noun = "rank" if len(pace.sample_ranks) == 1 else "ranks"
        whose = "" if pace.has_all_samples else f" of {noun} {format_ranges(pace.sample_ranks)}"
        text += f" and {format_rate(pace.samples_per_s)} samples/s{whose}"
    text += f" over {format_count(pace.steps, 'step')}"
    return text if pace.slow_rank is None else f"{text}; rank {pace.slow_rank} is slow"


def format_rate(per_s: float) -> str:
    """Write a rate with three digits, or without a fraction."""
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"
