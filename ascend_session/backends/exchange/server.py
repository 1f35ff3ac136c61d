"""The thread in rank 0's process that carries messages to a `Hub` and back.

It never blocks: whatever arrives, from a socket or from the clock, is handled before the next. A
process that connects has some seconds to say who it is, and only so many may be connected that have
not. What cannot be read ends the connection.
"""

import collections
import contextlib
import functools
import logging
import os
import selectors
import socket
import threading
import time
from typing import Deque, Dict, List, Optional, Set, Tuple

from ascend_session.backends.exchange.hub import Hub
from ascend_session.backends.exchange.memory import create_shared_memory
from ascend_session.backends.exchange.rendezvous import Listening, Meeting, remove_abandoned
from ascend_session.backends.exchange.sentences import CANNOT_GO_ON
from ascend_session.backends.exchange.wire import (
    LARGEST,
    MALFORMED,
    decode,
    encode,
    peer_credentials,
    receive,
    send,
)
from ascend_session.process import on_close, on_fork

_logger = logging.getLogger(__name__)

_HELLO_S = 5.0  # in which a process that connects has to say who it is
_MOST_STRANGERS = 64  # that may be connected without having said it
_TICK_S = 0.5  # between two looks at who waits, and at strangers


class Client:
    """A process that is connected, and what it could not take yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.pid, self.uid = peer_credentials(connection)
        self.since = time.monotonic()
        self.outbox: Deque[Tuple[bytes, bool]] = collections.deque()
        self.has_memory = False


class Server:
    """The hub of one system, until its last rank has gone.

    Args:
        size: How many ranks it has.
        meeting: What they have in common.

    Raises:
        BlockingIOError: If another process is the hub.
        InitializationError: If it cannot listen.
    """

    def __init__(self, size: int, meeting: Meeting) -> None:
        remove_abandoned()
        self._listening = Listening(meeting.names)
        self._hub = Hub(size, meeting, os.getpid(), self._provide_memory)
        self._most_strangers = max(_MOST_STRANGERS, size)
        self._selector = selectors.DefaultSelector()
        self._clients: Dict[int, Client] = {}
        self._count = 0
        self._buffer = memoryview(bytearray(LARGEST))
        self._memory = -1
        self._is_resting = False  # nobody is accepted for a moment
        self._looked_at = time.monotonic()
        _servers.add(self)
        on_close("exchange", _close_all)
        self._listen()
        threading.Thread(target=self._run, name="ascend-session-hub", daemon=True).start()

    def stop_listening(self) -> None:
        """Remove the socket, as the process ends; ranks that are connected stay so."""
        self._listening.close()

    def forget(self) -> None:
        """Close what a forked process has inherited; the hub is the parent's."""
        self._listening.forget()
        self._close_connections()

    def _close_connections(self) -> None:
        for client in self._clients.values():
            client.connection.close()
        self._selector.close()
        if self._memory >= 0:
            os.close(self._memory)

    def _run(self) -> None:
        try:
            while self._hub.is_needed:
                has_strangers = len(self._clients) > self._hub.client_count
                is_quiet = not (self._hub.is_busy or has_strangers or self._is_resting)
                for key, mask in self._selector.select(None if is_quiet else _TICK_S):
                    key.data(mask)
                    self._send_all()
                if time.monotonic() - self._looked_at >= _TICK_S:
                    self._look()
                    self._send_all()
        except Exception as error:
            _logger.exception("The hub of these ranks has failed")
            self._hub.end(
                f"{CANNOT_GO_ON}rank 0, which keeps the ranks together, has failed: "
                f"{type(error).__name__}: {error}"
            )
            self._send_all()
        finally:
            self._listening.close()
            self._close_connections()
            _servers.discard(self)

    def _look(self) -> None:
        """See what has taken too long: strangers that are silent, and ranks that wait in vain."""
        now = time.monotonic()
        self._looked_at = now
        if self._is_resting:
            self._listen()
        for number in self._find_strangers():
            if now - self._clients[number].since >= _HELLO_S:
                self._drop(number)
        if self._hub.is_busy:
            self._hub.judge(now, self._measure_used_s)

    def _measure_used_s(self) -> Dict[int, float]:
        """Measure the processor seconds that ranks have used, as far as they can be seen."""
        import psutil  # only ranks that wait for long need it

        used_s = {}
        for number, client in self._clients.items():
            if client.pid and self._hub.has_joined(number):
                with contextlib.suppress(psutil.Error):
                    times = psutil.Process(client.pid).cpu_times()
                    used_s[number] = float(times.user + times.system)
        return used_s

    def _find_strangers(self) -> List[int]:
        """List the clients that have not said who they are, those that came first at first."""
        return [number for number in self._clients if not self._hub.has_joined(number)]

    # Connections

    def _listen(self) -> None:
        self._is_resting = False
        for listening in self._listening.sockets:
            accept = functools.partial(self._accept, listening)
            self._selector.register(listening, selectors.EVENT_READ, accept)

    def _accept(self, listening: socket.socket, mask: int) -> None:
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # nobody any more
        except OSError as error:  # too many files are open: listen again after a while
            _logger.debug("A process could not be accepted: %s", error)
            self._is_resting = True
            for each in self._listening.sockets:
                self._selector.unregister(each)
            return
        client = Client(connection)
        if client.uid != os.geteuid():
            connection.close()
            return
        strangers = self._find_strangers()
        if len(strangers) >= self._most_strangers:
            self._drop(strangers[0])
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST)
        self._count += 1
        self._clients[self._count] = client
        attend = functools.partial(self._attend, self._count)
        self._selector.register(connection, selectors.EVENT_READ, attend)

    def _attend(self, number: int, mask: int) -> None:
        """Receive a client's next message, or send what it could not take before."""
        client = self._clients.get(number)
        if client is None:
            return
        if mask & selectors.EVENT_WRITE:
            self._flush(number, client)
        if not mask & selectors.EVENT_READ:
            return
        try:
            message, files = receive(client.connection, self._buffer)
        except (BlockingIOError, ConnectionResetError):  # a reset comes before what was sent last
            return
        except OSError:
            message, files = b"", []
        for file in files:
            os.close(file)
        try:
            if message:
                self._hub.receive(number, *decode(message))
                return
        except MALFORMED as error:
            _logger.debug("A process sent what is no message of a rank: %r", error)
            if not self._hub.has_joined(number):
                reason = "That is no message of a rank of this job."
                self._send(number, encode({"event": "refused", "reason": reason}), False)
        self._drop(number)

    def _drop(self, number: int) -> None:
        """End a connection, which the hub hears."""
        client = self._clients.pop(number, None)
        if client is not None:
            self._selector.unregister(client.connection)
            client.connection.close()  # what was sent before can still be read
            self._hub.disconnect(number)

    def _send_all(self) -> None:
        """Send what the hub has to say, whose last words end a connection."""
        encoded: Dict[int, bytes] = {}  # one message to many ranks is written once
        while self._hub.outbox:
            messages, self._hub.outbox = self._hub.outbox, []
            for number, header, payload, is_last, has_memory in messages:
                if id(header) not in encoded:
                    encoded[id(header)] = encode(header, payload)
                self._send(number, encoded[id(header)], has_memory)
                if is_last:
                    self._drop(number)
            encoded.clear()

    def _send(self, number: int, message: bytes, has_memory: bool) -> None:
        client = self._clients.get(number)
        if client is None:
            return  # it has ended meanwhile
        with_memory = has_memory and not client.has_memory
        client.has_memory = client.has_memory or has_memory
        client.outbox.append((message, with_memory))
        if len(client.outbox) == 1:
            self._flush(number, client)

    def _flush(self, number: int, client: Client) -> None:
        """Send what there is, as far as the process takes it."""
        try:
            while client.outbox:
                message, with_memory = client.outbox[0]
                send(client.connection, message, self._memory if with_memory else None)
                client.outbox.popleft()
        except BlockingIOError:
            pass
        except OSError:  # it has ended, which its connection says as well
            client.outbox.clear()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.outbox else 0)
        key = self._selector.get_key(client.connection)
        if key.events != events:
            self._selector.modify(client.connection, events, key.data)

    def _provide_memory(self) -> None:
        if self._memory < 0:
            self._memory = create_shared_memory()


_servers: Set[Server] = set()


def start_server(size: int, meeting: Meeting) -> Optional[Server]:
    """Become the hub; None if another process is, which will say what is wrong with this one."""
    try:
        return Server(size, meeting)
    except BlockingIOError as error:
        _logger.debug("This process does not listen: %s", error)
        return None


def _close_all() -> None:
    for server in list(_servers):
        server.stop_listening()


def _forget_in_child() -> None:
    for server in list(_servers):
        server.forget()
    _servers.clear()


on_fork(_forget_in_child)
