"""The variables of a tuning run, and where its result files are.

Source: seed 003 (environment variables, result files); options_notes b; the adapter's
adapter_logger.cc: its lines belong to the module FMK, and those by which a run is followed are of
level INFO, 1, which the vendor's log does not keep by default.
"""

import glob
import os
import stat
from typing import Dict, List, Mapping, NamedTuple, Optional

from ascend_session.aoe.repository import BANK
from ascend_session.config.tuning import mode_number

__all__ = [
    "RESULTS",
    "FileState",
    "earlier_files",
    "result_files",
    "result_folders",
    "variables_of",
]

RESULTS = "aoe_result_[os][pg]at_*.json"
"""The names of result files: ``aoe_result_opat_*.json`` and ``aoe_result_sgat_*.json``."""

_LEVELS = ("ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_MODULE_LOG_LEVEL")
_WORK = "ASCEND_WORK_PATH"


class FileState(NamedTuple):
    """A file as it is now; states sort by age.

    Attributes:
        written: When it was last written, in nanoseconds since 1970.
        path: Its path.
        size: Its size, bytes.
    """

    written: int
    path: str
    size: int


def variables_of(
    mode: str,
    environ: Mapping[str, str],
    work_path: Optional[str] = None,
    bank: Optional[str] = None,
) -> Dict[str, str]:
    """What a tuning run has in its environment besides what is there.

    ``AOE_MODE`` counts where the script does not set aoe_mode itself; work_path and
    aoe_config_file have no variable.

    Args:
        mode: ``"operator"``, ``"subgraph"``, ``"gradient"`` or the manual's number.
        environ: What is there.
        work_path: Folder for result files; None means ``ASCEND_WORK_PATH``, else the working
            directory.
        bank: Folder for the tuned repository; None leaves its variables as they are.

    Raises:
        ConfigError: If it is no mode of AOE.
    """
    found = {
        "AOE_MODE": mode_number(mode),
        _WORK: os.path.abspath(work_path or environ.get(_WORK) or "."),
    }
    if bank is not None:
        found[BANK] = os.path.abspath(bank)
    if not any(environ.get(name) for name in _LEVELS):
        found["ASCEND_MODULE_LOG_LEVEL"] = "FMK=1"
    return found


def result_folders(environ: Mapping[str, str]) -> List[str]:
    """Where result files may be, by priority: ``ASCEND_WORK_PATH``, then the working directory."""
    named = [environ[_WORK]] if environ.get(_WORK) else []
    return list(dict.fromkeys(os.path.abspath(folder) for folder in (*named, ".")))


def result_files(
    environ: Mapping[str, str], before: Optional[Mapping[str, FileState]] = None
) -> Dict[str, FileState]:
    """The result files of the first folder that has any, the oldest first, with their states.

    Args:
        environ: The environment of the tuning run.
        before: Files in a state that is listed here do not count: they are of earlier runs.
    """
    for folder in result_folders(environ):
        paths = glob.glob(os.path.join(glob.escape(folder), RESULTS))
        states = {path: state for path, state in zip(paths, map(_state, paths)) if state}
        found = [path for path, state in states.items() if (before or {}).get(path) != state]
        if found:
            return {path: states[path] for path in sorted(found, key=lambda one: states[one])}
    return {}


def earlier_files(environ: Mapping[str, str]) -> Dict[str, FileState]:
    """The result files that are there before a run, in all folders."""
    folders = result_folders(environ)
    return {
        path: state
        for folder in reversed(folders)
        for path, state in result_files({_WORK: folder}).items()
    }


def _state(path: str) -> Optional[FileState]:
    """How the file is now; None if it is gone, or no file."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(state.st_mode):  # a pipe would keep whoever opens it
        return None
    return FileState(state.st_mtime_ns, path, state.st_size)
