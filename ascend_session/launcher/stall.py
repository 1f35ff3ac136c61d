"""Whether a job stalls: no rank writes anything or uses a CPU. If so, what each rank is doing.

A rank uses a CPU if all its processes together take at least 1 % of one: idle programs do not stand
still, their threads wake up for a moment. A new process counts as use. How much the vendor's own
threads poll while a collective hangs is not known; if it is more, HCCL's own limits end the job.

Source of these limits: guides/facts/launch.md#hccl-timeouts
"""

import contextlib
import math
import os
import time
from itertools import repeat
from typing import Any, Container, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

import psutil
import tenacity

from ascend_session.backends import backend_class
from ascend_session.cluster.variables import read_number, read_seconds, uses_collectives
from ascend_session.failures.record import STACK_SIGNAL, STACKS_NAME
from ascend_session.launcher.lines import clean
from ascend_session.launcher.plan import Plan
from ascend_session.launcher.pump import Pump
from ascend_session.launcher.report import without_runner
from ascend_session.vendor import CONNECT_SECONDS, CONNECT_SECONDS_MORE, EXECUTION_SECONDS

# How often to look, as a part of the time and in seconds: a stall is noticed a tenth late at most.
_FRACTION, _SHORTEST, _LONGEST = 0.1, 0.2, 5.0
_LONGEST_COMMAND, _MOST_NAMED = 100, 5


class StallWatch:
    """Looks for signs of life now and then.

    Args:
        seconds: How long no rank may show any before the job counts as stalled.
        pump: Knows when each rank last wrote.
        plan: The attempt.
    """

    def __init__(self, seconds: float, pump: Pump, plan: Plan) -> None:
        self._seconds = seconds
        self._interval = min(max(seconds * _FRACTION, _SHORTEST), _LONGEST)
        self._pump = pump
        self._plan = plan
        self._processes = Processes(plan)
        self._alive: Dict[int, int] = {}
        self._meters: Dict[int, Meter] = {}
        self._looked = self._sign = self._next = time.monotonic()

    def patience(self) -> float:
        """Compute the seconds until `look` should be called; before that it does nothing."""
        return max(0.0, self._next - time.monotonic())

    def look(self, alive: Mapping[int, int]) -> List[str]:
        """Look for a sign of life of any rank; the end of a rank is one too.

        If this was not called for long, because the launcher or the machine was stopped, nothing is
        known of that time and the wait begins anew.

        Returns:
            If there was none within the time, what each rank is doing, a sentence or a block of
            lines for each; else nothing.
        """
        now = time.monotonic()
        if now < self._next:
            return []
        was_away = now - self._looked > max(3 * self._interval, min(1.0, self._seconds / 2))
        is_new = was_away or not alive or dict(alive) != self._alive
        if is_new:
            self._sign, self._alive = now, dict(alive)
        self._sign = max([self._sign, *(self._pump.wrote_at(rank) or 0.0 for rank in alive)])
        is_due = now - self._sign >= self._seconds
        used = self._processes.look(alive, thorough=is_new or is_due)
        for rank in alive:
            meter = self._meters.setdefault(rank, Meter(now))
            meter.add(used[rank], now)
            self._sign = max(self._sign, meter.last)
        self._looked = now
        self._next = min(now + self._interval, max(self._sign + self._seconds, now + _SHORTEST))
        return self._report(now) if now - self._sign >= self._seconds else []

    def _report(self, now: float) -> List[str]:
        families = {rank: self._processes.of(rank, self._alive[rank]) for rank in self._alive}
        report = [f"No rank has written anything or used a CPU for {self._seconds:g} s."]
        # Before the stacks, whose signal wakes whoever writes them.
        blocks = {rank: self._describe_rank(rank, families[rank], now) for rank in sorted(families)}
        stacks = _collect_stacks(self._plan, families)
        report += [block + stacks.get(rank, "") for rank, block in blocks.items()]
        ended = [str(one.rank) for one in self._plan.ranks if one.rank not in self._alive]
        if ended:
            report.append(f"Ended with exit code 0 before that: rank {', '.join(ended)}.")
        return report + _describe_limits(self._seconds, self._plan)

    def _describe_rank(self, rank: int, family: Sequence[psutil.Process], now: float) -> str:
        wrote_at = self._pump.wrote_at(rank)
        wrote = (
            "has written nothing" if wrote_at is None else f"last wrote {now - wrote_at:.0f} s ago"
        )
        used = f"last used a CPU {now - self._meters[rank].last:.0f} s ago"
        processes = [_describe_process(process) for process in family[:_MOST_NAMED]]
        processes += [f"{len(family) - _MOST_NAMED} more"] if len(family) > _MOST_NAMED else []
        return f"Rank {rank} {wrote} and {used}: {', '.join(processes) or 'its process has ended'}."


def _describe_process(process: psutil.Process) -> str:
    try:
        words = " ".join(" ".join(process.cmdline()).split()) or process.name()
        named = clean(os.fsencode(words), colour=False).decode()[:_LONGEST_COMMAND]
        place = _read_text(f"/proc/{process.pid}/wchan").strip("0")
        state = process.status() + (f" in {place}" if place else "")
        return f"process {process.pid} ({named}) is {state}, threads: {process.num_threads()}"
    except psutil.Error:
        return f"process {process.pid} has ended"


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


_ANSWER_S = 2.0  # that ranks have to write their stacks
_MOST_BYTES = 16 * 1024
_DEAF = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE)


def _collect_stacks(plan: Plan, families: Mapping[int, Sequence[psutil.Process]]) -> Dict[int, str]:
    """Let the ranks write the stacks of their threads; return what each wrote, as lines."""
    begun: Dict[str, int] = {}
    paths: Dict[int, str] = {}
    for rank, family in families.items():
        path = os.path.join(plan.of(rank).folder, STACKS_NAME)
        begun[path] = _size(path)
        if any(_request_stacks(process, path) for process in family):
            paths[rank] = path
    sizes: Dict[str, int] = {}

    def is_written() -> bool:
        before = dict(sizes)
        sizes.update({path: _size(path) for path in paths.values()})
        return all(begun[path] < sizes[path] == before.get(path) for path in paths.values())

    tenacity.Retrying(
        stop=tenacity.stop_after_delay(_ANSWER_S),
        wait=tenacity.wait_fixed(0.05),
        retry=tenacity.retry_if_result(lambda is_done: not is_done),
        retry_error_callback=bool,
    )(is_written)
    stacks = {}
    for rank, path in paths.items():
        text = "\n".join(without_runner(_read_text(path, begun[path]).rstrip().splitlines()))
        stacks[rank] = f"\n{text}" if text else f" It wrote no stacks within {_ANSWER_S:g} s."
    return stacks


def _request_stacks(process: psutil.Process, path: str) -> bool:
    """Send the signal to a process that writes its stacks there; return whether it is one.

    By default the signal ends a program. It goes only to one that catches it and has the file open.
    """
    with contextlib.suppress(psutil.Error, OSError, LookupError):
        status = _read_text(f"/proc/{process.pid}/status")
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        files = [f"/proc/{process.pid}/fd/{fd}" for fd in os.listdir(f"/proc/{process.pid}/fd")]
        is_able = caught >> (STACK_SIGNAL - 1) & 1 and process.status() not in _DEAF
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


_CONNECT = f"HCCL_CONNECT_TIMEOUT and {CONNECT_SECONDS_MORE} s more"


def note_short_timeout(seconds: float, plan: Plan) -> List[str]:
    """Warn before the start, in sentences, that a slow start would be taken for a stall."""
    link, _ = _limits(plan)
    note = (
        f"stall_timeout={seconds:g} s is shorter than the {link:g} s that HCCL gives ranks to find "
        f"each other ({_CONNECT}): a slow start would be taken for a stall. "
        f"Give more than {link:g}."
    )
    return [note] if seconds < link else []


def _limits(plan: Plan) -> Tuple[float, float]:
    """Compute the seconds after which HCCL gives up linking and a collective; 0 without HCCL."""
    by_hccl = backend_class(plan.backend).needs_rank_table
    if not by_hccl or not any(uses_collectives(rank.environment) for rank in plan.ranks):
        return 0, 0
    links = [read_number(rank.environment, "HCCL_CONNECT_TIMEOUT") for rank in plan.ranks]
    waits = [read_seconds(rank.environment, "HCCL_EXEC_TIMEOUT") for rank in plan.ranks]
    # HCCL refuses to start with what is out of range, and 0 is for ever.
    link = min(given if given and 120 <= given <= 7200 else CONNECT_SECONDS for given in links)
    wait = min(math.inf if given == 0 else max(given or EXECUTION_SECONDS, 1) for given in waits)
    return link + CONNECT_SECONDS_MORE, wait


def _describe_limits(seconds: float, plan: Plan) -> List[str]:
    """Say in sentences when HCCL would have given up a job that stalled for so long."""
    link, wait = _limits(plan)
    sentences = []
    if seconds < link:
        more = f"only after {link:g} s ({_CONNECT})"
        sentences.append(f"HCCL itself gives up finding the other ranks {more}.")
    if seconds < wait < math.inf:
        step = max(wait // 68 * 68, 68)
        more = "" if step == wait else f"; on a 910A {step:g} s"
        more = f"only after {wait:g} s (HCCL_EXEC_TIMEOUT, or the script's hccl_timeout{more})"
        sentences.append(f"HCCL itself gives up a collective {more}.")
    if wait == math.inf:
        sentences.append("HCCL itself never gives up a collective (HCCL_EXEC_TIMEOUT=0).")
    return sentences
