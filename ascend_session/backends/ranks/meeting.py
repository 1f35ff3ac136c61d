"""The ranks of a job, as one of them sees the others.

Tensors do not pass here: the ranks find each other, agree on each collective before they run it,
and learn why they cannot go on when one of them has ended or does something else than the others.
"""

import collections
import logging
import threading
import time
from functools import partial
from typing import Any, Callable, Counter, List, Mapping, Optional, Tuple

from ascend_session.backends.ranks import messages, wording
from ascend_session.backends.ranks.endpoint import Endpoint, local_side, this_machine
from ascend_session.backends.ranks.heard import Heard
from ascend_session.backends.ranks.line import Line, UnreachableError
from ascend_session.backends.ranks.operation import Agreed, Operation
from ascend_session.backends.ranks.processes import tell_use, watch_for_end
from ascend_session.backends.ranks.verdict import Wait
from ascend_session.cluster.coordinator import is_loopback, parts_of
from ascend_session.errors import CollectiveError, InitializationError

__all__ = ["Meeting"]

_logger = logging.getLogger(__name__)

_NAME = 30.0  # seconds in which a name server may learn where rank 0 is, as in Kubernetes
_ANSWER = 10.0  # seconds that rank 0 is given for a short answer
_WORD = 1.0  # seconds in which it can still be heard why, once the connection has failed
_PARTING = 2.0  # seconds for which a rank that leaves waits for the others

# How many systems this process has joined, for each address, job and rank.
_systems: Counter[Tuple[str, str, int]] = collections.Counter()


class Meeting:
    """One rank among the others, from the opening of its system to the end of it.

    Args:
        rank: This process's world rank.
        size: The number of ranks.
        coordinator: Where rank 0 listens for the others, ``host:port``.
        job_id: Must be the same for all of them.
        seconds: How long `join` waits for the others.
        on_end: Called once, from another thread, with a sentence that begins with
            `wording.CANNOT_GO_ON`, when the job cannot go on: a rank has ended, runs another
            collective than the rest, or has left while somebody waits for it.
        endpoint: What the others are to know of this rank's place; its host and machine are found
            here.

    Attributes:
        places: Where each rank is, once `join` has returned.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        coordinator: str,
        job_id: str,
        seconds: float,
        on_end: Callable[[str], None],
        endpoint: Endpoint = Endpoint(),  # noqa: B008  (it never changes)
    ) -> None:
        self._rank = rank
        self._size = size
        self._address = coordinator
        self._job_id = job_id
        self._seconds = seconds
        self._endpoint = endpoint
        self._heard = Heard(on_end)
        self._serial = 0
        self._system = 0
        self._service: Any = None
        self._line: Optional[Line] = None
        self._is_closed = threading.Event()
        self._looks_at_rank_0 = False

    @property
    def places(self) -> List[Endpoint]:
        """Where each rank is, once all are together."""
        return self._heard.places

    def join(self) -> None:
        """Waits until all ranks are there; rank 0 starts the service, once a process.

        Raises:
            InitializationError: Naming the ranks that did not come in time, or have ended
                meanwhile, or saying why this process is not let in; nothing is open then.
            JobError: If the address is none.
        """
        is_inside = is_loopback(parts_of(self._address)[0])
        host = "" if is_inside else self._own_host()
        self._endpoint = self._endpoint._replace(host=host, machine=this_machine())
        place = (self._address, self._job_id, self._rank)
        self._system = _systems[place] + 1
        if self._rank == 0:
            from ascend_session.backends.ranks.service import service_at

            self._service = service_at(self._address, self._job_id, self._size)
        who = (self._address, self._rank, self._size, self._job_id, self._system)
        how = (self._endpoint, [] if is_inside else messages.KEEPALIVE)
        self._line = Line(*who, *how, self._heard.event, self._heard.cut)
        try:
            self._await_others(self._line)
        except BaseException:
            self._close(_PARTING)
            raise
        finally:
            if self._heard.any_of("welcome", "refused"):  # else rank 0 does not know this system
                _systems[place] = self._system

    def agree(self, operation: Operation, seconds: float) -> Agreed:
        """Blocks until all of ``operation.ranks`` have entered the same.

        Several threads may call it at the same time, for different keys.

        Args:
            operation: What this rank is about to run.
            seconds: How long the others may take; afterwards the job ends for all of them.

        Raises:
            CollectiveError: If they enter something else, or cannot come any more, or the job has
                ended already.
        """
        key = operation.key
        stop = ("end", "cut", "leaving")
        self._begin(operation)
        try:
            self._look_at_rank_0()
            self._tell("enter", seconds, operation=operation)
            if not self._heard.wait(seconds, *stop, key=key):
                self._tell("too long", _ANSWER, key=key, seconds=seconds)
                if not self._heard.wait(_ANSWER, *stop, key=key):
                    self._heard.end(wording.no_answer(seconds + _ANSWER))
            return self._result(operation)
        finally:
            self._heard.agreed.pop(key, None)

    def waiting(self, operation: Operation, count: int) -> None:
        """Says that the ``count``-th exchange of an operation, from 1, has waited for a second."""
        self._look_at_rank_0()
        with self._heard.lock:
            self._report([*self._heard.waits, Wait(self._rank, operation, count)])

    def done(self, operation: Operation, count: int) -> None:
        """Says that an exchange that was said to wait has ended; does nothing for others."""
        wait = Wait(self._rank, operation, count)
        with self._heard.lock:
            if wait in self._heard.waits:
                self._report([other for other in self._heard.waits if other != wait])

    def fail(self, sentence: str) -> None:
        """Tells all ranks, this one too, that the job cannot go on because this one cannot."""
        if self._line is not None and not self._heard.any_of("end", "cut", "leaving"):
            self._tell("fail", _PARTING, said=sentence)

    def leave(self, counts: Mapping[str, int]) -> None:
        """Ends this rank's part in order; waits up to 2 s for the others, and never raises.

        Args:
            counts: How many exchanges of each key this rank has completed.
        """
        deadline = time.monotonic() + _PARTING
        is_new = self._heard.note("leaving")
        if is_new and self._heard.any_of("together") and not self._heard.any_of("end", "cut"):
            assert self._line is not None
            try:
                self._line.say("leave", _PARTING, counts=dict(counts))
            except UnreachableError as error:
                _logger.debug("Rank 0 was not told that rank %d leaves: %s", self._rank, error)
            self._heard.wait(max(deadline - time.monotonic(), 0), "over", "end", "cut")
        self._close(max(deadline - time.monotonic(), 0))

    def _own_host(self) -> str:
        """How others reach this machine; the name of rank 0's may become known a little later."""
        import tenacity  # jobs on one machine do without

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(InitializationError),
            stop=tenacity.stop_after_delay(min(self._seconds, _NAME)),
            wait=tenacity.wait_fixed(_NAME / 60),
            reraise=True,
        )
        return str(retrying(local_side, self._address))

    def _await_others(self, line: Line) -> None:
        line.open()
        met = ("together", "end", "refused", "cut")
        if not self._heard.wait(self._seconds, *met):
            try:  # rank 0 knows who is missing, and tells all others, too
                line.say("give up", _PARTING, seconds=self._seconds)
                self._heard.wait(_PARTING, *met)
            except UnreachableError as error:
                _logger.debug("Nothing answers at %s: %s", self._address, error)
        if not self._heard.any_of("together"):
            late = wording.unreachable(self._address, self._size, self._seconds)
            raise InitializationError(self._heard.refused or self._heard.ended or late)

    def _begin(self, operation: Operation) -> None:
        ranks = operation.ranks
        if self._rank not in ranks or list(ranks) != sorted(set(ranks) & set(range(self._size))):
            raise CollectiveError(wording.not_a_member(operation, self._rank))
        with self._heard.lock:
            self._check(operation)
            if operation.key in self._heard.agreed:
                raise CollectiveError(wording.entered_twice(operation))
            self._heard.agreed[operation.key] = None

    def _check(self, operation: Operation) -> None:
        if self._heard.ended is not None:
            raise CollectiveError(self._heard.ended)
        if self._heard.any_of("leaving") or not self._heard.any_of("together"):
            raise CollectiveError(wording.closed(operation))
        if self._heard.any_of("cut"):  # rank 0 has left in order, and its process has ended
            raise CollectiveError(wording.has_left(0, [self._rank], operation, 0))

    def _result(self, operation: Operation) -> Agreed:
        with self._heard.lock:
            agreed = self._heard.agreed[operation.key]
            if agreed is None:
                self._check(operation)
                raise CollectiveError(wording.closed(operation))
            return agreed

    def _tell(self, what: str, patience: float, **fields: Any) -> None:
        """Tells rank 0, and ends the job if that does not answer or has ended it."""
        assert self._line is not None
        try:
            reason = self._line.say(what, patience, **fields)
        except UnreachableError as error:
            _logger.debug("Rank 0 was not told %r by rank %d: %s", what, self._rank, error)
            # What was sent before may still arrive, and says more.
            if not self._heard.wait(_WORD, "end", "cut", "leaving"):
                self._heard.end(wording.no_answer(patience))
        else:
            if reason is not None:
                self._heard.end(reason)

    def _report(self, waits: List[Wait]) -> None:
        """Tells rank 0 all in which this rank waits now; called with the lock held."""
        self._heard.waits = waits
        self._serial += 1
        if self._heard.any_of("cut"):
            self._heard.judge_alone()
        elif self._line is not None and not self._heard.any_of("end", "leaving"):
            said = [(wait.operation, wait.times) for wait in waits]
            self._line.mention("report", serial=self._serial, waits=said)

    def _look_at_rank_0(self) -> None:
        """Begins to look, once: the end of its process may not be the end of its connections.

        A rank 0 on another machine cannot be looked at, nor look at this rank, which tells it.
        """
        with self._heard.lock:
            begins = not self._looks_at_rank_0 and self._rank != 0 and self._heard.pid != 0
            self._looks_at_rank_0 |= begins
            is_here = not begins or self._heard.places[0].machine == self._endpoint.machine
        if begins:
            waits, is_closed = self._heard.is_waiting, self._is_closed
            look = partial(watch_for_end, self._heard.pid, waits, is_closed, self._lost)
            tell = partial(tell_use, waits, is_closed, self._say_use)
            name = "ascend-session-rank-0"
            threading.Thread(target=look if is_here else tell, name=name, daemon=True).start()

    def _say_use(self, seconds: float) -> None:
        if self._line is not None and not self._heard.any_of("cut", "end", "leaving"):
            self._line.mention("used", seconds=seconds)

    def _lost(self) -> None:
        self._heard.end(wording.gone(0))
        assert self._line is not None
        self._line.close()  # nobody will answer to what was said on it

    def _close(self, seconds: float) -> None:
        """Ends the connection, on rank 0 after the others were sent why the job has ended."""
        if self._service is not None:  # or they would take this rank for the one that failed
            self._service.settle(self._system, seconds)
        self._is_closed.set()
        if self._line is not None:
            self._line.close()
