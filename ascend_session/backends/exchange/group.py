"""One rank's part in what the ranks do together, from the opening of its system to its end."""

import collections
import contextlib
import enum
import logging
import os
import socket
import threading
import time
import weakref
from typing import Any, Callable, Counter, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ascend_session.backends.exchange.memory import Buffers, map_shared_memory
from ascend_session.backends.exchange.order import RunOrder
from ascend_session.backends.exchange.rendezvous import Meeting, connect
from ascend_session.backends.exchange.sentences import (
    no_answer,
    rank_ended,
    rank_failed,
    rank_has_left,
)
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
    pack_time,
    receive,
)
from ascend_session.cluster import member
from ascend_session.cluster.machine import ONE_MACHINE
from ascend_session.errors import CollectiveError, InitializationError
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.process import on_fork
from ascend_session.rank_folder import RANK_FOLDER, remove_record, write_record
from ascend_session.text import format_count

SHORT_BYTES = 1 << 20
"""What a rank has at most for the others in an exchange that does not take long."""

ALONE_S = 3.0
"""Seconds before a rank that cannot be sure that others come reports that it is waiting."""

_logger = logging.getLogger(__name__)

_BLOCK_BYTES = 2 << 20  # that one rank exchanges at once at most
_ANSWER_S = 10.0  # that the hub is given for a short answer
_SEND_S = 60  # that the hub is given to take a message
_PARTING_S = 2.0  # for which a rank that leaves waits for the others
_LOOK_S = 0.2  # between two looks at ranks that will never come
_RETRY_S = 0.1  # between two attempts to connect, once the first ones have failed
_REASON_LIMIT = 8 * 1024  # characters of what is told to others; JSON has up to 12 bytes for one
_NO_MEMORY = (
    "it cannot use the shared memory in which the ranks of its machine exchange tensors. Look at "
    "its limits of open files and of memory (ulimit -n, ulimit -v)."
)
_STEP, _FINISH = encode({"kind": "step"}), encode({"kind": "finish"})

# How many systems this process has joined, for each meeting and rank.
_systems: "Counter[Any]" = collections.Counter()


class Rank(NamedTuple):
    """Who this process is, and where it meets the others.

    Attributes:
        rank: Its number in the job.
        size: The number of ranks.
        node: The same for all ranks of a node, and for no others.
        local_size: How many ranks its node has.
        meeting: Where the ranks meet; None for one rank alone.
        device: The device that it was given; empty if it was given none.
        first_host: The machine on which rank 0 should be, if somebody says so.
    """

    rank: int
    size: int = 1
    node: str = "0"
    local_size: int = 1
    meeting: Optional[Meeting] = None
    device: str = ""
    first_host: str = ""


class GroupState(enum.Enum):
    """Where a rank is between the opening of its system and the end of it."""

    JOINING = "not all ranks are there"
    TOGETHER = "collectives can run"
    PARTING = "they still can, but rank 0 has left, and its process, which is the hub, may end"
    FAILED = "the job cannot go on, or this rank was not let in"
    LEFT = "this rank has left"
    OVER = "the hub has said its last word, or has gone"


_OPEN = (GroupState.JOINING, GroupState.TOGETHER, GroupState.PARTING)


class NotYetError(Exception):
    """A collective is not done for now: other ranks are not ready, or it would take long."""


class Exchange:
    """What the ranks of a collective give each other, as a context manager.

    It has begun once all of its ranks have entered it, for which entering the block waits. Large
    tensors pass through the shared memory block by block. Each rank has two places there, which
    take turns: whoever writes a block does not disturb those that still read the one before.

    Args:
        group: This rank and the others.
        operation: Which collective; this rank is one of its ranks.

    Attributes:
        sizes: How many bytes each rank has for the others; empty until the exchange has begun.
        result: What comes of it, a uint8 array; None if it passes through the shared memory.
        patience_s: After how long entering the block is given up for now; None for never.
    """

    def __init__(self, group: "ProcessGroup", operation: Operation) -> None:
        self.operation = operation
        self.sizes: List[int] = []
        self.result: Any = None
        self.patience_s: Optional[float] = None
        self.step_count = 0  # that all ranks have come to the end of
        self._group = group
        self._awaited_count = 0

    def __enter__(self) -> "Exchange":
        """Wait until all ranks have entered it.

        Raises:
            NotYetError: If that takes longer than `patience_s`, or if any rank has more than
                `SHORT_BYTES`. They know that this rank is ready; a later call goes on.
            CollectiveError: If they enter something else, or cannot come any more, or not in time,
                which ends the job for all; or if it has ended already.
        """
        self._group.await_begin(self)
        return self

    def __exit__(self, failure: Any, *more: Any) -> None:
        self._group.end_exchange(self, is_in_order=failure is None)

    @property
    def block_bytes(self) -> int:
        """How much of each rank passes at once; a multiple of 64, where any dtype may begin."""
        memory_bytes = len(self._group.memory)
        return min(memory_bytes // (2 * len(self.sizes)), _BLOCK_BYTES) // 64 * 64

    def split(self, itemsize: int = 1) -> "Iterator[Tuple[slice, Any]]":
        """Go through the blocks, of which all ranks have the same number.

        Args:
            itemsize: Bytes of an element.

        Yields:
            Which elements of a rank belong to the block, and its place in the shared memory: a
            uint8 array with a row for each rank.
        """
        block_bytes, rank_count = self.block_bytes, len(self.sizes)
        half_bytes = rank_count * block_bytes
        for number, begin in enumerate(range(0, max(self.sizes), block_bytes)):
            half = self._group.memory[number % 2 * half_bytes :][:half_bytes]
            elements = slice(begin // itemsize, (begin + block_bytes) // itemsize)
            yield elements, half.reshape(rank_count, block_bytes)

    def step(self) -> None:
        """Wait until all ranks have come to the end of this step; raise as the block does."""
        self._awaited_count += 1
        self._group.await_step(self, self._awaited_count)


class ProcessGroup:
    """This rank and the others.

    Whoever waits for the hub receives what it says; of several threads that wait, one does it for
    all. So what the hub says while nobody waits is heard when the next collective begins.

    Args:
        who: Which rank this is, and where it meets the others.
        timeout_s: How long the others may take to join.
        limit_s: How long they may take to come to a collective; None for as long as they like.

    Attributes:
        rank: This process's rank in the job.
        nodes: The node of each rank, once they are together; empty for one rank.
        buffers: Memory for results.
        order: In which order collectives run.
        state: Where this rank is.
        memory: What is shared with the others, a uint8 array; None before it is needed.
        reason: Why this rank's part is over: it has left, or the job cannot go on; else empty.
    """

    def __init__(self, who: Rank, timeout_s: float = 0, limit_s: Optional[float] = None) -> None:
        self.rank = who.rank
        self.nodes: List[str] = []
        self.buffers = Buffers()
        self.state = GroupState.JOINING
        self.reason = ""
        self._who = who
        self._timeout_s = timeout_s
        self._limit_s = limit_s
        self._connection: Optional[socket.socket] = None
        self._changed = threading.Condition()
        self.order = RunOrder(self._changed, lambda: self.state not in _OPEN)
        self.memory: Any = None
        self._buffer = memoryview(bytearray(LARGEST))
        self._receive_limit_s: Optional[float] = None
        self._is_receiving = False  # one of the threads, for all
        self._exchanges: Dict[str, Exchange] = {}
        self._completed: Set[str] = set()
        _groups.add(self)

    @property
    def ended(self) -> str:
        """Why this rank takes part in no collective any more; empty if it does."""
        if self.state in _OPEN:
            return ""
        return self.reason or "Rank 0 has left (it closed its system), and its process has ended."

    def open(self) -> None:
        """Wait until all ranks are there. A failure of an earlier system counts no more.

        Raises:
            InitializationError: Naming the ranks that did not come in time, or have ended
                meanwhile, or saying why this process is not let in; nothing is open then.
        """
        folder = os.environ.get(RANK_FOLDER)
        if folder:
            remove_record(folder)
        if self._who.meeting is None:
            self.state = GroupState.TOGETHER
            return
        absent = member.AbsentRanks(self._who.rank, self._who.size)
        deadline = time.monotonic() + self._timeout_s
        warn = threading.Timer(ALONE_S, self._warn)
        warn.daemon = True
        is_unsure = self._who.meeting.starter is not None or self._who.local_size < self._who.size
        try:
            if is_unsure:
                warn.start()
            self._connect(self._who.meeting, absent, deadline)
            while self.state is GroupState.JOINING:
                explained = absent.explain()
                left_s = deadline - time.monotonic()
                if explained:
                    self._fail(f"{JOB_CANNOT_GO_ON}{explained}")
                elif left_s <= 0:
                    self._complain({"kind": "give_up", "seconds": self._timeout_s}, self._is_joined)
                else:
                    self._wait(self._is_joined, min(left_s, _LOOK_S))
            if not self.nodes:
                raise InitializationError(self.reason)
        except BaseException:
            self._disconnect()
            raise
        finally:
            warn.cancel()
            absent.stop()

    def exchange(
        self, operation: Operation, plan: str, data: Any, patience_s: Optional[float] = None
    ) -> Exchange:
        """Say that this rank is ready for a collective, unless it has said so before.

        Several threads may do so at the same time, with different keys; `RunOrder` sees to that.

        Args:
            operation: Which one; this rank is one of its ranks.
            plan: ``gather``, or reduction and dtype.
            data: What this rank has for the others, uint8 array of one dimension.
            patience_s: See `Exchange`.
        """
        exchange = self._exchanges.get(operation.key)
        if exchange is None:
            exchange = Exchange(self, operation)
            with self._changed:
                self._check(operation)
                self._exchanges[operation.key] = exchange
            entry = encode_entry(operation, plan, len(data))
            travels = is_small(plan, len(data), len(operation.ranks))
            self._send(entry + data.tobytes() if travels else entry)
        exchange.patience_s = patience_s
        return exchange

    def await_begin(self, exchange: Exchange) -> None:
        """Do what `Exchange.__enter__` does."""
        patience_s = exchange.patience_s
        if patience_s is not None:
            is_ready = self._wait(lambda: exchange.sizes, patience_s)
            if not is_ready or (exchange.sizes and max(exchange.sizes) > SHORT_BYTES):
                raise NotYetError
        operation = exchange.operation
        try:
            if not self._wait_long(operation, lambda: exchange.sizes):  # the hub knows who is late
                assert self._limit_s is not None
                late = {"kind": "time_out", "key": operation.key, "seconds": self._limit_s}
                self._complain(late, lambda: exchange.sizes)
            if not exchange.sizes:
                self._check(operation)
        except BaseException:
            self.end_exchange(exchange, is_in_order=False)
            raise
        self._completed.add(operation.key)

    def await_step(self, exchange: Exchange, count: int) -> None:
        """Do what `Exchange.step` does.

        Args:
            exchange: Which one.
            count: How many steps all ranks have to have done then.
        """
        operation = exchange.operation
        self._send(_STEP)
        if not self._wait_long(operation, lambda: exchange.step_count >= count):
            raise CollectiveError(
                f"{operation} has not ended within {self._limit_s:g} s, the limit of a collective.",
                hint="See what the other ranks do; AscendConfig(hccl_timeout=...) and "
                "HCCL_EXEC_TIMEOUT set the limit.",
            )
        if exchange.step_count < count:
            self._check(operation)

    def end_exchange(self, exchange: Exchange, is_in_order: bool) -> None:
        """Forget an exchange, and say that the memory is free of it if it has ended in order."""
        del self._exchanges[exchange.operation.key]
        if is_in_order and exchange.result is None:
            self._send(_FINISH)

    def fail(self, reason: str, error: Optional[BaseException] = None) -> None:
        """Say to all ranks, this one too, that this one cannot go on.

        Args:
            reason: Why, for the others.
            error: The exception, which is recorded for the launcher before the others hear of it:
                they fail because of it, and the cause has to be known before what follows.
        """
        folder = os.environ.get(RANK_FOLDER)
        self._wait(lambda: False, 0)  # what came while nobody waited was first
        with self._changed:
            if self.state not in _OPEN:
                return
            if folder and error is not None:
                write_record(error, folder)
            self._fail(rank_failed(self.rank, reason))
        self._say_last({"kind": "fail", "reason": reason[:_REASON_LIMIT]})

    def close(self) -> None:
        """Leave the others in order, and wait for them up to 2 s."""
        self._wait(lambda: False, 0)  # hear what came while nobody waited
        with self._changed:
            is_open = self.state in _OPEN
            if is_open:
                self.state, self.reason = GroupState.LEFT, "This rank has closed its system."
                self._changed.notify_all()
        if is_open:
            self._say_last({"kind": "leave"})
        self._disconnect()

    def forget(self) -> None:
        """Close what a forked process has inherited."""
        if self._connection is not None:
            self._connection.close()

    # Joining

    def _connect(self, first: Meeting, absent: member.AbsentRanks, deadline: float) -> None:
        """Connect to the hub, which this process may be itself, and say who this is."""
        who = self._who
        number = _systems[first.names, who.rank] + 1
        meeting = first.of_system(number)
        server = None
        retry_s = _RETRY_S / 16
        while self._connection is None:
            if who.rank == 0 and server is None:
                with contextlib.suppress(BlockingIOError):  # somebody cleans up, or is rank 0, too
                    server = Server(who.size, meeting)
            try:
                self._connection = connect(meeting.names)
            except OSError as error:
                explained = absent.explain()
                if explained:
                    raise InitializationError(f"{JOB_CANNOT_GO_ON}{explained}") from None
                if time.monotonic() > deadline:
                    raise self._describe_missing_hub() from error
                time.sleep(retry_s)
                retry_s = min(2 * retry_s, _RETRY_S)
        _systems[first.names, who.rank] = number
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, pack_time(_SEND_S))
        hello = {"kind": "hello", **who._asdict(), **meeting._asdict(), "pid": os.getpid()}
        del hello["meeting"], hello["names"]
        self._send(encode(hello))

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

    def _is_joined(self) -> bool:
        return self.state is not GroupState.JOINING

    def _describe_missing_hub(self) -> InitializationError:
        """Make the error for a hub that is not there."""
        who, host = self._who, socket.gethostname()
        where = ""
        if who.local_size < who.size or who.first_host:
            first = f", which should be on {who.first_host}," if who.first_host else ""
            where = f" This machine is {host}; rank 0{first} may be on another one. {ONE_MACHINE}"
        return InitializationError(
            f"{JOB_CANNOT_GO_ON}rank 0 of {who.size} did not come within {self._timeout_s:g} s: "
            "nothing answers on this machine. Look at its output; to train alone, unset "
            f"RANK_SIZE.{where}"
        )

    # Collectives

    def _wait_long(self, operation: Operation, has_come: Callable[[], Any]) -> bool:
        """Wait up to the limit of a collective, and write down for the launcher if it takes long.

        Returns:
            Whether it has come within the limit, or cannot come any more.
        """
        limit_s = self._limit_s
        short_s = member.LONG_WAIT_S if limit_s is None else min(member.LONG_WAIT_S, limit_s)
        if self._wait(has_come, short_s):
            return True
        is_first = operation.key not in self._completed
        with member.waiting(*operation, is_first=is_first):
            return self._wait(has_come, None if limit_s is None else limit_s - short_s)

    def _check(self, operation: Operation) -> None:
        """Raise if the operation cannot be begun, or not be ended."""
        if self.reason:
            raise CollectiveError(self.reason)
        if self.state is GroupState.OVER:  # rank 0 has left in order, and its process has ended
            raise CollectiveError(rank_has_left(0, [self.rank], operation, 0))

    def _complain(self, complaint: Header, has_come: Callable[[], Any]) -> None:
        """Say that others do not come, which ends the job unless they do in the last moment."""
        self._send(encode(complaint))
        if not self._wait(has_come, _ANSWER_S):
            self._give_up_hub(complaint["seconds"] + _ANSWER_S)

    def _wait(self, has_come: Callable[[], Any], limit_s: Optional[float]) -> bool:
        """Wait until something has come, or nothing can come any more; tell whether it is so."""
        return self._receive_until(lambda: has_come() or self.state not in _OPEN, limit_s)

    # Messages

    def _send(self, message: bytes) -> None:
        if self._connection is None:
            return
        try:
            self._connection.sendall(message)  # waits where the hub is slow
        except BlockingIOError:  # SO_SNDTIMEO
            self._give_up_hub(_SEND_S)
        except OSError as error:  # the end of the connection is noticed where it is received
            _logger.debug("Rank %d could not send: %s", self.rank, error)

    def _say_last(self, header: Header) -> None:
        """Say how this rank ends its part, and wait until all have; the hub may be in here."""
        if self._connection is not None:
            self._send(encode(header))
            if not self._receive_until(lambda: self.state is GroupState.OVER, _PARTING_S):
                self._disconnect()  # frees a thread that waits for the hub, which is stopped

    def _receive_until(self, is_done: Callable[[], bool], limit_s: Optional[float]) -> bool:
        """Receive what the hub says, or have another thread do it, until it is done; tell if so."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        left_s = limit_s
        with self._changed:
            while not is_done():
                if self._is_receiving:
                    is_late = not self._changed.wait(left_s)
                else:
                    is_late = not self._receive(left_s)
                if deadline is not None:
                    if is_late:
                        return is_done()
                    left_s = max(deadline - time.monotonic(), 0)
            return True

    def _receive(self, limit_s: Optional[float]) -> bool:
        """Receive what the hub says next; called with the lock held, which is released meanwhile.

        Returns:
            Whether anything has come within the limit, be it the end of the connection.
        """
        connection = self._connection
        if connection is None:
            return False
        if limit_s != 0 and limit_s != self._receive_limit_s:
            self._receive_limit_s = limit_s
            with contextlib.suppress(OSError):  # of one that is closed, which `receive` finds
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, pack_time(limit_s))
        self._is_receiving = True
        self._changed.release()
        try:
            message, files = receive(connection, self._buffer, must_wait=limit_s != 0)
        except BlockingIOError:
            return False
        finally:
            self._changed.acquire()
            self._is_receiving = False
            self._changed.notify_all()  # one of the others that wait goes on
        self._note(message, files)
        return True

    def _note(self, message: bytes, files: List[int]) -> None:
        """Note what the hub has said; called with the lock held. Nothing is the end."""
        try:
            if files:
                self._map_memory(files)
            if message:
                self._handle(*decode(message))
        except MALFORMED as error:
            _logger.debug("Rank %d was sent what is no message: %r", self.rank, error)
            message = b""
        if not message:
            if self.state in (GroupState.JOINING, GroupState.TOGETHER):
                self._fail(rank_ended(0, were_all_there=bool(self.nodes)), 0)
            self.state = GroupState.OVER

    def _handle(self, header: Header, payload: bytes) -> None:
        """Note an event; called with the lock held, as `_map_memory` is."""
        import numpy as np

        event = header["event"]
        if event in ("go", "step"):
            exchange = self._exchanges.get(header["key"])
            if exchange is None:
                return
            if event == "step":
                exchange.step_count += 1
            elif header["is_run"] and self.memory is None:
                self._send(encode({"kind": "fail", "reason": _NO_MEMORY}))
            else:
                exchange.result = None if header["is_run"] else np.frombuffer(payload, np.uint8)
                exchange.sizes = header["sizes"]
        elif event == "together":
            self.nodes = [str(node) for node in header["nodes"]]
            self.state = GroupState.TOGETHER
            for note in header["notes"] if self.rank == 0 else ():
                _logger.warning("%s", note)
        elif event == "left" and self.state is GroupState.TOGETHER:
            self.state = GroupState.PARTING
        elif event == "refused":
            self._fail(str(header["reason"]))
        elif event in ("end", "over"):
            if self.state in _OPEN:
                self._fail(str(header["reason"]), header["rank"])
            else:  # it answers what this rank has said last
                self.state = GroupState.OVER

    def _map_memory(self, files: List[int]) -> None:
        """Map the shared memory; if this rank cannot, the run that needs it ends the job."""
        try:
            if self.memory is None:
                self.memory = map_shared_memory(files[0])
        except (OSError, ValueError) as error:
            _logger.debug("Rank %d cannot map the shared memory: %s", self.rank, error)
        finally:
            for file in files:
                os.close(file)

    def _fail(self, reason: str, rank: Optional[int] = None) -> None:
        """Note why the job cannot go on, and whose failure it is; what is said first counts.

        If it is another rank's, the record says so before anything that follows from it is
        written: a rank hears it while it waits for others, and before it says that it fails.
        """
        folder = os.environ.get(RANK_FOLDER, "")
        is_own_folder = os.path.basename(folder) == f"rank_{self.rank}"  # else a script's own rank
        with self._changed:
            if self.state not in _OPEN:
                return
            if is_own_folder and rank not in (None, self.rank):
                write_record(CollectiveError(reason), folder, failed_rank=rank)
            self.state, self.reason = GroupState.FAILED, reason
            self._changed.notify_all()

    def _give_up_hub(self, seconds: float) -> None:
        self._fail(no_answer(seconds))
        self._disconnect()  # frees a thread that receives

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):  # it was closed before
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection.close()


_groups: "weakref.WeakSet[ProcessGroup]" = weakref.WeakSet()


def _forget_in_child() -> None:
    """Close what only the parent may use: the others would take its connection for the parent's."""
    for group in list(_groups):
        group.forget()


on_fork(_forget_in_child)
