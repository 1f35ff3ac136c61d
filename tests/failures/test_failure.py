"""What a failure that was found tells about itself."""

from dataclasses import FrozenInstanceError

import pytest

from ascend_session.failures.failure import FailureClass
from ascend_session.failures.scanner import classify


def test_failure_tells_class_advice_source_wait_and_meaning() -> None:
    (failure,) = classify("EJ0001: busy")
    assert failure.failure_class is FailureClass.TRANSIENT
    assert "10 seconds" in failure.advice
    assert failure.source.startswith("EC;")
    assert failure.wait_seconds == 10
    assert failure.meaning == "the communication process on the device did not start"
    assert failure.is_exact


def test_each_code_of_a_row_has_its_own_meaning() -> None:
    one, another = classify("ret 507053, ret 507056")
    assert one.definition is another.definition
    assert (one.meaning, another.meaning) == ("device memory error", "link error")


@pytest.mark.parametrize(
    "text", ["ret 507899", "EI0006", "ret 507033", "E19999", "[InitGroupStage][EnvConfig]"]
)
def test_what_may_be_said_better_is_not_exact(text: str) -> None:
    (failure,) = classify(text)
    assert not failure.is_exact


def test_a_secondary_failure_is_called_so_whatever_it_asks_for_by_itself() -> None:
    (failure,) = classify("EI0015: not all ranks came")
    assert failure.failure_class is FailureClass.SECONDARY
    assert failure.definition.failure_class is FailureClass.TRANSIENT


def test_failure_known_by_its_words_has_no_meaning_besides() -> None:
    (failure,) = classify("Start aicpu executor failed, devId=0")
    assert failure.code == "Start aicpu executor failed"
    assert failure.meaning == ""


def test_failure_cannot_be_changed() -> None:
    (failure,) = classify("EJ0001: busy")
    with pytest.raises(FrozenInstanceError):
        failure.code = "EI0002"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        failure.definition.wait_seconds = 0  # type: ignore[misc]


def test_equal_findings_are_equal_and_can_be_put_into_a_set() -> None:
    assert len({*classify("EJ0001: busy"), *classify("EJ0001: busy")}) == 1
