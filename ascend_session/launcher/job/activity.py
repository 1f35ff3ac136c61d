"""Signs of life of the ranks: that they write something, or use a CPU.

A rank uses a CPU if all its processes together take at least 1 % of one: idle programs do not stand
still, their threads wake up for a moment. A new process counts as use. How much the vendor's own
threads poll while a collective hangs is not known; if it is more, HCCL's own limits end the job.
"""

import contextlib
import math
import os
import time
from itertools import chain, islice
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import psutil

from ascend_session.launcher.job.children import list_below, read_process_file
from ascend_session.launcher.job.start import GuardedRank
from ascend_session.rank_folder import RANK_FOLDER
from ascend_session.text import clean

# The kernel counts in ticks of 10 ms: one alone says nothing, so less than two are none.
_SHARE, _LEAST = 0.01, 0.015
_ROUNDING = 0.02  # by which the times of an ended process may differ from what its parent gets


class WatchedJob(NamedTuple):
    """What the watch has to know of an attempt.

    Attributes:
        ranks: Its ranks, in order.
        size: The number of ranks of the job, on all nodes.
        folder: The attempt's.
        cwd: The working directory of the ranks.
        timeout_s: How long no rank may show any sign of life before the job counts as stalled;
            None for as long as they like.
        note_s: How long a rank may wait for others before that is noted; 0 for as long as it likes.
        limits: When HCCL would give up a job that stalled for so long, in sentences.
    """

    ranks: Tuple[GuardedRank, ...]
    size: int
    folder: str
    cwd: str
    timeout_s: Optional[float]
    note_s: float
    limits: Tuple[str, ...]

    def of(self, rank: int) -> GuardedRank:
        """Return a rank by its number in the job."""
        return self.ranks[rank - self.ranks[0].rank]


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


class Activity:
    """The signs of life of a job's ranks.

    Args:
        job: The attempt.

    Attributes:
        alive: The pid of each rank that lived at the last look.
        sign: When there was a sign of life, as `time.monotonic` counts; the end of a rank is one.
    """

    def __init__(self, job: WatchedJob) -> None:
        self.alive: Dict[int, int] = {}
        self.sign = time.monotonic()
        self._job = job
        self._processes = Processes({rank.folder: rank.rank for rank in job.ranks})
        self._sizes: Dict[int, int] = {}  # of the logs of a rank, at the last look
        self._wrote: Dict[int, float] = {}  # when a rank last wrote something
        self._meters: Dict[int, Meter] = {}

    def note_alive(self, alive: Mapping[int, int], now: float) -> bool:
        """Note which ranks live; return whether these are others than before."""
        is_new = dict(alive) != self.alive
        if is_new:
            self.sign, self.alive = now, dict(alive)
        return is_new

    def look_at_logs(self, now: float) -> None:
        """Look what the ranks have written."""
        for rank in self.alive:
            states = []
            for path in self._job.of(rank).logs:
                with contextlib.suppress(OSError):
                    states.append(os.stat(path))
            size = sum(state.st_size for state in states)
            if states and size != self._sizes.get(rank, 0):
                self._sizes[rank] = size
                ago_s = time.time() - max(state.st_mtime for state in states)
                # The clock of a file server may be another one.
                self._wrote[rank] = min(now, max(now - ago_s, self._wrote.get(rank, 0.0)))
        self.sign = max([self.sign, *(self._wrote.get(rank, 0.0) for rank in self.alive)])

    def measure(self, now: float) -> None:
        """Measure how much the ranks have used the CPUs, which takes longer."""
        for rank, seconds in self._processes.look(self.alive).items():
            meter = self._meters.setdefault(rank, Meter(now))
            meter.add(seconds, now)
            self.sign = max(self.sign, meter.last)

    def find_processes(self) -> Dict[int, List[psutil.Process]]:
        """Find the processes of each rank that were measured, its own first."""
        return {rank: self._processes.of(rank, pid) for rank, pid in self.alive.items()}

    def describe(self, rank: int, family: Sequence[psutil.Process], now: float) -> str:
        """Describe what a rank did last, and its processes."""
        wrote_at = self._wrote.get(rank)
        wrote = (
            "has written nothing" if wrote_at is None else f"last wrote {now - wrote_at:.0f} s ago"
        )
        used = f"last used a CPU {now - self._meters[rank].last:.0f} s ago"
        processes = [describe_process(process) for process in family[:_MOST_NAMED]]
        processes += [f"{len(family) - _MOST_NAMED} more"] if len(family) > _MOST_NAMED else []
        return (
            f"Rank {rank} {wrote} and {used}: {', '.join(processes) or 'its process has exited'}."
        )


def list_family(pid: int) -> Iterator[psutil.Process]:
    """List a process and what lives below it, a parent before its children."""
    for each in (pid, *list_below(pid)):
        with contextlib.suppress(psutil.Error):
            yield psutil.Process(each)


_COMMAND_WIDTH = 100  # characters of a command
_MOST_NAMED = 5  # processes of a rank


def describe_process(process: psutil.Process) -> str:
    """Describe a process: its command, its state, and where in the kernel it waits."""
    try:
        words = " ".join(" ".join(process.cmdline()).split()) or process.name()
        named = clean(os.fsencode(words), colour=False).decode()[:_COMMAND_WIDTH]
        place = read_process_file(process.pid, "wchan").decode("ascii", "replace").strip("0\n")
        state = process.status() + (f" in {place}" if place else "")
        return f"process {process.pid} ({named}) is {state}, threads: {process.num_threads()}"
    except psutil.Error:
        return f"process {process.pid} has exited"
