"""Another attempt at the whole job, when what failed is known to pass.

Source: launch_facts.md, E (classes; the waits of 10 s and 60 s; always a fresh process).
"""

import contextlib
from typing import Callable, Optional

import tenacity

from ascend_session.failures import FailureClass, RetryPolicy
from ascend_session.launcher.result import Attempt, Cause

__all__ = ["restarting"]


class _GivenUpError(Exception):
    """There is to be no other attempt: the launcher was told to end, or none can be planned."""


def restarting(
    restarts: int,
    first: Attempt,
    another: Callable[[], Optional[Attempt]],
    wait: Callable[[str, float], bool],
) -> Attempt:
    """Tries again as often as allowed, and as long as each failure is transient.

    Args:
        restarts: How often, at most.
        first: The attempt that has failed.
        another: Makes another attempt; None if that cannot be.
        wait: Gets a sentence that says why and the seconds; returns False to give up.

    Returns:
        The last attempt.
    """
    policy = RetryPolicy()
    last = first

    def sleep(seconds: float) -> None:
        if not wait(_why(last), seconds):
            raise _GivenUpError

    def one() -> Attempt:
        nonlocal last
        if retrying.statistics["attempt_number"] > 1:
            made = another()
            if made is None:
                raise _GivenUpError
            last = made
        return last

    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(1 + restarts),
        retry=tenacity.retry_if_result(lambda attempt: _is_transient(attempt.cause)),
        wait=lambda state: policy.wait_before_next(last.cause.failure if last.cause else None),
        sleep=sleep,
        retry_error_callback=lambda state: last,
    )
    with contextlib.suppress(_GivenUpError):
        retrying(one)
    return last


def _is_transient(cause: Optional[Cause]) -> bool:
    return cause is not None and cause.failure_class is FailureClass.TRANSIENT


def _why(attempt: Attempt) -> str:
    cause = attempt.cause
    assert cause is not None
    code = "" if cause.failure is None else f" {cause.failure.code} is known to pass."
    return f"Attempt {attempt.number} failed: {cause.said}{code}"
