"""One rank's part in the exchange: it joins the others, exchanges tensors with them and leaves."""

import collections
import contextlib
import enum
import logging
import os
import select
import socket
import threading
import time
import weakref
from typing import Any, Callable, Counter, Dict, Iterator, List, NamedTuple, Optional, Set

from ascend_session import channel
from ascend_session.backends.exchange.memory import Buffers, map_shared_memory
from ascend_session.backends.exchange.models import RankReport
from ascend_session.backends.exchange.order import RunOrder
from ascend_session.backends.exchange.rendezvous import Endpoint, connect
from ascend_session.backends.exchange.sentences import rank_ended, rank_failed, rank_has_left
from ascend_session.backends.exchange.server import Server
from ascend_session.backends.exchange.wire import (
    LARGEST,
    MALFORMED,
    Header,
    Operation,
    decode,
    encode,
    encode_entry,
    is_small,
    receive,
)
from ascend_session.cluster import member
from ascend_session.cluster.machine import ONE_MACHINE
from ascend_session.errors import CollectiveError, InitializationError
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.process import on_fork
from ascend_session.rank_folder import find_own_folder, remove_record, write_record
from ascend_session.text import format_count

SHORT_BYTES = 1 << 20
"""Largest tensor of a rank for which a thread of the session itself waits (`NotYetError`)."""

ALONE_S = 3.0
"""Seconds before a rank that cannot be sure that others come reports that it is waiting."""

_logger = logging.getLogger(__name__)

_ANSWER_TIMEOUT_S = 10.0  # for a short answer of the hub
_SEND_TIMEOUT_S = 60.0  # until the hub takes a message
_LEAVE_TIMEOUT_S = 2.0  # for which a rank that leaves waits for the others
_POLL_S = 0.2  # between two looks for ranks that will never join
_LONGEST_POLL_S = 24 * 86400.0  # a longer limit is none: poll(2) counts milliseconds in 31 bits
_RETRY_S = 0.1  # between two attempts to connect, after the first few
_REASON_LIMIT = 8 * 1024  # characters sent to other ranks; JSON needs up to 12 bytes for one
_NO_MEMORY = (
    "it cannot use the shared memory in which the ranks of its machine exchange tensors. Look at "
    "its limits of open files and of memory (ulimit -n, ulimit -v)."
)
_STEP, _FINISH = encode({"kind": "step"}), encode({"kind": "finish"})

# How many systems this process has joined, by endpoint and rank.
_systems: "Counter[Any]" = collections.Counter()


class Rank(NamedTuple):
    """Who this process is, and where it meets the others.

    Attributes:
        rank: Its number in the job.
        size: The number of ranks.
        node: The same for all ranks of a node, and for no others.
        local_size: How many ranks its node has.
        endpoint: Where the ranks meet; None for one rank alone.
        device: The device that it was given; empty if none.
        first_host: The machine on which rank 0 should be, if that is known.
    """

    rank: int
    size: int = 1
    node: str = "0"
    local_size: int = 1
    endpoint: Optional[Endpoint] = None
    device: str = ""
    first_host: str = ""


class GroupState(enum.Enum):
    """Where a rank is between the opening of its system and the end of it."""

    JOINING = "not all ranks are there"
    TOGETHER = "collectives can run"
    WITHOUT_FIRST = "they still can, but rank 0 has left, and the hub ends with its process"
    FAILED = "the job cannot continue, or this rank was refused"
    LEFT = "this rank has left"
    OVER = "the hub has sent its last message, or is gone"


_OPEN = (GroupState.JOINING, GroupState.TOGETHER, GroupState.WITHOUT_FIRST)


class NotYetError(Exception):
    """A collective cannot be completed at once: ranks are missing, or its tensors are large."""


class Exchange:
    """One exchange of bytes with other ranks, as far as it has come.

    Attributes:
        operation: The collective that it belongs to.
        sizes: How many bytes each rank has for the others; empty until all ranks have entered.
        result: The result, a uint8 array; None if the bytes pass through the shared memory.
        step_count: How many steps all ranks have completed.
    """

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.sizes: List[int] = []
        self.result: Any = None
        self.step_count = 0


class ProcessGroup:
    """This rank and the others.

    No thread listens to the hub all the time: one of the threads that wait receives its messages
    for all of them. What the hub says while nobody waits is received with the next collective.

    Args:
        who: Which rank this is, and where it meets the others.
        timeout_s: How long the others may take to join.
        limit_s: How long a collective may take; None for as long as it likes.

    Attributes:
        rank: This process's rank in the job.
        nodes: The node of each rank, once all have joined; empty for one rank.
        buffers: Memory for results.
        order: In which order collectives run.
        state: Where this rank is.
        memory: The shared memory, a uint8 array; None before it is needed.
        completed: The keys of the collectives that have run.
        reason: Why this rank takes no further part: it has left, or the job cannot go on; or empty.
    """

    def __init__(self, who: Rank, timeout_s: float = 0, limit_s: Optional[float] = None) -> None:
        self.rank = who.rank
        self.nodes: List[str] = []
        self.buffers = Buffers()
        self.state = GroupState.JOINING
        self.reason = ""
        self.memory: Any = None
        self._who = who
        self._timeout_s = timeout_s
        self._limit_s = limit_s
        self._connection: Optional[socket.socket] = None
        self._poll = select.poll()
        self._changed = threading.Condition()
        self.order = RunOrder(self._changed, lambda: self.state not in _OPEN)
        self._buffer = memoryview(bytearray(LARGEST))
        self._is_receiving = False  # one of the threads, for all
        self._exchanges: Dict[str, Exchange] = {}
        self.completed: Set[str] = set()
        _groups.add(self)

    @property
    def ended(self) -> str:
        """Why this rank takes part in no collective any more; empty if it does."""
        if self.state in _OPEN:
            return ""
        return self.reason or "Rank 0 has left (it closed its system), and its process has exited."

    # Joining

    def open(self) -> None:
        """Wait until all ranks have joined. A failure of an earlier system is forgotten.

        Raises:
            InitializationError: With the ranks that did not come in time or have ended, or with
                the reason why this one was refused; nothing is open then.
        """
        folder = find_own_folder()
        if folder:
            remove_record(folder)
        if self._who.endpoint is None:
            self.state = GroupState.TOGETHER
            return
        try:
            with member.joining(self._who.rank, self._who.size):
                self._join(self._who.endpoint)
            if not self.nodes:
                raise InitializationError(self.reason)
        except BaseException:
            self._disconnect()
            raise

    def _join(self, of_job: Endpoint) -> None:
        """Connect to the hub, which rank 0 starts, and wait until all ranks have joined or fail."""
        who, begun = self._who, time.monotonic()
        number = _systems[of_job.names, who.rank] + 1
        endpoint = of_job.of_system(number)
        server = None
        retry_s = _RETRY_S / 16
        may_be_alone = of_job.starter is not None or who.local_size < who.size
        while self.state is GroupState.JOINING:
            waited_s = time.monotonic() - begun
            explained = channel.read_absent()
            if explained:
                if self._connection is not None:  # so that the others have the same reason
                    self._send(encode({"kind": "absent", "reason": explained}))
                self._fail(f"{JOB_CANNOT_GO_ON}{explained}")
            elif may_be_alone and waited_s > ALONE_S:
                may_be_alone = False
                self._warn()
            elif self._connection is not None:
                remaining_s = self._timeout_s - waited_s
                if remaining_s > 0:
                    self._wait(self._has_joined, min(remaining_s, _POLL_S))
                else:
                    self._report_timeout("", self._timeout_s, self._has_joined)
            else:
                if who.rank == 0 and server is None:
                    with contextlib.suppress(BlockingIOError):  # somebody cleans up there
                        server = Server(who.size, endpoint)
                try:
                    self._greet(connect(endpoint.names), endpoint)
                    _systems[of_job.names, who.rank] = number
                except OSError as error:
                    if waited_s > self._timeout_s:
                        raise self._describe_missing_hub() from error
                    time.sleep(retry_s)
                    retry_s = min(2 * retry_s, _RETRY_S)

    def _greet(self, connection: socket.socket, endpoint: Endpoint) -> None:
        """Tell the hub who this is."""
        self._connection = connection
        connection.settimeout(_SEND_TIMEOUT_S)
        self._poll.register(connection, select.POLLIN)
        hello = {"kind": "hello", **self._who._asdict(), **endpoint._asdict(), "pid": os.getpid()}
        del hello["endpoint"], hello["names"]
        self._send(encode(hello))

    def _has_joined(self) -> bool:
        return self.state is not GroupState.JOINING

    def _warn(self) -> None:
        who = self._who
        others = format_count(who.size - 1, "other rank")
        where = f" They have to be on this machine. {ONE_MACHINE}"
        _logger.warning(
            "RANK_SIZE=%d: rank %d is waiting up to %g s for %s. To train on one device, unset "
            "RANK_ID and RANK_SIZE.%s",
            *(who.size, who.rank, self._timeout_s, others),
            where if who.local_size < who.size else "",
        )

    def _describe_missing_hub(self) -> InitializationError:
        who, host = self._who, socket.gethostname()
        where = ""
        if who.local_size < who.size or who.first_host:
            first = f", which should be on {who.first_host}," if who.first_host else ""
            where = f" This machine is {host}; rank 0{first} may be on another one. {ONE_MACHINE}"
        return InitializationError(
            f"{JOB_CANNOT_GO_ON}rank 0 of {who.size} did not join within {self._timeout_s:g} s: "
            "nothing answers on this machine. Look at its output; to train alone, unset "
            f"RANK_SIZE.{where}"
        )

    # Collectives

    @contextlib.contextmanager
    def exchange(
        self, operation: Operation, plan: str, data: Any, timeout_s: Optional[float] = None
    ) -> Iterator[Exchange]:
        """Enter a collective, and wait until all of its ranks have.

        Several threads may do so at once, with different keys; `RunOrder` sees to that.

        Args:
            operation: Which one; this rank is one of its ranks.
            plan: ``gather``, or reduction and dtype.
            data: What this rank has for the others, uint8 array of one dimension.
            timeout_s: After how long to give up for now; None for never.

        Raises:
            NotYetError: After ``timeout_s``, or if a rank has more than `SHORT_BYTES`. The others
                know that this rank has entered; the same call has to be made again.
            CollectiveError: If the job cannot continue: the ranks enter different collectives, or
                some cannot come any more, or not in time.
        """
        begun = self._exchanges.get(operation.key)
        exchange = self._enter(operation, plan, data) if begun is None else begun
        if timeout_s is not None:
            has_begun = self._wait(lambda: exchange.sizes, timeout_s)
            if not has_begun or (exchange.sizes and max(exchange.sizes) > SHORT_BYTES):
                raise NotYetError
        try:
            if not self._wait_long(operation, lambda: exchange.sizes):
                assert self._limit_s is not None
                self._report_timeout(operation.key, self._limit_s, lambda: exchange.sizes)
            if not exchange.sizes:
                self._check(operation)
            self.completed.add(operation.key)
            yield exchange
        finally:
            del self._exchanges[operation.key]
        if exchange.result is None:
            self._send(_FINISH)

    def complete_step(self, exchange: Exchange) -> None:
        """Wait until all ranks have come to the end of this step; raises as `exchange` does."""
        operation, count = exchange.operation, exchange.step_count + 1
        self._send(_STEP)
        if not self._wait_long(operation, lambda: exchange.step_count >= count):
            raise CollectiveError(
                f"{operation} has not finished within {self._limit_s:g} s, the limit of a "
                "collective.",
                hint="Check what the other ranks are doing; AscendConfig(hccl_timeout=...) and "
                "HCCL_EXEC_TIMEOUT set the limit.",
            )
        if exchange.step_count < count:
            self._check(operation)

    def _enter(self, operation: Operation, plan: str, data: Any) -> Exchange:
        exchange = Exchange(operation)
        with self._changed:
            self._check(operation)
            self._exchanges[operation.key] = exchange
        entry = encode_entry(operation, plan, len(data))
        has_payload = is_small(plan, len(data), len(operation.ranks))
        self._send(entry + data.tobytes() if has_payload else entry)
        return exchange

    def _wait_long(self, operation: Operation, is_done: Callable[[], Any]) -> bool:
        """Wait up to the limit of a collective, and write down for the launcher if it takes long.

        Returns:
            False if the limit has passed.
        """
        limit_s = self._limit_s
        short_s = member.LONG_WAIT_S if limit_s is None else min(member.LONG_WAIT_S, limit_s)
        if self._wait(is_done, short_s):
            return True
        is_first = operation.key not in self.completed
        key, name, ranks, signature, _ = operation
        with member.waiting(key, name, ranks, signature, is_first):
            return self._wait(is_done, None if limit_s is None else limit_s - short_s)

    def _check(self, operation: Operation) -> None:
        """Raise CollectiveError if this rank cannot take part in a collective any more."""
        if self.reason:
            raise CollectiveError(self.reason)
        if self.state is GroupState.OVER:  # rank 0 has left in order, and its process has ended
            if 0 in operation.ranks:
                raise CollectiveError(rank_has_left(0, [self.rank], operation))
            raise CollectiveError(
                f"{JOB_CANNOT_GO_ON}rank 0, whose process connects the ranks, closed its system "
                f"and exited before {operation} on rank {self.rank}.",
                hint="Let rank 0 close its system when all ranks have run their last collective.",
            )

    def _report_timeout(self, key: str, seconds: float, is_done: Callable[[], Any]) -> None:
        """Have the hub name the ranks that did not come in time, and end the job."""
        self._send(encode({"kind": "time_out", "key": key, "seconds": seconds}))
        if not self._wait(is_done, _ANSWER_TIMEOUT_S):
            self._abandon_hub(seconds + _ANSWER_TIMEOUT_S)

    # Leaving

    def fail(self, reason: str, error: Optional[BaseException] = None) -> None:
        """End the job for all ranks because this one cannot go on.

        Args:
            reason: Why, for the others.
            error: The exception, which is recorded for the launcher before the others hear of it:
                they fail because of it, and the cause has to be known before what follows.
        """
        folder = find_own_folder()
        self._receive_pending()  # what has failed before is the cause
        with self._changed:
            if self.state not in _OPEN:
                return
            if folder and error is not None:
                write_record(error, folder)
            self._fail(rank_failed(self.rank, reason))
        self._say_last({"kind": "fail", "reason": reason[:_REASON_LIMIT]})

    def close(self, report: Optional[RankReport] = None) -> None:
        """Leave the others in order, and wait for them up to 2 s.

        Args:
            report: What this rank reports about its variables; nothing if None.
        """
        self._receive_pending()
        with self._changed:
            is_open = self.state in _OPEN
            if is_open:
                self.state, self.reason = GroupState.LEFT, "This rank has closed its system."
                self._changed.notify_all()
        if is_open:
            for message in () if report is None else report.encode():
                self._send(message)
            has_updated = report is not None and report.has_updated
            self._say_last({"kind": "leave", "has_updated": has_updated})
        self._disconnect()

    def forget(self) -> None:
        """Close what a forked process has inherited."""
        if self._connection is not None:
            self._connection.close()

    def _say_last(self, header: Header) -> None:
        """Say how this rank ends its part, and wait until all have: its process may run the hub."""
        if self._connection is not None:
            self._send(encode(header))
            if not self._receive_until(lambda: self.state is GroupState.OVER, _LEAVE_TIMEOUT_S):
                self._disconnect()  # frees a thread that waits for a hub that is stopped

    def _fail(self, reason: str, rank: Optional[int] = None) -> None:
        """Note the first reason why the job cannot continue, and which rank has failed, if any.

        Another rank's failure is recorded for the launcher before this rank fails because of it.
        """
        folder = find_own_folder()
        with self._changed:
            if self.state not in _OPEN:
                return
            if folder and rank not in (None, self.rank):
                write_record(CollectiveError(reason), folder, failed_rank=rank)
            self.state, self.reason = GroupState.FAILED, reason
            self._changed.notify_all()

    def _abandon_hub(self, seconds: float) -> None:
        self._fail(
            f"{JOB_CANNOT_GO_ON}rank 0, which connects the ranks, has not answered for "
            f"{seconds:g} s. Check whether it is stopped or overloaded."
        )
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):  # it was closed before
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection.close()

    # Messages

    def _send(self, message: bytes) -> None:
        if self._connection is None:
            return
        try:
            self._connection.sendall(message)
        except socket.timeout:
            self._abandon_hub(_SEND_TIMEOUT_S)
        except OSError as error:  # the end of the connection is noticed where it is received
            _logger.debug("Rank %d could not send: %s", self.rank, error)

    def _wait(self, is_done: Callable[[], Any], limit_s: Optional[float]) -> bool:
        """Wait until it is done, or this rank takes no part any more; False if the limit passed."""
        return self._receive_until(lambda: is_done() or self.state not in _OPEN, limit_s)

    def _receive_pending(self) -> None:
        """Receive what the hub has sent while nobody waited."""
        self._wait(lambda: False, 0)

    def _receive_until(self, is_done: Callable[[], Any], limit_s: Optional[float]) -> bool:
        """Receive messages, or have another thread do it, until it is done.

        Returns:
            False if the limit has passed.
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        with self._changed:
            while not is_done():
                remaining_s = None if deadline is None else max(deadline - time.monotonic(), 0)
                if self._is_receiving:
                    has_changed = self._changed.wait(remaining_s)
                else:
                    has_changed = self._receive(remaining_s)
                if not has_changed:
                    return bool(is_done())
            return True

    def _receive(self, limit_s: Optional[float]) -> bool:
        """Receive one message; called with the lock held, which is released meanwhile.

        Returns:
            False if the limit has passed.
        """
        connection = self._connection
        if connection is None:
            return False
        self._is_receiving = True
        self._changed.release()
        try:
            if limit_s is not None and limit_s > _LONGEST_POLL_S:
                limit_s = None
            if not self._poll.poll(None if limit_s is None else limit_s * 1000):
                return False
            message, files = receive(connection, self._buffer)
        finally:
            self._changed.acquire()
            self._is_receiving = False
            self._changed.notify_all()  # one of the others that wait goes on
        try:
            if files:
                self._map_memory(files)
            if message:
                self._apply_message(*decode(message))
        except MALFORMED as error:
            _logger.debug("Rank %d received a malformed message: %r", self.rank, error)
            message = b""
        if not message:
            if self.state in (GroupState.JOINING, GroupState.TOGETHER):
                self._fail(rank_ended(0, were_all_there=bool(self.nodes)), 0)
            self.state = GroupState.OVER
        return True

    def _apply_message(self, header: Header, payload: bytes) -> None:
        """Handle a message of the hub; called with the lock held, as `_map_memory` is."""
        import numpy as np

        event = header["event"]
        exchange = self._exchanges.get(header.get("key", ""))
        if event == "step" and exchange is not None:
            exchange.step_count += 1
        elif event == "go" and exchange is not None:
            if header["is_transfer"] and self.memory is None:
                self._send(encode({"kind": "fail", "reason": _NO_MEMORY}))
            else:
                if not header["is_transfer"]:
                    exchange.result = np.frombuffer(payload, np.uint8)
                exchange.sizes = header["sizes"]
        elif event == "together":
            self.nodes = [str(node) for node in header["nodes"]]
            self.state = GroupState.TOGETHER
            for note in header["notes"] if self.rank == 0 else ():
                _logger.warning("%s", note)
        elif event == "left" and self.state is GroupState.TOGETHER:
            self.state = GroupState.WITHOUT_FIRST
        elif event == "refused":
            self._fail(str(header["reason"]))
        elif event in ("end", "over"):
            if self.state in _OPEN:
                self._fail(str(header["reason"]), header["rank"])
            else:  # it answers what this rank has said last
                self.state = GroupState.OVER

    def _map_memory(self, files: List[int]) -> None:
        """Map the shared memory; without it, `_apply_message` ends the job when it is needed."""
        try:
            if self.memory is None:
                self.memory = map_shared_memory(files[0])
        except (OSError, ValueError) as error:
            _logger.debug("Rank %d cannot map the shared memory: %s", self.rank, error)
        finally:
            for file in files:
                os.close(file)


_groups: "weakref.WeakSet[ProcessGroup]" = weakref.WeakSet()


def _forget_in_child() -> None:
    """Close what only the parent may use: the others would take its connection for the parent's."""
    for group in list(_groups):
        group.forget()


on_fork(_forget_in_child)
