"""Checks of what a process of a job starts in: variables, limits, its program, and the log folder.

The launcher checks that a script exists when it builds the command; the checks here find errors
that Python would report only in the ranks.

Sources: guides/facts/launch.md#collectives-that-are-switched-off,
guides/facts/devices.md#visible-devices.
"""

import importlib.machinery
import os
import resource
import sys
from typing import Any, Iterator, List, Mapping, Optional, Sequence

from ascend_session.cluster.variables import find_traps, find_wrong_numbers
from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.nodes import VISIBLE_VARIABLE, read_visible
from ascend_session.spelling import option

_VISIBLE = "visible devices"
_LIMITS = "limits"
_LEAST_FILES = 1024
_SMALL_MB = 64  # shared memory that Docker gives a container by default
_FULL_MB = 16  # with less free disk space it is an error
_SCARCE_MB = 512  # with less it is a warning
_WRONG_VISIBLE = "NPU_VISIBLE_DEVICES"


def check_job_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check the variables that describe the job of a rank."""
    from ascend_session.config.hccl_variables import VARIABLES  # its table is slow to load

    problems = [*find_traps(environ), *find_wrong_numbers(environ)]
    for problem in problems:
        hint = "Correct or unset the variables; the adapter does not report this."
        yield Finding(ERROR, problem, hint, rule=VARIABLES)
    if not problems:
        message = "The variables that describe a job do not contradict each other."
        yield Finding(OK, message, rule=VARIABLES)


def check_visible(environ: Mapping[str, str], count: int) -> Iterator[Finding]:
    """Check the variables that select devices, of ``count`` devices that the driver has."""
    visible = read_visible(environ.get(VISIBLE_VARIABLE), count)
    severity = WARNING if visible.ids else ERROR
    for trap in visible.traps:
        yield Finding(severity, trap, f"Correct or unset {VISIBLE_VARIABLE}.", rule=_VISIBLE)
    if environ.get(_WRONG_VISIBLE) and VISIBLE_VARIABLE not in environ:
        message = f"{_WRONG_VISIBLE}={environ[_WRONG_VISIBLE]!r} has no effect on the runtime."
        yield Finding(WARNING, message, f"The runtime reads {VISIBLE_VARIABLE}.", rule=_VISIBLE)
    elif not visible.traps:
        given = environ.get(VISIBLE_VARIABLE)
        setting = " is not set" if given is None else f"={given}"
        devices = f"{len(visible.ids)} of {count} device(s)"
        message = f"{VISIBLE_VARIABLE}{setting}: a process gets {devices}."
        yield Finding(OK, message, rule=_VISIBLE)


def check_limits() -> Iterator[Finding]:
    """Check the limit of open files, and the size of shared memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _LEAST_FILES:
        message = f"A process may have {soft} files open (ulimit -n), less than the usual 1024."
        most = "more" if hard == resource.RLIM_INFINITY else f"up to {hard}"
        yield Finding(WARNING, message, f"ulimit -n allows {most}.", rule=_LIMITS)
    else:
        count = "any number of" if soft == resource.RLIM_INFINITY else str(soft)
        yield Finding(OK, f"A process may have {count} files open (ulimit -n).", rule=_LIMITS)
    try:
        disk = os.statvfs("/dev/shm")
    except OSError as error:
        yield Finding(NOT_CHECKED, f"Shared memory, /dev/shm: {error.strerror}.", rule=_LIMITS)
        return
    size_mb = disk.f_blocks * disk.f_frsize >> 20
    if size_mb <= _SMALL_MB:
        message = f"Shared memory, /dev/shm, has {size_mb} MB: data loaders that use it may fail."
        hint = "Start the container with a larger --shm-size, or remount the folder."
        yield Finding(WARNING, message, hint, rule=_LIMITS)
    else:
        yield Finding(OK, f"Shared memory, /dev/shm, has {size_mb} MB.", rule=_LIMITS)


# Files

PROGRAM = "program"
"""Name of the checks of the script or module."""

FOLDER = "log folder"
"""Name of the check that a folder can be created and written to."""

_SPACE = "disk space"


def check_script(path: str) -> Iterator[Finding]:
    """Check that a script can be read, or that a folder has a ``__main__.py``.

    Args:
        path: The absolute path of the script. If it does not exist, there is no finding.
    """
    main = os.path.join(path, "__main__.py") if os.path.isdir(path) else path
    if not os.path.exists(path):
        return
    if not os.path.exists(main):
        message = f"The script {path} is a folder without a __main__.py, which Python cannot run."
        yield Finding(ERROR, message, "Give the path of a file.", rule=PROGRAM)
    elif not os.access(main, os.R_OK, effective_ids=True):
        message = f"This user may not read the script {main}."
        yield Finding(ERROR, message, f"Check its permissions: ls -l {main}", rule=PROGRAM)
    else:
        yield Finding(OK, f"The script {main} can be read.", rule=PROGRAM)


def check_module(name: str, folder: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the ranks can find a module; imports nothing.

    Args:
        name: The module, as after ``python -m``.
        folder: Working directory of the ranks, which is searched first.
        environ: The environment of the ranks, whose ``PYTHONPATH`` is searched next.
    """
    given = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    places = [folder, *(os.path.join(folder, path) for path in given), *sys.path]
    missing = _find_missing(name.split("."), places)
    if missing is None:
        yield Finding(OK, f"The module {name} is found.", rule=PROGRAM)
    elif "." not in missing:
        message = f"There is no module {missing} in {folder}, in PYTHONPATH or in this Python."
        hint = f"Give {option('cwd')}, or add its folder to PYTHONPATH."
        yield Finding(ERROR, message, hint, rule=PROGRAM)
    else:
        # Some packages, such as TensorFlow 1.15, find their parts in their own way.
        message = f"The module {missing} is not found where its package is."
        hint = "Check the name, unless the package creates it when it runs."
        yield Finding(WARNING, message, hint, rule=PROGRAM)


def _find_missing(parts: Sequence[str], places: List[str]) -> Optional[str]:
    """Return the first missing one of ``a``, ``a.b``, ``a.b.c``; None if all are found."""
    within: Any = places
    for number in range(1, len(parts) + 1):
        name = ".".join(parts[:number])
        spec: Any = None
        if within is not None:
            spec = importlib.machinery.PathFinder.find_spec(name, within)
        if spec is None and number == 1:  # such as a package of an editable installation
            finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
            specs = (finder.find_spec(name, None) for finder in finders)
            spec = next((spec for spec in specs if spec is not None), None)
        if spec is None:
            return name
        within = spec.submodule_search_locations
    return None


def check_folder(path: str) -> Iterator[Finding]:
    """Check that a folder can be created and written to, and that its disk is not full.

    Args:
        path: The absolute path of the folder, which may not exist yet. Nothing is created.
    """
    nearest = path
    while not os.path.lexists(nearest) and os.path.dirname(nearest) != nearest:
        nearest = os.path.dirname(nearest)
    fault = _find_fault(nearest)
    if fault:
        message = f"The folder {path} cannot be created: {nearest} {fault}."
        hint = f"Give {option('log_dir')}, a folder in which this user may write."
        yield Finding(ERROR, message, hint, rule=FOLDER)
        return
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit >> 20 < _FULL_MB:
        message = (
            f"A file may have at most {limit >> 10} KB here: a rank that writes a longer log fails."
        )
        yield Finding(WARNING, message, "Raise the limit with 'ulimit -f'.", rule=_SPACE)
    try:
        disk = os.statvfs(nearest)
    except OSError as error:
        yield Finding(NOT_CHECKED, f"The disk of {nearest}: {error.strerror}.", rule=_SPACE)
        return
    name = f"The disk of {nearest}, to which logs are written,"
    hint = f"Free space, or give {option('log_dir')} on another disk."
    free_mb = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize >> 20
    if disk.f_blocks == 0:
        yield Finding(NOT_CHECKED, f"{name} does not report its free space.", rule=_SPACE)
    elif disk.f_files > 0 and disk.f_ffree == 0:
        yield Finding(ERROR, f"{name} takes no more files.", hint, rule=_SPACE)
    elif free_mb < _FULL_MB:
        yield Finding(ERROR, f"{name} has {free_mb} MB left.", hint, rule=_SPACE)
    elif free_mb < _SCARCE_MB:
        yield Finding(WARNING, f"{name} has only {free_mb} MB left.", hint, rule=_SPACE)
    else:
        message = f"Logs can be written to {path}; {free_mb} MB are free there."
        yield Finding(OK, message, rule=FOLDER)


def _find_fault(path: str) -> Optional[str]:
    """Return why no folder can be created there, as the end of a sentence; None if it can."""
    if not os.path.exists(path):
        return "is a link to something that is not there"
    if not os.path.isdir(path):
        return "is not a folder"
    if not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
        return "is a folder in which this user may not write"
    return None
