"""Runs the programs of tests/programs as processes of their own, and says how they ended."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, List, NamedTuple

_TESTS = Path(__file__).resolve().parent


class Ended(NamedTuple):
    """How a program ended.

    Attributes:
        code: Its exit code; negative for the signal that ended it.
        lines: What it wrote to stdout and was not read while it ran.
        log: What it wrote to stderr.
        seconds: Time since the last signal, or since its start.
    """

    code: int
    lines: List[str]
    log: str
    seconds: float

    @property
    def events(self) -> List[str]:
        """The names of the events in the log."""
        return re.findall(r"DEBUG +[0-9.]+ s  ([a-z ]+)", self.log)


class Host:
    """The process that has imported TensorFlow and runs the programs, one after the other."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (open as long as the host)
        variables = {"PYTHONPATH": str(_TESTS.parent), "TF_CPP_MIN_LOG_LEVEL": "2"}
        self._process: Any = subprocess.Popen(
            [sys.executable, str(_TESTS / "programs" / "host.py")],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            universal_newlines=True,
        )

    def start(self, name: str, *arguments: str, patience: float = 60.0) -> "Program":
        """Starts a program; it is killed when it hangs for ``patience`` seconds."""
        begin = self._log.seek(0, os.SEEK_END)
        print(json.dumps([name, *arguments]), file=self._process.stdin, flush=True)
        return Program(self, begin, patience)

    def run(self, name: str, *arguments: str) -> Ended:
        """Runs a program to its end."""
        with self.start(name, *arguments) as program:
            return program.end()

    def line(self) -> str:
        """The next line that the host or the program writes."""
        return str(self._process.stdout.readline()).rstrip("\n")

    def log(self, begin: int) -> str:
        """What was written to stderr since ``begin``."""
        self._log.seek(begin)
        return self._log.read()

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()


class Program:
    """A program while it runs; leaving the block ends it."""

    def __init__(self, host: Host, begin: int, patience: float) -> None:
        self._host = host
        self._begin = begin
        answer = host.line()
        assert answer.startswith("pid "), f"{answer!r}; log:\n{host.log(begin)}"
        self._pid = int(answer.split()[1])
        self._ended = False
        self._watchdog = threading.Timer(patience, self.send, [signal.SIGKILL])
        self._watchdog.daemon = True
        self._watchdog.start()
        self._since = time.monotonic()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *failure: Any) -> None:
        if not self._ended:
            self.send(signal.SIGKILL)
            self.end()

    def expect(self, line: str) -> None:
        """Waits for the next line on stdout, which must be this one."""
        said = self._host.line()
        self._ended = said.startswith("ended ")
        assert said == line, f"{said!r}, not {line!r}; log:\n{self._host.log(self._begin)}"

    def send(self, signum: int) -> None:
        """Sends a signal."""
        self._since = time.monotonic()
        os.kill(self._pid, signum)

    def end(self) -> Ended:
        """Waits for its end."""
        lines = self._rest()
        self._ended = True
        self._watchdog.cancel()
        seconds = time.monotonic() - self._since
        code = int(lines.pop().split()[1])
        return Ended(code, lines, self._host.log(self._begin), seconds)

    def _rest(self) -> List[str]:
        lines = [self._host.line()]
        while not lines[-1].startswith("ended "):
            assert lines[-1], f"the host has gone; log:\n{self._host.log(self._begin)}"
            lines.append(self._host.line())
        return lines
