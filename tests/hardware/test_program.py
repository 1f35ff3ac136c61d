"""One program asked several things."""

from typing import List, Optional

from ascend_session.hardware.program import Program
from tests.fake_host import FakeHost, Reply


def words(text: str) -> List[str]:
    return text.split()


def program(host: FakeHost, timeout: float = 30.0) -> Program:
    return Program("npu-smi", ["usr/local/bin"], host.environ, str(host.root), timeout)


def test_answers_are_parsed(host: FakeHost) -> None:
    host.npu_smi({"a": Reply("one two"), "b -c": Reply("three")})
    asked = program(host)
    assert asked.ask(words, "a") == ["one", "two"]
    assert asked.ask(words, "b", "-c") == ["three"]
    assert (asked.answers, asked.notes) == (True, [])


def test_without_the_program_nothing_is_parsed(host: FakeHost) -> None:
    asked = program(host)
    assert asked.ask(words, "a") == []
    assert (asked.answers, asked.notes) == (False, [])


def test_an_empty_answer_is_a_note_unless_it_may_be(host: FakeHost) -> None:
    host.npu_smi({"": Reply(" \n")})
    asked = program(host)
    assert asked.ask(words, "a", may_be_empty=True) == []
    assert asked.notes == []
    assert asked.ask(words, "a", "-b") == []
    assert asked.notes == ["'npu-smi a -b' printed nothing that could be read; it said nothing."]


def test_a_failure_does_not_throw_away_what_was_said(host: FakeHost) -> None:
    host.npu_smi({"": Reply("one", "broken", 7)})
    asked = program(host)
    assert asked.ask(words, "a") == ["one"]
    assert asked.notes == ["'npu-smi a' ended with exit code 7 and said 'broken'."]


def test_notes_are_said_once(host: FakeHost) -> None:
    asked = program(host)
    given: List[Optional[str]] = ["x", None, "", "y", "x"]
    for note in given:
        asked.note(note)
    assert asked.notes == ["x", "y"]
