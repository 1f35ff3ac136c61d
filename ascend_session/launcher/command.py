"""What is started for a rank, and whether it is there."""

import os
import shutil
import sys
from typing import Mapping, Tuple

from ascend_session.errors import JobError
from ascend_session.launcher.config import LaunchConfig

__all__ = ["RUNNER", "command_of", "working_directory"]

# By its path: then neither the working directory nor the interpreter's packages can hide it.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNNER = os.path.join(_PACKAGE, "runner.py")
"""The program that runs scripts and modules and records how they fail."""


def working_directory(config: LaunchConfig) -> str:
    """The absolute path of the folder in which the ranks run.

    Raises:
        JobError: If there is no such folder.
    """
    try:
        folder = os.path.abspath(config.cwd or os.curdir)
    except FileNotFoundError:
        said = "The folder from which this was launched is not there any more."
        raise JobError(said, hint="Go to another one, and launch again.") from None
    if not os.path.isdir(folder):
        raise JobError(f"cwd={config.cwd!r}: there is no folder {folder}.", hint="Make it first.")
    return folder


def command_of(config: LaunchConfig, folder: str, environ: Mapping[str, str]) -> Tuple[str, ...]:
    """The words of the command; the first is the absolute path of a program.

    Args:
        config: What the launch is asked.
        folder: Working directory of the ranks; relative paths count from there.
        environ: The environment of the ranks, for ``PATH``.

    Raises:
        JobError: If the script or the program is not there.
    """
    if config.program is not None:
        return (_program("program", config.program, folder, environ), *config.args)
    python = _python(config, folder, environ)
    if config.module is not None:
        return (python, RUNNER, "-m", config.module, *config.args)
    script = str(config.script)
    path = os.path.join(folder, script)
    if not os.path.exists(path):
        raise JobError(
            f"The script {script!r} was to be launched: there is no file {path}.",
            hint="Give its path from the ranks' working directory, or an absolute one.",
        )
    # A script called -m would be taken for a module.
    shown = os.path.join(os.curdir, script) if script.startswith("-") else script
    return (python, RUNNER, shown, *config.args)


def _python(config: LaunchConfig, folder: str, environ: Mapping[str, str]) -> str:
    if config.python is not None:
        return _program("python", config.python, folder, environ)
    if not sys.executable:
        raise JobError("This Python does not know its own program.", hint="Give python.")
    return sys.executable


def _program(asked: str, name: str, folder: str, environ: Mapping[str, str]) -> str:
    """The absolute path of a program that is named as in a shell."""
    if os.path.dirname(name):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        found = f"{path} is no file that this user may run"
    else:
        searched = environ.get("PATH") or os.defpath
        places = os.pathsep.join(os.path.join(folder, place) for place in searched.split(":"))
        path = shutil.which(name, path=places) or ""
        if path:
            return path
        found = f"no folder of PATH={searched!r} has it"
    raise JobError(f"{asked}={name!r}: {found}.", hint="Give an absolute path.")
