"""Sentences about ranks that the hub and the ranks themselves say, and their words."""

from typing import List, Mapping, Sequence

from ascend_session.backends.exchange.wire import Operation
from ascend_session.failures.table import JOB_CANNOT_GO_ON

CANNOT_GO_ON = JOB_CANNOT_GO_ON


def rank_ended(rank: int, were_all_there: bool = True) -> str:
    """Say that a rank's process has ended."""
    when = "" if were_all_there else " before all ranks were there"
    return (
        f"{CANNOT_GO_ON}rank {rank} has ended{when} (its connection broke). Look at its output for "
        "the reason."
    )


def rank_failed(rank: int, reason: str) -> str:
    """Say why a rank cannot go on."""
    return f"{CANNOT_GO_ON}rank {rank} failed: {reason}"


def rank_has_left(rank: int, waiting: Sequence[int], operation: Operation, count: int) -> str:
    """Say that ranks wait for one that has closed its system, in their ``count``-th run."""
    times = f" for the {ordinal(count)} time" if count > 1 else ""
    return (
        f"{CANNOT_GO_ON}rank {rank} has left (it closed its system), but {name_ranks(waiting)} "
        f"{conjugate('wait', waiting)} for it in {operation}{times}. All ranks have to run each "
        "collective equally often."
    )


def ranks_parted(rank: int) -> str:
    """Say that the others have ended what a rank wants to join."""
    return (
        f"Rank {rank} wants to join ranks that have met and parted before. All processes of a job "
        "are started together, and open and close their systems equally often."
    )


def no_answer(seconds: float) -> str:
    """Say that the hub does not answer."""
    return (
        f"{CANNOT_GO_ON}rank 0, which keeps the ranks together, has not answered for "
        f"{seconds:g} s. See whether it is stopped or overloaded."
    )


def list_groups(verb: str, groups: Mapping[str, List[int]]) -> str:
    """Write ``rank 0 runs A; ranks 1 to 3 run B``."""
    return "; ".join(
        f"{name_ranks(ranks)} {conjugate(verb, ranks)} {what}" for what, ranks in groups.items()
    )


def name_ranks(ranks: Sequence[int], noun: str = "rank") -> str:
    """Write ``rank 3``, ``rank 3 and rank 5``, ``ranks 0 to 2, 5 and 7``."""
    if len(ranks) <= 2:
        return " and ".join(f"{noun} {rank}" for rank in sorted(ranks))
    parts: List[str] = []
    numbers = sorted(ranks)
    while numbers:
        count = next(n for n in range(1, len(numbers) + 1) if numbers[n:][:1] != [numbers[0] + n])
        run, numbers = numbers[:count], numbers[count:]
        parts += [f"{run[0]} to {run[-1]}"] if count > 2 else map(str, run)
    return f"{noun}s " + (f"{', '.join(parts[:-1])} and {parts[-1]}" if parts[1:] else parts[0])


def conjugate(verb: str, ranks: Sequence[int]) -> str:
    """Write ``waits`` for one rank, ``wait`` for several."""
    return verb if len(ranks) > 1 else f"{verb}s"


def ordinal(number: int) -> str:
    """Write ``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
