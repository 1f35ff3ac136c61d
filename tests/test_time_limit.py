"""A test that hangs ends the run, and not the next hour."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_PLUGIN = """
from tests.time_limit import limit_time

def pytest_sessionstart(session):
    limit_time(session.config, 2.0)
"""
_HANGING = """
import subprocess, time

def test_before():
    pass

def test_that_hangs():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    wait_for_ever()

def wait_for_ever():
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass
"""
_MANY = """
import time, pytest

@pytest.mark.parametrize("number", range(6))
def test_it(number):
    time.sleep(0.5)
"""


def run(folder: Path, tests: str, *options: str) -> Any:
    """Runs pytest in a folder, until nobody holds its output any more, none of its children."""
    (folder / "conftest.py").write_text(_PLUGIN)
    (folder / "test_it.py").write_text(tests)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_it.py"],
        cwd=str(folder),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


def test_a_test_that_hangs_ends_the_run_with_its_name_its_stack_and_its_children(
    tmp_path: Path,
) -> None:
    ended = run(tmp_path, _HANGING)
    assert ended.returncode == -signal.SIGABRT
    assert "test_it.py::test_that_hangs takes longer than 2 s: the run ends.\n" in ended.stdout
    assert "in wait_for_ever\n" in ended.stdout


def test_a_test_that_hangs_in_a_worker_ends_the_whole_run(tmp_path: Path) -> None:
    ended = run(tmp_path, _HANGING, "-n", "2")
    assert ended.returncode == -signal.SIGKILL
    assert "test_it.py::test_that_hangs takes longer than 2 s: the run ends.\n" in ended.stdout
    assert "in wait_for_ever\n" in ended.stdout


def test_many_tests_may_take_longer_together(tmp_path: Path) -> None:
    ended = run(tmp_path, _MANY)
    assert ended.returncode == 0, ended.stdout
