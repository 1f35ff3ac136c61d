"""Whether ranks that all wait can ever go on, from what is known of them.

A rank that waits may have other threads that compute their way to the next collective, so that
waiting alone proves nothing. What counts is that every rank waits, that none of the collectives
has all its ranks, and that for some seconds neither that changed nor a processor was used. A rank
whose other thread sleeps all that time on something slow looks the same; then the ranks run
independent collectives in different orders, which the device does not forgive either.
"""

from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.backends.ranks import wording
from ascend_session.backends.ranks.operation import Operation

__all__ = ["IDLE_SHARE", "PATIENCE", "Situation", "Wait", "behind", "contradiction", "verdict"]

PATIENCE = 3.0
"""Seconds without any change after which waiting is judged."""

IDLE_SHARE = 0.03
"""Share of one processor's time that a process uses at most that does nothing but wait."""


class Wait(NamedTuple):
    """A rank that waits.

    Attributes:
        rank: Which.
        operation: In what.
        times: The how-manieth exchange of it; 0 while the ranks still agree on it.
    """

    rank: int
    operation: Operation
    times: int


class Situation(NamedTuple):
    """What is known of the ranks at one moment.

    Attributes:
        staying: The ranks that have not left.
        waits: All that wait; a rank can wait in several collectives, from several threads.
        seconds: For how long nothing of that has changed.
        computed: Processor seconds that each rank has used in this time; None if unknown.
    """

    staying: Sequence[int]
    waits: Sequence[Wait]
    seconds: float
    computed: Mapping[int, Optional[float]]


def verdict(situation: Situation) -> Optional[str]:
    """The sentence with which the job ends; None as long as somebody may still go on."""
    if situation.seconds < PATIENCE or not situation.waits:
        return None
    if not set(situation.staying) <= {wait.rank for wait in situation.waits}:
        return None
    if any(_moves(wait, situation) for wait in situation.waits):
        return None
    if not all(_is_idle(rank, situation) for rank in situation.staying):
        return None
    return wording.stuck(sorted(situation.waits))


def behind(wait: Wait, left: Mapping[int, Mapping[str, int]]) -> Optional[int]:
    """The first rank for which a wait is in vain, because it left before doing its part.

    Args:
        wait: Who waits where.
        left: How many exchanges of each key each rank had completed when it left.
    """
    for rank in wait.operation.ranks:
        if rank in left and (wait.times == 0 or left[rank].get(wait.operation.key, 0) < wait.times):
            return rank
    return None


def contradiction(waits: Sequence[Wait]) -> Optional[str]:
    """The sentence for ranks that are in the same exchange and mean different things by it.

    They have agreed on both before, when the tensors were others.
    """
    exchanges: Dict[Tuple[str, int], Dict[int, Operation]] = {}
    for rank, operation, times in waits:
        if times:
            exchanges.setdefault((operation.key, times), {})[rank] = operation
    for found in exchanges.values():
        if len({(operation.ranks, operation.signature) for operation in found.values()}) > 1:
            return wording.different(found)
    return None


def _same(one: Wait, other: Wait) -> bool:
    """Whether two ranks are in the same exchange; their ops may have different names."""
    known = [(wait.operation._replace(name=""), wait.times) for wait in (one, other)]
    return known[0] == known[1]


def _moves(wait: Wait, situation: Situation) -> bool:
    """Whether all ranks of it that are still there wait in the same exchange: data moves."""
    if wait.times == 0:
        return False
    there = {other.rank for other in situation.waits if _same(other, wait)}
    return set(wait.operation.ranks) & set(situation.staying) <= there


def _is_idle(rank: int, situation: Situation) -> bool:
    used = situation.computed.get(rank)
    return used is not None and used <= IDLE_SHARE * situation.seconds
