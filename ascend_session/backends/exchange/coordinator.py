"""What the ranks of one system have told, and what follows: who goes on, and why nobody can.

It runs on the node of rank 0, in its hub's thread, and knows nothing of sockets.
"""

import itertools
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.backends.exchange.messages import (
    CANNOT_GO_ON,
    Header,
    Operation,
    conjugate,
    is_small,
    name_ranks,
    ordinal,
    rank_ended,
    rank_has_left,
)
from ascend_session.backends.exchange.reductions import check_plan, combine
from ascend_session.backends.exchange.standstill import STANDSTILL_S, Standstill
from ascend_session.text import format_count

IDLE_SHARE = 0.03
"""Share of one processor's time that a process uses at most that does nothing but wait."""


class RefusedError(Exception):
    """A process is not let in.

    Args:
        reason: The sentence for it.
        ends_job: Whether the others wait for it in vain.
    """

    def __init__(self, reason: str, ends_job: bool = False) -> None:
        super().__init__(reason)
        self.ends_job = ends_job


Place = Tuple[str, int]


class RankInfo(NamedTuple):
    """What a rank says of itself when it joins.

    Attributes:
        pid: Its process.
        node: The same for all ranks of a node, and for no others, as the job's variables have it.
        local_size: How many ranks its node has, by its own account.
        host: The address of its machine; empty on that of rank 0.
        place: Where it is connected: the node, and the number of its connection there.
    """

    pid: int
    node: str = ""
    local_size: int = 1
    host: str = ""
    place: Place = ("", 0)


class Entry(NamedTuple):
    """A rank that is ready for a collective.

    Attributes:
        operation: Which one.
        plan: How the ranks do it: ``gather``, or the reduction and dtype, ``sum float32``.
        size_bytes: How much it has for the others.
        payload: All of it, if it is so little that it travels with the agreement; else None.
    """

    operation: Operation
    plan: str
    size_bytes: int
    payload: Optional[bytes] = None


class Run(NamedTuple):
    """One execution of a collective, for which all of its ranks are ready.

    Attributes:
        number: Of the run, another one for each in the system.
        operation: Which collective.
        plan: See `Entry`.
        sizes: How many bytes each rank has for the others, in their order.
        result: What comes of it, if all that they have came with the agreement: their bytes one
            behind the other, or their reduction; else None.
    """

    number: int
    operation: Operation
    plan: str
    sizes: Tuple[int, ...]
    result: Optional[bytes] = None


class WaitingRank(NamedTuple):
    """A rank that waits in an operation, which it runs for the ``times``-th time."""

    rank: int
    operation: Operation
    times: int


class Coordinator:
    """The ranks of one system, from the first that joins to the last that leaves.

    Args:
        size: How many ranks there are.
        tell_all: Sends all ranks that have joined an event.
        start: Has the ranks of a run exchange their tensors.

    Attributes:
        ended: Why the job cannot go on; None while it can.
        ranks: Those that have joined.
        version: Another number whenever something has changed in who waits where.
        waiting_since: When somebody began to wait, if anybody waits.
        standstill: What is seen of ranks that wait.
    """

    def __init__(
        self, size: int, tell_all: Callable[[Header], None], start: Callable[[Run], None]
    ) -> None:
        self.ended: Optional[str] = None
        self.ranks: Dict[int, RankInfo] = {}
        self.version = 0
        self.waiting_since = 0.0
        self.standstill = Standstill()
        self._size = size
        self._tell_all = tell_all
        self._start = start
        self._numbers = itertools.count(1)
        self._left: List[int] = []
        self._entered: Dict[str, Dict[int, Entry]] = {}
        self._completed: Dict[Tuple[int, str], int] = {}  # runs, by rank and key
        self._running: Dict[int, Tuple[Operation, List[int]]] = {}  # by run: who is in it still

    @property
    def is_complete(self) -> bool:
        """Whether all ranks have joined."""
        return len(self.ranks) == self._size

    @property
    def is_over(self) -> bool:
        """Whether it cannot or need not go on."""
        return self.ended is not None or len(self._left) == self._size

    @property
    def staying(self) -> List[int]:
        """The ranks that have joined and not left."""
        return [rank for rank in self.ranks if rank not in self._left]

    @property
    def is_busy(self) -> bool:
        """Whether anybody waits for others, or exchanges something with them."""
        return bool(self._entered or self._running)

    @property
    def waits(self) -> List[WaitingRank]:
        """Who waits for others, and where."""
        return sorted(
            WaitingRank(rank, entry.operation, self._completed.get((rank, key), 0) + 1)
            for key, entries in self._entered.items()
            for rank, entry in entries.items()
        )

    def admit(self, rank: int, size: int, info: RankInfo) -> None:
        """Let a rank in.

        Args:
            rank: Its number.
            size: The number of ranks that it believes in.
            info: What else it says of itself.

        Raises:
            RefusedError: If it is none of this job, is there already, or joins too late.
        """
        if size != self._size:
            raise RefusedError(
                f"Rank {rank} says that the job has {size} ranks, rank 0 says {self._size}. All "
                "ranks need the same RANK_SIZE; `ascend-session launch` makes it from --nnodes and "
                "-n, which all nodes need to be given alike.",
                ends_job=not self.is_complete,
            )
        if rank not in range(size):
            raise RefusedError(
                f"This process says that it is rank {rank}; the {size} ranks of the job are 0 to "
                f"{size - 1}. Look at RANK_ID."
            )
        if self.ended is not None:
            reason = self.ended[len(CANNOT_GO_ON) * self.ended.startswith(CANNOT_GO_ON) :]
            raise RefusedError(
                f"{CANNOT_GO_ON}rank {rank} came when the others had given up: {reason}"
            )
        if rank in self._left:
            raise RefusedError(parted(rank))
        if rank in self.ranks:
            taken = self.ranks[rank]
            is_elsewhere = taken.host != info.host and taken.host
            where, also = (
                (f" on {taken.host}", ", each node a number") if is_elsewhere else ("", "")
            )
            raise RefusedError(
                f"This process says that it is rank {rank} of the job, but process "
                f"{taken.pid}{where} has that rank already. Give each process a RANK_ID of its "
                f"own{also}."
            )
        self.ranks[rank] = info

    def announce(self) -> None:
        """Tell all ranks that they are together, once the last one has joined."""
        if self.is_complete and not self.is_over:
            nodes = [self.ranks[number].node for number in range(self._size)]
            self._tell_all({"event": "together", "nodes": nodes})

    def disconnect(self, rank: int) -> None:
        """Note that a rank's connection or process has ended: a failure if it had not left."""
        if rank not in self._left:
            self.end(rank_ended(rank, self.is_complete), rank)

    def give_up(self, seconds: float) -> None:
        """End the job because a rank has waited so long for the others to join."""
        absent = [rank for rank in range(self._size) if rank not in self.ranks]
        if absent:
            nodes = self._whole_nodes(absent)
            all_of = f" (all of {name_ranks(nodes, 'node')})" if nodes else ""
            self.end(
                f"{CANNOT_GO_ON}{name_ranks(absent)} of {self._size}{all_of} did not come within "
                f"{seconds:g} s. Every rank has to open its system; look at the output of those "
                "that did not."
            )

    def enter(self, rank: int, entry: Entry) -> None:
        """Note that a rank is ready for a collective; when it is the last one, that begins."""
        operation = entry.operation
        if self.is_over or rank in self._left or rank not in operation.ranks:
            return
        self.version += 1
        if not self._entered:
            self.waiting_since = time.monotonic()
        entered = self._entered.setdefault(operation.key, {})
        first = next(iter(entered.values()), entry)
        entered[rank] = entry
        if not _is_same(first, entry):
            self._end_for_difference(entered)
        elif entry.plan != "gather" and entry.size_bytes != first.size_bytes:
            self._end_for_length(operation, entered)
        elif len(entered) == len(operation.ranks):
            self._begin(entry)
        elif self._left:
            self._check_left()

    def finish(self, rank: int) -> None:
        """Note that a rank has done its part in a run; runs take turns, as they were started."""
        for number, (_, ranks) in self._running.items():
            if rank in ranks:
                self.version += 1
                ranks.remove(rank)
                if not ranks:
                    del self._running[number]
                return

    def time_out(self, rank: int, key: str, seconds: float) -> None:
        """End the job because a rank has waited so long for the others to enter."""
        entered = self._entered.get(key, {})
        if rank in entered:
            operation = entered[rank].operation
            absent = [other for other in operation.ranks if other not in entered]
            self.end(
                f"{CANNOT_GO_ON}{name_ranks(absent)} did not come to {operation} within "
                f"{seconds:g} s, for which rank {rank} waits. All ranks have to run the same "
                "collectives in the same order."
            )

    def leave(self, rank: int) -> None:
        """Note that a rank ends its part in order; after the last one all hear that it is over."""
        if rank not in self.staying or self.is_over:
            return
        self.version += 1
        self._left.append(rank)
        for key, entered in list(self._entered.items()):
            entered.pop(rank, None)
            if not entered:
                del self._entered[key]
        if self.is_over:
            self._tell_all({"event": "over"})
            return
        for operation, ranks in self._running.values():
            if rank in ranks:
                others = [other for other in ranks if other != rank] or [rank]
                self.end(rank_has_left(rank, others, operation, 0))
                return
        self._check_left()

    def end(self, reason: str, rank: Optional[int] = None) -> None:
        """Tell all ranks that are there why the job cannot go on, once, and whose failure it is."""
        if not self.is_over:
            self.ended = reason
            self._entered.clear()
            self._running.clear()
            self._tell_all({"event": "end", "reason": reason, "rank": rank})

    def judge(self, unchanged_s: float, used_s: Mapping[int, Optional[float]]) -> None:
        """End the job if every rank waits, and none can ever go on.

        A rank that waits may have other threads that compute their way to the next collective, so
        that waiting alone proves nothing. What counts is that every rank waits, that none of the
        collectives has all its ranks, and that for some seconds neither that changed nor a
        processor was used. A rank whose other thread sleeps all that time on something slow looks
        the same; then the ranks run independent collectives in different orders, which the device
        does not forgive either.

        Args:
            unchanged_s: For how long `version` has been the same.
            used_s: Processor seconds that each rank has used in this time; None if unknown.
        """
        waits = self.waits
        if unchanged_s < STANDSTILL_S or not waits or self._running or self.is_over:
            return
        idle = [
            rank
            for rank, used in used_s.items()
            if used is not None and used <= IDLE_SHARE * unchanged_s
        ]
        if not set(self.staying) <= {wait.rank for wait in waits} & set(idle):
            return
        groups: Dict[str, List[int]] = {}
        for rank, operation, count in waits:
            times = f"for the {ordinal(count)} time" if count > 1 else "to begin it"
            ranks = groups.setdefault(f"in {operation} {times}", [])
            ranks += [rank] if rank not in ranks else []
        self.end(
            f"{CANNOT_GO_ON}the ranks wait for different collectives, and none of these has all "
            f"its ranks: {_join_groups('wait', groups)}. All ranks have to run the same "
            "collectives in the same order; look for what only some ranks do."
        )

    def _begin(self, entry: Entry) -> None:
        """Start the collective that all of its ranks have entered."""
        operation = entry.operation
        entries = self._entered.pop(operation.key)
        for rank in operation.ranks:
            counted = (rank, operation.key)
            self._completed[counted] = self._completed.get(counted, 0) + 1
        of_ranks = [entries[rank] for rank in operation.ranks]
        sizes = tuple(each.size_bytes for each in of_ranks)
        payloads = [each.payload for each in of_ranks if each.payload is not None]
        number = next(self._numbers)
        if len(payloads) == len(of_ranks):
            result = combine(entry.plan, payloads)
            self._start(Run(number, operation, entry.plan, sizes, result))
        else:
            self._running[number] = (operation, list(operation.ranks))
            self._start(Run(number, operation, entry.plan, sizes))

    def _check_left(self) -> None:
        """End the job if somebody waits for a rank that has left, and so will never enter."""
        for wait in self.waits:
            for rank in wait.operation.ranks:
                if rank in self._left:
                    same = {other.rank for other in self.waits if other[1:] == wait[1:]}
                    self.end(rank_has_left(rank, sorted(same), wait.operation, wait.times))
                    return

    def _end_for_difference(self, entered: Mapping[int, Entry]) -> None:
        """End the job because ranks do not mean the same collective."""
        operations = {rank: entered[rank].operation for rank in sorted(entered)}
        of_ranks = len({operation.ranks for operation in operations.values()}) > 1
        groups: Dict[str, List[int]] = {}
        for rank, operation in operations.items():
            among = f" among {name_ranks(operation.ranks)}" if of_ranks else ""
            text = f'"{operation.name}" as {operation.signature}{among}'
            groups.setdefault(text, []).append(rank)
        self.end(
            f"{CANNOT_GO_ON}the ranks disagree about "
            f"{next(iter(operations.values())).key}: {_join_groups('run', groups)}. All ranks have "
            "to build the same collectives in the same order, with the same shapes and types."
        )

    def _end_for_length(self, operation: Operation, entered: Mapping[int, Entry]) -> None:
        """End the job because ranks reduce arrays of other lengths under the same signature."""
        groups: Dict[str, List[int]] = {}
        for rank in sorted(entered):
            groups.setdefault(format_count(entered[rank].size_bytes, "byte"), []).append(rank)
        self.end(
            f"{CANNOT_GO_ON}the ranks do not send the same number of bytes in {operation}: "
            f"{_join_groups('send', groups)}. Use the same ascend_session on all nodes."
        )

    def _whole_nodes(self, absent: Sequence[int]) -> List[int]:
        """List the nodes of which no rank has joined, if it is clear who is on them.

        That is so if there are as many ranks on each node, and they go node by node.
        """
        counts = {info.local_size for info in self.ranks.values()}
        count = counts.pop() if len(counts) == 1 else 0
        in_order: Any = all(
            info.node == str(rank - rank % count) for rank, info in self.ranks.items() if count
        )
        if not 0 < count < self._size or not in_order:
            return []
        firsts = range(0, self._size, count)
        return [
            first // count
            for first in firsts
            if set(range(first, min(first + count, self._size))) <= set(absent)
        ]


def read_entry(header: Header, payload: bytes) -> Entry:
    """Read an entry that came in a message.

    Raises:
        One of UNREADABLE: If there is none in it.
    """
    operation = Operation.of(
        header["key"], header["name"], tuple(header["ranks"]), header["signature"]
    )
    plan, size_bytes = str(header["plan"]), int(header["size_bytes"])
    check_plan(plan, size_bytes)
    if len(payload) != size_bytes * bool(header["is_small"]):
        raise ValueError("a rank sends as many bytes as it says")
    if payload and not is_small(plan, size_bytes, len(operation.ranks)):
        raise ValueError("what travels with the agreement is small")
    return Entry(operation, plan, size_bytes, payload if header["is_small"] else None)


def _is_same(one: Entry, other: Entry) -> bool:
    mine, its = one.operation, other.operation
    return one.plan == other.plan and (
        mine is its or (mine.ranks, mine.signature) == (its.ranks, its.signature)
    )


def parted(rank: int) -> str:
    """Say that the others have ended, or not begun, what a rank wants to join."""
    return (
        f"Rank {rank} wants to join ranks that have met and parted before. All processes of a job "
        "are started together, and open and close their systems equally often."
    )


def _join_groups(verb: str, groups: Mapping[str, List[int]]) -> str:
    return "; ".join(
        f"{name_ranks(ranks)} {conjugate(verb, ranks)} {what}" for what, ranks in groups.items()
    )
