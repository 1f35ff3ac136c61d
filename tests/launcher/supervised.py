"""Jobs of small real programs for the tests of the supervision."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import psutil

from ascend_session.launcher.events import Event
from ascend_session.launcher.job.attempt import Attempt
from ascend_session.launcher.job.guardian_process import GuardianProcess
from ascend_session.launcher.job.signals import Signals
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.plan import Plan, plan_job
from ascend_session.launcher.show.following import Output
from ascend_session.launcher.supervisor import supervise

__all__ = ["PATIENCE", "Gate", "JobRun", "alive", "in_launcher", "job"]

PATIENCE = 60.0

_REPOSITORY = Path(__file__).resolve().parents[2]

# What ranks have at hand: their number, and a way to say something to the test.
_BEGIN = """
import os, signal, subprocess, sys, time
rank = int(os.environ["RANK_ID"])
def tell(*words):
    line = " ".join(map(str, (rank, *words))) + chr(10)
    with open(os.environ["GATE"], "w") as gate:
        gate.write(line)
"""


class Gate:
    """A named pipe through which processes of a job say something to the test."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gate"
        if not self.path.exists():
            os.mkfifo(str(self.path))
        # Also open for writing, so that reading waits instead of ending between two writers.
        self._fd = os.open(str(self.path), os.O_RDWR)
        self._text = ""

    def lines(self, count: int) -> List[List[str]]:
        """Waits for so many lines; the words of each, sorted by the rank before them."""
        while self._text.count("\n") < count:
            told = select.select([self._fd], [], [], PATIENCE)[0]
            assert told, f"nothing more was told than {self._text!r}"
            self._text += os.read(self._fd, 65536).decode()
        *lines, self._text = self._text.split("\n", count)
        return sorted(line.split() for line in lines)

    def close(self) -> None:
        os.close(self._fd)


class JobRun:
    """What became of an attempt, and what was told while it ran."""

    def __init__(self, attempt: Attempt, events: List[Event], planned: Plan) -> None:
        self.attempt = attempt
        self.events = events
        self.plan = planned

    @property
    def statuses(self) -> List[Optional[int]]:
        return [rank.status for rank in self.attempt.ranks]

    def said(self, rank: int, stream: str = "stdout") -> str:
        return Path(getattr(self.plan.ranks[rank], stream)).read_text()


def job(
    folder: Path,
    code: str,
    ranks: int = 3,
    grace: float = 30.0,
    on_event: Optional[Callable[[Event], None]] = None,
    change: Callable[[Plan], Plan] = lambda planned: planned,
    **asked: Any,
) -> JobRun:
    """Runs a program of Python, or what ``asked`` names, as a job of several ranks."""
    planned = change(plan_job(config(folder, code, ranks, grace=grace, **asked), dict(os.environ)))
    events: List[Event] = []

    def note(event: Event) -> None:
        events.append(event)
        if on_event is not None:
            on_event(event)

    null = os.open(os.devnull, os.O_WRONLY)
    output = Output(null, ranks, (), False, False)
    try:
        with Signals() as signals:
            attempt = supervise(planned, GuardianProcess(planned.config), output, signals, note)
    finally:
        output.close()
        os.close(null)
    return JobRun(attempt, events, planned)


def config(folder: Path, code: str, ranks: int, **asked: Any) -> LaunchConfig:
    """Such a job as it is asked for."""
    what: Dict[str, Any] = {
        "program": sys.executable,
        "args": ["-c", _BEGIN + code],
        "processes": ranks,
        "backend": "stub",
        "log_dir": str(folder / "logs"),
        "env": {"GATE": str(folder / "gate")},
    }
    return LaunchConfig(**{**what, **asked})


def in_launcher(folder: Path, code: str, ranks: int = 3, grace: float = 30.0) -> "subprocess.Popen":
    """Runs a job in a launcher of its own, which prints what it noticed as JSON."""
    asked = json.dumps({"folder": str(folder), "code": code, "ranks": ranks, "grace": grace})
    return subprocess.Popen(
        [sys.executable, "-m", "tests.launcher.launcher", asked],
        cwd=str(_REPOSITORY),
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        start_new_session=True,
    )


def alive(pids: Sequence[int]) -> List[int]:
    """Those of the processes that live and are no zombies."""
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found
