"""What a failure that was found tells about itself."""

from dataclasses import FrozenInstanceError

import pytest

from ascend_session.failures import Condition, FailureClass, classify


def test_failure_tells_class_advice_source_wait_and_meaning() -> None:
    (failure,) = classify("EJ0001: busy")
    assert failure.failure_class is FailureClass.TRANSIENT
    assert "10 seconds" in failure.advice
    assert failure.source.startswith("EC;")
    assert failure.wait_seconds == 10
    assert failure.meaning == "the communication process on the device did not start"
    assert not failure.vague


def test_each_code_of_a_row_has_its_own_meaning() -> None:
    exact, vague = classify("ret 507053, ret 507899")
    assert exact.definition is vague.definition
    assert exact.meaning == "device memory error"
    assert (exact.vague, vague.vague) == (False, True)


def test_failure_known_by_its_words_has_no_meaning_besides() -> None:
    (failure,) = classify("Start aicpu executor failed, devId=0")
    assert failure.code == "Start aicpu executor failed"
    assert failure.meaning == ""


def test_condition_that_the_row_does_not_know_changes_nothing() -> None:
    (failure,) = classify("EJ0001: busy")
    assert failure.given(*Condition) is FailureClass.TRANSIENT
    assert failure.given() is FailureClass.TRANSIENT


def test_failure_cannot_be_changed() -> None:
    (failure,) = classify("EJ0001: busy")
    with pytest.raises(FrozenInstanceError):
        failure.code = "EI0002"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        failure.definition.wait_seconds = 0  # type: ignore[misc]


def test_equal_findings_are_equal_and_can_be_put_into_a_set() -> None:
    assert len({*classify("EJ0001: busy"), *classify("EJ0001: busy")}) == 1
