"""One run of a collective on this rank, and its exchanges with the other ranks."""

from typing import Any, Callable, ContextManager, Iterator, Optional, Sequence, Tuple

from ascend_session.backends.exchange.group import Exchange, NotYetError, ProcessGroup
from ascend_session.backends.exchange.memory import PLACE_BYTES
from ascend_session.backends.exchange.order import Iteration
from ascend_session.backends.exchange.reductions import reduce_arrays
from ascend_session.backends.exchange.wire import Operation
from ascend_session.errors import AscendError, CollectiveError
from ascend_session.failures.reason import describe_error

Part = Tuple[int, int, Any]
"""Part of a rank's data: the rank's index, the first byte, and the uint8 array to copy it to."""

_BLOCK_BYTES = 2 << 20  # that one rank exchanges at once at most


class Collective:
    """One run of a collective on this rank.

    Args:
        group: This rank and the others.
        operation: Which one.
        work: Function of a communicator of its ranks. It is called again after a `NotYetError`, so
            it does nothing before its first exchange that must not be done twice.
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
        """Whether the other ranks rely on it: it has begun, and their system is still open."""
        return self._has_begun and not self._group.ended

    def run(self, timeout_s: Optional[float] = None) -> Any:
        """Run it and return what ``work`` returns.

        Args:
            timeout_s: After how long to give up for now; None for the group's limit.

        Raises:
            NotYetError: After ``timeout_s``, or if it is more than one exchange, or a large one.
                The others may know that this rank has entered, so `run` has to be called again.
            CollectiveError: If the job cannot continue. Whatever ``work`` raises ends it for all.
        """
        group, operation = self._group, self._operation
        try:
            if not self._has_begun:
                group.order.begin(operation.key, operation.name, self._iteration)
                self._has_begun = True
            if group.ended:
                raise CollectiveError(group.ended)
            results = self._work(Communicator(group, operation, timeout_s))
        except NotYetError:
            raise
        except BaseException as error:
            if self._has_begun:
                group.order.end(operation.key)
            if group.nodes and isinstance(error, Exception):
                # The others would wait for a rank that does not come.
                # An error of this package is a sentence without its type.
                message = error.message if isinstance(error, AscendError) else describe_error(error)
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
        self, group: ProcessGroup, operation: Operation, timeout_s: Optional[float]
    ) -> None:
        self.ranks = operation.ranks
        self.size = len(operation.ranks)
        self.me = operation.ranks.index(group.rank)
        self.buffers = group.buffers
        self._group = group
        self._operation = operation
        self._timeout_s = timeout_s

    def share(self, data: Any, parts: Sequence[Part], name: str = "") -> None:
        """Give each rank's data to all.

        Args:
            data: This rank's, uint8 array of one dimension; each may have another length.
            parts: What this rank needs of it.
            name: Name of this exchange if the collective has several.
        """
        if self.size == 1:
            for _, begin, target in parts:
                target[:] = data[begin : begin + len(target)]
            return
        with self._exchange("gather", data, name) as exchange:
            if exchange.result is not None:
                for index, begin, target in parts:
                    begin += sum(exchange.sizes[:index])
                    target[:] = exchange.result[begin : begin + len(target)]
                return
            for block, rows in self._split(exchange):
                chunk = data[block]
                rows[self.me, : len(chunk)] = chunk
                self._group.complete_step(exchange)
                for index, begin, target in parts:
                    first, last = max(begin, block.start), min(begin + len(target), block.stop)
                    if first < last:
                        piece = rows[index, first - block.start : last - block.start]
                        target[first - begin : last - begin] = piece

    def all_reduce(self, numbers: Any, reduction: str, dtype: str, name: str = "") -> Any:
        """Reduce the ranks' arrays, with the same bits on each.

        Args:
            numbers: This rank's, of one dimension, as long and of the same dtype on each.
            reduction: ``sum``, ``prod``, ``max`` or ``min``.
            dtype: The name of their dtype.
            name: See `share`.

        Returns:
            An array as long, which must not be written to.
        """
        if self.size == 1:
            return numbers.copy()
        with self._exchange(f"{reduction} {dtype}", numbers.view("u1"), name) as exchange:
            if exchange.result is not None:
                return exchange.result.view(numbers.dtype)
            result = self.buffers.take(numbers.shape, numbers.dtype)
            for block, rows in self._split(exchange, numbers.itemsize):
                chunk = numbers[block]
                places = rows.view(numbers.dtype)[:, : len(chunk)]
                places[self.me] = chunk
                self._group.complete_step(exchange)
                # Each rank reduces a part of the block, in place, which all then read.
                ends = [len(chunk) * each // self.size for each in (self.me, self.me + 1)]
                reduce_arrays(reduction, places[:, slice(*ends)])
                self._group.complete_step(exchange)
                result[block] = places[0]
            return result

    def _exchange(self, plan: str, data: Any, name: str) -> ContextManager[Exchange]:
        operation = self._operation
        if name:  # of several
            if self._timeout_s is not None:
                raise NotYetError
            operation = operation._replace(key=f"{operation.key}, {name}")
        return self._group.exchange(operation, plan, data, self._timeout_s)

    def _split(self, exchange: Exchange, itemsize: int = 1) -> Iterator[Tuple[slice, Any]]:
        """Split an exchange through the shared memory into blocks, the same on all ranks.

        Each rank has two places in the memory, which take turns: whoever writes a block does not
        disturb those that still read the one before. Nobody gets further ahead: the step of a
        block needs all ranks, which have read the one before by then.

        Args:
            exchange: One that has begun.
            itemsize: Bytes of an element.

        Yields:
            Which elements of a rank belong to the block, and its place in the shared memory: a
            uint8 array with a row for each rank.
        """
        memory = self._group.memory
        block_bytes = min(len(memory) // (2 * self.size), _BLOCK_BYTES)
        block_bytes -= block_bytes % PLACE_BYTES
        half_bytes = self.size * block_bytes
        for number, begin in enumerate(range(0, max(exchange.sizes), block_bytes)):
            half = memory[number % 2 * half_bytes :][:half_bytes]
            elements = slice(begin // itemsize, (begin + block_bytes) // itemsize)
            yield elements, half.reshape(self.size, block_bytes)
