"""What tests start can be interrupted and has an environment of its own, however the run began."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = str(Path(__file__).resolve().parents[1])

# As a run of tests behind ``&`` and under ``nohup`` whose terminal then goes away.
RUN = """
import os, signal, subprocess, sys
signals = [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP]
for number in signals:
    signal.signal(number, signal.SIG_IGN)
if sys.argv[1] == "as the tests do":
    from hardware_tests.running import stop_ignoring_signals
    stop_ignoring_signals()
os.kill(os.getpid(), signal.SIGHUP)
for number in signals:
    program = f"import os; os.kill(os.getpid(), {int(number)})"
    # -S and -E: Python itself ignores none of them.
    print(subprocess.call([sys.executable, "-S", "-E", "-c", program], stderr=subprocess.DEVNULL))
"""


def codes(how: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", RUN, how],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": TOP},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=60,
    )
    return " ".join(ended.stdout.split())


def test_programs_have_the_default_handlers_and_the_run_survives_its_terminal() -> None:
    interrupted = {"-2", "1"}  # Python 3.7 ends with 1 after its KeyboardInterrupt
    sigint, *others = codes("as the tests do").split()
    assert sigint in interrupted
    assert others == ["-3", "-1"]


def test_without_that_they_ignore_what_the_run_ignores() -> None:
    assert codes("not at all") == "0 0 0"


def test_programs_have_none_of_the_variables_of_this_machine() -> None:
    program = [sys.executable, "-c", "import os; print(*os.environ)"]
    names = subprocess.check_output(program, text=True).split()
    assert "PATH" in names
    assert not {"PYTHONUNBUFFERED", "RUST_BACKTRACE"}.intersection(names)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_nor_have_they_in_a_run_that_was_started_with_others(workers: str) -> None:
    test = f"{__file__}::{test_programs_have_none_of_the_variables_of_this_machine.__name__}"
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, test],
        cwd=TOP,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "80", "RUST_BACKTRACE": "full"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert "1 passed" in ended.stdout, ended.stdout
