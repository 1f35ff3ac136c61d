"""When another attempt is made, and after how long."""

from typing import Any, Optional

import pytest

from ascend_session.failures.failure import Failure, FailureClass, RetryPolicy
from ascend_session.failures.scanner import classify, root_cause

TRANSIENT = "EJ0001: Failed to initialize the HCCP process."
AMBIGUOUS = "E39007: sub-process start timed out"
PERMANENT = "EI0004: the rank table is invalid"


def failure(text: str) -> Failure:
    found = root_cause(classify(text))
    assert found is not None
    return found


def allowed(policy: RetryPolicy, attempt: int, text: str) -> bool:
    found = failure(text)
    return policy.allows(attempt, found, found.failure_class)


def test_what_passes_is_tried_as_often_as_is_allowed() -> None:
    assert [allowed(RetryPolicy(3), attempt, TRANSIENT) for attempt in (1, 2, 3)] == [
        True,
        True,
        False,
    ]


def test_what_may_pass_is_tried_again_only_after_the_first_attempt() -> None:
    assert [allowed(RetryPolicy(9), attempt, AMBIGUOUS) for attempt in (1, 2)] == [True, False]


def test_what_does_not_pass_or_is_not_known_is_never_tried_again() -> None:
    assert not allowed(RetryPolicy(9), 1, PERMANENT)
    assert not RetryPolicy(9).allows(1, None, FailureClass.TRANSIENT)


def test_what_somebody_has_killed_is_tried_as_often_as_is_allowed() -> None:
    killed = [RetryPolicy(2).allows(attempt, None, None, was_killed=True) for attempt in (1, 2)]
    assert killed == [True, False]
    found = failure(PERMANENT)
    assert not RetryPolicy(2).allows(1, found, found.failure_class, was_killed=True)


def test_what_only_a_wrapper_tells_is_never_tried_again() -> None:
    assert not allowed(RetryPolicy(9), 1, "E19999: Inner Error!")
    assert allowed(RetryPolicy(9), 1, f"E19999: Inner Error!\n{TRANSIENT}")


def test_the_class_under_known_conditions_decides() -> None:
    found = failure(PERMANENT)
    assert RetryPolicy().allows(1, found, FailureClass.TRANSIENT)


def test_the_wait_is_the_vendors_unless_another_is_given() -> None:
    assert RetryPolicy().wait_before_next(failure(TRANSIENT)) == 10
    assert RetryPolicy().wait_before_next(failure(AMBIGUOUS)) >= 10
    assert RetryPolicy().wait_before_next(None) == 10
    assert RetryPolicy(wait_seconds=0).wait_before_next(failure(TRANSIENT)) == 0


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("attempts", True, TypeError),
        ("attempts", 2.0, TypeError),
        ("attempts", 0, ValueError),
        ("wait_seconds", "1", TypeError),
        ("wait_seconds", -1, ValueError),
        ("wait_seconds", float("nan"), ValueError),
        ("attempt_seconds", None, TypeError),
        ("attempt_seconds", 0, ValueError),
        ("attempt_seconds", float("inf"), ValueError),
    ],
)
def test_what_is_no_number_of_attempts_or_seconds_is_refused(
    name: str, value: Any, kind: Any
) -> None:
    with pytest.raises(kind, match=name):
        RetryPolicy(**{name: value})


@pytest.mark.parametrize("wait", [None, 0, 2.5])
def test_it_is_a_value(wait: Optional[float]) -> None:
    policy = RetryPolicy(wait_seconds=wait)
    assert policy == RetryPolicy(wait_seconds=wait)
    with pytest.raises(AttributeError):
        policy.attempts = 5  # type: ignore[misc]
