"""One rank's part in what the ranks do together, from the opening of its system to the end of it.

A collective of the user's graph is run here in a thread that may block (see `stub_ops`). It waits
for the runtime and for bad news at the same time: TensorFlow 1.15 never returns from a collective
of which another rank has died, and 2.x not on every rank (stub_collectives.md).
"""

import threading
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ascend_session.backends.ranks.endpoint import Endpoint
from ascend_session.backends.ranks.meeting import Meeting
from ascend_session.backends.ranks.operation import Agreed, Operation
from ascend_session.backends.ranks.pending import Pending
from ascend_session.backends.ranks.runtime import Runtime
from ascend_session.backends.ranks.turns import Turn, Turns
from ascend_session.backends.ranks.wording import rank_failed
from ascend_session.errors import CollectiveError

__all__ = ["Channel", "Exchange"]

_REPORTED_AFTER = 1.0  # seconds that an exchange may take before the others hear that it waits
_FOR_EVER = 1e6  # seconds; eleven days
_NEWS = 2.0  # seconds in which it may become known why the runtime has failed


def named(error: BaseException) -> str:
    """An exception with its type, as a traceback ends."""
    return f"{type(error).__name__}: {error}".rstrip(": ")


class Exchange:
    """This rank among the others.

    Args:
        rank: This process's world rank.
        size: The number of ranks.
        seconds: How long a collective may take; None for as long as it likes.
        opening: Seconds within which the ranks' servers have to be there.
        meet: Makes the meeting from what is to be called when the job ends; not for one rank.
        run: Gives the runtime, from where each rank is; not called for one rank.

    Attributes:
        places: Where each rank is, while they are together; empty for one rank.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        seconds: Optional[float] = None,
        opening: float = _FOR_EVER,
        meet: Optional[Callable[[Callable[[str], None]], Meeting]] = None,
        run: Optional[Callable[[Sequence[Endpoint]], Runtime]] = None,
    ) -> None:
        self.rank = rank
        self.size = size
        self._seconds = seconds
        self._opening = opening
        self._meeting = None if meet is None else meet(self.abort)
        self._run = run
        self.places: Tuple[Endpoint, ...] = ()
        self._runtime: Optional[Runtime] = None
        self._lock = threading.Lock()
        self._agreed: Dict[Tuple[str, str], Agreed] = {}
        self._counts: Dict[str, int] = {}
        self._turns = Turns()
        self._pending: List[Pending] = []
        self._ended = ""
        self._end = threading.Event()

    def open(self) -> None:
        """Waits until all ranks are there, each with its server.

        Raises:
            InitializationError: Naming the ranks that did not come, or saying what is wrong here.
            CollectiveError: If a rank is lost while the servers start.
        """
        if self._meeting is None or self._run is None:
            return
        # Only who was let in may start a server: a second one would take the first one's callers.
        self._meeting.join()
        self.places = tuple(self._meeting.places)
        self._runtime = self._run(self.places)
        ranks = tuple(range(self.size))
        there = Operation("servers", "ascend_system", ranks, "all ranks have their servers")
        self._meeting.agree(there, self._opening)

    def close(self, failure: Optional[BaseException] = None) -> None:
        """Leaves the others in order; they hear what this rank has done.

        Args:
            failure: What ends this rank's work, if it was not done to its end. The others hear it
                at once, for they would wait for this rank.
        """
        is_whole = not self._end.is_set() and failure is None
        if failure is not None:
            self.give_up(named(failure))
        self.abort("This rank has closed its system.")
        if self._meeting is not None:
            self._meeting.leave(dict(self._counts))
        if self._runtime is not None and is_whole and self._turns.are_idle:
            self._runtime.forget()

    def give_up(self, reason: str) -> None:
        """Says to all ranks, this one too, that this one cannot go on."""
        is_over = self._end.is_set()
        sentence = rank_failed(self.rank, reason)
        self.abort(sentence)
        if self._meeting is not None and not is_over:
            self._meeting.fail(sentence)

    def abort(self, sentence: str) -> None:
        """Ends what moves here, and lets nothing begin any more; the meeting calls it."""
        with self._lock:
            if not self._ended:
                self._ended = sentence
            self._end.set()
            pending = list(self._pending)
        self._turns.stop()
        for one in pending:
            one.fail(CollectiveError(self._ended))

    def run(
        self, operation: Operation, work: "Callable[[Channel], Any]", turn: Optional[Turn] = None
    ) -> Any:
        """Does one collective.

        Args:
            operation: Which one.
            work: Gets a channel to the ranks that take part.
            turn: The iteration in which it runs, see `Turns`.

        Raises:
            CollectiveError: If the job cannot go on, with the sentence that says why, or if this
                rank does what the others cannot follow, which ends the job for all.
        """
        try:
            self._turns.begin(operation.key, operation.name, turn)
            try:
                self._check()
                return work(Channel(self, operation))
            finally:
                self._turns.end(operation.key)
        except Exception as error:
            self._fail(operation, error)
            raise

    def _check(self) -> None:
        if self._ended:
            raise CollectiveError(self._ended)

    def _fail(self, operation: Operation, error: Exception) -> None:
        """The others would wait for a rank that does not come; they are told."""
        if self._meeting is None:
            return
        message = getattr(error, "message", None) or named(error)
        self.give_up(f'in "{operation.name}": {message}')

    def agreed(self, operation: Operation) -> Agreed:
        """The numbers of an operation; asked for once."""
        known = (operation.key, operation.signature)
        found = self._agreed.get(known)
        if found is None:
            assert self._meeting is not None
            limit = _FOR_EVER if self._seconds is None else self._seconds
            found = self._agreed[known] = self._meeting.agree(operation, limit)
        return found

    def moved(self, operation: Operation, move: Callable[[Runtime], Any]) -> Any:
        """What ``move`` returns, or the error that says why it never will."""
        runtime = self._runtime
        assert runtime is not None
        count = self._counts.get(operation.key, 0) + 1
        pending = Pending(partial(move, runtime))
        with self._lock:
            self._check()
            self._pending.append(pending)
        pending.start()
        try:
            result = self._awaited(pending, operation, count)
        finally:
            with self._lock:
                self._pending.remove(pending)
        self._counts[operation.key] = count
        return result

    def _awaited(self, pending: Pending, operation: Operation, count: int) -> Any:
        assert self._meeting is not None
        if pending.wait(_REPORTED_AFTER):
            return self._result(pending)
        self._meeting.waiting(operation, count)
        try:
            if not pending.wait(self._seconds):
                raise CollectiveError(
                    f'"{operation.name}" ({operation.signature}) has not ended within '
                    f"{self._seconds:g} s, the limit of a collective.",
                    hint="See what the other ranks do; AscendConfig(hccl_timeout=...) and "
                    "HCCL_EXEC_TIMEOUT set the limit.",
                )
            return self._result(pending)
        finally:
            self._meeting.done(operation, count)

    def _result(self, pending: Pending) -> Any:
        try:
            return pending.result()
        except CollectiveError:
            raise
        except Exception as error:
            # The runtime has seen a rank go; who it was comes another way, a little later.
            if self._end.wait(_NEWS):
                raise CollectiveError(self._ended) from error
            raise


class Channel:
    """The ranks that take part in one collective.

    Attributes:
        ranks: Their world ranks, ascending; a rank's index here is its place.
        size: How many they are.
        me: This process's place.
    """

    def __init__(self, exchange: Exchange, operation: Operation) -> None:
        self._exchange = exchange
        self._operation = operation
        self.ranks = operation.ranks
        self.size = len(operation.ranks)
        self.me = operation.ranks.index(exchange.rank)

    def gather(self, words: Any, part: str = "") -> Sequence[Any]:
        """All members' words.

        Args:
            words: int32 array of one dimension, as long on each member.
            part: Which of several exchanges of the same collective this is.

        Returns:
            An array as long from each member, by their places.
        """
        operation = self._part(part, f"{len(words)} words" if part else "")
        if self.size == 1:
            return [words]
        agreed = self._exchange.agreed(operation)
        if not len(words):
            return [words] * self.size
        rows = self._exchange.moved(operation, lambda r: r.gather(agreed, self.size, words))
        # TensorFlow orders the ranks by their names: task 10 comes before task 2.
        by_name = sorted(range(self.size), key=lambda place: str(self.ranks[place]))
        return [rows[by_name.index(place)] for place in range(self.size)]

    def reduce(self, numbers: Any, merge: str, part: str = "") -> Any:
        """The sum (``Add``) or product (``Mul``) of all members; see `Runtime.reduce`."""
        operation = self._part(part, f"{numbers.dtype} {len(numbers)}" if part else "")
        if self.size == 1:
            return numbers
        agreed = self._exchange.agreed(operation)
        if not len(numbers):
            return numbers
        move = lambda r: r.reduce(agreed, self.size, numbers, merge)  # noqa: E731
        return self._exchange.moved(operation, move)

    def _part(self, part: str, form: str) -> Operation:
        if not part:
            return self._operation
        return self._operation._replace(
            key=f"{self._operation.key}, {part}",
            signature=f"{self._operation.signature}, {part} {form}",
        )
