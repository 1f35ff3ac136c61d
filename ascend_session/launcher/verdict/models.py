"""Whether the ranks of an attempt hold one model, and which of them the others wait for.

The ranks compare their variables themselves, where they exchange tensors, and rank 0 reports what
was found. A launcher whose ranks are on devices, or one of another node, hears nothing of it, and
reports nothing of their models.
"""

from dataclasses import replace

from ascend_session.cluster.variables import is_independent
from ascend_session.launcher.job.attempt import Attempt, Cause
from ascend_session.launcher.plan.plan import Plan
from ascend_session.spelling import Message, option

_DIFFERENT_MODELS_CODE = 1  # the exit code of the launch


def judge_models(plan: Plan, attempt: Attempt) -> None:
    """Complete an attempt that `result.judge` has judged: a success needs one model.

    The error of a comparison counts only if nothing else failed: a rank that stopped early holds
    other values than the others.
    """
    if is_independent(plan.ranks[0].environment):
        return
    models = attempt.reports.models.get(plan.ranks[0].rank)
    if models is not None:
        attempt.is_one_model, error, notes, attempt.late_shares, attempt.slow_rank = models
        attempt.model_notes = tuple(map(_write_sentence, notes))
        if error and attempt.cause is None:
            attempt.cause = _blame_models(error)
    elif plan.backend.holds_npus:
        _judge_gaps(attempt)
    elif attempt.cause is None and _has_exchanged_nothing(plan, attempt):
        attempt.model_notes = (
            Message(
                "The ranks exchanged nothing; if they train, they train "
                f"{plan.size} models. `ascend-session guide training` shows how to train one; "
                f"{option('independent', True)} is for several."
            ),
        )


def _judge_gaps(attempt: Attempt) -> None:
    """Complete an attempt by what its ranks have reported of their hosts, on devices."""
    attempt.late_shares = attempt.gaps.measure_shares()
    slow = attempt.gaps.find_slow()
    if slow is not None:
        attempt.slow_rank = slow.rank
        attempt.model_notes = (_write_sentence(slow.sentence),)


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
        exit_code=_DIFFERENT_MODELS_CODE,
        said=_write_sentence(error),
        failure=replace(failure, line=error),
        failure_class=failure.failure_class,
        advice=failure.advice,
        kind=DIFFERENT_MODELS,
    )


def _write_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
