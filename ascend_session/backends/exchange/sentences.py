"""Sentences about ranks that the hub and the ranks themselves say, and their words."""

from typing import Dict, Iterable, List, Sequence, Tuple

from ascend_session.backends.exchange.wire import Operation
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.text import join_words


def rank_ended(rank: int, were_all_there: bool = True) -> str:
    """Say that a rank's process has ended."""
    when = "" if were_all_there else " before all ranks were there"
    return (
        f"{JOB_CANNOT_GO_ON}rank {rank} has ended{when} (its connection broke). Look at its output "
        "for the reason."
    )


def rank_failed(rank: int, reason: str) -> str:
    """Say why a rank cannot go on."""
    return f"{JOB_CANNOT_GO_ON}rank {rank} failed: {reason}"


def rank_has_left(rank: int, waiting: Sequence[int], operation: Operation, count: int) -> str:
    """Say that ranks wait for one that has closed its system, in their ``count``-th run."""
    times = f" for the {ordinal(count)} time" if count > 1 else ""
    verb = "wait" if len(waiting) > 1 else "waits"
    return (
        f"{JOB_CANNOT_GO_ON}rank {rank} has left (it closed its system), but {name_ranks(waiting)} "
        f"{verb} for it in {operation}{times}. All ranks have to run each collective equally often."
    )


def no_answer(seconds: float) -> str:
    """Say that the hub does not answer."""
    return (
        f"{JOB_CANNOT_GO_ON}rank 0, which keeps the ranks together, has not answered for "
        f"{seconds:g} s. See whether it is stopped or overloaded."
    )


def list_groups(verb: str, ranks: Iterable[Tuple[int, str]]) -> str:
    """Write ``rank 0 runs A; ranks 1 to 3 run B`` for ranks and what each of them runs."""
    groups: Dict[str, List[int]] = {}
    for rank, what in sorted(set(ranks)):
        groups.setdefault(what, []).append(rank)
    return "; ".join(
        f"{name_ranks(same)} {verb if len(same) > 1 else f'{verb}s'} {what}"
        for what, same in groups.items()
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
    return f"{noun}s {join_words(parts)}"


def ordinal(number: int) -> str:
    """Write ``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
