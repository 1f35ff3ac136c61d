"""Knows where the virtual environments lie, when one is complete, and who may touch it when.

```
.venv/py37/              one environment per interpreter and TensorFlow asked for
.venv/py37/complete      its stamp: written last, so what has no stamp is half-made
.venv/py37.log           what venv and pip said while it was made
.venv/pytest-py37/       a folder of packages for an interpreter that is used as it is
.venv/py37.lock          shared by the scripts that run in it, exclusive for replacing it
.venv/setup.lock         one set-up at a time: all of them write the same egg-info folder
.venv/current -> py37    the environment made last; .venv/bin and so on lead there
```
"""

import fcntl
import hashlib
import json
import os
import re
from typing import List, NamedTuple, Sequence

from interpreters import Interpreter

# With these, `.venv` is itself what people and editors expect of a folder of that name.
LINKS = ("bin", "include", "lib", "lib64", "pyvenv.cfg")


class Environment(NamedTuple):
    """One virtual environment, or a folder of packages for `python`; made or not."""

    top: str
    name: str
    fingerprint: str
    python: str

    @property
    def folder(self) -> str:
        """The folder that holds all environments of the checkout."""
        return os.path.join(self.top, ".venv")

    @property
    def directory(self) -> str:
        """The environment's own folder."""
        return os.path.join(self.folder, self.name)

    @property
    def log(self) -> str:
        """The file that keeps what venv and pip said."""
        return self.directory + ".log"

    def is_complete(self) -> bool:
        """Whether it was made to the end, from this very project and interpreter."""
        try:
            with open(os.path.join(self.directory, "complete")) as stamp:
                return stamp.read() == self.fingerprint and os.access(self.python, os.X_OK)
        except OSError:
            return False

    def mark_complete(self) -> None:
        """Write the stamp; a crash leaves either the whole stamp or none."""
        path = os.path.join(self.directory, "complete")
        with open(path + ".new", "w") as stamp:
            stamp.write(self.fingerprint)
            stamp.flush()
            os.fsync(stamp.fileno())
        os.replace(path + ".new", path)


class Lock:
    """A lock between processes; the system lifts it when its holder ends, however it ends."""

    def __init__(self, path: str) -> None:
        """Open the file, which stays: removing it would let two holders in."""
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        # The program that takes this process's place keeps it, and so does a pip that outlives
        # a set-up that was killed.
        os.set_inheritable(self.descriptor, True)

    def take(self, mode: int, reason: str) -> None:
        """Take it as ``fcntl.LOCK_SH`` or ``LOCK_EX``; if that means waiting, print why."""
        try:
            fcntl.flock(self.descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            print(reason, flush=True)
            fcntl.flock(self.descriptor, mode)

    def release(self) -> None:
        """Let others in."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)


def locate(top: str, prefix: str, interpreter: Interpreter, wanted: Sequence[str]) -> Environment:
    """Return the environment for ``wanted`` (pip's arguments) under ``interpreter``."""
    with open(os.path.join(top, "pyproject.toml")) as project:
        # `top` too: neither an environment nor an editable install survives a move.
        facts = [project.read(), top, *wanted, *interpreter]
    fingerprint = hashlib.sha256(json.dumps(facts).encode("utf-8")).hexdigest()
    name = "-".join(
        [f"{prefix}py{interpreter.version[0]}{interpreter.version[1]}"]
        + [re.sub(r"[^A-Za-z0-9.]+", "-", each).strip("-.") for each in wanted[2:]]
    )
    python = os.path.join(top, ".venv", name, "bin", "python")
    return Environment(top, name, fingerprint, python)


def locate_beside(top: str, name: str, python: str, wanted: Sequence[str]) -> Environment:
    """Return the folder that has ``wanted`` for this interpreter, whatever else it has."""
    facts = json.dumps([top, python, *wanted])
    fingerprint = hashlib.sha256(facts.encode("utf-8")).hexdigest()
    return Environment(top, name, fingerprint, python)


def oldest_dependencies(top: str) -> List[str]:
    """Return pip's arguments for the oldest dependencies that pyproject.toml allows."""
    with open(os.path.join(top, "pyproject.toml")) as project:
        dependencies = project.read().partition("\ndependencies = [")[2].partition("\n]")[0]
    return re.findall(r'"(.+)"', dependencies.replace(">=", "=="))


def make_current(environment: Environment) -> None:
    """Let ``.venv/bin`` and its like lead to this environment; what others put there stays."""
    for name in LINKS:
        path = os.path.join(environment.folder, name)
        if not os.path.lexists(path):
            os.symlink(os.path.join("current", name), path)
    current = os.path.join(environment.folder, "current")
    if os.path.lexists(current + ".new"):
        os.remove(current + ".new")
    os.symlink(environment.name, current + ".new")
    os.replace(current + ".new", current)
