"""Signals and forks while several devices are open, in real programs."""

import signal
import sys

import pytest

from tests.running import Host

CLOSED = ["session close", "session close", "shutdown"]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, -signal.SIGTERM),
        # From Python 3.8 on, an unhandled KeyboardInterrupt ends the process by the signal.
        (signal.SIGINT, -signal.SIGINT if sys.version_info >= (3, 8) else 1),
    ],
    ids=["SIGTERM", "SIGINT"],
)
def test_a_signal_ends_a_map_and_leaves_no_thread(programs: Host, number: int, code: int) -> None:
    with programs.start("mapping", "signal") as program:
        program.expect("ready")
        program.send(number)
        ended = program.end()
    assert (ended.code, ended.lines) == (code, ["threads left: []"]), ended.log
    assert ended.events[-3:] == CLOSED
    assert "FanOutError" not in ended.log


def test_a_signal_ends_a_map_whose_threads_are_being_started(programs: Host) -> None:
    ended = programs.run("mapping", "signal at once")
    assert (ended.code, ended.lines) == (-signal.SIGTERM, ["threads left: []"]), ended.log
    assert ended.events[-3:] == CLOSED


def test_a_forked_process_may_not_map_and_closes_nothing(programs: Host) -> None:
    ended = programs.run("mapping", "fork")
    assert ended.code == 0, ended.log
    assert ended.lines == [
        "child: This Ascend system belongs to another process",
        "child ended 0",
        "parent runs [0, 1]",
        "threads left: []",
    ]
    assert ended.events[-3:] == CLOSED
    assert ended.events.count("shutdown") == 1
