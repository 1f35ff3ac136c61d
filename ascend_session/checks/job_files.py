"""Checks of files: the script or module of the ranks, and the folder of their logs.

Paths of scripts and programs are looked at where the command is put together, for without them
there is no command; here is what Python itself would find out only in the ranks.
"""

import importlib.machinery
import os
import sys
from typing import Any, Iterator, List, Mapping, Optional, Sequence

from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding

PROGRAM = "program"
"""The name of the checks of what is run."""

FOLDER = "log folder"
"""The name of the check whether a folder can be made and written to."""

_SPACE = "disk space"


def check_script(path: str) -> Iterator[Finding]:
    """Check whether a script can be read; a folder has to have a ``__main__.py``.

    Args:
        path: The absolute path of the script. A missing one yields nothing.
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
    """Look for a module as this interpreter would in the ranks; imports nothing.

    Args:
        name: The module, as after ``python -m``.
        folder: Working directory of the ranks, which comes first.
        environ: The environment of the ranks, for ``PYTHONPATH``.
    """
    given = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    places = [folder, *(os.path.join(folder, path) for path in given), *sys.path]
    missing = _find_missing(name.split("."), places)
    if missing is None:
        yield Finding(OK, f"The module {name} is found.", rule=PROGRAM)
    elif "." not in missing:
        message = f"There is no module {missing} in {folder}, in PYTHONPATH or in this Python."
        yield Finding(ERROR, message, "Give cwd, or add its folder to PYTHONPATH.", rule=PROGRAM)
    else:
        # Some packages, such as TensorFlow 1.15, find their parts in their own way.
        message = f"The module {missing} is not found where its package is."
        hint = "Check the name, unless the package creates it when it runs."
        yield Finding(WARNING, message, hint, rule=PROGRAM)


def _find_missing(parts: Sequence[str], places: List[str]) -> Optional[str]:
    """Name the first of a package, its package in turn, ... that is missing; None if none is."""
    within: Any = places
    for number in range(1, len(parts) + 1):
        spec = None if within is None else _find_spec(".".join(parts[:number]), within, number == 1)
        if spec is None:
            return ".".join(parts[:number])
        within = spec.submodule_search_locations
    return None


def _find_spec(name: str, places: Any, at_the_top: bool) -> Any:
    """Ask the finders for a module, the ordinary one first."""
    spec = importlib.machinery.PathFinder.find_spec(name, places)
    if spec is not None or not at_the_top:
        return spec
    # Such as those of packages that are installed to be edited.
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    specs = (finder.find_spec(name, None) for finder in finders)
    return next((spec for spec in specs if spec is not None), None)


def check_folder(path: str, least_mb: int = 16, scarce_mb: int = 512) -> Iterator[Finding]:
    """Look at a folder that is there or has to be made; makes nothing.

    Args:
        path: The folder, absolute.
        least_mb: With less room than this, MB, a disk counts as full.
        scarce_mb: With less than this, it counts as nearly full.
    """
    nearest = _find_existing(path)
    fault = _find_fault(nearest)
    if fault:
        message = f"The folder {path} cannot be made: {nearest} {fault}."
        hint = "Give log_dir, a folder in which this user may write."
        yield Finding(ERROR, message, hint, rule=FOLDER)
        return
    try:
        disk = os.statvfs(nearest)
    except OSError as error:
        yield Finding(NOT_CHECKED, f"The disk of {nearest}: {error.strerror}.", rule=_SPACE)
        return
    name = f"The disk of {nearest}, to which logs are written,"
    hint = "Make room, or give log_dir on another disk."
    free_mb = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize >> 20
    if disk.f_blocks == 0:
        yield Finding(NOT_CHECKED, f"{name} does not report its free space.", rule=_SPACE)
    elif disk.f_files > 0 and disk.f_ffree == 0:
        yield Finding(ERROR, f"{name} takes no more files.", hint, rule=_SPACE)
    elif free_mb < least_mb:
        yield Finding(ERROR, f"{name} has {free_mb} MB left.", hint, rule=_SPACE)
    elif free_mb < scarce_mb:
        yield Finding(WARNING, f"{name} has only {free_mb} MB left.", hint, rule=_SPACE)
    else:
        message = f"Logs can be written to {path}; {free_mb} MB are free there."
        yield Finding(OK, message, rule=FOLDER)


def _find_existing(path: str) -> str:
    """Find the folder, or the nearest one above that is there."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _find_fault(path: str) -> Optional[str]:
    """Say why no folder can be made there, as the end of a sentence; None if one can."""
    if not os.path.exists(path):
        return "is a link to something that is not there"
    if not os.path.isdir(path):
        return "is not a folder"
    if not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
        return "is a folder in which this user may not write"
    return None
