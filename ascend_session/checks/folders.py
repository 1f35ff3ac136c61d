"""Whether files can be written below a folder, and how many more."""

import os
from typing import Iterator, Optional

from ascend_session.checks.finding import ERROR, NOT_CHECKED, OK, WARNING, Finding

__all__ = ["FOLDER", "check_folder"]

FOLDER = "log folder"
"""The name of the check whether a folder can be made and written to."""

_SPACE = "disk space"
_MB = 1024 * 1024


def check_folder(path: str, least_mb: int = 16, scarce_mb: int = 512) -> Iterator[Finding]:
    """Looks at a folder that is there or has to be made; makes nothing.

    Args:
        path: The folder, absolute.
        least_mb: With less room than this, MB, a disk counts as full.
        scarce_mb: With less than this, it counts as nearly full.
    """
    there = _nearest(path)
    fault = _fault(there)
    if fault:
        said = f"The folder {path} cannot be made: {there} {fault}."
        yield Finding(FOLDER, ERROR, said, "Give log_dir, a folder in which this user may write.")
        return
    try:
        disk = os.statvfs(there)
    except OSError as error:
        yield Finding(_SPACE, NOT_CHECKED, f"The disk of {there}: {error.strerror}.")
        return
    if disk.f_blocks == 0:
        said = f"The disk of {there}, to which logs are written, does not say what room it has."
        yield Finding(_SPACE, NOT_CHECKED, said)
        return
    room = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize // _MB
    is_out_of_files = disk.f_files > 0 and disk.f_ffree == 0
    if room < least_mb or is_out_of_files:
        left = "takes no more files" if is_out_of_files else f"has {room} MB left"
        said = f"The disk of {there}, to which logs are written, {left}."
        yield Finding(_SPACE, ERROR, said, "Make room, or give log_dir on another disk.")
    elif room < scarce_mb:
        said = f"The disk of {there}, to which logs are written, has only {room} MB left."
        yield Finding(_SPACE, WARNING, said, "Make room, or give log_dir on another disk.")
    else:
        yield Finding(FOLDER, OK, f"Logs can be written to {path}; {room} MB are free there.")


def _nearest(path: str) -> str:
    """The folder, or the nearest one above that is there."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _fault(there: str) -> Optional[str]:
    """Why no folder can be made there, as the end of a sentence; None if one can."""
    if not os.path.exists(there):
        return "is a link to something that is not there"
    if not os.path.isdir(there):
        return "is no folder"
    if not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
        return "is a folder in which this user may not write"
    return None
