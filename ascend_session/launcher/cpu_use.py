"""How much the processes of the ranks use the CPUs.

A rank uses a CPU if all its processes together take at least 1 % of one: idle programs do not stand
still, their threads wake up for a moment. A new process counts as use. How much the vendor's own
threads poll while a collective hangs is not known; if it is more, HCCL's own limits end the job.
"""

import contextlib
import math
from typing import Any, Container, Dict, Iterator, List, Mapping, NamedTuple, Set

import psutil

from ascend_session.launcher.plan import Plan

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
    process: psutil.Process
    parent: int
    own: float  # seconds of CPU time
    waited: float  # the same of the children that it has waited for, and theirs


class Processes:
    """The processes of the ranks, and the CPU time of each at the last look."""

    def __init__(self, plan: Plan) -> None:
        self._marks = {(plan.job_id, str(rank.local)): rank.rank for rank in plan.ranks}
        self._uses: Dict[int, _Use] = {}
        self._rank_of: Dict[int, int] = {}
        self._others: Set[int] = set()  # are not read each time

    def of(self, rank: int, pid: int) -> List[psutil.Process]:
        """List the processes of a rank, its own first."""
        pids = [number for number, owner in self._rank_of.items() if owner == rank]
        return [
            self._uses[number].process
            for number in sorted(pids, key=lambda number: (number != pid, number))
        ]

    def look(self, alive: Mapping[int, int], thorough: bool) -> Dict[int, float]:
        """Measure the seconds of CPU time that each rank has used since the last look.

        They are infinite if it has a new process. Only a ``thorough`` look reads the processes
        again that belonged to nobody here at the last one.
        """
        before, pids = self._uses, set(psutil.pids())
        self._others = set() if thorough else self._others & pids
        uses = {pid: use for pid in pids - self._others for use in _use_of(pid)}
        stayed = {p for p in before if p in uses and uses[p].process == before[p].process}
        owner = {pid: self._rank_of[pid] for pid in stayed if self._rank_of[pid] in alive}
        owner.update({pid: rank for rank, pid in alive.items() if pid in uses})
        adopters = {uses[pid].parent for pid in alive.values() if pid in uses}
        for pid in [pid for pid in uses if uses[pid].parent in adopters and pid not in owner]:
            # It may have lost its parent before it was seen here; then its environment tells.
            with contextlib.suppress(psutil.Error, KeyError):
                environ = uses[pid].process.environ()
                rank = self._marks[environ["JOB_ID"], environ["LOCAL_RANK"]]
                owner.update({pid: rank} if rank in alive else {})
        tops = {pid: _climb(pid, uses, owner) for pid in uses}
        self._rank_of = {pid: owner[top] for pid, top in tops.items() if top in owner}
        self._others |= uses.keys() - self._rank_of.keys()
        self._uses = {pid: uses[pid] for pid in self._rank_of}
        return self._used(before, stayed, alive)

    def _used(self, before: Dict[int, _Use], stayed: Set[int], alive: Any) -> Dict[int, float]:
        # What a child used before it ended counts for its parent only now, and is no new use.
        owed: Dict[int, float] = {}
        for pid in before.keys() - stayed:
            heir = _climb(pid, before, stayed)
            owed[heir] = owed.get(heir, 0.0) + before[pid].own + before[pid].waited + _ROUNDING
        used = dict.fromkeys(alive, 0.0)
        for pid, rank in self._rank_of.items():
            if pid in stayed:
                old, new = before[pid], self._uses[pid]
                waited = new.waited - old.waited - owed.get(pid, 0.0)
                used[rank] += new.own - old.own + max(0.0, waited)
            else:
                used[rank] = math.inf
        return used


def _use_of(pid: int) -> Iterator[_Use]:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        with process.oneshot():
            times, parent = process.cpu_times(), process.ppid()
        waited = times.children_user + times.children_system
        yield _Use(process, parent, times.user + times.system, waited)


def _climb(pid: int, uses: Mapping[int, _Use], stop: Container[int]) -> int:
    """Find the first process from this one upwards at which to stop, or that is not known."""
    for _ in uses:  # not forever, should numbers have changed hands while they were read
        if pid in stop or pid not in uses:
            break
        pid = uses[pid].parent
    return pid
