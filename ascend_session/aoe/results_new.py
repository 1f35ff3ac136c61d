"""Which result files a tuning run has left: those that are new, or not as they were."""

import os
import stat
from typing import Dict, Mapping, NamedTuple, Optional

from ascend_session.aoe.results_files import files_in, result_folders

__all__ = ["FileState", "earlier_files", "result_files"]


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


def result_files(
    environ: Mapping[str, str], before: Optional[Mapping[str, FileState]] = None
) -> Dict[str, FileState]:
    """The result files of the first folder that has any, the oldest first, with their states.

    Args:
        environ: The environment of the tuning run.
        before: Files in a state that is listed here do not count: they are of earlier runs.
    """
    for folder in result_folders(environ):
        paths = files_in(os.path.abspath(folder))
        states = {path: state for path, state in zip(paths, map(_state, paths)) if state}
        found = [path for path, state in states.items() if (before or {}).get(path) != state]
        if found:
            return {path: states[path] for path in sorted(found, key=lambda one: states[one])}
    return {}


def earlier_files(environ: Mapping[str, str]) -> Dict[str, FileState]:
    """The result files that are there before a run, in all folders."""
    folders = [os.path.abspath(folder) for folder in result_folders(environ)]
    paths = (path for folder in folders for path in files_in(folder))
    return {path: state for path, state in ((one, _state(one)) for one in paths) if state}


def _state(path: str) -> Optional[FileState]:
    """How the file is now; None if it is gone, or no file."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(state.st_mode):  # a pipe would keep whoever opens it
        return None
    return FileState(state.st_mtime_ns, path, state.st_size)
