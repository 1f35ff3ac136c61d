"""Another attempt on devices that somebody has taken in the meantime."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

from ascend_session import RetryPolicy
from ascend_session.launcher.api import launch_within
from ascend_session.launcher.events import Event, Waiting
from ascend_session.launcher.job.guardian_process import GuardianProcess
from ascend_session.launcher.job.signals import Signals
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.preflight import checked_plan
from ascend_session.launcher.verdict.result import LaunchResult
from tests.checks.healthy import Healthy

# Fails in a way that passes, the first time; and is held by somebody afterwards.
_ONCE = """
import os, sys
folder = os.path.join(os.environ["ASCEND_SESSION_HOST_ROOT"], "proc", "4321")
if not os.path.exists(folder + ".was"):
    os.mkdir(folder + ".was")
    os.makedirs(os.path.join(folder, "fd"))
    os.symlink("/dev/davinci1", os.path.join(folder, "fd", "0"))
    with open(os.path.join(folder, "comm"), "w") as file:
        file.write("other")
    sys.exit("EJ0001: Failed to initialize the HCCP process")
"""


@pytest.fixture
def held_later(tmp_path: Path, monkeypatch: Any) -> Iterator[Healthy]:
    """A host on which the second device is held once the first attempt is over."""
    monkeypatch.setattr("ascend_session.launcher.api._RELEASE_S", 0.0)
    monkeypatch.setattr(RetryPolicy, "wait_before_next", lambda policy, failure: 0.0)
    made = Healthy(tmp_path)
    made.script.write_text(_ONCE)
    yield made
    made.host.close()


def _launched(host: Healthy, on_event: Callable[[Event], None], **more: Any) -> LaunchResult:
    config = LaunchConfig(
        script="train.py", devices=[1], cwd=str(host.folder), max_restarts=1, **more
    )
    environ = {**os.environ, **host.environ}
    first = checked_plan(config, environ)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        with Signals() as signals:
            return launch_within(first, GuardianProcess(config), signals, null, on_event)
    finally:
        os.close(null)


def _goes(host: Healthy) -> None:
    shutil.rmtree(str(host.host.root / "proc" / "4321"))


def test_it_is_not_started_and_the_result_says_why(held_later: Healthy) -> None:
    result = _launched(held_later, lambda event: None)
    assert (result.code, len(result.attempts)) == (1, 1)
    (note,) = [note for note in result.notes if note.startswith("Attempt 2 was not started: ")]
    assert "device 1 (/dev/davinci1) is held by process 4321 (other)" in note.lower()
    assert "Stop it (kill 4321), wait until it is free" in note


def test_it_waits_for_them_if_that_was_asked_for(held_later: Healthy) -> None:
    waited: List[str] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Waiting):
            waited.append(event.who)
            _goes(held_later)

    result = _launched(held_later, on_event, wait_for_devices=600)
    assert (result.code, len(result.attempts)) == (0, 2)
    assert len(waited) == 1
    assert "held by process 4321 (other)" in waited[0]


def test_a_signal_ends_the_wait(held_later: Healthy) -> None:
    def on_event(event: Event) -> None:
        if isinstance(event, Waiting):
            os.kill(os.getpid(), signal.SIGINT)

    result = _launched(held_later, on_event, wait_for_devices=600)
    assert (result.code, len(result.attempts)) == (130, 1)
