"""Foreign exceptions, TensorFlow's own among them, become errors of this package."""

import pickle
import subprocess
import sys
from typing import Any

import pytest

from ascend_session import AscendError
from ascend_session.errors import BackendError, InitializationError, ShutdownError
from ascend_session.failures.failure import FailureClass
from ascend_session.failures.scanner import classify, explain, failure_of, translate

MESSAGE = (
    "GeOp1_0GEOP::::DoRunAsync Failed\nError Message is : \nE19999: Inner Error!\n"
    "EJ0001: 2026-03-02-11:57:54.167.645 Failed to initialize the HCCP process.\n"
)


class ForeignError(Exception):
    """As TensorFlow's errors: the text is in an attribute, str() is longer."""

    def __init__(self, message: Any) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return "EI0004: from str()"


def attribute(error: AscendError, name: str) -> Any:
    return getattr(error, name)


@pytest.mark.parametrize("kind", ["InternalError", "InvalidArgumentError"])
def test_tensorflow_error_is_recognised_by_its_message(tf: Any, kind: str) -> None:
    foreign = getattr(tf.errors, kind)(None, None, MESSAGE)
    error = translate(foreign)
    assert isinstance(error, InitializationError)
    assert isinstance(error, RuntimeError)
    assert attribute(error, "failure_class") is FailureClass.TRANSIENT
    assert error.message == (
        "initialize_system failed with EJ0001 (the communication process on the device did not "
        "start): 'EJ0001: 2026-03-02-11:57:54.167.645 Failed to initialize the HCCP process.'"
    )


def test_what_went_wrong_is_said_and_not_where_in_the_graph() -> None:
    said = "Graph execution error:\n\n2 root error(s) found.\nThe queue is closed.\n"
    foreign = ForeignError(f"{said}\t [[{{{{node dequeue}}}}]]\n\t [[{{{{node other}}}}]]\n")
    assert translate(foreign).message == (
        "initialize_system failed with ForeignError: 'The queue is closed.'"
    )


def test_hint_is_the_advice_for_the_root_cause() -> None:
    error = translate(RuntimeError(MESSAGE))
    (failure,) = [one for one in classify(MESSAGE) if one.code == "EJ0001"]
    assert failure_of(error) == failure
    assert error.hint == failure.advice
    assert str(error).endswith(f"hint: {failure.advice}")


def test_message_attribute_is_read_before_str() -> None:
    assert attribute(translate(ForeignError("EI0002: late")), "failure").code == "EI0002"


@pytest.mark.parametrize("message", [None, "", 3, b"EI0002"])
def test_str_is_read_if_the_message_is_no_text(message: Any) -> None:
    assert attribute(translate(ForeignError(message)), "failure").code == "EI0004"


def test_what_was_asked_and_the_class_of_the_result_can_be_chosen() -> None:
    error = translate(RuntimeError("ret 507033"), action="shutdown_system", into=ShutdownError)
    assert type(error) is ShutdownError
    assert error.message.startswith("shutdown_system failed with 507033 (the device could not")


def test_failure_known_by_its_words_is_quoted_only() -> None:
    error = translate(RuntimeError("Open TsdClient failed, tdt error code : 31"))
    expected = "initialize_system failed: 'Open TsdClient failed, tdt error code : 31'"
    assert error.message == expected


def test_unknown_exception_is_quoted_by_its_first_line_and_has_no_hint() -> None:
    error = translate(KeyError("\n  graph is empty  \nsecond line"), into=BackendError)
    assert error.hint is None
    assert attribute(error, "failure_class") is None
    assert failure_of(error) is None
    assert error.message.startswith("initialize_system failed with KeyError: '")

    plain = translate(ValueError("\n  graph is empty  \nsecond line"))
    assert plain.message == "initialize_system failed with ValueError: 'graph is empty'"
    assert translate(ValueError()).message == "initialize_system failed with ValueError."


def test_long_unknown_text_is_cut() -> None:
    assert len(translate(ValueError("x" * 100_000)).message) < 400


def test_caller_keeps_the_foreign_exception_as_the_cause() -> None:
    foreign = RuntimeError(MESSAGE)
    with pytest.raises(InitializationError) as caught:
        raise translate(foreign) from foreign
    assert caught.value.__cause__ is foreign


def test_translated_error_survives_pickling() -> None:
    error = translate(RuntimeError(MESSAGE))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert attribute(copy, "failure_class") is FailureClass.TRANSIENT
    assert failure_of(copy) == failure_of(error)


def test_other_errors_have_no_failure() -> None:
    assert failure_of(ValueError("EJ0001")) is None
    assert failure_of(InitializationError("EJ0001")) is None


def test_an_error_of_this_package_has_said_already_what_is_known() -> None:
    error = BackendError("EJ0001: Failed to initialize the HCCP process.")
    assert explain(error) is None
    assert failure_of(error) is None


def test_room_imports_neither_tensorflow_nor_attrs() -> None:
    program = (
        "import sys, ascend_session.failures\n"
        "print([name for name in ('tensorflow', 'attr', 'yaml') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program]).strip() == b"[]"
