"""One rank's part in what the ranks do together, from the opening of its system to its end.

The n-th run of an operator on one rank belongs to the n-th on the others. So their order must be
the same, and no two of them may go at once.
"""

import os
import threading
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple, Optional, Set, Tuple

from ascend_session.backends.exchange.memory import Buffers
from ascend_session.backends.exchange.peer import Go, NotYetError, Peer, Rank
from ascend_session.backends.exchange.reductions import make_plan, reduce_arrays
from ascend_session.backends.exchange.sentences import rank_failed
from ascend_session.backends.exchange.wire import Operation
from ascend_session.cluster.variables import RANK_FOLDER
from ascend_session.errors import CollectiveError
from ascend_session.failures.graph_error import describe_error
from ascend_session.failures.record_writer import remove_record, write_record

_LATE_S = 10.0  # for which nothing happens before a predecessor counts as missing

Take = Callable[[int, int, Any], None]
"""Takes a rank's index, where its bytes begin in what it has, and the bytes, a uint8 array."""


class Iteration(NamedTuple):
    """One iteration of a loop that runs an operator in each of its iterations.

    Attributes:
        loop: Another number for each run of the loop.
        number: Of the iteration, from 0.
    """

    loop: int
    number: int


class RunOrder:
    """Which operator may run, on this rank."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: Set[str] = set()
        self._next: Dict[Tuple[str, str], Iteration] = {}
        self._ended_count = 0
        self._is_stopped = False

    def begin(self, key: str, name: str, iteration: Optional[Iteration]) -> None:
        """Wait until a run may go, or until `stop`.

        Args:
            key: What the ranks know the run by; one at a time.
            name: The operator's name in the graph.
            iteration: For loops whose iterations begin in any order; None where they cannot.

        Raises:
            CollectiveError: If two runs overlap whose order is not known.
        """
        with self._changed:
            while not self._is_stopped and not self._is_free(key, name, iteration):
                if iteration is None or (not iteration.number and key in self._running):
                    raise overlap(name)
                if not self._wait_for_end() and key not in self._running:
                    raise _missing(name, iteration)
            self._running.add(key)
            if iteration is not None:
                self._next[key, name] = iteration._replace(number=iteration.number + 1)

    def end(self, key: str) -> None:
        """Note that a run is over."""
        with self._changed:
            self._running.discard(key)
            self._ended_count += 1
            self._changed.notify_all()

    def stop(self) -> None:
        """Let all go that wait; there is nothing to wait for any more."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _wait_for_end(self) -> bool:
        """Wait until some run ends, and tell whether one did, be it while the wait timed out."""
        before = self._ended_count
        return self._changed.wait_for(
            lambda: self._is_stopped or self._ended_count > before, _LATE_S
        )

    def _is_free(self, key: str, name: str, iteration: Optional[Iteration]) -> bool:
        if key in self._running:
            return False
        return iteration is None or not iteration.number or self._next.get((key, name)) == iteration


def overlap(name: str) -> CollectiveError:
    """Make the error for two runs that overlap."""
    return CollectiveError(
        f'"{name}" began again before it had ended: two threads run it, or a loop does whose '
        "iterations do not wait for each other. The other ranks could not tell the two apart.",
        hint="Run it in one thread; give tf.while_loop parallel_iterations=1.",
    )


def _missing(name: str, iteration: Iteration) -> CollectiveError:
    return CollectiveError(
        f'"{name}" began iteration {iteration.number} of its loop, but the one before does not '
        "come: this TensorFlow begins them in any order, and one at a time.",
        hint="Give tf.while_loop parallel_iterations=1.",
    )


class ProcessGroup:
    """This rank and the others.

    Args:
        rank: This process's rank in the job.
        who: How it meets the others; None for one rank alone.
        timeout_s: How long the others may take to join.
        limit_s: How long a collective may take; None for as long as it likes.

    Attributes:
        nodes: The node of each rank, while they are together; empty for one rank.
        buffers: Memory for results.
        limit_s: How long a collective may take; None for as long as it likes.
        peer: The connection with the others; None for one rank.
        order: In which order collectives run.
        ended: Why this rank takes part in none any more; else empty.
    """

    def __init__(
        self,
        rank: int,
        who: Optional[Rank] = None,
        timeout_s: float = 0,
        limit_s: Optional[float] = None,
    ) -> None:
        self.rank = rank
        self.nodes: List[str] = []
        self.buffers = Buffers()
        self.limit_s = limit_s
        self.peer = None if who is None else Peer(who, timeout_s)
        self.order = RunOrder()
        self._lock = threading.Lock()
        self.ended = ""

    def open(self) -> None:
        """Wait until all ranks are there. A failure of an earlier system counts no more.

        Raises:
            InitializationError: Naming the ranks that did not come, or saying what is wrong here.
        """
        remove_record(os.environ.get(RANK_FOLDER, ""))
        if self.peer is not None:
            self.peer.join()
            self.nodes = self.peer.nodes

    def close(self, failure: Optional[BaseException] = None) -> None:
        """Leave the others in order.

        Args:
            failure: What ends this rank's work, if it was not done to its end. The others hear it
                at once, for they would wait for this rank.
        """
        if failure is not None:
            self.fail(describe_error(failure), failure)
        with self._lock:
            self.ended = self.ended or "This rank has closed its system."
        self.order.stop()
        if self.peer is not None:
            self.peer.leave()

    def fail(self, reason: str, error: Optional[BaseException] = None) -> None:
        """Say to all ranks, this one too, that this one cannot go on.

        Args:
            reason: Why, for the others.
            error: The exception, which is recorded for the launcher before the others hear of it:
                they fail because of it, and the cause has to be known before what follows.
        """
        sentence, folder = rank_failed(self.rank, reason), os.environ.get(RANK_FOLDER)
        with self._lock:
            is_first = not self.ended and not (self.peer and self.peer.ended)
            self.ended = self.ended or sentence
        if is_first and folder and error is not None:
            write_record(error, folder)
        self.order.stop()
        if is_first and self.peer is not None:
            self.peer.fail(reason)


class Collective:
    """One run of a collective on this rank.

    Args:
        group: This rank and the others.
        operation: Which one.
        work: Gets a communicator to the ranks that take part. It is called again if they were not
            ready before, and until then does nothing that must not be done twice.
        iteration: In which it runs, see `RunOrder`.
    """

    def __init__(
        self,
        group: ProcessGroup,
        operation: Operation,
        work: "Callable[[Communicator], Any]",
        iteration: Optional[Iteration] = None,
    ) -> None:
        self._has_begun = False
        self._group = group
        self._operation = operation
        self._work = work
        self._iteration = iteration

    @property
    def is_entered(self) -> bool:
        """Whether the other ranks may count on it: it has begun, and their system is still open."""
        return self._has_begun and not self._group.ended

    def run(self, patience_s: Optional[float] = None) -> Any:
        """Do it.

        Args:
            patience_s: How long the other ranks may take to be ready for it; None for as long as
                the group's limit.

        Raises:
            NotYetError: If they take longer, or if it is more than one exchange, or a large one.
                The others may see that this rank is ready, and so `run` has to be called again.
            CollectiveError: If the job cannot go on, with the sentence that says why, or if this
                rank does what the others cannot follow, which ends the job for all.
        """
        group, operation = self._group, self._operation
        try:
            if not self._has_begun:
                group.order.begin(operation.key, operation.name, self._iteration)
                self._has_begun = True
            if group.ended:
                raise CollectiveError(group.ended)
            results = self._work(Communicator(group, operation, patience_s))
        except NotYetError:
            raise
        except BaseException as error:
            if self._has_begun:
                group.order.end(operation.key)
            if group.peer is not None and isinstance(error, Exception):
                # The others would wait for a rank that does not come.
                message = getattr(error, "message", None) or describe_error(error)
                group.fail(f'in "{operation.name}": {message}', error)
            raise
        group.order.end(operation.key)
        return results


class Communicator:
    """The ranks that take part in one collective.

    Attributes:
        ranks: Their world ranks, ascending.
        size: How many they are.
        me: This process's index among them.
        buffers: Memory for results.
    """

    def __init__(
        self, group: ProcessGroup, operation: Operation, patience_s: Optional[float]
    ) -> None:
        self.ranks = operation.ranks
        self.size = len(operation.ranks)
        self.me = operation.ranks.index(group.rank)
        self.buffers = group.buffers
        self._peer = group.peer
        self._limit_s = group.limit_s
        self._operation = operation
        self._patience_s = patience_s

    def share(self, data: Any, take: Take, part: str = "") -> None:
        """Give all ranks what each of them has.

        Args:
            data: What this one has, uint8 array of one dimension; each may have another length.
            take: Called for each rank that has anything, block by block. The bytes it gets are
                only there during the call.
            part: Which of several exchanges of the same collective this is.
        """
        if self.size == 1:
            take(0, 0, data)
            return
        with self._exchange("gather", data, part) as go:
            if go.result is not None:
                end = 0
                for index, size_bytes in enumerate(go.sizes):
                    if size_bytes:
                        take(index, 0, go.result[end : end + size_bytes])
                    end += size_bytes
                return
            block_bytes = go.blocks.block_bytes
            for block in go.blocks.numbers:
                own = data[block * block_bytes : (block + 1) * block_bytes]
                go.blocks.place(self.me, block)[:] = own
                go.step()
                for index in range(self.size):
                    place = go.blocks.place(index, block)
                    if len(place):
                        take(index, block * block_bytes, place)

    def all_reduce(self, numbers: Any, reduction: str, part: str = "") -> Any:
        """Reduce the ranks' arrays, with the same bits on each.

        Args:
            numbers: This rank's, of one dimension, as long and of the same dtype on each.
            reduction: ``sum``, ``prod``, ``max`` or ``min``.
            part: See `share`.

        Returns:
            An array as long, which must not be written to.
        """
        import numpy as np

        if self.size == 1:
            return numbers.copy()
        dtype = numbers.dtype
        with self._exchange(make_plan(reduction, dtype), numbers.view(np.uint8), part) as go:
            if go.result is not None:
                return go.result.view(dtype)
            result = self.buffers.take(numbers.shape, dtype)
            count = go.blocks.block_bytes // dtype.itemsize
            for block in go.blocks.numbers:
                elements = slice(block * count, (block + 1) * count)
                self._reduce_block(go, block, numbers[elements], reduction, result[elements])
            return result

    def _reduce_block(self, go: Go, block: int, numbers: Any, reduction: str, result: Any) -> None:
        """Reduce one block: each rank a part of it, in place, which all then read."""
        places = [go.blocks.place(index, block).view(numbers.dtype) for index in range(self.size)]
        ends = [len(numbers) * index // self.size for index in range(self.size + 1)]
        parts = [slice(begin, end) for begin, end in zip(ends, ends[1:])]
        own = parts[self.me]
        places[self.me][:] = numbers
        go.step()
        places[self.me][own] = reduce_arrays(reduction, [place[own] for place in places])
        go.step()
        for place, part in zip(places, parts):
            result[part] = place[part]

    def _exchange(self, plan: str, data: Any, part: str) -> ContextManager[Go]:
        operation = self._operation
        if part:  # of several
            if self._patience_s is not None:
                raise NotYetError
            operation = operation._replace(key=f"{operation.key}, {part}")
        assert self._peer is not None
        return self._peer.exchange(operation, plan, data, self._limit_s, self._patience_s)
