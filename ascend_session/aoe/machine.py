"""What is measured of this machine, with psutil: room, memory, CPUs."""

import os
import pwd
from typing import Mapping, NamedTuple, Optional

import psutil

__all__ = ["Machine", "home_of"]


class Machine(NamedTuple):
    """The numbers that `df`, `free` and `nproc` print.

    Attributes:
        home: Home directory of the user who tunes.
        home_free: Bytes that are available to this user there; None if it cannot be told.
        home_problem: Why not, as the end of a sentence; None if it can.
        memory: Bytes of host memory that are available, as the last column of `free` says.
        cpus: CPUs that this process may use, as `nproc` says.
        all_cpus: CPUs of the machine that are online.
    """

    home: str
    home_free: Optional[int]
    home_problem: Optional[str]
    memory: int
    cpus: int
    all_cpus: int

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
        own = len(os.sched_getaffinity(0))
        return cls(
            home=home,
            home_free=free,
            home_problem=problem,
            memory=int(psutil.virtual_memory().available),
            cpus=own,
            all_cpus=max(own, psutil.cpu_count() or own),
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
