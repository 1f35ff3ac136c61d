"""Runs the programs of this folder, each in a process of its own, and says how they ended.

What the vendor's libraries print comes between the lines of a program; those begin with ``@``.
"""

import contextlib
import json
import os
import queue
import re
import signal
import sys
import tempfile
import threading
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, Dict, Iterator, List, NamedTuple

from hardware_tests import limits

__all__ = [
    "GE_FINALIZE_FAILED",
    "LEFTOVER",
    "Ended",
    "Program",
    "environment_of_programs",
    "run",
    "started",
    "stop_ignoring_signals",
]

_HERE = Path(__file__).resolve().parent
# What makes a job of a process (guides/facts/launch.md#variables-of-a-rank), and what adds or
# cancels output (guides/facts/dumps.md#data-dump).
LEFTOVER = re.compile(
    r"(RANK|CM|LOCAL)_.*|TF_CONFIG|HELP_CLUSTER|NPU_COLLECT_PATH|PROFILING_(MODE|OPTIONS)|AOE_MODE"
)
GE_FINALIZE_FAILED = "[GePlugin] GE finalize failed"
"""What the adapter logs of a shutdown that failed, and no exit code shows (ge_plugin.cc)."""

_MARK = "@ "
_PATIENCE = 2.0  # seconds for the rest of the output of a program that has ended


def stop_ignoring_signals() -> None:
    """Let programs that this process starts have the default handlers of signals.

    A shell lets what it starts in the background ignore SIGINT and SIGQUIT, and ``nohup`` lets it
    ignore SIGHUP. A program inherits what is ignored, and not what is handled: so that this process
    goes on to survive its terminal, it handles SIGHUP, and does nothing.
    """
    handlers: Dict[signal.Signals, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGQUIT: signal.SIG_DFL,
        signal.SIGHUP: lambda number, frame: None,
    }
    for number, handler in handlers.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


class Ended(NamedTuple):
    """How a program ended.

    Attributes:
        code: Its exit code; negative for the signal that ended it.
        said: What it said and was not waited for, in order.
        log: What it wrote to stderr.
    """

    code: int
    said: List[Any]
    log: str


class Program:
    """A program while it runs."""

    def __init__(self, process: Any, log: Any) -> None:
        self.pid = process.pid
        self._process = process
        self._log = log
        self._said: queue.Queue[Any] = queue.Queue()
        # A process that outlives the program may hold its output open; nobody waits for that.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            if line.startswith(_MARK):
                self._said.put(json.loads(line[len(_MARK) :]))
        self._said.put(None)

    def await_word(self, word: Any) -> None:
        """Waits until it says ``word``."""
        said = self._said.get(timeout=limits.PROGRAM)
        assert said == word, f"{said!r}, not {word!r}; its log:\n{self.log()}"

    def send(self, number: int) -> None:
        """Sends it a signal."""
        os.kill(self.pid, number)

    def end(self) -> Ended:
        """Lets it go on, and waits for its end."""
        self._process.stdin.close()
        code = self._process.wait(limits.PROGRAM)
        self._reader.join(_PATIENCE)
        left = [self._said.get() for _ in range(self._said.qsize())]
        return Ended(code, [said for said in left if said is not None], self.log())

    def close(self) -> None:
        """Closes its output, unless another process holds that open."""
        self._reader.join(_PATIENCE)
        if not self._reader.is_alive():
            self._process.stdout.close()

    def log(self) -> str:
        """What it has written to stderr."""
        self._log.seek(0)
        return str(self._log.read())


def environment_of_programs() -> Dict[str, str]:
    """This process's environment, without a job's variables, and with this project's path.

    Folders on ``PYTHONPATH`` are absolute, for programs run in folders of their own.
    """
    path = [str(_HERE.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    kept = {name: text for name, text in os.environ.items() if not LEFTOVER.fullmatch(name)}
    return {**kept, "PYTHONPATH": os.pathsep.join(os.path.abspath(part) for part in path if part)}


@contextlib.contextmanager
def started(name: str, *arguments: str) -> Iterator[Program]:
    """A running program; it is killed when the block is left, or when it takes too long."""
    with tempfile.TemporaryFile("w+") as log:
        process: Any = Popen(
            [sys.executable, str(_HERE / "programs" / f"{name}.py"), *arguments],
            env=environment_of_programs(),
            cwd=os.getcwd(),
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            universal_newlines=True,
        )
        watchdog = threading.Timer(limits.PROGRAM, process.send_signal, [signal.SIGKILL])
        watchdog.daemon = True
        watchdog.start()
        program = Program(process, log)
        try:
            yield program
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()
            process.stdin.close()
            program.close()
            if GE_FINALIZE_FAILED in program.log():
                sys.stderr.write(program.log())  # where conftest.py looks


def run(name: str, *arguments: str) -> Ended:
    """Runs a program to its end."""
    with started(name, *arguments) as program:
        return program.end()
