"""What the processes of the ranks are doing: how much they use the CPUs, and where they are.

A rank uses a CPU if all its processes together take at least 1 % of one: idle programs do not stand
still, their threads wake up for a moment. A new process counts as use. How much the vendor's own
threads poll while a collective hangs is not known; if it is more, HCCL's own limits end the job.

Where a process is, its stacks say. `faulthandler` writes them at a signal, in ranks that the
launcher has started (``stacks.log``) and in other processes that have joined the job
(``stacks_<pid>.log``).
"""

import contextlib
import math
import os
import re
import time
from itertools import chain, islice, repeat
from typing import (
    Dict,
    Generator,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import psutil

from ascend_session.failures.record import Frame, parse_frames
from ascend_session.files import read_end
from ascend_session.launcher.job.signals import catches_signal
from ascend_session.rank_folder import RANK_FOLDER, STACK_SIGNAL, STACKS_NAME, name_stacks
from ascend_session.text import clean
from ascend_session.user_code import is_user_file

_Result = TypeVar("_Result")

# The kernel counts in ticks of 10 ms: one alone says nothing, so less than two are none.
_SHARE, _LEAST = 0.01, 0.015
_ROUNDING = 0.02  # by which the times of an ended process may differ from what its parent gets


class Meter:
    """When a rank last used a CPU; small amounts are collected for a while."""

    def __init__(self, now: float) -> None:
        self.last = self._begun = now
        self._used = 0.0

    def add(self, used: float, now: float) -> None:
        """Add seconds of CPU time that were used until now (`time.monotonic`)."""
        self._used += used
        span = now - self._begun
        is_use = self._used >= max(_SHARE * span, _LEAST)
        self.last = now if is_use else self.last
        if is_use or span >= _LEAST / _SHARE:
            self._begun, self._used = now, 0.0


class _Use(NamedTuple):
    rank: int
    own: float  # seconds of CPU time
    waited: float  # the same of the children that it has waited for, and theirs


class Processes:
    """The processes of the ranks, and the CPU time of each at the last look.

    Args:
        folders: The rank to which each folder of a rank belongs.
    """

    def __init__(self, folders: Mapping[str, int]) -> None:
        self._folders = folders
        self._uses: Dict[psutil.Process, _Use] = {}

    def of(self, rank: int, pid: int) -> List[psutil.Process]:
        """List the processes of a rank, its own first."""
        processes = [process for process, use in self._uses.items() if use.rank == rank]
        return sorted(processes, key=lambda process: (process.pid != pid, process.pid))

    def look(self, alive: Mapping[int, int]) -> Dict[int, float]:
        """Measure the seconds of CPU time that each rank has used since the last look.

        They are infinite if it has a new process. What a child had used before it ended counts for
        its parent only now, and is no new use.
        """
        before, self._uses = self._uses, {}
        for process, rank in self._find_processes(alive, before):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                waited_s = times.children_user + times.children_system
                self._uses[process] = _Use(rank, times.user + times.system, waited_s)
        used, waited = dict.fromkeys(alive, 0.0), dict.fromkeys(alive, 0.0)
        for process, use in self._uses.items():
            old = before.get(process, _Use(use.rank, -math.inf, 0.0))
            used[use.rank] += use.own - old.own
            waited[use.rank] += use.waited - old.waited
        for process in before.keys() - self._uses.keys():
            old = before[process]
            if old.rank in alive:
                waited[old.rank] -= old.own + old.waited + _ROUNDING
        return {rank: used[rank] + max(0.0, waited[rank]) for rank in alive}

    def _find_processes(
        self, alive: Mapping[int, int], before: Mapping[psutil.Process, _Use]
    ) -> Iterator[Tuple[psutil.Process, int]]:
        """Find each process of a rank that lives, below the parent of the ranks."""
        rank_of = {pid: rank for rank, pid in alive.items()}
        parents = set()
        for pid in alive.values():
            with contextlib.suppress(psutil.Error):
                parents.add(psutil.Process(pid).ppid())
        for process in chain.from_iterable(islice(list_family(pid), 1, None) for pid in parents):
            with contextlib.suppress(psutil.Error):
                rank = rank_of.get(process.pid, rank_of.get(process.ppid()))
                if rank is None:  # it has lost its parent, and the parent of the ranks has it now
                    if process in before:
                        rank = before[process].rank
                    else:
                        rank = self._folders.get(process.environ().get(RANK_FOLDER, ""))
                if rank is not None and rank in alive:
                    rank_of[process.pid] = rank
                    yield process, rank


_KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def list_family(pid: int) -> Iterator[psutil.Process]:
    """List a process and what lives below it, a parent before its children.

    Nothing is read of other processes, of which a machine may have many, unless the kernel does not
    list children (``CONFIG_PROC_CHILDREN``).
    """
    pids = [pid]
    while pids:
        pid = pids.pop()
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            yield process
            if not _KERNEL_LISTS_CHILDREN:
                yield from process.children(recursive=True)
                return
            for thread in os.listdir(f"/proc/{pid}/task"):
                path = f"/proc/{pid}/task/{thread}/children"
                # One that has ended meanwhile does not hide the children of the others.
                with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
                    pids += map(int, file.read().split())


_ANSWER_S = 2.0  # that processes have to write their stacks
_QUIET_S = 0.2  # after which nothing more is expected
_MOST_BYTES = 16 * 1024
_DEAF = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE)


Steps = Generator[None, None, _Result]
"""What takes its time: a step returns when there is nothing to do for a moment."""


def collect_stacks(processes: Sequence[Tuple[psutil.Process, str]]) -> Steps[Dict[int, str]]:
    """Let processes write the stacks of their threads, in steps.

    Args:
        processes: Each with the folder of its rank.

    Returns:
        What each has written that can, by its pid, or that it has written nothing.
    """
    begun: Dict[int, Tuple[str, int]] = {}
    for process, folder in processes:
        for name in (name_stacks(process.pid), STACKS_NAME):
            path = os.path.join(folder, name)
            size = _size(path)
            if process.pid not in begun and _request_stacks(process, path):
                begun[process.pid] = path, size
    before: Dict[int, int] = {}
    quiet_since = time.monotonic()
    limit = quiet_since + _ANSWER_S
    while begun and time.monotonic() < limit:
        sizes = {pid: _size(path) for pid, (path, _) in begun.items()}
        if sizes != before:
            before, quiet_since = sizes, time.monotonic()
        have_answered = all(begun[pid][1] < size for pid, size in sizes.items())
        are_whole = all(read_end(path, 1) == b"\n" for path, _ in begun.values())
        # Who writes piece by piece may be kept from it for a moment, also in the middle of a line.
        if have_answered and are_whole and time.monotonic() - quiet_since >= _QUIET_S:
            break
        yield
    stacks = {}
    for pid, (path, size) in begun.items():
        text = _read_text(path, size).rstrip()
        stacks[pid] = text or f"Process {pid} wrote no stacks within {_ANSWER_S:g} s."
    return stacks


def _request_stacks(process: psutil.Process, path: str) -> bool:
    """Send the signal to a process that writes its stacks there; return whether it is one.

    By default the signal ends a program. It goes only to one that catches it and has the file open.
    """
    with contextlib.suppress(psutil.Error, OSError):
        files = [f"/proc/{process.pid}/fd/{fd}" for fd in os.listdir(f"/proc/{process.pid}/fd")]
        is_able = catches_signal(process.pid, STACK_SIGNAL) and process.status() not in _DEAF
        if is_able and any(map(os.path.samefile, files, repeat(path))):
            process.send_signal(STACK_SIGNAL)
            return True
    return False


def _size(path: str) -> int:
    with contextlib.suppress(OSError):
        return os.path.getsize(path)
    return 0


def _read_text(path: str, begin: int = 0) -> str:
    """Read a file's text from ``begin`` on, or the end of that; empty if it cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(begin, _size(path) - _MOST_BYTES))
        return clean(file.read(_MOST_BYTES), colour=False).decode().strip()
    return ""


_STANDARD_LIBRARY = re.compile(r"/lib/python[0-9.]+/")  # of an interpreter that is not this one


def find_user_frame(stacks: str) -> Optional[Frame]:
    """Find the innermost frame of the user's own files in the main thread, or else of any.

    The main thread is the last one that ``faulthandler`` writes.
    """
    last = re.split("^(?:Current thread|Thread) 0x", stacks, flags=re.MULTILINE)[-1]
    frames = parse_frames(last)
    own = [
        frame
        for frame in frames
        if is_user_file(frame.path) and not _STANDARD_LIBRARY.search(frame.path)
    ]
    return next(iter(own or frames), None)


_COMMAND_WIDTH = 100  # characters of a command


def describe_process(process: psutil.Process) -> str:
    """Describe a process: its command, its state, and where in the kernel it waits."""
    try:
        words = " ".join(" ".join(process.cmdline()).split()) or process.name()
        named = clean(os.fsencode(words), colour=False).decode()[:_COMMAND_WIDTH]
        place = _read_text(f"/proc/{process.pid}/wchan").strip("0")
        state = process.status() + (f" in {place}" if place else "")
        return f"process {process.pid} ({named}) is {state}, threads: {process.num_threads()}"
    except psutil.Error:
        return f"process {process.pid} has exited"
