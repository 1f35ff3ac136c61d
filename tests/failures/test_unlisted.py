"""Messages of the vendor whose code the table does not have."""

from pathlib import Path

import pytest

from ascend_session.failures.failure import FailureClass
from ascend_session.failures.scanner import classify, root_cause
from tests.launcher.situations import Situation

MESSAGE = """\
EX0099: [PID: 1] 2026-03-02-11:57:54.167.645 The flux capacitor
        is not aligned.
        Possible Cause: 1. It was moved. 2. It
        is broken.
        Solution: Align it.
        TraceBack (most recent call last):
        GEInitialize failed.[FUNC:GEInitialize][FILE:ge_api.cc][LINE:337]
"""


def test_the_vendors_own_words_say_what_is_wrong_and_what_to_do() -> None:
    cause = root_cause(classify(f"[GePlugin] Initialize ge failed\n{MESSAGE}"))
    assert cause is not None
    assert (cause.code, cause.meaning) == ("EX0099", "The flux capacitor is not aligned")
    advice = "Possible Cause: 1. It was moved. 2. It is broken. Solution: Align it."
    assert cause.advice == advice
    assert cause.line.startswith("EX0099: ")


def test_a_message_with_a_name_before_its_code_is_read() -> None:
    (failure,) = classify("Capacitor_Error(EX0099): Not aligned.\n        Solution: Align it.\n")
    assert (failure.code, failure.meaning, failure.advice) == (
        "EX0099",
        "Not aligned",
        "Solution: Align it.",
    )


@pytest.mark.parametrize(
    "text",
    [
        "EX0099: The flux capacitor is not aligned.\n",
        "W11099: The flux capacitor is not aligned.\n        Solution: Align it.\n",
        "run AB1234: done\nSolution: the last model is the best\n",
        "run AB1234: done\n\n    Solution: the last model is the best\n",
        "see https://x/EX0099-1: more\n    Solution: none\n",
        "    Possible Cause: 1. One.\n    Solution: Another.\n",
    ],
)
def test_other_texts_stay_silent(text: str) -> None:
    assert classify(text) == []


def test_a_code_of_the_table_is_believed_first() -> None:
    cause = root_cause(classify(f"{MESSAGE}E90003: Compile operator failed\n"))
    assert cause is not None
    assert cause.code == "E90003"


def test_a_code_of_the_table_keeps_its_own_advice() -> None:
    (failure,) = classify(MESSAGE.replace("EX0099", "E40021").partition("        TraceBack")[0])
    assert failure.definition.is_listed
    assert "Align" not in failure.advice


def test_an_unknown_code_of_hccl_may_come_from_another_rank() -> None:
    failure = classify(MESSAGE.replace("EX0099", "EI0099"))[0]
    assert failure.failure_class is FailureClass.SECONDARY


def test_a_message_that_was_cut_is_read_without_an_error() -> None:
    for length in range(len(MESSAGE)):
        classify(MESSAGE[:length])


def test_the_summary_says_it_once_with_the_vendors_advice(tmp_path: Path) -> None:
    made = Situation(tmp_path / "logs", 1)
    made.raised(0, "RuntimeError", MESSAGE.replace("\n        is", " is"), 9.0)
    cause = made.cause()
    assert cause.said.count("The flux capacitor is not aligned") == 1
    assert cause.advice.endswith("Solution: Align it.")
