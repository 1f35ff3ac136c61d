"""Knows how an environment is filled, and what venv's and pip's failures mean in one sentence."""

import os
import re
import shutil
import subprocess
from typing import List, Mapping, Sequence

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
# Below this an installation cannot have gone on. venv hides what pip said when the disk is full.
LEAST_FREE_BYTES = 16 * 1024 * 1024


def make(
    environment: Environment,
    interpreter: Interpreter,
    wanted: Sequence[str],
    environ: Mapping[str, str],
) -> None:
    """Make the environment from nothing; whatever goes wrong leaves nothing half-made.

    Raises:
        SetupError: venv or pip failed.
        OSError: the checkout cannot be written.
    """
    try:
        _remove(environment.directory)
        with open(environment.log, "wb"):
            pass
        _run(
            [interpreter.executable, "-I", "-m", "venv", environment.directory],
            environment,
            environ,
        )
        pip = [environment.python, "-I", "-m", "pip", "install"]
        # Older ones cannot install a pyproject.toml in editable form.
        _run([*pip, "pip>=21.3"], environment, environ)
        # Python compiles what is imported itself: a small part of TensorFlow.
        _run([*pip, "--no-compile", *wanted], environment, environ)
        environment.mark_complete()
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
    # A question, for instance for a password, would wait for ever behind the log.
    quiet = dict(environ, PIP_NO_INPUT="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
    with open(environment.log, "ab") as log:
        subprocess.run(
            command,
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            close_fds=False,  # the locks, see Lock
            check=True,
        )


def _remove(directory: str) -> None:
    if os.path.lexists(directory):
        shutil.rmtree(directory)


def _is_full(folder: str) -> bool:
    return shutil.disk_usage(folder).free < LEAST_FREE_BYTES


def _last(pattern: str, text: str) -> str:
    found: List[str] = re.findall(pattern, text, re.MULTILINE)
    return found[-1] if found else ""
