"""Every cell of the table in the docstring of `ascend_session.session.system`, on both backends."""

import json
import re
import signal
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import pytest

from ascend_session.session import system as module
from tests.fake_host.vendor import environment, live_host, recorded
from tests.running import Ended, Host

FORKED = "This process was forked from process P"
WHILE_OPEN = f"{FORKED} while that process had an Ascend system open"
AFTER_SESSIONS = f"{FORKED} after that process had opened a session"


def read_table() -> Dict[Tuple[str, str], str]:
    """What happens, by event and state."""
    _, head, body, _ = re.split("(?m)^=[= ]+$", str(module.__doc__))
    states = re.split("  +", head.strip())[1:]
    rows = [re.split("  +", line) for line in body.strip().splitlines()]
    return {(event, state): verb for event, *verbs in rows for state, verb in zip(states, verbs)}


TABLE = read_table()

# What the program says, up to its own end. Behind an event whose verb depends on the state, both.
SAID: Dict[str, List[str]] = {
    "a block begins: wait": ["waits"],
    "a block begins: share": [],
    "a block begins: open": [],
    "a block begins: refuse": [WHILE_OPEN],
    "last block ends: close": ["InitializationError", "works 7"],
    "last block ends: leave": ["current None"],
    "last block ends: wait": ["waits", "current None"],
    "last block ends: nothing": ["current None"],
    "close() or exit: close": [],
    "close() or exit: wait": [],
    "close() or exit: nothing": [],
    "signal: close": ["signal"],
    "signal: leave": ["signal"],
    "signal: wait": ["signal"],
    "signal: default": ["signal"],
    "second SIGTERM: abandon": ["signal", "signal"],
    "second SIGTERM: default": ["signal"],
    "fork, in a child: abandon": ["current None", WHILE_OPEN, "unwound", "child ended 768"],
    "fork, in a child: refuse": ["current None", AFTER_SESSIONS, "unwound", "child ended 768"],
}

# How often the device is initialised and shut down, where it is not once.
TIMES: Dict[Tuple[str, str], Tuple[int, int]] = {
    ("a block begins", "closing"): (2, 2),
    ("a block begins", "closed"): (2, 2),
    ("close() or exit", "opening"): (0, 0),
    ("signal", "opening"): (0, 0),
    ("second SIGTERM", "opening"): (0, 0),
    ("second SIGTERM", "open"): (1, 0),
    ("second SIGTERM", "closing"): (1, 0),
    ("fork, in a child", "closing"): (2, 2),
    ("fork, in a child", "closed"): (2, 2),
}


@pytest.fixture
def run(tmp_path: Path, programs: Host) -> Iterator[Callable[..., Tuple[Ended, List[Any]]]]:
    """Runs the program, and says how it ended and what each process has asked of the device."""
    host = live_host(tmp_path, chips=1)

    def run(backend: str, event: str, state: str) -> Tuple[Ended, List[Any]]:
        variables = environment(host) if backend == "npu" else {}
        ended = programs.run("states", backend, event, state, json.dumps(variables))
        return ended, recorded(host) if backend == "npu" else []

    yield run
    host.close()


def expected_lines(event: str, state: str, verb: str) -> List[str]:
    lines = list(SAID[f"{event}: {verb}"])
    if state == "abandoned":
        if event == "close() or exit":
            lines.append("unwound")
        lines.append("works 7")  # in the parent
    elif event == "fork, in a child":
        lines.append("works 7")
    ends_unwound = verb != "default" and event != "second SIGTERM"
    return lines + ["unwound"] * ends_unwound


@pytest.mark.parametrize("backend", ["stub", "npu"])
@pytest.mark.parametrize(("event", "state"), list(TABLE), ids=map(" - ".join, TABLE))
def test_what_happens_is_what_the_table_says(
    run: Callable[..., Tuple[Ended, List[Any]]], backend: str, event: str, state: str
) -> None:
    ended, calls = run(backend, event, state)
    verb = TABLE[event, state]
    children = re.findall("child ([0-9]+) ended", "\n".join(ended.lines))
    lines = [re.sub("child [0-9]+", "child", line) for line in ended.lines]
    assert lines == expected_lines(event, state, verb), ended.log
    is_signal = event in ("signal", "second SIGTERM")
    assert ended.code == (-signal.SIGTERM if is_signal else 0), ended.log
    times = ended.events.count("initialize"), ended.events.count("shutdown")
    assert times == TIMES.get((event, state), (1, 1)), ended.log
    assert ("Second signal (SIGTERM): exiting at once." in ended.log) == (
        event == "second SIGTERM" and verb == "abandon"
    )
    is_left_open = event == "close() or exit" and verb in ("close", "wait")
    assert ("left open; it is shut down at exit" in ended.log) == is_left_open
    if verb == "abandon":
        assert [call for call in calls if str(call["pid"]) in children] == []


def test_the_architecture_guide_has_the_same_table() -> None:
    guide = Path(module.__file__).parent.parent / "guides" / "architecture.md"
    _, _, after = guide.read_text(encoding="utf-8").partition("| Event | opening |")
    rows = [line.strip("| ").split(" | ") for line in after.splitlines()[2:8]]
    assert [verb for _, *verbs in rows for verb in verbs] == list(TABLE.values())


def test_the_table_has_a_cell_for_each_event_and_state_and_each_is_run() -> None:
    assert {state for _, state in TABLE} == {state.value for state in module.State}
    assert len(TABLE) == 6 * len(module.State)
    assert {f"{event}: {verb}" for (event, _), verb in TABLE.items()} == set(SAID)
