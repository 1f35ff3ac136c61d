"""What tests start can be interrupted, whatever the run of the tests itself ignores."""

import os
import subprocess
import sys
from pathlib import Path

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
    top = str(Path(__file__).resolve().parents[1])
    ended = subprocess.run(
        [sys.executable, "-c", RUN, how],
        cwd=top,
        env={**os.environ, "PYTHONPATH": top},
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
