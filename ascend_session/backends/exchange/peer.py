"""One rank's connection with the hub, and what it has heard there of the others."""

import collections
import contextlib
import functools
import logging
import os
import select
import socket
import struct
import threading
import time
import weakref
from typing import Any, Callable, Counter, Deque, Dict, Iterator, List, NamedTuple, Optional, Set

from ascend_session.backends.exchange.memory import Blocks, map_shared_memory
from ascend_session.backends.exchange.rendezvous import Meeting, connect, remove_abandoned
from ascend_session.backends.exchange.sentences import (
    CANNOT_GO_ON,
    no_answer,
    rank_ended,
    rank_has_left,
)
from ascend_session.backends.exchange.server import start_server
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
from ascend_session.cluster.variables import RANK_FOLDER
from ascend_session.errors import CollectiveError, InitializationError
from ascend_session.failures.record_writer import write_record
from ascend_session.process import on_fork
from ascend_session.text import format_count

SHORT_BYTES = 1 << 20
"""What a rank has at most for the others in an exchange that does not take long."""

ALONE_S = 3.0
"""Seconds before a rank that knows of others only from variables reports that it is waiting."""

_logger = logging.getLogger(__name__)

_ANSWER_S = 10.0  # that the hub is given for a short answer
_SEND_S = 60.0  # that the hub is given to take a message
_PARTING_S = 2.0  # for which a rank that leaves waits for the others
_LOOK_S = 0.2  # between two looks whether this rank has been closed meanwhile
_RETRY_S = 0.1
_ENDED_S = 1.0  # in which a process whose connections have ended has ended itself
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
        meeting: Where the ranks meet.
        device: The device that it was given; empty if it was given none.
        first_host: The machine on which rank 0 should be, if somebody says so.
    """

    rank: int
    size: int
    node: str
    local_size: int
    meeting: Meeting
    device: str = ""
    first_host: str = ""


class NotYetError(Exception):
    """A collective is not done for now: other ranks are not ready for it, or it would take long.

    Args:
        was_in_vain: Whether other ranks were waited for, and did not come.
    """

    def __init__(self, was_in_vain: bool = False) -> None:
        super().__init__()
        self.was_in_vain = was_in_vain


class Go(NamedTuple):
    """What a rank hears when all ranks of a collective have entered it.

    Attributes:
        sizes: How many bytes each of them has for the others.
        result: What comes of it, a uint8 array; None if it passes through shared memory.
        blocks: How it does.
        step: Waits until all ranks have come to the end of this step.
    """

    sizes: List[int]
    result: Any
    blocks: Blocks
    step: Callable[[], None]


class Peer:
    """One rank among the others, from the opening of its system to the end of it.

    Whoever waits for something receives what comes for all; a second thread that waits meanwhile is
    woken then. While nobody waits, nothing is received.

    Args:
        who: Which rank, and where it meets the others.
        timeout_s: How long `join` waits for them.

    Attributes:
        nodes: The node of each rank, once `join` has returned.
        ended: Why the job cannot go on, if this rank has heard so; else empty.
    """

    def __init__(self, who: Rank, timeout_s: float) -> None:
        self.nodes: List[str] = []
        self.ended = ""
        self._who = who
        self._timeout_s = timeout_s
        self._meeting = who.meeting
        self._absent = member.AbsentRanks(who.rank, who.size)
        self._connection: Optional[socket.socket] = None
        self._changed = threading.Condition()
        self._is_receiving = False  # one thread does
        self._buffer = memoryview(bytearray(LARGEST))
        self._memory: Any = None
        self._pending: Dict[str, Deque[Any]] = {}  # what came for each operation
        self._completed: Set[str] = set()
        self._refusal = ""
        self._has_first_left = False  # rank 0, whose process is the hub
        self._is_leaving = self._is_disconnected = self._is_over = False
        _peers.add(self)

    def join(self) -> None:
        """Wait until all ranks are there.

        Raises:
            InitializationError: Naming the ranks that did not come in time, or have ended
                meanwhile, or saying why this process is not let in; nothing is open then.
        """
        who = self._who
        deadline = time.monotonic() + self._timeout_s
        warn = threading.Timer(ALONE_S, self._warn_alone)
        warn.daemon = True
        if who.meeting.starter is not None:  # nobody has said that there are others
            warn.start()
        try:
            self._connect(deadline)
            if not self._wait_until(self._is_answered, deadline):
                complaint = {"kind": "give_up", "seconds": self._timeout_s}
                self._complain(complaint, self._is_answered)
            if not self.nodes:
                raise InitializationError(self._refusal or self.ended)
        except BaseException:
            self._close()
            raise
        finally:
            warn.cancel()
            self._absent.stop()

    @contextlib.contextmanager
    def exchange(
        self,
        operation: Operation,
        plan: str,
        data: Any,
        limit_s: Optional[float],
        patience_s: Optional[float] = None,
    ) -> Iterator[Go]:
        """Wait until all ranks of a collective have entered it; leaving the block ends it.

        Several threads may do so at the same time, with different keys; `RunOrder` sees to that.

        Args:
            operation: Which one; this rank is one of its ranks.
            plan: ``gather``, or reduction and dtype.
            data: What this rank has for the others, uint8 array of one dimension.
            limit_s: How long the others may take; None for as long as they like.
            patience_s: After how long this call is given up for now; None for never.

        Raises:
            NotYetError: If it is, or if any rank has more than `SHORT_BYTES`. They know that this
                rank is ready; a later call goes on.
            CollectiveError: If they enter something else, or cannot come any more, or not in time,
                which ends the job for all; or if it has ended already.
        """
        pending = self._pending.get(operation.key)
        if pending is None:
            pending = self._enter(operation, plan, data)
        is_given_up = False
        try:
            if patience_s is not None:
                has_come = functools.partial(bool, pending)
                are_ready = self._wait_until(has_come, time.monotonic() + patience_s)
                is_long = bool(pending) and max(pending[0][0]["sizes"]) > SHORT_BYTES
                is_given_up = is_long or not are_ready
                if is_given_up:
                    raise NotYetError(was_in_vain=not are_ready)
            event = self._wait(operation, limit_s)
            if event is None:  # the hub knows who is missing
                assert limit_s is not None
                complaint = {"kind": "time_out", "key": operation.key, "seconds": limit_s}
                self._complain(complaint, lambda: bool(pending) or self._is_leaving)
                event = self._wait(operation, 0)
            assert event is not None
            (_header, result), sizes = event, event[0]["sizes"]
            step = functools.partial(self._step, operation, limit_s)
            yield Go(sizes, result, Blocks(self._memory, sizes), step)
            if result is None:
                self._send(_FINISH)
        finally:
            if not is_given_up:
                with self._changed:
                    del self._pending[operation.key]

    def fail(self, reason: str) -> None:
        """Tell all ranks, this one too, that the job cannot go on because this one cannot."""
        if self._is_joined():
            self._send(encode({"kind": "fail", "reason": reason[:_REASON_LIMIT]}))
            self._wait_until(lambda: self._is_over, time.monotonic() + _PARTING_S)

    def leave(self) -> None:
        """End this rank's part in order; wait up to 2 s for the others, and never raise."""
        with self._changed:
            is_new = self._is_joined()
            self._is_leaving = True
            self._changed.notify_all()
        if is_new:
            self._send(encode({"kind": "leave"}))
            self._wait_until(lambda: self._is_over, time.monotonic() + _PARTING_S)
        self._close()

    def forget(self) -> None:
        """Close what a forked process has inherited."""
        if self._connection is not None:
            self._connection.close()

    def _is_joined(self) -> bool:
        return bool(self.nodes) and not (self.ended or self._is_leaving or self._is_disconnected)

    # Joining

    def _connect(self, deadline: float) -> None:
        """Connect to the hub, which this process may be itself, and say who this is."""
        who = self._who
        counted = (who.meeting.names, who.rank)
        number = _systems[counted] + 1
        self._meeting = who.meeting.of_system(number)
        server = None
        retry_s = _RETRY_S / 16
        while self._connection is None:
            if who.rank == 0 and server is None:  # whoever cleans up there is gone in a moment
                server = start_server(who.size, self._meeting)
            try:
                self._connection = connect(self._meeting.names)
            except OSError as error:
                absent = self._absent.explain()
                if absent:
                    raise InitializationError(f"{CANNOT_GO_ON}{absent}") from None
                if time.monotonic() > deadline:
                    raise self._describe_missing_hub() from error
                time.sleep(retry_s)
                retry_s = min(2 * retry_s, _RETRY_S)
        _systems[counted] = number
        hello = {
            "kind": "hello",
            "job": who.meeting.job,
            "starter": who.meeting.starter,
            "rank": who.rank,
            "size": who.size,
            "pid": os.getpid(),
            "node": who.node,
            "local_size": who.local_size,
            "device": who.device,
        }
        for option, seconds in ((socket.SO_SNDTIMEO, _SEND_S), (socket.SO_RCVTIMEO, _LOOK_S)):
            limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
            self._connection.setsockopt(socket.SOL_SOCKET, option, limit)
        self._send(encode(hello))

    def _warn_alone(self) -> None:
        who = self._who
        _logger.warning(
            "RANK_SIZE=%d: rank %d is waiting up to %g s for %s. To train on one device, unset "
            "RANK_ID and RANK_SIZE.",
            *(who.size, who.rank, self._timeout_s, format_count(who.size - 1, "other rank")),
        )

    def _is_answered(self) -> bool:
        """Tell whether all ranks are there, or this one is refused.

        One of a script that never comes ends the wait.
        """
        if not (self.nodes or self._refusal or self.ended):
            absent = self._absent.explain()
            if absent:
                self._end(f"{CANNOT_GO_ON}{absent}")
        return bool(self.nodes or self._refusal)

    def _describe_missing_hub(self) -> InitializationError:
        """Make the error for a hub that is not there."""
        who, host = self._who, socket.gethostname()
        where = ""
        if who.local_size < who.size or who.first_host:
            first = f", which should be on {who.first_host}," if who.first_host else ""
            where = f" This machine is {host}; rank 0{first} may be on another one. {ONE_MACHINE}"
        return InitializationError(
            f"{CANNOT_GO_ON}rank 0 of {who.size} did not come within {self._timeout_s:g} s: "
            "nothing answers on this machine. Look at its output; to train alone, unset "
            f"RANK_SIZE.{where}"
        )

    # Collectives

    def _enter(self, operation: Operation, plan: str, data: Any) -> Deque[Any]:
        """Say that this rank is ready for a collective; return where its events will be."""
        with self._changed:
            self._check(operation)
            pending = self._pending[operation.key] = collections.deque()
        travels = is_small(plan, len(data), len(operation.ranks))
        header = encode_entry(operation, plan, len(data), travels)
        self._send(header + data.tobytes() if travels else header)
        return pending

    def _step(self, operation: Operation, limit_s: Optional[float]) -> None:
        """Wait until all ranks have come to the end of this step of the run.

        Raises:
            CollectiveError: If one does not, or not in time.
        """
        self._send(_STEP)
        if self._wait(operation, limit_s) is None:
            raise CollectiveError(
                f"{operation} has not ended within {limit_s:g} s, the limit of a collective.",
                hint="See what the other ranks do; AscendConfig(hccl_timeout=...) and "
                "HCCL_EXEC_TIMEOUT set the limit.",
            )

    def _wait(self, operation: Operation, limit_s: Optional[float]) -> Any:
        """Wait for the next event of an operation.

        Returns:
            The header and a result, or None if nothing came within the limit.

        Raises:
            CollectiveError: If the job has ended, or this rank leaves it.
        """
        pending, now = self._pending[operation.key], time.monotonic()
        deadline = None if limit_s is None else now + limit_s
        long_wait = now + member.LONG_WAIT_S
        is_long = deadline is None or long_wait < deadline

        def has_come() -> bool:
            return bool(pending) or self._is_leaving

        if not self._wait_until(has_come, long_wait if is_long else deadline) and is_long:
            is_first = operation.key not in self._completed
            with member.waiting(*operation, is_first=is_first):
                self._wait_until(has_come, deadline)
        with self._changed:
            if pending:
                self._completed.add(operation.key)
                return pending.popleft()
            self._check(operation)
            return None

    def _check(self, operation: Operation) -> None:
        """Raise if the operation cannot be begun, or not be ended; called with the lock held."""
        if self.ended:
            raise CollectiveError(self.ended)
        if self._is_leaving or not self.nodes:
            raise CollectiveError(
                f'This rank has left the others, so it cannot begin "{operation.name}".'
            )
        if self._is_disconnected:  # rank 0 has left in order, and its process has ended
            raise CollectiveError(rank_has_left(0, [self._who.rank], operation, 0))

    def _complain(self, complaint: Header, has_come: Callable[[], bool]) -> None:
        """Say that others do not come, which ends the job unless they do in the last moment."""
        self._send(encode(complaint))
        if not self._wait_until(has_come, time.monotonic() + _ANSWER_S):
            with self._changed:
                self._end(no_answer(complaint["seconds"] + _ANSWER_S))

    # Messages

    def _send(self, message: bytes) -> None:
        assert self._connection is not None
        try:
            self._connection.sendall(message)  # waits where the hub is slow
        except BlockingIOError:  # SO_SNDTIMEO
            with self._changed:
                self._end(no_answer(_SEND_S))
        except OSError as error:  # the end of the connection is noticed where it is received
            _logger.debug("Rank %d could not send: %s", self._who.rank, error)

    def _wait_until(self, has_come: Callable[[], bool], deadline: Optional[float]) -> bool:
        """Receive what comes until something has, until the job has ended, or until a deadline.

        Returns:
            True if waiting longer is pointless.
        """
        with self._changed:
            while not (has_come() or self.ended or self._is_disconnected):
                left_s = _LOOK_S if deadline is None else deadline - time.monotonic()
                if left_s <= 0:
                    return False
                if self._is_receiving:
                    self._changed.wait(min(left_s, _LOOK_S))
                else:
                    self._receive(min(left_s, _LOOK_S))
            return True

    def _receive(self, seconds: float) -> None:
        """Receive and handle a message, for all threads that wait; called with the lock held."""
        assert self._connection is not None
        self._is_receiving = True
        self._changed.release()
        try:
            # At _LOOK_S the socket gives up by itself (SO_RCVTIMEO), which saves a call.
            if seconds < _LOOK_S and not _is_readable(self._connection, seconds):
                return
            message, files = receive(self._connection, self._buffer)
        except (BlockingIOError, ConnectionResetError):  # a reset comes before what was sent last
            return
        except OSError as error:
            _logger.debug("The connection of rank %d broke: %s", self._who.rank, error)
            message, files = b"", []
        finally:
            self._changed.acquire()
            self._is_receiving = False
            self._changed.notify_all()
        try:
            if files:
                self._map_memory(files)
            if message:
                self._handle(*decode(message))
            else:
                self._disconnect()
        except MALFORMED as error:
            _logger.debug("Rank %d was sent what is no message: %r", self._who.rank, error)
            self._disconnect()

    def _handle(self, header: Header, payload: bytes) -> None:
        """Note an event; called with the lock held, as the following are."""
        import numpy as np

        event = header["event"]
        if event in ("go", "step"):
            pending = self._pending.get(header["key"])
            is_run = event == "go" and not payload and any(header["sizes"])
            if is_run and self._memory is None:
                self._send(encode({"kind": "fail", "reason": _NO_MEMORY}))
            elif pending is not None:
                pending.append((header, None if is_run else np.frombuffer(payload, np.uint8)))
        elif event == "together":
            self.nodes = [str(node) for node in header["nodes"]]
            for note in header["notes"] if self._who.rank == 0 else ():
                _logger.warning("%s", note)
        elif event == "refused":
            self._refusal = str(header["reason"])
        elif event == "left":
            self._has_first_left = True
        elif event == "over":
            self._is_over = True
        elif event == "end":
            self._end(str(header["reason"]), header["rank"])

    def _map_memory(self, files: List[int]) -> None:
        """Map the shared memory; if this rank cannot, the run that needs it ends the job."""
        try:
            self._memory = map_shared_memory(files[0])
        except (OSError, ValueError) as error:
            _logger.debug("Rank %d cannot map the shared memory: %s", self._who.rank, error)
        finally:
            for file in files:
                os.close(file)

    def _disconnect(self) -> None:
        """Note that the hub has gone: rank 0 has left, or has ended."""
        self._is_disconnected = True
        if not (self._is_over or self._has_first_left or self._refusal):
            self._end(rank_ended(0, were_all_there=bool(self.nodes)), 0)
        self._is_over = True

    def _end(self, reason: str, rank: Optional[int] = None) -> None:
        """Note why the job cannot go on, and whose failure it is; what is said first counts."""
        self._is_over = True
        if not self.ended and not self._is_leaving:
            self._record(reason, rank)
            self.ended = reason

    def _record(self, reason: str, rank: Optional[int]) -> None:
        """Record for the launcher that what comes now follows from another rank's failure.

        It is there before anything that follows is written, so that the launcher can tell.
        """
        folder = os.environ.get(RANK_FOLDER, "")
        is_own = os.path.basename(folder) == f"rank_{self._who.rank}"  # else a script's own rank
        if is_own and rank not in (None, self._who.rank):
            write_record(CollectiveError(reason), folder, failed_rank=rank)

    def _close(self) -> None:
        """End the connection; after a hub that was killed, remove what it has left."""
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):  # it was closed before
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        if self._is_disconnected and self._who.rank != 0:
            deadline = time.monotonic() + _ENDED_S
            # The lock of a process that was killed is free when the last of its threads has ended.
            while remove_abandoned(self._meeting.names) and time.monotonic() < deadline:
                time.sleep(_ENDED_S / 100)


def _is_readable(connection: socket.socket, seconds: float) -> bool:
    """Wait until there is something to receive; `select` takes no descriptor above 1023."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


_peers: "weakref.WeakSet[Peer]" = weakref.WeakSet()


def _forget_in_child() -> None:
    """Close what only the parent may use: the others would take its connection for the parent's."""
    for peer in list(_peers):
        peer.forget()


on_fork(_forget_in_child)
