"""How a child of the guardian becomes a rank."""

from __future__ import annotations

import ctypes
import marshal
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

__all__ = ["ASKING", "Places", "be_subreaper", "die_with_parent", "start", "trouble_in"]

# prctl(2)
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_prctl = ctypes.CDLL(None, use_errno=True).prctl

# By which a process is asked to end.
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# Python ignores the last two, which a program inherits. The others have the guardian's handlers
# until there is a program, and one that came before that would be lost in them.
_DEFAULT = (*ASKING, signal.SIGPIPE, signal.SIGXFSZ)


def be_subreaper() -> None:
    """From now on, what loses its parent below this process becomes its child."""
    _prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(number: int, parent: int) -> bool:
    """Asks for a signal when the parent's thread that started this process ends.

    Returns:
        Whether the parent was there when it was asked for; if not, the signal does not come.
    """
    _prctl(_SET_PDEATHSIG, number)
    return os.getppid() == parent


class Places:
    """The CPUs on which children begin: this process goes there first, and they inherit that.

    So a child is bound from its first instruction, and one that cannot be is known at once.
    """

    def __init__(self) -> None:
        self._own = os.sched_getaffinity(0)

    def go(self, cpus: Optional[List[int]]) -> Optional[OSError]:
        """Goes to these CPUs, or where this process began; says why it cannot be there."""
        try:
            os.sched_setaffinity(0, self._own if cpus is None else cpus)
        except OSError as failure:  # such as CPUs that were taken away since they were planned
            if cpus is not None:
                self.go(None)
            return failure
        return None


def start(rank: Dict[str, Any]) -> Tuple[int, int]:
    """Forks; returns the child's pid and a pipe, see `trouble_in`.

    Raises:
        OSError: If there can be no more processes.
    """
    parent = os.getpid()
    read, write = os.pipe()
    # A signal that comes to the child early has to wait until it ends the rank, not the guardian.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)
    try:
        pid = os.fork()
        if not pid:
            _become(rank, parent, write)
    except OSError:
        os.close(read)
        raise
    finally:
        os.close(write)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid, read


def trouble_in(pipe: int) -> Optional[Tuple[str, int, str]]:
    """Why a child that has ended never was a rank: what was tried, errno, text; None if it was."""
    os.set_blocking(pipe, False)
    try:
        said = os.read(pipe, 65536)
    except BlockingIOError:
        said = b""
    os.close(pipe)
    found: Optional[Tuple[str, int, str]] = marshal.loads(said) if said else None
    return found


def _become(rank: Dict[str, Any], parent: int, write: int) -> None:
    stage = "started"
    try:
        os.setsid()
        if not die_with_parent(signal.SIGKILL, parent):
            os._exit(128 + signal.SIGKILL)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, fd in enumerate((null, rank["stdout"], rank["stderr"])):
            os.dup2(fd, number)
        for number in _DEFAULT:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if rank["open_files"] is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_NOFILE, rank["open_files"])
        stage = f"started in {os.fsdecode(rank['cwd'])}"
        os.chdir(rank["cwd"])
        stage = "started"
        os.execve(rank["command"][0], rank["command"], rank["environment"])
    except BaseException as failure:
        number = getattr(failure, "errno", None) or 0
        text = getattr(failure, "strerror", None) or str(failure)
        os.write(write, marshal.dumps((stage, number, text)))
    finally:
        os._exit(127)
