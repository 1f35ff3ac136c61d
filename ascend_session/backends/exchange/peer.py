"""One rank's connection with the hub of its node, and what it has heard there of the others."""

import array
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
from typing import (
    Any,
    Callable,
    Counter,
    Deque,
    Dict,
    Iterator,
    List,
    Optional,
    Set,
    Tuple,
)

from ascend_session.backends.exchange.hub import Hub, hub_of
from ascend_session.backends.exchange.memory import Blocks, map_shared_memory
from ascend_session.backends.exchange.messages import (
    CANNOT_GO_ON,
    FIRST_NODE_LEFT,
    LARGEST,
    UNREADABLE,
    Header,
    Operation,
    decode,
    encode,
    encode_entry,
    is_small,
    rank_ended,
    rank_has_left,
)
from ascend_session.backends.exchange.rendezvous import (
    Rank,
    connect,
    credentials_of,
    remove_abandoned,
)
from ascend_session.backends.exchange.standstill import EndedError, RankProcess
from ascend_session.cluster import member
from ascend_session.cluster.variables import RANK_FOLDER
from ascend_session.errors import CollectiveError, InitializationError
from ascend_session.failures.record_writer import write_record
from ascend_session.text import format_count

SHORT_BYTES = 1 << 20
"""What a rank has at most for the others in an exchange that does not take long."""

ALONE_S = 5.0
"""After which a rank says that it waits for others, of which only variables have told."""

_logger = logging.getLogger(__name__)

_ANSWER_S = 10.0  # that the hub is given for a short answer
_HEADER_BYTES = 16 * 1024  # that are kept free for what a message has before its tensors
_SEND_S = 60.0  # that the hub is given to take a message
_PARTING_S = 2.0  # for which a rank that leaves waits for the others
_LOOK_S = 0.2  # between two looks whether the hub's process lives
_RETRY_S = 0.1
_ENDED_S = 1.0  # in which a process whose connections have ended has ended itself
_REASON_LIMIT = 16 * 1024  # characters of what is told to others
_ROOM = socket.CMSG_SPACE(array.array("i").itemsize)  # for one descriptor
_TRUNCATED = int(socket.MSG_TRUNC)
_STEP, _FINISH = encode({"kind": "step"}), encode({"kind": "finish"})

# How many systems this process has joined, for each rendezvous and rank.
_systems: Counter[Tuple[Tuple[str, ...], int]] = collections.Counter()


class NotYetError(Exception):
    """A collective is not done for now: other ranks are not ready for it, or it would take long.

    Args:
        was_in_vain: Whether other ranks were waited for, and did not come.
    """

    def __init__(self, was_in_vain: bool = False) -> None:
        super().__init__()
        self.was_in_vain = was_in_vain


class _NotThereError(Exception):
    """The hub does not listen, or does not any more."""


class Peer:
    """One rank among the others, from the opening of its system to the end of it.

    Whoever waits for something receives what comes for all; a second thread that waits meanwhile is
    woken then. While nobody waits, nothing is received.

    Args:
        who: Which rank, and where it meets the others.
        timeout_s: How long `join` waits for them.

    Attributes:
        nodes: The node of each rank, once `join` has returned.
        memory: The shared memory, an uint8 array.
        ended: Why the job cannot go on, if this rank has heard so; else empty.
    """

    def __init__(self, who: Rank, timeout_s: float) -> None:
        self.nodes: List[str] = []
        self.memory: Any = None
        self._who = who
        self._timeout_s = timeout_s
        self._absent = member.AbsentRanks(who.rank, who.size)
        self._system = 0
        self._hub: Optional[Hub] = None
        self._hub_rank = 0
        self._hub_process: Optional[RankProcess] = None
        self._connection: Optional[socket.socket] = None
        self._changed = threading.Condition()
        self._is_receiving = False  # one thread does
        self._buffer = memoryview(bytearray(LARGEST))
        self._room_bytes = 0  # for tensors in a message
        self._pending: Dict[str, Deque[Tuple[Header, bytes]]] = {}  # by operation
        self._completed: Set[str] = set()
        self._memory_number = 0
        self._left: Set[int] = set()  # of those through which this one reaches others
        self.ended = ""
        self._is_leaving = self._is_disconnected = self._is_over = False

    def join(self) -> None:
        """Wait until all ranks are there.

        Raises:
            InitializationError: Naming the ranks that did not come in time, or have ended
                meanwhile, or saying why this process is not let in; nothing is open then.
        """
        import tenacity

        who = self._who
        counted = (who.rendezvous.names, who.rank)
        self._system = _systems[counted] + 1
        deadline = time.monotonic() + self._timeout_s
        warn = threading.Timer(ALONE_S, self._warn_alone)
        warn.daemon = True
        if who.rendezvous.starter is not None:  # nobody has said that there are others
            warn.start()
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_NotThereError),
            stop=tenacity.stop_after_delay(self._timeout_s),
            wait=tenacity.wait_exponential(multiplier=_RETRY_S / 10, max=_RETRY_S),
            reraise=True,
        )
        try:
            try:
                answer = retrying(self._connect, deadline)
            except _NotThereError:
                raise self._unreachable() from None
            _systems[counted] = self._system
            if answer["event"] == "refused":
                raise InitializationError(str(answer["reason"]))
            self._hub_rank = int(answer["hub"])
            if not self._wait_until(self._are_together, deadline):
                complaint = {"kind": "give_up", "seconds": self._timeout_s}
                self._complain(complaint, lambda: bool(self.nodes))
            if not self.nodes:
                raise InitializationError(self.ended or _no_answer(self._timeout_s))
        except BaseException:
            self._close(_PARTING_S)
            raise
        finally:
            warn.cancel()

    @contextlib.contextmanager
    def exchange(
        self,
        operation: Operation,
        plan: str,
        data: Any,
        limit_s: Optional[float],
        patience_s: Optional[float] = None,
    ) -> "Iterator[Exchange]":
        """Wait until all ranks of a collective are ready for it; leaving the block ends it.

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
            exchange = Exchange(self, operation, limit_s, *event)
            yield exchange
            if exchange.result is None:
                self._send(_FINISH)
        finally:
            if not is_given_up:
                with self._changed:
                    del self._pending[operation.key]

    def _enter(self, operation: Operation, plan: str, data: Any) -> Deque[Tuple[Header, bytes]]:
        """Say that this rank is ready for a collective; return where its events will be."""
        with self._changed:
            self._check(operation)
            pending = self._pending[operation.key] = collections.deque()
        travels = is_small(plan, len(data), len(operation.ranks), self._room_bytes)
        header = encode_entry(operation, plan, len(data), travels)
        self._send(header + data.tobytes() if travels else header)
        return pending

    def step(self, operation: Operation, limit_s: Optional[float]) -> None:
        """Wait until all ranks have come to the end of this step.

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

    def fail(self, reason: str) -> None:
        """Tell all ranks, this one too, that the job cannot go on because this one cannot."""
        if self._is_joined():
            self._send(encode({"kind": "fail", "reason": reason[:_REASON_LIMIT]}))
            self._wait_until(lambda: self._is_over, time.monotonic() + _PARTING_S)

    def leave(self) -> None:
        """End this rank's part in order; wait up to 2 s for the others, and never raise."""
        deadline = time.monotonic() + _PARTING_S
        with self._changed:
            is_new = self._is_joined()
            self._is_leaving = True
            self._changed.notify_all()
        if is_new:
            self._send(encode({"kind": "leave"}))
            self._wait_until(lambda: self._is_over, deadline)
        self._close(max(deadline - time.monotonic(), 0))

    def forget_connection(self) -> None:
        """Close what a forked process has inherited."""
        if self._connection is not None:
            self._connection.close()

    def _are_together(self) -> bool:
        """Tell whether all ranks are there; one of a script that never comes ends the wait."""
        if not self.nodes and not self.ended:
            absent = self._absent.find_ended()
            if absent is not None:
                self._end(self._describe_absent(absent))
        return bool(self.nodes)

    def _describe_absent(self, absent: member.JoinedProcess) -> str:
        how = f": {absent.error}" if absent.error else ", as by a signal"
        end = "" if how.endswith((".", "!", "?")) else "."
        return f"{CANNOT_GO_ON}rank {absent.rank} has ended before it joined the job{how}{end}"

    def _is_joined(self) -> bool:
        return bool(self.nodes) and not (self.ended or self._is_leaving or self._is_disconnected)

    def _connect(self, deadline: float) -> Header:
        """Connect to the hub, which this process may be itself, and say who this is.

        Returns:
            The answer.

        Raises:
            _NotThereError: If it does not listen yet.
            InitializationError: If it does, but does not answer in time.
        """
        who = self._who
        absent = self._absent.find_ended()
        if absent is not None:
            raise InitializationError(self._describe_absent(absent))
        if who.is_hub:
            try:
                self._hub = hub_of(who, self._system)
            except BlockingIOError:  # another process is; it will say what is wrong with this one
                _logger.debug("Rank %d does not listen: another process does", who.rank)
        try:
            connection = connect(who.rendezvous.names)
        except OSError as error:
            raise _NotThereError from error
        hello = {
            "kind": "hello",
            "job": who.rendezvous.job,
            "starter": who.rendezvous.starter,
            "system": self._system,
            "rank": who.rank,
            "size": who.size,
            "pid": os.getpid(),
            "node": who.node,
            "local_size": who.local_size,
        }
        try:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            connection.sendall(encode(hello))
            message = connection.recv(LARGEST)
            if not message:
                raise _NotThereError
            answer = decode(message)[0]
        except socket.timeout:
            connection.close()
            raise self._unreachable(has_hub=True) from None
        except (OSError, ValueError, _NotThereError) as error:
            connection.close()
            raise _NotThereError from error
        connection.settimeout(None)
        for option, seconds in ((socket.SO_SNDTIMEO, _SEND_S), (socket.SO_RCVTIMEO, _LOOK_S)):
            limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
            connection.setsockopt(socket.SOL_SOCKET, option, limit)
        # The hub's end has as much. What does not fit in it could never be sent.
        room_bytes = connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        self._room_bytes = room_bytes - _HEADER_BYTES
        pid = credentials_of(connection)[0]
        self._hub_process = RankProcess(pid) if pid else None
        self._connection = connection
        return answer

    def _warn_alone(self) -> None:
        who = self._who
        _logger.warning(
            "Rank %d waits for %s of its job, which RANK_SIZE=%d announces, for %g s at most. "
            "To train alone, unset RANK_SIZE.",
            *(who.rank, format_count(who.size - 1, "other rank"), who.size, self._timeout_s),
        )

    def _unreachable(self, has_hub: bool = False) -> InitializationError:
        """Make the error for a hub that is not there, or cannot reach the first node."""
        who = self._who
        if not has_hub and not who.is_hub and who.coordinator is not None:
            return InitializationError(
                f"{CANNOT_GO_ON}the first rank of this node, with LOCAL_RANK=0, did not come "
                f"within {self._timeout_s:g} s; rank {who.rank} reaches the other nodes through "
                "it. Look at its output."
            )
        where = "on this machine"
        if who.coordinator is not None:
            where = f"at {who.coordinator}, where its node listens for the others"
        return InitializationError(
            f"{CANNOT_GO_ON}rank 0 of {who.size} did not come within {self._timeout_s:g} s: "
            f"nothing answers {where}. Look at its output; to train alone, unset RANK_SIZE."
        )

    def _wait(
        self, operation: Operation, limit_s: Optional[float]
    ) -> Optional[Tuple[Header, bytes]]:
        """Wait for the next event of an operation.

        Returns:
            The event, or None if there was none within the limit.

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

    def _complain(self, complaint: Header, has_come: Callable[[], bool]) -> None:
        """Say that others do not come, which ends the job unless they do in the last moment."""
        self._send(encode(complaint))
        if not self._wait_until(has_come, time.monotonic() + _ANSWER_S):
            with self._changed:
                self._end(_no_answer(complaint["seconds"] + _ANSWER_S))

    def _check(self, operation: Operation) -> None:
        """Raise if the operation cannot be begun, or not be ended; called with the lock held."""
        if self.ended:
            raise CollectiveError(self.ended)
        if self._is_leaving or not self.nodes:
            raise CollectiveError(
                f'This rank has left the others, so it cannot begin "{operation.name}".'
            )
        if self._is_disconnected:  # the hub has left in order, and its process has ended
            raise CollectiveError(rank_has_left(self._hub_rank, [self._who.rank], operation, 0))

    def _send(self, message: bytes) -> None:
        assert self._connection is not None
        try:
            self._connection.sendall(message)  # waits where the hub is slow
        except BlockingIOError:
            with self._changed:
                self._end(_no_answer(_SEND_S))
        except OSError as error:  # the end of the connection is noticed where it is listened to
            _logger.debug("Rank %d could not send: %s", self._who.rank, error)

    def _wait_until(self, has_come: Callable[[], bool], deadline: Optional[float]) -> bool:
        """Receive what comes until something has, until the job has ended, or until a deadline.

        Returns:
            Whether to wait any longer makes no sense.
        """
        with self._changed:
            while not (has_come() or self.ended or self._is_disconnected):
                left_s = _LOOK_S if deadline is None else deadline - time.monotonic()
                if left_s <= 0:
                    return False
                seconds = min(left_s, _LOOK_S)
                if self._is_receiving:
                    is_quiet = not self._changed.wait(seconds)
                else:
                    is_quiet = not self._receive(seconds)
                if is_quiet and seconds == _LOOK_S:
                    self._check_hub()
            return True

    def _receive(self, seconds: float) -> bool:
        """Receive and handle a message, for all threads that wait; called with the lock held.

        Returns:
            Whether there was one.
        """
        self._is_receiving = True
        self._changed.release()
        try:
            received = self._read(seconds)
        finally:
            self._changed.acquire()
            self._is_receiving = False
            self._changed.notify_all()
        if received is None:
            return False
        try:
            self._handle(*received)
        except (OSError, *UNREADABLE) as error:
            _logger.debug("Rank %d was sent what is no message: %s", self._who.rank, error)
            self._disconnect()
        return True

    def _read(self, seconds: float) -> Optional[Tuple[bytes, List[int]]]:
        """Wait for a message and the descriptors that come with it, for `_LOOK_S` at most.

        Returns:
            Both; no bytes at the end of the connection; None if nothing has come.
        """
        assert self._connection is not None
        try:
            if seconds < _LOOK_S:  # after which the socket gives up by itself
                poll = select.poll()
                poll.register(self._connection, select.POLLIN)
                if not poll.poll(seconds * 1000):
                    return None
            size_bytes, rights, flags, _ = self._connection.recvmsg_into([self._buffer], _ROOM)
        except (BlockingIOError, ConnectionResetError):  # a reset comes before what was sent last
            return None
        except OSError as error:
            _logger.debug("The connection of rank %d broke: %s", self._who.rank, error)
            return b"", []
        message = b"" if flags & _TRUNCATED else bytes(self._buffer[:size_bytes])
        if not rights:
            return message, []
        descriptors = array.array("i")
        for level, kind, data in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        return message, list(descriptors)

    def _handle(self, message: bytes, descriptors: List[int]) -> None:
        """Note an event; called with the lock held, as the following are."""
        if not message:
            self._disconnect()
            return
        header, payload = decode(message)
        event = header["event"]
        if "memory" in header and not self._map_memory(header, descriptors):
            return
        if event in ("run", "step"):
            pending = self._pending.get(header["key"])
            if pending is not None:
                pending.append((header, payload))
        elif event == "together":
            self.nodes = [str(node) for node in header["nodes"]]
        elif event == "left":
            self._left.add(int(header["rank"]))
        elif event == "lost":  # the other nodes, with rank 0's
            if 0 in self._left:
                self._end(FIRST_NODE_LEFT)
            else:
                self._end(rank_ended(0), 0)
        elif event == "over":
            self._is_over = True
        elif event == "end":
            self._end(str(header["reason"]), header["rank"])

    def _map_memory(self, header: Header, descriptors: List[int]) -> bool:
        """Map the shared memory if it is new; the job ends if this rank cannot."""
        try:
            for descriptor in descriptors:
                self.memory = map_shared_memory(descriptor, int(header["memory"]))
                self._memory_number = header["number"]
        except (OSError, ValueError) as error:
            _logger.debug("Rank %d cannot map the shared memory: %s", self._who.rank, error)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if self._memory_number == header["number"]:
            return True
        reason = (
            "it cannot use the shared memory in which the ranks of its machine exchange tensors. "
            "Look at its limits of open files and of memory (ulimit -n, ulimit -v)."
        )
        self._send(encode({"kind": "fail", "reason": reason}))
        return False

    def _disconnect(self) -> None:
        """Note that the hub has gone: its rank has left, or has ended."""
        self._is_disconnected = True
        if not self._is_over and self._hub_rank not in self._left:
            reason = rank_ended(self._hub_rank, were_all_there=bool(self.nodes))
            self._end(reason, self._hub_rank)
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

    def _check_hub(self) -> None:
        """See whether the hub's process lives: a child of it may keep its connections open."""
        if self._hub_process is not None:
            try:
                self._hub_process.processor_seconds()
            except EndedError:
                self._disconnect()

    def _close(self, seconds: float) -> None:
        """End the connection, on a hub after other nodes have heard why the job has ended."""
        if self._hub is not None:
            self._hub.relay.settle(seconds)
        connection = self._connection
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError as error:
                _logger.debug("The connection was closed before: %s", error)
            connection.close()
        if self._is_disconnected and self._hub is None:
            deadline = time.monotonic() + _ENDED_S
            # The lock of a process that was killed is free when the last of its threads has ended.
            while remove_abandoned(self._who.rendezvous.names) and time.monotonic() < deadline:
                time.sleep(_ENDED_S / 100)


class Exchange:
    """One run of a collective in which this rank takes part.

    Attributes:
        sizes: How many bytes each rank has for the others.
        result: What comes of it, uint8 array, if all have little; else None, and all of it goes
            through shared memory.
        blocks: How it does.
        here: The world ranks on this node.
        step: Waits until all ranks have come to the end of this step, see `Peer.step`.
    """

    def __init__(
        self,
        peer: Peer,
        operation: Operation,
        limit_s: Optional[float],
        header: Header,
        payload: bytes,
    ) -> None:
        import numpy as np

        self.sizes: List[int] = header["sizes"]
        self.result: Any = None
        self.here: List[int] = header.get("here", [])
        self.blocks = Blocks(operation.ranks, self.sizes, int(header.get("block_bytes", 0)))
        if not self.blocks.block_bytes:
            self.result = np.frombuffer(payload, np.uint8)
        self.step = functools.partial(peer.step, operation, limit_s)
        self._memory = peer.memory

    def place(self, rank: int, block: int) -> Any:
        """Give the part of the shared memory, uint8, that holds what a rank has in a block."""
        return self.blocks.place(self._memory, rank, block)


def _no_answer(seconds: float) -> str:
    return (
        f"{CANNOT_GO_ON}rank 0, which keeps the ranks together, has not answered for "
        f"{seconds:g} s. See whether it is stopped or overloaded."
    )
