"""Whether the ranks of an attempt hold one model, which of them the others wait for, and the pace.

The ranks compare their variables themselves, where they exchange tensors, and rank 0 reports what
was found. A launcher whose ranks are on devices, or one of another node, hears nothing of it, and
reports nothing of their models. The pace comes from the steps that the ranks have reported.
"""

from dataclasses import replace
from typing import Dict, Optional

from ascend_session.cluster.variables import is_independent
from ascend_session.launcher.job.attempt import HIDDEN_FAILURE, Attempt, Cause, Pace
from ascend_session.launcher.job.reports import RankPace
from ascend_session.launcher.plan.plan import Plan
from ascend_session.spelling import Message, option
from ascend_session.text import format_count, label_ranks


def judge_training(plan: Plan, attempt: Attempt) -> None:
    """Complete an attempt that `result.judge` has judged: a success needs one model.

    Independent ranks have no model and no pace in common.
    """
    if not is_independent(plan.ranks[0].environment):
        _judge_models(plan, attempt)
        attempt.pace = measure_pace(plan, attempt)


def _judge_models(plan: Plan, attempt: Attempt) -> None:
    """Note whether the ranks hold one model, and which of them is slow.

    The error of a comparison counts only if nothing else failed: a rank that stopped early holds
    other values than the others.
    """
    models = attempt.reports.models.get(plan.ranks[0].rank)
    if models is not None:
        attempt.is_one_model, error, notes, attempt.late_shares, attempt.slow_rank = models
        attempt.model_notes = tuple(map(_write_sentence, notes))
        if error and attempt.cause is None:
            attempt.cause = _blame_models(error)
    elif plan.backend.holds_npus:
        attempt.late_shares = attempt.gaps.measure_shares()
        slow = attempt.gaps.find_slow()
        if slow is not None:
            attempt.slow_rank = slow.rank
            attempt.model_notes = (_write_sentence(slow.sentence),)
    elif attempt.cause is None and _has_exchanged_nothing(plan, attempt):
        attempt.model_notes = (
            Message(
                "The ranks exchanged nothing; if they train, they train "
                f"{plan.size} models. `ascend-session guide training` shows how to train one; "
                f"{option('independent', True)} is for several."
            ),
        )


def _has_exchanged_nothing(plan: Plan, attempt: Attempt) -> bool:
    """Return whether this is a job of several ranks, none of which has opened a system.

    With the vendor's own packages, on devices, ranks open theirs without a trace.
    """
    can_be_seen = plan.backend.replaces_vendor and plan.nodes.count == 1
    return can_be_seen and plan.size > 1 and not attempt.reports.members


def _blame_models(error: str) -> Cause:
    from ascend_session.failures.scanner import look_up  # loaded only after a failure
    from ascend_session.failures.table import DIFFERENT_MODELS

    failure = look_up(DIFFERENT_MODELS)
    assert failure is not None
    return Cause(
        rank=None,
        exit_code=HIDDEN_FAILURE,
        said=_write_sentence(error),
        failure=replace(failure, line=error),
        failure_class=failure.failure_class,
        advice=failure.advice,
        kind=DIFFERENT_MODELS,
    )


def _write_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def measure_pace(plan: Plan, attempt: Attempt) -> Optional[Pace]:
    """Return the pace of an attempt; None if no rank has reported two steps."""
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
        whose = "" if pace.has_all_samples else f" of {label_ranks(pace.sample_ranks)}"
        text += f" and {format_rate(pace.samples_per_s)} samples/s{whose}"
    text += f" over {format_count(pace.steps, 'step')}"
    return text if pace.slow_rank is None else f"{text}; rank {pace.slow_rank} is slow"


def format_rate(per_s: float) -> str:
    """Write a rate with three digits, or without a fraction."""
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.3g}"
