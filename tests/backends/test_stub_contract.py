"""The backend contract, on the stub, and the list of what it does otherwise than the device."""

from pathlib import Path
from typing import Any

import pytest

from ascend_session.backends import backend_class
from hardware_tests.backend_contract import BackendContract
from tests.backend_differences import DIFFERENCES

StubBackend: Any = backend_class("stub")


@pytest.mark.smoke
class TestStub(BackendContract):
    @pytest.fixture
    def backend_name(self) -> str:
        return "stub"


def test_each_missing_capability_is_a_listed_difference() -> None:
    missing = {name for name, able in StubBackend.capabilities.items() if able is not True}
    assert missing <= {difference.capability for difference in DIFFERENCES}


def test_each_difference_is_shown_by_a_test_that_exists() -> None:
    top = Path(__file__).parents[2]
    files = [file for tests in ("tests", "hardware_tests") for file in top.glob(f"{tests}/**/*.py")]
    text = "".join(file.read_text() for file in files)
    shown = {difference.shown_by for difference in DIFFERENCES}
    assert {name for name in shown if f"def {name}(" not in text} == set()
    assert {d.answer for d in DIFFERENCES} == {"refusal", "warning", "test"}
