"""The processes below this one, and what binds this one to its parent."""

import contextlib
import os
from typing import Any, Collection, List

# prctl(2)
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    import ctypes  # not needed by the launcher

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def adopt_descendants() -> None:
    """Become the parent of every process below this one whose own parent ends."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int, parent: int) -> bool:
    """Ask for a signal when the parent's thread that started this process ends.

    Returns:
        Whether the parent was there when it was asked for; if not, the signal does not come.
    """
    _prctl(_SET_PDEATHSIG, number)
    return os.getppid() == parent


def list_children(pid: int) -> List[int]:
    """List the processes that a process's main thread has started, or the process has adopted.

    Empty if it has ended, or the kernel does not list them.
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]
    return []


def list_descendants() -> List[Any]:
    """List the processes below this one, without those that have ended.

    Only a job that leaves processes behind, or is stopped, needs psutil.
    """
    import psutil

    processes = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes


def find_group(pid: int) -> int:
    """Return the process group of a process; 0 if it has ended."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def describe_processes(processes: List[Any]) -> List[str]:
    """Describe processes: the pid and the command of each."""
    import psutil

    descriptions = []
    for process in processes:
        try:
            words = " ".join(process.cmdline()) or process.name()
            descriptions.append(f"{process.pid} ({words[:200]})")
        except psutil.Error:
            descriptions.append(str(process.pid))
    return descriptions


def set_cpus(cpus: Collection[int]) -> None:
    """Let this process run on these CPUs, if that can be."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cpus)
