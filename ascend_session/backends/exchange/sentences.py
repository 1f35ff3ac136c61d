"""Sentences about ranks that both the hub and the ranks use."""

from typing import Dict, Iterable, List, Sequence, Tuple

from ascend_session.backends.exchange.wire import Operation
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.text import find_runs, format_ordinal, join_words


def rank_ended(rank: int, were_all_there: bool) -> str:
    """Say that a rank's process has ended."""
    when = "" if were_all_there else " before all ranks had joined"
    return (
        f"{JOB_CANNOT_GO_ON}rank {rank} has exited{when} (its connection broke). Look at its "
        "output for the reason."
    )


def rank_failed(rank: int, reason: str) -> str:
    """Say why a rank cannot go on."""
    return f"{JOB_CANNOT_GO_ON}rank {rank} failed: {reason}"


def rank_has_left(rank: int, waiting: Sequence[int], operation: Operation, count: int = 1) -> str:
    """Say that ranks wait for one that has closed its system, and in which of their runs."""
    times = f" for the {format_ordinal(count)} time" if count > 1 else ""
    verb = "wait" if len(waiting) > 1 else "waits"
    return (
        f"{JOB_CANNOT_GO_ON}rank {rank} has left (it closed its system), but {name_ranks(waiting)} "
        f"{verb} for it in {operation}{times}. All ranks have to run each collective equally often."
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
    """Write ``rank 3``, ``rank 3 and rank 5``, ``ranks 0, 1 and 5``, ``ranks 0 to 2, 5 and 7``."""
    if len(ranks) <= 2:
        return " and ".join(f"{noun} {rank}" for rank in sorted(ranks))
    words: List[str] = []
    for run in find_runs(ranks):
        words += map(str, run) if len(run) < 3 else [f"{run[0]} to {run[-1]}"]
    return f"{noun}s {join_words(words)}"
