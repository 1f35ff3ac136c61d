"""A scratch checkout, and programs that stand in for interpreters no machine has all of."""

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SECONDS = 60

# Answers the probe as told, makes environments whose python is itself, "installs" by noting pip's
# arguments, and says what it is asked to run. Everything else goes to the real interpreter.
STAND_IN = """#!{python} -ES
import json, os, shutil, sys

arguments = sys.argv[1:]
if any("ensurepip" in each for each in arguments):
    print(json.dumps([os.path.abspath(sys.argv[0]), *{facts!r}]))
elif "venv" in arguments:
    os.makedirs(os.path.join(arguments[-1], "bin"))
    shutil.copy(sys.argv[0], os.path.join(arguments[-1], "bin", "python"))
elif "pip" in arguments:
    with open({calls!r}, "a") as calls:
        calls.write(" ".join(arguments) + "\\n")
    {pip}
elif arguments[0] == "-m":
    print("ran", *arguments[1:], flush=True)
    if arguments[-1] == "hold":
        os.read(os.open({gate!r}, os.O_RDONLY), 1)
else:
    os.execv({python!r}, [{python!r}] + arguments)
"""


class Checkout:
    """A copy of the scripts with a project beside them, and the environment to start them in."""

    def __init__(self, top: Path) -> None:
        """Copy what the scripts are; nothing of the real checkout is touched."""
        self.top = top / "checkout"
        self.venv = self.top / ".venv"
        self.calls = top / "pip-calls"
        # Pipes: a program says on one that it has begun, and reads from the other before it ends.
        self.begun, self.gate = str(top / "begun"), str(top / "gate")
        self._pipes = {path: open_pipe(path) for path in (self.begun, self.gate)}
        self.bin = top / "bin"
        self.bin.mkdir()
        self._program("python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        self._processes: List[subprocess.Popen[str]] = []
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(str(SCRIPTS), str(self.top / "scripts"), ignore=ignored)
        (self.top / "pyproject.toml").write_text('[project]\nname = "scratch"\nversion = "1"\n')

    def stand_in(
        self,
        name: str = "stand-in",
        version: Sequence[int] = (3, 7, 16),
        pip: str = "pass",
        platform: str = "linux-x86_64",
        implementation: str = "CPython",
        missing: str = "",
    ) -> Path:
        """Write a program that passes for the interpreter described; return its path."""
        text = STAND_IN.format(
            python=sys.executable,
            facts=[implementation, list(version), platform, missing],
            calls=str(self.calls),
            gate=self.gate,
            pip=pip,
        )
        return self._program(name, text)

    @property
    def waiting_pip(self) -> str:
        """What a pip does that says when it has begun, and ends when the gate opens."""
        say = f"os.write(os.open({self.begun!r}, os.O_WRONLY), b'x')"
        return f"{say}; os.read(os.open({self.gate!r}, os.O_RDONLY), 1)"

    def wait_for_pip(self) -> None:
        """Return once a pip of that kind has begun."""
        pipe = self._pipes[self.begun]
        assert select.select([pipe], [], [], SECONDS)[0], "no pip has begun"
        os.read(pipe, 1)

    def open_gate(self, times: int = 1) -> None:
        """Let so many programs that wait at the gate, now or later, go on."""
        os.write(self._pipes[self.gate], b"x" * times)

    def close(self) -> None:
        """End what a failed test left behind."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        for pipe in self._pipes.values():
            os.close(pipe)

    def start(
        self, script: str, *arguments: str, stdout: int = subprocess.PIPE, **environ: str
    ) -> "Running":
        """Start one of the scripts, in a process group of its own."""
        base = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.top)}
        options: Dict[str, Any] = {"universal_newlines": True, "start_new_session": True}
        process = subprocess.Popen(
            [str(self.top / "scripts" / script), *arguments],
            env={**base, **environ},
            cwd=str(self.top),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            **options,
        )
        self._processes.append(process)
        return Running(process)

    def run(self, script: str, *arguments: str, **environ: str) -> "Outcome":
        """Run one of the scripts to its end."""
        return self.start(script, *arguments, **environ).outcome()

    def pip_calls(self) -> List[str]:
        """What pip was asked for, call by call."""
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def environments(self) -> List[str]:
        """The environments that exist, made to the end or not."""
        found = self.venv.glob("*py*/") if self.venv.exists() else []
        return sorted(path.name for path in found if path.is_dir() and not path.is_symlink())

    def _program(self, name: str, text: str) -> Path:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path


class Outcome:
    """How a script ended, and what it said."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        """Keep what was left to read."""
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def sentence(self) -> str:
        """The one line that a failed script may write to stderr."""
        assert self.code != 0
        assert self.stderr.count("\n") == 1
        assert self.stderr.endswith(".\n")
        return self.stderr.strip()


class Running:
    """A script that has been started; nothing here waits for ever."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Watch a process whose output goes to pipes."""
        self._process = process
        self.pid = process.pid

    def line(self) -> str:
        """The next line on stdout."""
        timer = threading.Timer(SECONDS, self._process.kill)
        timer.start()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        timer.cancel()
        timer.join()  # or it is seen as left behind while a busy machine lets it end
        return line.rstrip("\n")

    def outcome(self) -> Outcome:
        """Wait for its end."""
        stdout, stderr = self._process.communicate(timeout=SECONDS)
        return Outcome(self._process.returncode, stdout, stderr)


def open_pipe(path: str) -> int:
    """Make a named pipe, and open it so that neither end waits for the other to be opened."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """A scratch checkout."""
    checkout = Checkout(tmp_path)
    yield checkout
    checkout.close()
