"""The thread in rank 0's process that connects a `Hub` with its ranks.

It never blocks on one of them. A process that connects has some seconds to say which rank it is,
and the number of those that have not is limited. A malformed message ends the connection.
"""

import array
import collections
import contextlib
import logging
import os
import selectors
import socket
import threading
import time
from typing import Deque, Dict, List, Optional, Set, Tuple

from ascend_session.backends.exchange import outcome
from ascend_session.backends.exchange.folder import remove_abandoned
from ascend_session.backends.exchange.hub import LOOK_S, Hub
from ascend_session.backends.exchange.memory import create_shared_memory
from ascend_session.backends.exchange.rendezvous import Endpoint, Listening
from ascend_session.backends.exchange.wire import (
    LARGEST,
    MALFORMED,
    decode,
    encode,
    read_peer,
    receive,
)
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.process import on_close, on_fork

_logger = logging.getLogger(__name__)

_HELLO_TIMEOUT_S = 5.0  # until a process that connects says which rank it is
_MOST_STRANGERS = 64  # processes that are connected and have not said it
_REST_S = 0.05  # pause if no more files can be opened


Rights = List[Tuple[int, int, "array.array[int]"]]
"""Open files that are sent with a message, as for `socket.sendmsg`."""


class Client:
    """A process that is connected, with the messages that it could not take yet."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        self.number = number
        self.connection = connection
        self.pid, _ = read_peer(connection)
        self.since = time.monotonic()
        self.outbox: Deque[Tuple[bytes, Rights]] = collections.deque()
        self.has_memory = False
        self.events = selectors.EVENT_READ


class Server:
    """The hub of one system, until its last rank has gone.

    Args:
        size: How many ranks it has.
        endpoint: Where they meet.

    Attributes:
        listening: Its sockets in the file system; ranks that are connected need them no longer.

    Raises:
        BlockingIOError: If another process is the hub.
        InitializationError: If it cannot listen.
    """

    def __init__(self, size: int, endpoint: Endpoint) -> None:
        remove_abandoned()
        self._hub = Hub(size, endpoint, os.getpid(), self._provide_memory)
        self._size = size
        self._most_strangers = max(_MOST_STRANGERS, size)
        self._clients: Dict[int, Client] = {}  # by number
        self._count = 0
        self._buffer = memoryview(bytearray(LARGEST))
        self._memory: Optional[int] = None
        self._is_published = False
        self._selector = selectors.DefaultSelector()
        self.listening = Listening()
        _servers.add(self)  # a child that is forked from here on forgets it
        try:
            self.listening.open(endpoint.names)
        except BaseException:
            self._close()
            raise
        on_close("exchange", _stop_listening)
        on_close("models", outcome.settle)
        for listening in self.listening.sockets:
            self._selector.register(listening, selectors.EVENT_READ)
        threading.Thread(target=self._run, name="ascend-session-hub", daemon=True).start()

    def forget(self) -> None:
        """Close what a forked process has inherited; the hub is the parent's."""
        self.listening.forget()
        for client in self._clients.values():
            client.connection.close()
        self._selector.close()
        if self._memory is not None:
            os.close(self._memory)

    def _close(self) -> None:
        self.listening.close()
        _servers.discard(self)
        self.forget()

    def _run(self) -> None:
        looked_at = time.monotonic()
        try:
            while self._hub.is_needed:
                for key, mask in self._selector.select(LOOK_S):
                    if key.data is None:
                        self._accept(key.fileobj)  # type: ignore[arg-type]
                    elif key.data.number in self._clients:  # else it was dropped meanwhile
                        self._attend(key.data, mask)
                    if self._hub.have_all_left and not self._is_published:
                        self._is_published = True  # before any rank goes on
                        hub = self._hub
                        outcome.publish(hub.reports, self._size, hub.has_exchanged, hub.lateness)
                    if self._hub.outbox:
                        self._send_all()
                if time.monotonic() - looked_at >= LOOK_S:
                    looked_at = time.monotonic()
                    for client in self._find_strangers():
                        if looked_at - client.since >= _HELLO_TIMEOUT_S:
                            self._drop(client)
                    self._hub.look(self._measure_used_s)
                    self._send_all()
        except Exception as error:
            _logger.exception("The hub of these ranks has failed")
            self._hub.end(
                f"{JOB_CANNOT_GO_ON}rank 0, which connects the ranks, has failed: "
                f"{type(error).__name__}: {error}"
            )
            self._send_all()
        finally:
            self._close()

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

    def _find_strangers(self) -> List[Client]:
        """List the clients that have not joined, oldest first."""
        return [each for each in self._clients.values() if not self._hub.has_joined(each.number)]

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the process has gone
        except OSError as error:
            _logger.debug("A process could not be accepted: %s", error)
            time.sleep(_REST_S)
            return
        if read_peer(connection)[1] != os.geteuid():
            connection.close()
            return
        strangers = self._find_strangers()
        if len(strangers) >= self._most_strangers:
            self._drop(strangers[0])
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST)
        self._count += 1
        client = self._clients[self._count] = Client(self._count, connection)
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _attend(self, client: Client, mask: int) -> None:
        """Receive a client's next message, or send what it could not take before."""
        if mask & selectors.EVENT_WRITE:
            self._flush(client)
        if not mask & selectors.EVENT_READ:
            return
        try:
            message, files = receive(client.connection, self._buffer)
        except BlockingIOError:
            return
        for file in files:
            os.close(file)
        try:
            if message:
                self._hub.receive(client.number, *decode(message))
                return
        except MALFORMED as error:
            _logger.debug("A process sent a malformed message: %r", error)
            if not self._hub.has_joined(client.number):
                reason = "Malformed message: this connection is not from a rank of this job."
                self._send(client, encode({"event": "refused", "reason": reason}), [])
        self._drop(client)

    def _drop(self, client: Client) -> None:
        """End a connection, and tell the hub."""
        if self._clients.pop(client.number, None) is not None:
            self._selector.unregister(client.connection)
            client.connection.close()  # what was sent before can still be read
            self._hub.disconnect(client.number)

    def _send_all(self) -> None:
        """Send the hub's messages."""
        while self._hub.outbox:
            numbers, header, payload = self._hub.outbox.pop(0)
            message = encode(header, payload)
            is_transfer, is_refusal = header.get("is_transfer"), header["event"] == "refused"
            for number in numbers:
                client = self._clients.get(number)
                if client is None:  # it has ended meanwhile
                    continue
                rights: Rights = []
                if is_transfer and not client.has_memory and self._memory is not None:
                    client.has_memory = True
                    files = array.array("i", [self._memory])
                    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)]
                self._send(client, message, rights)
                if is_refusal:
                    self._drop(client)

    def _send(self, client: Client, message: bytes, rights: Rights) -> None:
        client.outbox.append((message, rights))
        if len(client.outbox) == 1:
            self._flush(client)

    def _flush(self, client: Client) -> None:
        """Send waiting messages, as many as the process can take now."""
        try:
            while client.outbox:
                message, rights = client.outbox[0]
                client.connection.sendmsg([message], rights)
                client.outbox.popleft()
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):  # its last messages can still be read
            client.outbox.clear()
        except OSError as error:  # without this message it would wait for ever
            _logger.warning("No reply could be sent to a rank: %s", error)
            self._drop(client)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.outbox else 0)
        if client.events != events:
            client.events = events
            self._selector.modify(client.connection, events, client)

    def _provide_memory(self) -> None:
        if self._memory is None:
            self._memory = create_shared_memory(self._size)


_servers: Set[Server] = set()


def _stop_listening() -> None:
    for server in list(_servers):
        server.listening.close()


def _forget_in_child() -> None:
    for server in list(_servers):
        server.forget()
    _servers.clear()


on_fork(_forget_in_child)
