"""Jobs of the stub whose ranks are real processes, without a launcher that would end them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.plan import plan_job

__all__ = ["Job", "Ranks", "Result"]

_TESTS = Path(__file__).resolve().parent


class Result(NamedTuple):
    """What became of a rank.

    Attributes:
        code: Its exit code; negative for the signal that ended it.
        said: What it said, in order.
        log: What it wrote to stderr.
        seconds: From the last signal, or its start, to its end.
    """

    code: int
    said: List[Any]
    log: str
    seconds: float


class Ranks:
    """The process that has imported TensorFlow and becomes the ranks of one job after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs = 0
        variables = {"TF_CPP_MIN_LOG_LEVEL": "2"}
        self._process: Any = subprocess.Popen(
            [sys.executable, str(_TESTS / "programs" / "ranks.py")],
            env={**os.environ, **variables, "PYTHONPATH": str(_TESTS.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
        )

    def start(self, program: str, size: int, *arguments: str, **variables: str) -> "Job":
        """Starts a program of ``ranks_programs`` as ``size`` ranks."""
        self._jobs += 1
        folder = self._folder / f"job_{self._jobs}"
        folder.mkdir()
        return Job(self._process, folder, program, size, arguments, variables)

    def run(self, program: str, size: int, *arguments: str, **variables: str) -> List[Result]:
        """Runs such a job to its end."""
        with self.start(program, size, *arguments, **variables) as job:
            return job.results()

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


class Job:
    """A job while it runs; leaving the block ends it."""

    def __init__(
        self,
        process: Any,
        folder: Path,
        program: str,
        size: int,
        arguments: Any,
        variables: Dict[str, str],
        patience: float = 120.0,
    ) -> None:
        self._process = process
        self._logs = [str(folder / f"rank_{rank}.log") for rank in range(size)]
        config = LaunchConfig(
            program=sys.executable,
            processes=size,
            backend="stub",
            log_dir=str(folder),
            env=variables,
        )
        self._plan = plan_job(config, dict(os.environ))
        environments = [dict(rank.environment) for rank in self._plan.ranks]
        asked = {"program": program, "arguments": list(arguments), "logs": self._logs}
        print(json.dumps({**asked, "environments": environments}), file=process.stdin, flush=True)
        self._pids: Dict[int, int] = {}
        self._codes: Dict[int, int] = {}
        self._ends: Dict[int, float] = {}
        self._said: List[List[Any]] = [[] for _ in range(size)]
        self._since = time.monotonic()
        self._watchdog = threading.Timer(patience, self._kill_all)
        self._watchdog.daemon = True
        self._watchdog.start()
        while len(self._pids) < size:
            self._read()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *failure: Any) -> None:
        if failure[0] is not None:
            self._kill_all()
        while len(self._codes) < len(self._pids):
            self._read()
        self._watchdog.cancel()

    def pid(self, rank: int) -> int:
        """The process of a rank."""
        return self._pids[rank]

    def await_said(self, count: int, rank: Optional[int] = None) -> None:
        """Waits until each rank, or the one, has said so many values."""
        ranks = range(len(self._said)) if rank is None else [rank]
        for number in ranks:
            while len(self._said[number]) < count:
                assert number not in self._codes, Path(self._logs[number]).read_text()
                self._read()

    def send(self, rank: int, signum: int) -> None:
        """Sends a signal to a rank."""
        self._since = time.monotonic()
        os.kill(self._pids[rank], signum)

    def results(self) -> List[Result]:
        """Waits for the end of all ranks."""
        while len(self._codes) < len(self._pids):
            self._read()
        return [
            Result(
                self._codes[rank],
                self._said[rank],
                Path(log).read_text(),
                self._ends[rank] - self._since,
            )
            for rank, log in enumerate(self._logs)
        ]

    def _read(self) -> None:
        line = self._process.stdout.readline()
        assert line, "the process that becomes the ranks has ended"
        kind, rank, *rest = line.split(maxsplit=2)
        number = int(rank)
        if kind == "pid":
            self._pids[number] = int(rest[0])
        elif kind == "ended":
            self._codes[number] = int(rest[0])
            self._ends[number] = time.monotonic()
        elif kind == "say":
            self._said[number].append(json.loads(rest[0]))

    def _kill_all(self) -> None:
        for rank, pid in self._pids.items():
            if rank not in self._codes:
                os.kill(pid, signal.SIGKILL)
