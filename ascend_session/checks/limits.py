"""How much this process may have open, and how much memory processes can share."""

import os
import resource
from typing import Iterator

from ascend_session.checks.finding import NOT_CHECKED, OK, WARNING, Finding

__all__ = ["check_limits"]

_CHECK = "limits"
_MB = 1024 * 1024
_LEAST_FILES = 1024
# What Docker gives a container that asks for nothing.
_SMALL_MB = 64


def check_limits(shared: str = "/dev/shm", least_mb: int = _SMALL_MB) -> Iterator[Finding]:
    """Looks at open files and shared memory.

    Args:
        shared: The folder of shared memory.
        least_mb: It has to be larger than this, MB.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _LEAST_FILES:
        said = f"A process may have {soft} files open (ulimit -n), less than the usual 1024."
        most = "more" if hard == resource.RLIM_INFINITY else f"up to {hard}"
        yield Finding(_CHECK, WARNING, said, f"ulimit -n allows {most}.")
    else:
        shown = "any number of" if soft == resource.RLIM_INFINITY else str(soft)
        yield Finding(_CHECK, OK, f"A process may have {shown} files open (ulimit -n).")
    try:
        disk = os.statvfs(shared)
    except OSError as error:
        yield Finding(_CHECK, NOT_CHECKED, f"Shared memory, {shared}: {error.strerror}.")
        return
    room = disk.f_blocks * disk.f_frsize // _MB
    if room <= least_mb:
        said = f"Shared memory, {shared}, has {room} MB: loaders of data that use it may fail."
        hint = "Start the container with --shm-size, or mount the folder again with more."
        yield Finding(_CHECK, WARNING, said, hint)
    else:
        yield Finding(_CHECK, OK, f"Shared memory, {shared}, has {room} MB.")
