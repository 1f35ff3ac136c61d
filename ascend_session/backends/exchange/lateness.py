"""Who enters the reductions of a job last, and how long the others wait for it.

The steps of a synchronous job take equally long on all ranks. The slow rank is the one that the
others wait for: the last one to enter, by the time since the second to last.
"""

import time
from typing import Dict, List, Tuple

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
        self.begun_s = 0.0  # when the last of the first steps began
        self.ended_s = 0.0  # when the latest one did
        self.waited_s = [0.0] * size  # for each rank
        self.slow_steps = [0] * size  # in which the wait for a rank was a large share


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
            reduction.count += 1
            if reduction.count > _FIRST_STEPS:
                wait_s = now_s - reduction.previous_s
                reduction.waited_s[rank] += wait_s
                reduction.slow_steps[rank] += wait_s > _SHARE * (now_s - reduction.ended_s)
            else:
                reduction.begun_s = now_s
            reduction.ended_s = now_s
        reduction.previous_s = now_s

    def measure_shares(self) -> Tuple[float, ...]:
        """Return which share of the steps the others waited for each rank; empty if too few ran."""
        shares = [0.0] * self._size
        measured = self._measured()
        for each in measured:
            seconds = each.ended_s - each.begun_s
            for rank, waited_s in enumerate(each.waited_s):
                shares[rank] = max(shares[rank], waited_s / seconds)
        return tuple(round(share, 3) for share in shares) if measured else ()

    def describe(self) -> List[str]:
        """Return a sentence about a rank that is slow in most of the steps, if there is one."""
        for each in () if self.have_parts else self._measured():
            steps = each.count - _FIRST_STEPS
            rank = max(range(self._size), key=each.waited_s.__getitem__)
            waited_s, seconds = each.waited_s[rank], each.ended_s - each.begun_s
            is_slow = 2 * each.slow_steps[rank] > steps and waited_s > _SHARE * seconds
            if is_slow and waited_s > _LEAST_WAIT_S * steps:
                return [
                    f"the other ranks waited for rank {rank} in {each.slow_steps[rank]} of "
                    f"{format_count(steps, 'step')}, {waited_s / seconds:.0%} of their time: "
                    f"{1000 * waited_s / steps:.0f} ms of a step of "
                    f"{1000 * seconds / steps:.0f} ms. Look at what only this rank does between "
                    "two runs, how it reads its data, and where it computes."
                ]
        return []

    def _measured(self) -> List[_Reduction]:
        return [
            each
            for each in self._reductions.values()
            if each.count >= _FIRST_STEPS + _LEAST_STEPS and each.ended_s > each.begun_s
        ]
