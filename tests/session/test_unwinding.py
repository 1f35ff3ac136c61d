"""Closing several things: none is left out, no exception is lost."""

import logging
from typing import Any, List

import pytest

from ascend_session.session.signals import close_all, join_errors


def test_each_thing_is_closed_whatever_the_others_do() -> None:
    closed: List[str] = []
    first, last = ZeroDivisionError("first"), KeyboardInterrupt()

    def fail(name: str, error: BaseException) -> None:
        closed.append(name)
        raise error

    failed = close_all(
        [
            ("a", lambda: fail("a", first)),
            ("b", lambda: closed.append("b")),
            ("c", lambda: fail("c", last)),
        ]
    )
    assert closed == ["a", "b", "c"]
    assert failed == [("a", first), ("c", last)]


def test_nothing_to_close_is_no_failure() -> None:
    assert close_all([]) == []


def test_what_failed_while_closing_is_attached_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body: Any = ValueError("body")
    first, second = OSError("first"), OSError("second")
    assert join_errors(body, [first, second]) is body
    assert body.closing_errors == [first, second]
    assert [record.getMessage() for record in caplog.records] == [
        "Closing failed after ValueError: first",
        "Closing failed after ValueError: second",
    ]
    assert all(record.levelno == logging.ERROR for record in caplog.records)
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is first


def test_the_traceback_names_it_where_exceptions_take_notes() -> None:
    body: Any = ValueError("body")
    join_errors(body, [OSError("the door is stuck")])
    if hasattr(body, "add_note"):
        assert body.__notes__ == ["Closing failed as well: the door is stuck"]
    else:
        assert not hasattr(body, "__notes__")


def test_an_interrupt_while_closing_is_no_failure_to_close(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body: Any = KeyboardInterrupt()
    another = KeyboardInterrupt()
    assert join_errors(body, [another]) is body
    assert body.closing_errors == [another]
    assert caplog.records == []
    assert not getattr(body, "__notes__", [])
