"""One collective on one rank, and what it gives the other ranks and gets of them."""

from typing import Any, Callable, Optional

from ascend_session.backends.exchange.group import Exchange, NotYetError, ProcessGroup
from ascend_session.backends.exchange.order import Iteration
from ascend_session.backends.exchange.reductions import reduce_arrays
from ascend_session.backends.exchange.wire import Operation
from ascend_session.errors import CollectiveError
from ascend_session.failures.graph_error import describe_error

Take = Callable[[int, int, Any], None]
"""Takes a rank's index, where its bytes begin in what it has, and the bytes, a uint8 array."""


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
            if group.nodes and isinstance(error, Exception):
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
        self._group = group
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
        with self._exchange("gather", data, part) as exchange:
            if exchange.result is not None:
                end = 0
                for index, size_bytes in enumerate(exchange.sizes):
                    if size_bytes:
                        take(index, 0, exchange.result[end : end + size_bytes])
                    end += size_bytes
                return
            for block, rows in exchange.split():
                own = data[block]
                rows[self.me, : len(own)] = own
                exchange.step()
                for index, size_bytes in enumerate(exchange.sizes):
                    end = min(size_bytes - block.start, rows.shape[1])
                    if end > 0:
                        take(index, block.start, rows[index, :end])

    def all_reduce(self, numbers: Any, reduction: str, dtype: str, part: str = "") -> Any:
        """Reduce the ranks' arrays, with the same bits on each.

        Args:
            numbers: This rank's, of one dimension, as long and of the same dtype on each.
            reduction: ``sum``, ``prod``, ``max`` or ``min``.
            dtype: The name of their dtype.
            part: See `share`.

        Returns:
            An array as long, which must not be written to.
        """
        if self.size == 1:
            return numbers.copy()
        with self._exchange(f"{reduction} {dtype}", numbers.view("u1"), part) as exchange:
            if exchange.result is not None:
                return exchange.result.view(numbers.dtype)
            result = self.buffers.take(numbers.shape, numbers.dtype)
            for block, rows in exchange.split(numbers.itemsize):
                own = numbers[block]
                places = rows.view(numbers.dtype)[:, : len(own)]
                places[self.me] = own
                exchange.step()
                # Each rank reduces a part of the block, in place, which all then read.
                ends = [len(own) * each // self.size for each in (self.me, self.me + 1)]
                reduce_arrays(reduction, places[:, slice(*ends)])
                exchange.step()
                result[block] = places[0]
            return result

    def _exchange(self, plan: str, data: Any, part: str) -> Exchange:
        operation = self._operation
        if part:  # of several
            if self._patience_s is not None:
                raise NotYetError
            operation = operation._replace(key=f"{operation.key}, {part}")
        return self._group.exchange(operation, plan, data, self._patience_s)
