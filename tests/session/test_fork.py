"""A process that was forked while a system was open: it touches nothing, and is told why."""

import signal
from typing import List

import pytest

from tests.running import Host

SHUT_DOWN = "events: ['initialize', 'bring up', 'session open', 'session close', 'shutdown']"


@pytest.fixture(scope="module")
def left(programs: Host) -> List[str]:
    """What a program says whose child leaves the blocks it was forked in, and exits."""
    ended = programs.run("forking", "leave")
    assert ended.code == 0, ended.log
    return ended.lines


def test_leaving_the_block_and_exiting_do_nothing_in_the_child(left: List[str]) -> None:
    assert left[-4:] == ["child left the block", "child ended 0", "parent runs 7", SHUT_DOWN]


def test_using_the_system_is_refused_in_the_child(left: List[str]) -> None:
    assert left[0] == "current system: None, open: False"
    told = dict(line.split(": ", 1) for line in left[1:7])
    forked = "This process was forked from process P while that process had an Ascend system open"
    for what in ("ascend_system", "ascend_session"):
        assert told[what].startswith(forked)
    for what in ("system.session", "system.session_config"):
        assert told[what].startswith("This Ascend system belongs to process P")
    for what in ("sess.run", "callable"):
        assert told[what].startswith("This tf.Session was opened in process P")
    assert all("Start workers as fresh processes" in sentence for sentence in told.values())


def test_the_child_has_the_default_signal_handlers(left: List[str]) -> None:
    assert left[7:9] == ["handlers: True", "wakeup: -1"]


def test_the_child_is_in_no_job(left: List[str]) -> None:
    assert left[9] == "job: None"


def test_a_signal_kills_the_child_only(programs: Host) -> None:
    ended = programs.run("forking", "signal")
    assert (ended.code, ended.lines) == (0, ["child ended -15", "parent runs 7", SHUT_DOWN])


def test_an_error_in_the_child_is_the_childs(programs: Host) -> None:
    ended = programs.run("forking", "raise")
    assert (ended.code, ended.lines) == (0, ["child ended 1", "parent runs 7", SHUT_DOWN])
    assert "ZeroDivisionError" in ended.log
    assert "LifecycleError" not in ended.log


@pytest.mark.parametrize("moment", ["while_opening", "while_importing"])
def test_a_system_that_another_thread_is_opening_is_the_parents_as_well(
    programs: Host, moment: str
) -> None:
    ended = programs.run("forking", moment)
    assert ended.code == 0, ended.log
    refusal, child = ended.lines
    assert refusal.startswith("This process was forked from process P")
    assert child == "child ended 0"


def test_signals_that_another_thread_is_taking_over_are_the_parents_alone(programs: Host) -> None:
    ended = programs.run("forking", "while_taking_signals_over")
    child = ["handlers: True", "wakeup: -1", f"child ended {signal.SIGTERM:d}"]
    assert (ended.code, ended.lines) == (0, [*child, "parent runs 7"]), ended.log


def test_a_child_that_is_forked_after_all_was_closed_is_refused_and_does_not_hang(
    programs: Host,
) -> None:
    ended = programs.run("forking", "after_closing")
    assert ended.code == 0, ended.log
    first, *refusals, child, again = ended.lines
    assert [first, child, again] == ["parent runs 7 7", "child ended 0", "parent runs 7 7"]
    assert len(refusals) == 5
    for refusal in refusals:
        assert refusal.startswith("This process was forked from process P after that process")
        assert "multiprocessing's 'spawn'" in refusal
