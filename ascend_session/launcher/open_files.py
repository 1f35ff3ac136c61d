"""Which files the launcher has open beside its own, and how many it may.

It needs six for each rank, and on the stub a port for each besides.
"""

import contextlib
import os
import resource
from typing import Iterator, Optional, Tuple

from ascend_session.errors import JobError

__all__ = ["enough_open_files", "lowest_number", "standard_streams"]

_EACH = 6
_BESIDES = 64


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Keeps /dev/null where the caller has closed a standard stream.

    The next file that is opened would take its place: what is meant for the stream would get into
    the launcher's own pipes.
    """
    opened = []
    try:
        for fd in range(3):
            try:
                os.fstat(fd)
            except OSError:
                opened.append(os.open(os.devnull, os.O_RDWR))  # the lowest free number: this one
        yield
    finally:
        for fd in opened:
            os.close(fd)


@contextlib.contextmanager
def enough_open_files(ranks: int) -> Iterator[Optional[Tuple[int, int]]]:
    """Raises the limit where it is too low for so many ranks, and lowers it again afterwards.

    Yields:
        The limits that were found and that ranks should have; None if nothing was changed.

    Raises:
        JobError: If this user may not have so many.
    """
    with _at_least(_needed(ranks), ranks) as found:
        yield found


@contextlib.contextmanager
def lowest_number(count: int, ranks: int) -> Iterator[int]:
    """Makes it possible to open so many files besides, which stay open while the ranks run.

    They are to be out of the way of those that the ranks need: the limit is lowered again, and a
    file above it stays open.

    Yields:
        The lowest number that such a file is to have.

    Raises:
        JobError: If this user may not have so many.
    """
    lowest = _needed(ranks)
    with _at_least(lowest + count, ranks):
        yield lowest


def _needed(ranks: int) -> int:
    return len(os.listdir("/proc/self/fd")) + _BESIDES + _EACH * ranks


@contextlib.contextmanager
def _at_least(needed: int, ranks: int) -> Iterator[Optional[Tuple[int, int]]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        yield None
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise JobError(
            f"The launcher needs {needed} open files for {ranks} ranks, and may have {hard}.",
            hint="Raise the hard limit, for example by LimitNOFILE or in limits.conf.",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    try:
        yield soft, hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
