"""What is measured of this machine, with psutil and control groups: room, memory, CPUs."""

import os
import pwd
from typing import Mapping, NamedTuple, Optional

import psutil

from ascend_session.aoe.limits import cpu_quota, memory_left

__all__ = ["Machine", "home_of"]


class Machine(NamedTuple):
    """The numbers that `df`, `free` and `nproc` print.

    Attributes:
        home: Home directory of the user who tunes.
        home_free: Bytes that are available to this user there; None if it cannot be told.
        home_problem: Why not, as the end of a sentence; None if it can.
        memory: Bytes of host memory that are available, as the last column of `free` says; or what
            the control group of this process has left, if that is less.
        cpus: CPUs that this process may use, as `nproc` says.
        all_cpus: CPUs of the machine that are online.
        is_limited: Whether ``memory`` is what the control group has left.
        quota: How many CPUs' time the control group may take; None for no limit.
    """

    home: str
    home_free: Optional[int]
    home_problem: Optional[str]
    memory: int
    cpus: int
    all_cpus: int
    is_limited: bool = False
    quota: Optional[float] = None

    @classmethod
    def measured(cls, environ: Mapping[str, str]) -> "Machine":
        """Measures this machine; never raises.

        Args:
            environ: The environment of the tuning run, which names the home directory.
        """
        home = home_of(environ)
        free: Optional[int] = None
        problem: Optional[str] = None
        try:
            free = int(psutil.disk_usage(home).free)
        except OSError as error:
            problem = f"cannot be looked at: {error.strerror}"
        else:
            if not os.access(home, os.W_OK | os.X_OK):
                free, problem = None, "cannot be written to by this user"
        own = len(os.sched_getaffinity(0))
        available, left = int(psutil.virtual_memory().available), memory_left()
        is_limited = left is not None and left < available
        return cls(
            home=home,
            home_free=free,
            home_problem=problem,
            memory=left if left is not None and is_limited else available,
            cpus=own,
            all_cpus=max(own, psutil.cpu_count() or own),
            is_limited=is_limited,
            quota=cpu_quota(),
        )


def home_of(environ: Mapping[str, str]) -> str:
    """The home directory: ``HOME``, else that of the user's account, else ``/``."""
    given = environ.get("HOME")
    if given:
        return given
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # as in a container that runs under a number
        return "/"
