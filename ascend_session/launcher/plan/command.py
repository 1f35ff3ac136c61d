"""What the ranks run, and where."""

import os
import shlex
import sys
from typing import Mapping, Tuple

from ascend_session.errors import JobError
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.decided import Request, make_absolute
from ascend_session.spelling import option


def decide_working_directory(config: LaunchConfig) -> str:
    """Decide where the ranks run, as an absolute path; a folder that is not there is refused."""
    folder = make_absolute(config.cwd or os.curdir)
    if not os.path.isdir(folder):
        message = f"{option('cwd', config.cwd)}: there is no folder {folder}."
        raise JobError(message, hint="Make it first.")
    return folder


def decide_command(request: Request, folder: str) -> Tuple[str, ...]:
    """Put the command of all ranks together; its first word is the absolute path of a program.

    What is not there, or cannot be run as asked, is refused (JobError). Relative paths count from
    ``folder``, the working directory of the ranks.
    """
    config, environ = request.config, request.job_environ
    if config.program is not None:
        return (_find_program("program", config.program, folder, environ), *config.args)
    if config.python is not None:
        python = _find_program("python", config.python, folder, environ)
    elif sys.executable:
        python = sys.executable
    else:
        raise JobError(
            "This Python does not know its own program.", hint=f"Give {option('python')}."
        )
    if config.module is not None:
        return (python, "-m", config.module, *config.args)
    script = str(config.script)
    path = os.path.join(folder, script)
    if not os.path.exists(path):
        raise JobError(
            f"There is no script {path}.",
            hint="Give its path from the ranks' working directory, or an absolute one.",
        )
    if script.endswith((".sh", ".bash")):
        raise JobError(
            f"{script} is a shell script, and no Python script.",
            hint=f"Write ascend-session launch -n 1 --no-python bash {shlex.quote(script)}, if it "
            "starts the ranks itself, or -n 8, if it is one of eight; in Python, give program.",
        )
    if script.startswith("-"):  # one called -m would be taken for a module
        script = os.path.join(os.curdir, script)
    return (python, script, *config.args)


def _find_program(role: str, name: str, folder: str, environ: Mapping[str, str]) -> str:
    """Find the absolute path of a program that is named as in a shell."""
    if os.path.dirname(name):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        reason = f"{path} does not exist or is not executable"
    else:
        import shutil

        searched = environ.get("PATH") or os.defpath
        places = os.pathsep.join(os.path.join(folder, place) for place in searched.split(":"))
        path = shutil.which(name, path=places) or ""
        if path:
            return path
        reason = f"no folder of PATH={searched!r} has it"
    message = f"{option(role, name)}: {reason}."
    raise JobError(message, hint="Give the path of an executable file.")
