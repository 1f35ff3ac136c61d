"""Whether a job stalls: no rank writes anything or uses a CPU. If so, what each rank does then."""

import os
import time
from typing import Dict, List, Mapping, Sequence

import psutil

from ascend_session.launcher.cleaning import clean
from ascend_session.launcher.hccl_limits import limits_in_words
from ascend_session.launcher.plan import Plan
from ascend_session.launcher.pump import Pump
from ascend_session.launcher.stacks import stacks_of, text_of
from ascend_session.launcher.usage import Meter, Processes

__all__ = ["StallWatch"]

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
        """Seconds until `look` should be called; before that it does nothing."""
        return max(0.0, self._next - time.monotonic())

    def look(self, alive: Mapping[int, int]) -> List[str]:
        """Looks whether any rank has shown a sign of life within the time.

        The end of a rank is one too. If this was not called for long, because the launcher or the
        machine was stopped, nothing is known of that time and the wait begins anew.

        Returns:
            If none has, what each does, a sentence or a block of lines for each; else nothing.
        """
        now = time.monotonic()
        if now < self._next:
            return []
        was_away = now - self._looked > max(3 * self._interval, min(1.0, self._seconds / 2))
        is_new = was_away or not alive or dict(alive) != self._alive
        if is_new:
            self._sign, self._alive = now, dict(alive)
        self._sign = max([self._sign, *(self._pump.heard_at(rank) or 0.0 for rank in alive)])
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
        said = [f"No rank has written anything or used a CPU for {self._seconds:g} s."]
        # Before the stacks, whose signal wakes whoever writes them.
        blocks = {rank: self._said_of(rank, families[rank], now) for rank in sorted(families)}
        stacks = stacks_of(self._plan, families)
        said += [block + stacks.get(rank, "") for rank, block in blocks.items()]
        ended = [str(one.rank) for one in self._plan.ranks if one.rank not in self._alive]
        if ended:
            said.append(f"Ended with exit code 0 before that: rank {', '.join(ended)}.")
        return said + limits_in_words(self._seconds, self._plan)

    def _said_of(self, rank: int, family: Sequence[psutil.Process], now: float) -> str:
        heard = self._pump.heard_at(rank)
        wrote = "has written nothing" if heard is None else f"last wrote {now - heard:.0f} s ago"
        used = f"last used a CPU {now - self._meters[rank].last:.0f} s ago"
        processes = [_described(process) for process in family[:_MOST_NAMED]]
        processes += [f"{len(family) - _MOST_NAMED} more"] if len(family) > _MOST_NAMED else []
        return f"Rank {rank} {wrote} and {used}: {', '.join(processes) or 'its process has ended'}."


def _described(process: psutil.Process) -> str:
    try:
        words = " ".join(" ".join(process.cmdline()).split()) or process.name()
        named = clean(os.fsencode(words), colour=False).decode()[:_LONGEST_COMMAND]
        place = text_of(f"/proc/{process.pid}/wchan").strip("0")
        state = process.status() + (f" in {place}" if place else "")
        return f"process {process.pid} ({named}) is {state}, threads: {process.num_threads()}"
    except psutil.Error:
        return f"process {process.pid} has ended"
