"""Knows how an environment is filled, and what venv's and pip's failures mean in one sentence."""

import os
import re
import shutil
import subprocess
import sys
import time
from typing import List, Mapping, Sequence, Tuple

from environments import Environment
from interpreters import Interpreter, SetupError

DISK_FULL = ("No space left on device", "Disk quota exceeded")
NO_NETWORK = (
    "ConnectionError",
    "ConnectTimeoutError",
    "Max retries exceeded",
    "NameResolutionError",
    "NewConnectionError",
    "ProxyError",
    "ReadTimeoutError",
    "SSLError",
    "Temporary failure in name resolution",
)
DISK_ADVICE = (
    "the disk is full: make room (about 3 GB there, and 1 GB in the folder for temporary files)"
)
NETWORK_ADVICE = (
    "the package index could not be reached: connect to the network, or name a mirror with "
    "PIP_INDEX_URL"
)
# Seconds between two looks how far pip is, on a terminal and where lines stay.
LOOK_EVERY_S, LOOK_EVERY_IN_FILE_S = 0.5, 30.0
# Below this an installation cannot have gone on. venv hides what pip said when the disk is full.
LEAST_FREE_BYTES = 16 * 1024 * 1024


Steps = Sequence[Tuple[str, Sequence[str]]]
"""What is run to make an environment, in order: a title and a command each."""


def steps_for_venv(
    environment: Environment,
    interpreter: Interpreter,
    wanted: Sequence[str],
    environ: Mapping[str, str],
) -> Steps:
    """Make a virtual environment, and install ``wanted`` (pip's arguments) in it."""
    venv = [interpreter.executable, "-I", "-m", "venv", environment.directory]
    pip = [environment.python, "-I", "-m", "pip", "install"]
    # Python compiles and keeps what is imported, a small part of TensorFlow. Where it may not, as
    # in many containers, each import of TensorFlow would take three times as long.
    compiling = [] if environ.get("PYTHONDONTWRITEBYTECODE") else ["--no-compile"]
    # Editors and type checkers do not see the hook that setuptools makes otherwise.
    as_path = ["--config-settings", "editable_mode=compat"]
    return (
        ("virtual environment", venv),
        # Older ones know no --config-settings.
        ("pip", [*pip, "pip>=22.1"]),
        ("packages, the longest step", [*pip, *compiling, *as_path, *wanted]),
    )


def steps_for_folder(environment: Environment, wanted: Sequence[str]) -> Steps:
    """Install ``wanted`` for the interpreter into the folder, and nothing into the interpreter."""
    pip = [environment.python, "-I", "-m", "pip", "install"]
    return ((" and ".join(wanted), [*pip, "--target", environment.directory, *wanted]),)


def make(environment: Environment, steps: Steps, environ: Mapping[str, str]) -> None:
    """Make the environment from nothing; whatever goes wrong leaves nothing half-made.

    Raises:
        SetupError: venv or pip failed.
        OSError: the checkout cannot be written.
    """
    begin = time.monotonic()
    try:
        _remove(environment.directory)
        with open(environment.log, "wb"):
            pass
        for number, (title, command) in enumerate(steps, 1):
            print(f"  {number}/{len(steps)} {title}", flush=True)
            _run(command, environment, environ)
        environment.mark_complete()
        print(f"  Ready after {time.monotonic() - begin:.0f} s.", flush=True)
    except subprocess.CalledProcessError as exc:
        raise SetupError(explain(environment)) from exc
    finally:
        if not environment.is_complete():
            shutil.rmtree(environment.directory, ignore_errors=True)


def explain(environment: Environment) -> str:
    """Say in one sentence what the log of a failed set-up means."""
    with open(environment.log, errors="replace") as log:
        text = log.read()
    full = any(sign in text for sign in DISK_FULL) or _is_full(environment.folder)
    trouble = DISK_ADVICE if full else _pip_trouble(text)
    return (
        f".venv/{environment.name} could not be set up because {trouble}, and run this again "
        f"(the details are in {environment.log})."
    )


def _pip_trouble(text: str) -> str:
    if any(sign in text for sign in NO_NETWORK):
        return NETWORK_ADVICE
    nothing = _last(r"satisfies the requirement (.+) \(from versions: none\)", text)
    if nothing:
        return (
            f'pip was offered no "{nothing}" at all: check the network and which package index '
            "pip is told to use"
        )
    error = _last(r"(?i)^error: (.+)$", text) or _last(r"(\S.*)", text) or "pip said nothing"
    return f'the installation failed ("{error}"): mend that'


def _run(command: Sequence[str], environment: Environment, environ: Mapping[str, str]) -> None:
    """Run venv or pip to its end, and show meanwhile how far it is."""
    # A question, for instance for a password, would wait for ever behind the log.
    quiet = dict(environ, PIP_NO_INPUT="1", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_USER="0")
    is_terminal = sys.stdout.isatty()
    pause_s = LOOK_EVERY_S if is_terminal else LOOK_EVERY_IN_FILE_S
    begin = time.monotonic()
    with open(environment.log, "ab") as log, subprocess.Popen(
        command,
        env=quiet,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        close_fds=False,  # the locks, see Lock
    ) as running:
        try:
            while running.poll() is None:
                try:
                    running.wait(pause_s)
                except subprocess.TimeoutExpired:
                    _show_progress(environment.log, time.monotonic() - begin, is_terminal)
        except BaseException:
            running.kill()
            raise
        finally:
            if is_terminal:
                print("\r\x1b[K", end="", flush=True)
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)


def _show_progress(log_file: str, elapsed_s: float, is_terminal: bool) -> None:
    """Print what pip does just now: over the last line on a terminal, else on one of its own."""
    with open(log_file, errors="replace") as log:
        doing = _last(r"^ *((?:Collecting|Downloading|Building|Installing) .*)$", log.read())
    line = f"      {elapsed_s:.0f} s  {doing}"[: (shutil.get_terminal_size().columns or 80) - 1]
    print(f"\r\x1b[K{line}" if is_terminal else line, end="" if is_terminal else "\n", flush=True)


def _remove(directory: str) -> None:
    if os.path.lexists(directory):
        shutil.rmtree(directory)


def _is_full(folder: str) -> bool:
    return shutil.disk_usage(folder).free < LEAST_FREE_BYTES


def _last(pattern: str, text: str) -> str:
    found: List[str] = re.findall(pattern, text, re.MULTILINE)
    return found[-1] if found else ""
