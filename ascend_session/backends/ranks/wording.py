"""Every sentence that the ranks' meeting says."""

from typing import List, Mapping, Optional, Sequence, Tuple

from ascend_session.backends.ranks.operation import Operation
from ascend_session.failures.rows.stub import JOB_CANNOT_GO_ON as CANNOT_GO_ON

__all__ = [
    "CANNOT_GO_ON",
    "another_job",
    "another_size",
    "cannot_listen",
    "closed",
    "different",
    "entered_twice",
    "gone",
    "gone_early",
    "has_left",
    "listens_already",
    "missing",
    "named",
    "no_answer",
    "no_rank",
    "not_a_member",
    "open_network",
    "ordinal",
    "over",
    "rank_failed",
    "rank_taken",
    "sizes_differ",
    "stuck",
    "too_late",
    "too_long",
    "unreachable",
    "unreadable",
]

_LOOK = "Look at its output for the reason."
_LAUNCH = (
    "Start the ranks with `ascend-session launch`, which gives each job addresses of its own; on "
    "several nodes give each launcher the job's --coordinator and a --node-rank of its own."
)


def named(ranks: Sequence[int], noun: str = "rank") -> str:
    """``rank 3``, ``rank 3 and rank 5``, ``ranks 0 to 2, 5 and 7``."""
    if len(ranks) <= 2:
        return " and ".join(f"{noun} {rank}" for rank in sorted(ranks))
    parts: List[str] = []
    for first, last in _runs(ranks):
        parts += [f"{first} to {last}"] if last > first + 1 else [*map(str, range(first, last + 1))]
    return f"{noun}s " + (f"{', '.join(parts[:-1])} and {parts[-1]}" if parts[1:] else parts[0])


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


# Why a process is not let in: its own failure, without the beginning above.


def open_network(address: str) -> str:
    """The ranks are on several machines."""
    return (
        f"The ranks of this job meet at {address} and send each other their tensors over the "
        "network, unencrypted; whoever reaches their ports can run operators in their processes."
    )


def cannot_listen(address: str, is_here: bool = True) -> str:
    """The port is taken, or the address is another machine's."""
    elsewhere = "" if is_here else ", or that is no address of its machine"
    return (
        f"Rank 0 cannot listen at {address} for the other ranks: another process does, perhaps a "
        f"second one that says it is rank 0{elsewhere}. {_LAUNCH}"
    )


def listens_already(address: str) -> str:
    """The same process has been rank 0 of another job there."""
    return (
        f"This process listens at {address} already, as rank 0 of another job or with another "
        f"number of ranks. One process belongs to one job. {_LAUNCH}"
    )


def another_job(rank: int, address: str) -> str:
    """The job's id differs."""
    return f"This process wanted to meet others as rank {rank} at {address}, but the ranks of " + (
        f"another job meet there. {_LAUNCH}"
    )


def another_size(rank: int, said: int, size: int) -> str:
    """The job's size differs."""
    return (
        f"Rank {rank} says that the job has {said} ranks, rank 0 says {size}. All ranks need the "
        "same RANK_SIZE; `ascend-session launch` makes it from --nnodes and -n, which all nodes "
        "need to be given alike."
    )


def sizes_differ(rank: int, said: int, size: int) -> str:
    """The job's size differs: for those that are let in."""
    sentence = another_size(rank, said, size)
    return f"{CANNOT_GO_ON}{sentence[0].lower()}{sentence[1:]}"


def no_rank(rank: int, size: int) -> str:
    """The rank is out of range."""
    return f"This process says that it is rank {rank}; the {size} ranks of the job are 0 to " + (
        f"{size - 1}. Look at RANK_ID."
    )


def rank_taken(rank: int, pid: int, host: str = "") -> str:
    """The rank is there already, perhaps on another host."""
    where, also = (f" on {host}", ", each node a number") if host else ("", "")
    return (
        f"This process says that it is rank {rank} of the job, but process {pid}{where} is that "
        f"already. Give each process a RANK_ID of its own{also}."
    )


def over(rank: int) -> str:
    """The others have ended what this rank wants to join."""
    return (
        f"Rank {rank} wants to join ranks that have met and parted before. All processes of a job "
        "are started together, and open and close their systems equally often."
    )


def too_late(rank: int, reason: str) -> str:
    """The others have given up what this rank wants to join."""
    reason = reason[len(CANNOT_GO_ON) :] if reason.startswith(CANNOT_GO_ON) else reason
    return f"{CANNOT_GO_ON}rank {rank} came when the others had given up: {reason}"


def unreadable() -> str:
    """Something that is no message of a rank."""
    return "That is no message of a rank of this job."


# What became of the job.


def missing(ranks: Sequence[int], size: int, seconds: float, per_node: Optional[int] = None) -> str:
    """Ranks that did not come, and whole nodes of which none did."""
    nodes = [] if per_node is None else _whole_nodes(ranks, size, per_node)
    all_of = f" (all of {named(nodes, 'node')})" if nodes else ""
    return (
        f"{CANNOT_GO_ON}{named(ranks)} of {size}{all_of} did not come within {seconds:g} s. Every "
        "rank has to open its system; look at the output of those that did not."
    )


def unreachable(address: str, size: int, seconds: float) -> str:
    """Rank 0 did not come, so that nobody knows of the others."""
    return (
        f"{CANNOT_GO_ON}rank 0 of {size} did not come within {seconds:g} s: nothing answers at "
        f"{address}, where it listens for the others. Look at its output."
    )


def gone(rank: int) -> str:
    """A process has ended."""
    return f"{CANNOT_GO_ON}rank {rank} has ended (its connection broke). {_LOOK}"


def gone_early(rank: int) -> str:
    """A process has ended while the others were still to come."""
    return (
        f"{CANNOT_GO_ON}rank {rank} has ended before all ranks were there (its connection broke). "
        f"{_LOOK}"
    )


def no_answer(seconds: float) -> str:
    """Rank 0 is there and says nothing."""
    return (
        f"{CANNOT_GO_ON}rank 0, which keeps the ranks together, has not answered for "
        f"{seconds:g} s. See whether it is stopped or overloaded."
    )


def rank_failed(rank: int, sentence: str) -> str:
    """A rank said itself that it cannot go on; what already is such a sentence stays."""
    if sentence.startswith(CANNOT_GO_ON):
        return sentence
    return f"{CANNOT_GO_ON}rank {rank} failed: {sentence}"


def different(entered: Mapping[int, Operation]) -> str:
    """The ranks disagree about one collective."""
    first = next(iter(entered.values()))
    of_ranks = len({operation.ranks for operation in entered.values()}) > 1
    groups: List[Tuple[str, List[int]]] = []
    for rank in sorted(entered):
        asked = entered[rank]
        among = f" among {named(asked.ranks)}" if of_ranks else ""
        _add(groups, f'"{asked.name}" as {asked.signature}{among}', rank)
    said = "; ".join(f"{named(ranks)} {_do('run', ranks)} {what}" for what, ranks in groups)
    return (
        f"{CANNOT_GO_ON}the ranks do not mean the same with {first.key}: {said}. All ranks have to "
        "build the same collectives in the same order, with the same shapes and types."
    )


def too_long(operation: Operation, absent: Sequence[int], rank: int, seconds: float) -> str:
    """Ranks that did not begin a collective in time."""
    return (
        f'{CANNOT_GO_ON}{named(absent)} did not come to "{operation.name}" '
        f"({operation.signature}) within {seconds:g} s, for which rank {rank} waits. All ranks "
        "have to run the same collectives in the same order."
    )


def has_left(left: int, waiting: Sequence[int], operation: Operation, count: int) -> str:
    """Somebody waits for a rank that has closed its system.

    Args:
        left: The rank that has left.
        waiting: Who waits.
        operation: In what.
        count: How often it was run there, this time included; 0 if it was not yet begun.
    """
    times = f" for the {ordinal(count)} time" if count else ""
    return (
        f"{CANNOT_GO_ON}rank {left} has left (it closed its system), but {named(waiting)} "
        f'{_do("wait", waiting)} for it in "{operation.name}" ({operation.signature}){times}. All '
        "ranks have to run each collective equally often."
    )


def stuck(waits: Sequence[Tuple[int, Operation, int]]) -> str:
    """Every rank waits, and no two of a collective's ranks will ever meet."""
    groups: List[Tuple[str, List[int]]] = []
    for rank, operation, count in waits:
        times = f"for the {ordinal(count)} time" if count else "to begin it"
        _add(groups, f'in "{operation.name}" ({operation.signature}) {times}', rank)
    said = "; ".join(f"{named(ranks)} {_do('wait', ranks)} {where}" for where, ranks in groups)
    return (
        f"{CANNOT_GO_ON}the ranks wait for different collectives, and none of these has all its "
        f"ranks: {said}. All ranks have to run the same collectives in the same order; look for "
        "what only some ranks do."
    )


# What one call asked that cannot be.


def closed(operation: Operation) -> str:
    """This rank is not, or not any more, with the others."""
    return f'This rank has left the others, so that it cannot begin "{operation.name}".'


def entered_twice(operation: Operation) -> str:
    """Two threads run the same op for the first time at the same moment."""
    return (
        f'"{operation.name}" was begun by two threads of this rank at the same time; the other '
        "ranks cannot tell the two apart. Run it in one thread."
    )


def not_a_member(operation: Operation, rank: int) -> str:
    """The op is none of this rank's."""
    return f'"{operation.name}" is run by {named(operation.ranks)}; this is rank {rank}.'


def _do(verb: str, ranks: Sequence[int]) -> str:
    return verb if len(ranks) > 1 else f"{verb}s"


def _add(groups: List[Tuple[str, List[int]]], what: str, rank: int) -> None:
    for known, ranks in groups:
        if known == what:
            if rank not in ranks:
                ranks.append(rank)
            return
    groups.append((what, [rank]))


def _whole_nodes(ranks: Sequence[int], size: int, per_node: int) -> List[int]:
    absent = set(ranks)
    nodes = [range(first, min(first + per_node, size)) for first in range(0, size, per_node)]
    return [number for number, node in enumerate(nodes) if absent.issuperset(node)]


def _runs(ranks: Sequence[int]) -> List[Tuple[int, int]]:
    runs: List[Tuple[int, int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    return runs
