"""Knows what each script needs, and hands over to it once its environment stands.

Needs only the standard library of Python 3.6: it runs before anything is installed.
"""

import errno
import fcntl
import os
import signal
import sys
from types import FrameType
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from environments import (
    Environment,
    Lock,
    locate,
    locate_beside,
    make_current,
    oldest_dependencies,
)
from installing import Steps, make, steps_for_folder, steps_for_venv
from interpreters import Interpreter, Need, SetupError, best, requested
from variables import own_environment
from vendor_python import PYTEST, VendorPython, find_vendor_python, tests_hardware

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Names the TensorFlow to install, such as "tensorflow-cpu==2.15.*", instead of the newest.
PIN = "ASCEND_SESSION_TEST_TENSORFLOW"

# TensorFlow 1.15 first, because that is what Ascend hosts have; then the versions for which
# TensorFlow 2 is known to install; newer ones last, as they may be ahead of TensorFlow.
MINORS = (7, 11, 10, 12, 9, 13, *range(14, 30))


class Kind(NamedTuple):
    """What one kind of environment is made of."""

    prefix: str
    extras: str
    need: Need
    oldest: bool = False


KINDS: Dict[str, Kind] = {
    # One for demo and test, so that whichever comes second goes straight to work.
    "project": Kind(
        "", "demo,tensorflow,test", Need(MINORS, "Python 3.7, or 3.9 or newer", tensorflow=True)
    ),
    "check": Kind(
        "check-", "check", Need((11, 12, 13, 14, 10), "Python 3.10 to 3.14", tensorflow=False)
    ),
    # With the oldest packages that the project takes, so that its lower bounds are true.
    "check-oldest": Kind(
        "check-", "check", Need((7,), "Python 3.7", tensorflow=False), oldest=True
    ),
    "release": Kind(
        "release-", "release", Need((11, 12, 13, 14, 10), "Python 3.10 to 3.14", tensorflow=False)
    ),
}


class StoppedError(Exception):
    """A signal asks to end; carries its number."""


def main(arguments: List[str], environ: Mapping[str, str]) -> int:
    """Run ``KIND ARGUMENTS...``, ``test ARGUMENTS...``, ``clean COMMAND...`` or ``find VERSION``.

    Returns the exit code if no program ran.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        if arguments[0] == "find":
            print(_find(arguments[1], environ).executable)
            return 0
        if arguments[0] == "clean":
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
            os.execvpe(arguments[1], arguments[1:], own_environment(environ))
        command, environment = _command(arguments, environ)
        sys.stdout.flush()
        os.execve(command[0], command, dict(environment))
    except StoppedError as exc:
        _say("Stopped before the environment was ready; nothing half-made is left, run this again.")
        return 128 + int(exc.args[0])
    except SetupError as exc:
        _say(str(exc))
    except OSError as exc:
        _say(_unwritable(exc))
    return 1


def _command(
    arguments: List[str], environ: Mapping[str, str]
) -> Tuple[List[str], Mapping[str, str]]:
    """Return what to run, in an environment that is complete and locked, and its variables."""
    kind, *rest = arguments
    if kind != "test":
        return [_prepare_venv(KINDS[kind], environ).python, *rest], environ
    workers = ["-n", "auto", "--dist", "worksteal"]  # how many, says tests/conftest.py
    if tests_hardware(rest, TOP):
        workers = []  # a device has room for one process
        found = find_vendor_python(environ, TOP)
        if found is not None:
            folder = None if found.has_pytest else _prepare_folder(found, environ).directory
            return [*found.command(folder), *rest], environ  # of the vendor's set_env.sh
        print(
            "No npu_bridge is found: what needs it is skipped. PYTHON=... names the Python that "
            "has it.",
            flush=True,
        )
    python = _prepare_venv(KINDS["project"], environ).python
    return [python, "-m", "pytest", *workers, *rest], own_environment(environ)


def _prepare_folder(python: VendorPython, environ: Mapping[str, str]) -> Environment:
    """Return the folder that has pytest for the vendor's interpreter."""
    name = f"pytest-py{python.version[0]}{python.version[1]}"
    environment = locate_beside(TOP, name, python.executable, [PYTEST])
    title = f"Installing pytest into .venv/{name} for {python.executable}, which stays as it is."
    _prepare(environment, steps_for_folder(environment, [PYTEST]), title, environ)
    return environment


def _prepare_venv(kind: Kind, environ: Mapping[str, str]) -> Environment:
    """Return the kind's environment, in an interpreter of its own."""
    interpreter = _choose(kind, environ)
    wanted = ["--editable", f"{TOP}[{kind.extras}]"]
    if kind.need.tensorflow and environ.get(PIN):
        wanted.append(environ[PIN])
    environment = locate(TOP, kind.prefix, interpreter, wanted)
    title = (
        f"Setting up .venv/{environment.name} with Python {interpreter.release} "
        f"({interpreter.executable}); this happens once and takes some minutes."
    )
    packages = [*wanted, *oldest_dependencies(TOP)] if kind.oldest else wanted
    steps = steps_for_venv(environment, interpreter, packages, environ)
    _prepare(environment, steps, title, environ, becomes_current=kind.need.tensorflow)
    return environment


def _prepare(
    environment: Environment,
    steps: Steps,
    title: str,
    environ: Mapping[str, str],
    becomes_current: bool = False,
) -> None:
    """Make an environment unless it is complete, and lock it against being replaced."""
    os.makedirs(environment.folder, exist_ok=True)
    lock = Lock(environment.directory + ".lock")
    lock.take(fcntl.LOCK_SH, f"Waiting for the script that is setting up {environment.name}.")
    if not environment.is_complete():
        lock.release()
        setup = Lock(os.path.join(environment.folder, "setup.lock"))
        setup.take(fcntl.LOCK_EX, "Waiting for another script that is setting up its environment.")
        if not environment.is_complete():
            lock.take(fcntl.LOCK_EX, f"Waiting for what still runs in {environment.name}.")
            print(title, flush=True)
            make(environment, steps, environ)
            if becomes_current:
                make_current(environment)
        # Before `setup` is let go, so that nobody replaces the environment in between.
        lock.take(fcntl.LOCK_SH, f"Waiting for {environment.name}.")
        setup.release()


def _choose(kind: Kind, environ: Mapping[str, str]) -> Interpreter:
    if kind.need.tensorflow and environ.get("PYTHON"):
        return requested(environ["PYTHON"], kind.need, environ)
    return best(kind.need, environ)


def _find(version: str, environ: Mapping[str, str]) -> Interpreter:
    minor = int(version.split(".")[1])
    return best(Need((minor,), f"Python {version}", tensorflow=True), environ)


def _stop(number: int, frame: Optional[FrameType]) -> None:
    raise StoppedError(number)


def _unwritable(exc: OSError) -> str:
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full: make room for about 3 GB at {TOP}, and run this again."
    return (
        f"{exc.filename or 'The environment'} could not be used ({exc.strerror or exc}): "
        f"make it writable, or remove {os.path.join(TOP, '.venv')}, and run this again."
    )


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


sys.exit(main(sys.argv[1:], os.environ))
