"""The processes below this one, and what binds this one to its parent."""

import contextlib
import functools
import os
import re
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, List, Mapping, Optional

from ascend_session.launcher.job.signals import catches_signal
from ascend_session.rank_folder import is_rank_of_script

_SHELLS = ("ash", "bash", "dash", "ksh", "mksh", "sh", "zsh")

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


_KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def list_below(pid: int) -> Iterator[int]:
    """List what lives below a process, a parent before its children.

    Nothing is read of other processes, of which a machine may have many, unless the kernel does not
    list children (``CONFIG_PROC_CHILDREN``).
    """
    if not _KERNEL_LISTS_CHILDREN:
        import psutil

        with contextlib.suppress(psutil.Error):
            yield from [each.pid for each in psutil.Process(pid).children(recursive=True)]
        return
    pids = [pid]
    while pids:
        parent = pids.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                children = list_children(parent, thread)
                pids += children
                yield from children


def read_process_file(pid: int, name: str) -> bytes:
    """Read a file of a process in ``/proc``; empty if it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


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
        self._program: Optional[str] = None
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
            entries = os.fsdecode(self._read("environ")).split("\0")
            pairs = (entry.partition("=") for entry in entries)
            self._environ = {name: value for name, _, value in pairs}
        return self._environ

    @property
    def rank_id(self) -> str:
        """Its RANK_ID; empty if it has none."""
        return self.environ.get("RANK_ID", "")

    @property
    def is_script_rank(self) -> bool:
        """Whether it has the variables of a rank that a script has started."""
        return is_rank_of_script(self.environ)

    @property
    def name(self) -> str:
        """The name of its program, or that which a program has given itself."""
        return self._read("comm").decode("utf-8", "replace").strip()

    @property
    def program(self) -> str:
        """The file of its program: ``python3.7`` also for a script whose first line names that.

        What is many programs in one file (busybox) has the name of the one that it is.
        """
        if self._program is None:
            path = ""
            with contextlib.suppress(OSError):
                path = os.readlink(f"/proc/{self.pid}/exe")
            # As the kernel says when a new version has replaced it; source: proc(5).
            program = re.sub(r" \(deleted\)$", "", os.path.basename(path))
            self._program = self.name if program in ("", "busybox") else program
        return self._program

    @property
    def is_python(self) -> bool:
        """Whether it is an interpreter of Python."""
        return self.program.startswith("python")

    @property
    def is_shell(self) -> bool:
        """Whether it is a shell."""
        return self.program in _SHELLS

    @property
    def words(self) -> bytes:
        """The words of its command, each with a zero byte behind it."""
        return self._read("cmdline")

    @property
    def command(self) -> str:
        """Its command."""
        words = self.words.rstrip(b"\0").replace(b"\0", b" ")
        return words.decode("utf-8", "backslashreplace")

    def __str__(self) -> str:
        return f"{self.pid} ({(self.command or self.name)[:200]})"

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
    def parent(self) -> int:
        """The pid of its parent."""
        return int(self.stat[1])

    @property
    def group(self) -> int:
        """Its process group."""
        return int(self.stat[2])

    @property
    def session(self) -> int:
        """Its session."""
        return int(self.stat[3])

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended; a parent may not have noticed it yet."""
        return bool(self.stat) and self.stat[0] not in (b"Z", b"X")

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


def list_descendants() -> List[SeenProcess]:
    """List the processes below this one, without those that have ended."""
    processes = map(SeenProcess, list_below(os.getpid()))
    return [process for process in processes if process.is_alive]


def group_by_parent(processes: Iterable[SeenProcess]) -> Dict[int, List[SeenProcess]]:
    """Group living processes by the pid of their parent."""
    children: Dict[int, List[SeenProcess]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    return children


def find_catchers(
    process: SeenProcess, number: int, children: Mapping[int, List[SeenProcess]]
) -> List[SeenProcess]:
    """Find what a signal to a process is meant for: itself, or the first below it to catch it.

    A shell that does not is in the way of what it has started; what has started workers of its own
    is meant itself.

    Args:
        process: The process.
        number: The signal.
        children: The result of `group_by_parent` for this process and those below it.
    """
    if catches_signal(process.pid, number):
        return [process]
    below = children.get(process.pid, [])
    return [each for child in below for each in find_catchers(child, number, children)]


def set_cpus(cpus: Collection[int]) -> None:
    """Let this process run on these CPUs, if that can be."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cpus)
