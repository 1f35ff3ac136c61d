"""The processes below this one, and what binds this one to its parent."""

import contextlib
import functools
import os
from typing import Any, Callable, Collection, Dict, Iterator, List

DEEPEST = 20
"""How many processes below one another are looked at."""

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


def read_process_file(pid: int, name: str) -> bytes:
    """Read a file of a process in ``/proc``; empty if it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def read_environ(pid: int) -> Dict[str, str]:
    """Read the environment that a process was started with; empty if it cannot be read."""
    pairs = (
        os.fsdecode(entry).partition("=")
        for entry in read_process_file(pid, "environ").split(b"\0")
    )
    return {name: value for name, _, value in pairs}


class Look:
    """One look at the processes below this one, which reads each of their files at most once.

    What cannot be read is empty, as of a process that has ended.

    Attributes:
        list_children: As `list_children`.
        read_environ: As `read_environ`.
    """

    def __init__(self) -> None:
        keep = functools.lru_cache(maxsize=None)
        self._read = keep(read_process_file)
        self.list_children = keep(list_children)
        self.read_environ = keep(read_environ)

    def walk(
        self, pid: int, is_last: "Callable[[Look, int], bool]", depth: int = 0
    ) -> Iterator[int]:
        """List the processes below one, without those below what is a last one."""
        for child in self.list_children(pid):
            yield child
            if depth < DEEPEST and not is_last(self, child):
                yield from self.walk(child, is_last, depth + 1)

    def read_name(self, pid: int) -> str:
        """Read the name of a process's program."""
        return self._read(pid, "comm").decode("utf-8", "replace").strip()

    def read_words(self, pid: int) -> bytes:
        """Read the words of a process's command, each with a zero byte behind it."""
        return self._read(pid, "cmdline")

    def read_command(self, pid: int) -> str:
        """Read a process's command."""
        words = self.read_words(pid).rstrip(b"\0").replace(b"\0", b" ")
        return words.decode("utf-8", "backslashreplace")

    def read_output(self, pid: int) -> str:
        """Read what a process's standard error goes to."""
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{pid}/fd/2")
        return ""

    def read_stat(self, pid: int) -> List[bytes]:
        """Read the fields of ``stat`` in proc(5), from the third on."""
        return self._read(pid, "stat").rpartition(b")")[2].split()

    def read_activity(self, pid: int) -> str:
        """Read page faults and CPU time of a process and of what it has waited for.

        A shell that starts anything has more of them. Source: proc(5), fields 10 to 17 of ``stat``
        """
        return b" ".join(self.read_stat(pid)[7:15]).decode("ascii", "replace")


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
