"""Which rank of a job the others wait for, and how long.

The steps of a synchronous job take equally long on all ranks. The slow rank is the one that the
others wait for. Where ranks meet, that is the last one to enter a reduction, by the time since the
second to last. On devices it is the one whose host takes longest between two runs with a
collective, by the difference to the second.
"""

import contextlib
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.text import format_count

_FIRST_STEPS = 5  # of each reduction, in which graphs are compiled and pipelines are filled
_LEAST_STEPS = 50
_SHARE = 1 / 3  # of a step, from which a rank counts as slow
_LEAST_WAIT_S = 0.005  # for a rank in a step on average: less is the machine's, not the program's


class _Reduction:
    """One reduction of the program, which runs once in each step."""

    def __init__(self, size: int) -> None:
        self.count = 0  # of runs
        self.previous_s = 0.0  # when a rank last entered
        self.ended_s = 0.0  # when the last rank did, in the latest step
        self.seconds = 0.0  # of the steps after the first ones
        self.waited_s = [0.0] * size  # for each rank
        self.slow_steps = [0] * size  # in which the wait for a rank was a large share

    def note_step(self, rank: int, wait_s: float, step_s: float) -> None:
        """Note a step, the rank for which the others waited, how long, and the time of the step."""
        self.count += 1
        if self.count > _FIRST_STEPS:
            self.seconds += step_s
            self.waited_s[rank] += wait_s
            self.slow_steps[rank] += wait_s > _SHARE * step_s


class SlowRank(NamedTuple):
    """A rank that is slow in most of the steps, and a sentence about it."""

    rank: int
    sentence: str


class Lateness:
    """The times at which the ranks enter the reductions of all of them.

    Args:
        size: How many ranks there are.

    Attributes:
        have_parts: Whether ranks have parts of their own, as they send to each other or exchange
            something in smaller groups. Then one may have more to do than others, by design.
    """

    def __init__(self, size: int) -> None:
        self.have_parts = False
        self._size = size
        self._reductions: Dict[str, _Reduction] = {}

    def note_entry(self, key: str, rank: int, is_last: bool) -> None:
        """Note that a rank enters a reduction now, and whether all others have."""
        reduction = self._reductions.get(key)
        if reduction is None:
            reduction = self._reductions[key] = _Reduction(self._size)
        now_s = time.monotonic()
        if is_last:
            reduction.note_step(rank, now_s - reduction.previous_s, now_s - reduction.ended_s)
            reduction.ended_s = now_s
        reduction.previous_s = now_s

    def note_gaps(self, key: str, gaps_s: Sequence[float], step_s: float) -> None:
        """Note how long the host of each rank took before a run, and the time of the step."""
        reduction = self._reductions.setdefault(key, _Reduction(self._size))
        second_s, longest_s = sorted(gaps_s)[-2:]
        reduction.note_step(gaps_s.index(longest_s), longest_s - second_s, step_s)

    def measure_shares(self) -> Tuple[float, ...]:
        """Return which share of the steps the others waited for each rank; empty if too few ran."""
        shares = [0.0] * self._size
        measured = self._measured()
        for each in measured:
            for rank, waited_s in enumerate(each.waited_s):
                shares[rank] = max(shares[rank], waited_s / each.seconds)
        return tuple(round(share, 3) for share in shares) if measured else ()

    def find_slow(self, first_rank: int = 0) -> Optional[SlowRank]:
        """Return the rank that is slow in most of the steps, if there is one.

        Args:
            first_rank: The number in the job of the first rank.
        """
        for each in () if self.have_parts else self._measured():
            steps = each.count - _FIRST_STEPS
            rank = max(range(self._size), key=each.slow_steps.__getitem__)
            waited_s, seconds = each.waited_s[rank], each.seconds
            is_slow = 2 * each.slow_steps[rank] > steps and waited_s > _SHARE * seconds
            if is_slow and waited_s > _LEAST_WAIT_S * steps:
                number = first_rank + rank
                return SlowRank(
                    number,
                    f"the other ranks waited for rank {number} in {each.slow_steps[rank]} of "
                    f"{format_count(steps, 'step')}, {waited_s / seconds:.0%} of their time: "
                    f"{1000 * waited_s / steps:.0f} ms of a step of "
                    f"{1000 * seconds / steps:.0f} ms. Look at what only this rank does between "
                    "two runs, how it reads its data, and where it computes.",
                )
        return None

    def _measured(self) -> List[_Reduction]:
        return [
            each
            for each in self._reductions.values()
            if each.count >= _FIRST_STEPS + _LEAST_STEPS and each.seconds > 0
        ]


_MOST_PENDING = 20_000  # runs of which not all ranks have reported yet


class ReportedGaps:
    """What the ranks of a launcher report of their hosts' time between runs.

    Args:
        ranks: Their numbers in the job.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = list(ranks)
        self._lateness = Lateness(len(self._ranks))
        self._processes: Dict[int, int] = {}
        self._pending: Dict[Tuple[int, int], Dict[int, Tuple[float, float]]] = {}

    def note(self, rank: int, pid: int, message: Mapping[str, Any]) -> None:
        """Note a message "gaps" of `ascend_session.channel`; only one process of a rank counts.

        What is not such a message is ignored.
        """
        if self._processes.setdefault(rank, pid) != pid or len(self._ranks) == 1:
            return
        with contextlib.suppress(KeyError, TypeError, ValueError):
            self._note_runs(rank, message["gaps"])
            self._lateness.have_parts = self._lateness.have_parts or bool(message["have_parts"])
        while len(self._pending) > _MOST_PENDING:  # a message was lost
            del self._pending[next(iter(self._pending))]

    def _note_runs(self, rank: int, runs: Sequence[Any]) -> None:
        for kind, number, gap_s, step_s in runs:
            key = int(kind), int(number)
            gaps = self._pending.setdefault(key, {})
            gaps[rank] = float(gap_s), float(step_s)
            if len(gaps) == len(self._ranks):
                del self._pending[key]
                gaps_s = [gaps[each][0] for each in self._ranks]
                longest_s = max(step for _, step in gaps.values())
                self._lateness.note_gaps(str(key[0]), gaps_s, longest_s)

    def measure_shares(self) -> Tuple[float, ...]:
        """As `Lateness.measure_shares`."""
        return self._lateness.measure_shares()

    def find_slow(self) -> Optional[SlowRank]:
        """As `Lateness.find_slow`."""
        return self._lateness.find_slow(self._ranks[0])
