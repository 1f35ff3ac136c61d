"""The processes below this one, and what binds this one to its parent."""

import contextlib
import functools
import os
from typing import Any, Callable, Collection, Dict, Iterator, List, Optional

from ascend_session.launcher.job.signals import SHELLS

DEEPEST = 20
"""How many processes below one another are looked at."""

# prctl(2)
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36


@functools.lru_cache(maxsize=None)
def _load_library() -> Any:
    import ctypes  # not needed by the launcher

    return ctypes.CDLL(None)


def _prctl(option: int, value: int) -> None:
    _load_library().prctl(option, value, 0, 0, 0)


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


def list_children(pid: int, thread: str = "") -> List[int]:
    """List the processes that a process's main thread has started, or the process has adopted.

    Empty if it has ended, or the kernel does not list them.

    Args:
        pid: The process.
        thread: Another thread of it, which counts in place of the main one.
    """
    path = f"/proc/{pid}/task/{thread or pid}/children"
    with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
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


class SeenProcess:
    """A process as one look sees it, which reads each of its files at most once.

    What cannot be read is empty, as of a process that has ended.

    Args:
        pid: The process.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._files: Dict[str, bytes] = {}
        self._environ: Optional[Dict[str, str]] = None
        self._children: Optional[List[SeenProcess]] = None

    @property
    def children(self) -> List["SeenProcess"]:
        """Those that its main thread has started, or that it has adopted."""
        if self._children is None:
            self._children = [SeenProcess(pid) for pid in list_children(self.pid)]
        return self._children

    def walk(
        self, is_last: "Callable[[SeenProcess], bool]", depth: int = 0
    ) -> Iterator["SeenProcess"]:
        """List the processes below this one, without those below what is a last one."""
        for child in self.children:
            yield child
            if depth < DEEPEST and not is_last(child):
                yield from child.walk(is_last, depth + 1)

    @property
    def environ(self) -> Dict[str, str]:
        """The environment that it was started with."""
        if self._environ is None:
            self._environ = read_environ(self.pid)
        return self._environ

    @property
    def name(self) -> str:
        """The name of its program, or that which a program has given itself."""
        return self._read("comm").decode("utf-8", "replace").strip()

    @property
    def is_python(self) -> bool:
        """Whether it has the name of an interpreter of Python."""
        return self.name.startswith("python")

    @property
    def is_shell(self) -> bool:
        """Whether it has the name of a shell."""
        return self.name in SHELLS

    @property
    def words(self) -> bytes:
        """The words of its command, each with a zero byte behind it."""
        return self._read("cmdline")

    @property
    def command(self) -> str:
        """Its command."""
        words = self.words.rstrip(b"\0").replace(b"\0", b" ")
        return words.decode("utf-8", "backslashreplace")

    @property
    def output(self) -> str:
        """What its standard error goes to."""
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{self.pid}/fd/2")
        return ""

    @property
    def stat(self) -> List[bytes]:
        """The fields of ``stat`` in proc(5), from the third on."""
        return self._read("stat").rpartition(b")")[2].split()

    @property
    def activity(self) -> str:
        """Page faults and CPU time of it and of what it has waited for.

        A shell that starts anything has more of them. Source: proc(5), fields 10 to 17 of ``stat``
        """
        return b" ".join(self.stat[7:15]).decode("ascii", "replace")

    def _read(self, name: str) -> bytes:
        if name not in self._files:
            self._files[name] = read_process_file(self.pid, name)
        return self._files[name]


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
