"""Ends a run of the tests in which one of them hangs: says which one and where, and leaves nothing.

A process beside pytest's waits for news: a thread would stand still with the one that hangs, and
what pytest itself has only prints. Those processes that the tests have started end with the run.
Each worker of pytest-xdist has one, which ends the whole run.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

import psutil

__all__ = ["limit_time"]


def limit_time(config: Any, limit_s: float) -> None:
    """Let no test that this process runs take longer than this, with all its fixtures."""
    if config.pluginmanager.hasplugin("dsession"):
        return  # pytest-xdist's, and here only the workers run tests
    run = os.getppid() if hasattr(config, "workerinput") else os.getpid()
    config.pluginmanager.register(TimeLimit(limit_s, run))


class TimeLimit:
    """A plugin of pytest that tells the process beside it what runs."""

    def __init__(self, limit_s: float, run: int) -> None:
        # In a session of its own, for Ctrl-C is for the tests; they tell of their end themselves.
        self._watcher: Any = subprocess.Popen(
            [sys.executable, __file__, str(limit_s), str(run)],
            bufsize=0,
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._watcher.stdin.write(f"{nodeid}\n".encode())

    def pytest_unconfigure(self) -> None:
        self._watcher.stdin.close()
        self._watcher.wait()


def watch(limit_s: float, run: int) -> None:
    """Read the name of each test that begins, until there are no more, or for too long no other."""
    worker = psutil.Process(os.getppid())
    name = "the collection of tests"
    while select.select([sys.stdin], [], [], limit_s)[0]:
        news = os.read(sys.stdin.fileno(), 1 << 16)
        if not news:
            return
        name = news.decode().splitlines()[-1]
    print(f"\n{name} takes longer than {limit_s:.0f} s: the run ends.", file=sys.stderr, flush=True)
    with contextlib.suppress(psutil.NoSuchProcess):
        end(worker, psutil.Process(run))


def end(worker: psutil.Process, run: psutil.Process) -> None:
    """End a run with all that it has started; pytest's faulthandler prints all stacks first."""
    started = [child for child in run.children(recursive=True) if child.pid != os.getpid()]
    if worker != run:
        run.suspend()  # or it would start another worker
    worker.send_signal(signal.SIGABRT)
    time.sleep(1.0)  # for the stacks; only its parent can wait for its end
    for process in [run, *started]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


if __name__ == "__main__":
    watch(float(sys.argv[1]), int(sys.argv[2]))
