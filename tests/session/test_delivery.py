"""A signal whose exception code in C drops is raised once more; one that is handled is not."""

import signal
from typing import List

import pytest

from tests.running import Host
from tests.session.test_interrupt import SIGNALS

HANDLED = "handled, traced: False"
ENDED = "ended, traced: False"


@SIGNALS
@pytest.mark.parametrize(
    ("where", "lines"),
    [
        ("in_del", []),
        ("in_del_of_a_generator", []),
        ("in_del_which_makes_another_error", []),
        ("in_del_after_cleaning_up", ["cleaned up"]),
        ("in_del_and_clean_up", [HANDLED, HANDLED]),
    ],
)
def test_an_exception_that_is_dropped_is_raised_where_the_code_was_called(
    programs: Host, where: str, lines: List[str], number: int, code: int
) -> None:
    ended = programs.run("dropping", where, signal.Signals(number).name)
    assert (ended.code, ended.lines) == (code, lines), ended.log
    assert ended.events[-1] == "shutdown"


@SIGNALS
def test_so_is_one_that_a_callback_of_a_library_drops(
    programs: Host, number: int, code: int
) -> None:
    ended = programs.run("dropping", "in_c", signal.Signals(number).name)
    assert (ended.code, ended.lines) == (code, []), ended.log
    assert ended.events[-1] == "shutdown"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(
    ("where", "lines"),
    [
        ("caught_in_del", ["went on"]),
        ("caught_in_c_by_a_function_that_returns", ["went on"]),
        ("caught_and_kept", [HANDLED, "1"]),
        ("caught_by_a_generator_that_goes_on", ["[1, 2]"]),
        ("raised_as_another_error", ["interrupted"]),
        ("left_with_suppress", [HANDLED, HANDLED]),
    ],
)
def test_one_that_the_program_has_caught_does_not_come_again(
    programs: Host, where: str, lines: List[str], name: str
) -> None:
    ended = programs.run("dropping", where, name)
    assert ended.lines == [*lines, ENDED], ended.log
    assert ended.code == {"SIGTERM": -signal.SIGTERM, "SIGINT": 0}[name]
