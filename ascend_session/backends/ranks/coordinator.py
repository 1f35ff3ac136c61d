"""What the ranks of one system have told rank 0, and what follows from it.

Knows nothing of gRPC and of threads: the service calls one method at a time, and sends each seat
the events that are put for it.
"""

import itertools
import queue
import threading
import time
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.backends.ranks import wording
from ascend_session.backends.ranks.endpoint import Endpoint
from ascend_session.backends.ranks.operation import Operation
from ascend_session.backends.ranks.verdict import Wait, behind, contradiction

__all__ = ["Coordinator", "Numbers", "RefusedError", "Seat"]


class RefusedError(Exception):
    """A process is not let in; the argument is the sentence for it."""


class Numbers(NamedTuple):
    """Counters of a job, which go on over all its systems."""

    groups: Iterator[int]
    instances: Iterator[int]

    @classmethod
    def fresh(cls) -> "Numbers":
        """Both begin with 1."""
        return cls(itertools.count(1), itertools.count(1))


class Seat:
    """The place of one rank.

    Attributes:
        token: What this process has given as its mark, so that no other speaks for it.
        pid: Its process.
        endpoint: Where it is.
        used: Processor seconds that it has said to have used, in which `Coordinator.version`, and
            when that was heard (`time.monotonic`); None as long as it has not.
        events: What it is still to be sent; None ends its stream.
        is_open: Whether its stream is.
    """

    def __init__(self, token: str, pid: int, endpoint: Endpoint) -> None:
        self.token = token
        self.pid = pid
        self.endpoint = endpoint
        self.used: Optional[Tuple[float, int, float]] = None
        self.events: queue.Queue[Optional[Dict[str, Any]]] = queue.Queue()
        self.is_open = True
        self.serial = 0  # of its last report


class Coordinator:
    """The ranks of one system, from the first that comes to the last that leaves.

    Attributes:
        ended: Why the job cannot go on; None while it can.
        version: Another number whenever something has changed in who waits where.
        settled: Set once it is over and every rank has been sent its last event.
    """

    def __init__(self, size: int, numbers: Numbers) -> None:
        self.ended: Optional[str] = None
        self.version = 0
        self.settled = threading.Event()
        self._size = size
        self._numbers = numbers
        self._groups: Dict[Tuple[int, ...], int] = {}
        self._seats: Dict[int, Seat] = {}
        self._left: Dict[int, Mapping[str, int]] = {}
        self._entered: Dict[str, Dict[int, Operation]] = {}
        self._reported: Dict[int, List[Wait]] = {}

    @property
    def is_over(self) -> bool:
        """Whether it cannot or need not go on."""
        return self.ended is not None or len(self._left) == self._size

    @property
    def staying(self) -> Dict[int, Seat]:
        """The ranks that are there and have not left."""
        return {rank: seat for rank, seat in self._seats.items() if rank not in self._left}

    @property
    def waits(self) -> List[Wait]:
        """Who waits where, also for others to agree."""
        waits = [wait for reported in self._reported.values() for wait in reported]
        for entered in self._entered.values():
            waits += [Wait(rank, operation, 0) for rank, operation in entered.items()]
        return waits

    def come(self, rank: int, token: str, pid: int, endpoint: Endpoint = Endpoint()) -> Seat:  # noqa: B008
        """A rank joins; when it is the last one, all hear that they are together.

        Raises:
            RefusedError: If it is there already, or came too late.
        """
        if self.ended is not None:
            raise RefusedError(wording.too_late(rank, self.ended))
        if rank in self._seats:
            seat = self._seats[rank]
            elsewhere = "" if seat.endpoint.machine == endpoint.machine else seat.endpoint.host
            taken = wording.rank_taken(rank, seat.pid, elsewhere)
            raise RefusedError(wording.over(rank) if self.is_over or not seat.is_open else taken)
        seat = self._seats[rank] = Seat(token, pid, endpoint)
        seat.events.put({"event": "welcome"})
        if len(self._seats) == self._size:
            places = [self._seats[number].endpoint for number in range(self._size)]
            self._tell({"event": "together", "pid": self._seats[0].pid, "places": places})
        return seat

    def knows(self, rank: int, token: str) -> bool:
        """Whether this is the process that joined as the rank."""
        return rank in self._seats and self._seats[rank].token == token

    def cut(self, rank: int) -> None:
        """A rank's stream has ended, or its process has: a failure if it had not left."""
        seat = self._seats[rank]
        seat.is_open = False
        seat.events.put(None)
        if rank not in self._left and not self.is_over:
            early = len(self._seats) < self._size
            self.end(wording.gone_early(rank) if early else wording.gone(rank))
        if self.is_over and not any(seat.is_open for seat in self._seats.values()):
            self.settled.set()

    def give_up(self, seconds: float) -> None:
        """A rank has waited so long for the others to come."""
        absent = [rank for rank in range(self._size) if rank not in self._seats]
        if absent:
            self.end(wording.missing(absent, self._size, seconds, self._per_node()))

    def give_up_on(self, rank: int, said: int) -> None:
        """A rank of this job means another size: it cannot come, for whom the others would wait."""
        if len(self._seats) < self._size:
            self.end(wording.sizes_differ(rank, said, self._size))

    def use(self, rank: int, seconds: float) -> None:
        """What a rank says that it has computed until now."""
        self._seats[rank].used = (seconds, self.version, time.monotonic())

    def enter(self, rank: int, operation: Operation) -> None:
        """A rank is ready for a collective; when it is the last one, all get the numbers."""
        self.version += 1
        entered = self._entered.setdefault(operation.key, {})
        entered[rank] = operation
        if len({(other.ranks, other.signature) for other in entered.values()}) > 1:
            self.end(wording.different(entered))
        elif set(operation.ranks) <= set(entered):
            self._number(operation)
        else:
            self._judge_left()

    def too_long(self, rank: int, key: str, seconds: float) -> None:
        """A rank has waited so long for the others to enter."""
        entered = self._entered.get(key, {})
        if rank in entered:
            absent = [other for other in entered[rank].ranks if other not in entered]
            self.end(wording.too_long(entered[rank], absent, rank, seconds))

    def report(self, rank: int, serial: int, waits: List[Wait]) -> None:
        """In what a rank waits now; what it said before and arrives later counts no more."""
        if serial > self._seats[rank].serial:
            self._seats[rank].serial = serial
            self._reported[rank] = waits
            self.version += 1
            found = contradiction(self.waits)
            if found is not None:
                self.end(found)
            self._judge_left()

    def leave(self, rank: int, counts: Mapping[str, int]) -> None:
        """A rank ends its part in order; when it is the last one, all hear that it is over."""
        self.version += 1
        self._left[rank] = counts
        self._reported.pop(rank, None)
        for entered in self._entered.values():
            entered.pop(rank, None)
        if self.is_over:
            self._tell({"event": "over"}, last=True)
        else:
            self._tell({"event": "left", "rank": rank, "counts": dict(counts)})
            self._judge_left()

    def end(self, sentence: str) -> None:
        """The job cannot go on: all that are there hear why, once."""
        if not self.is_over:
            self.ended = sentence
            self._entered.clear()
            self._reported.clear()
            self._tell({"event": "end", "said": sentence}, last=True)

    def _per_node(self) -> Optional[int]:
        """How many ranks each node has, if they are as many on each and go node by node."""
        counts = {seat.endpoint.local_size for seat in self._seats.values()}
        count = counts.pop() if len(counts) == 1 else 0
        if not 0 < count < self._size:
            return None
        firsts = {str(rank - rank % count): seat for rank, seat in self._seats.items()}
        is_so = all(first == seat.endpoint.node for first, seat in firsts.items())
        return count if is_so else None

    def _number(self, operation: Operation) -> None:
        del self._entered[operation.key]
        if operation.ranks not in self._groups:
            self._groups[operation.ranks] = next(self._numbers.groups)
        numbers = [self._groups[operation.ranks], next(self._numbers.instances)]
        for rank in operation.ranks:
            event = {"event": "agreed", "key": operation.key, "numbers": numbers}
            self._seats[rank].events.put(event)

    def _judge_left(self) -> None:
        """Ends the job if somebody waits for a rank that has left too early."""
        waits = self.waits
        for wait in sorted(waits):
            left = behind(wait, self._left)
            if left is not None:
                same = {w.rank for w in waits if w[1:] == wait[1:]}
                self.end(wording.has_left(left, sorted(same), wait.operation, wait.times))
                return

    def _tell(self, event: Dict[str, Any], last: bool = False) -> None:
        for seat in self._seats.values():
            seat.events.put(event)
            if last:
                seat.events.put(None)
