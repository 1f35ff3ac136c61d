"""The first rank of a node as the others' hub: a thread to which all ranks there are connected.

One thread does all of it and never blocks: whatever arrives, from a socket, from other nodes or
from the clock, is handled before the next. What it cannot read is answered with the end of the
connection. What the messages mean is in `relay`.
"""

import array
import atexit
import contextlib
import functools
import logging
import os
import queue
import selectors
import socket
import threading
import time
from typing import Callable, Dict, List, Optional, Tuple

from ascend_session.backends.exchange.messages import (
    CANNOT_GO_ON,
    LARGEST,
    UNREADABLE,
    decode,
    encode,
)
from ascend_session.backends.exchange.relay import Client, Relay
from ascend_session.backends.exchange.rendezvous import Listening, Rank, remove_abandoned

_logger = logging.getLogger(__name__)

_HELLO_S = 5.0  # in which a process that connects has to say who it is
_STRANGERS = 64  # that may be connected without having said it
_TICK_S = 0.1  # between two looks at what may take too long
_REST_S = 0.1  # for which nobody is accepted when too many files are open


class Hub:
    """The hub of one node, for all systems that its ranks open one after the other.

    Args:
        who: The rank whose process it is in.
        listening: Where the node's ranks connect.
        first_system: Number of the system that this process is about to join.
    """

    def __init__(self, who: Rank, listening: Listening, first_system: int) -> None:
        self._who = who
        self._listening = listening
        self._selector = selectors.DefaultSelector()
        self._posts: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._awake, self._wake = socket.socketpair()
        self._clients: Dict[int, Client] = {}
        self._count = 0
        self._buffer = memoryview(bytearray(LARGEST + 1))
        self._resting: Dict[socket.socket, float] = {}  # that listen no more until then
        self._is_done = False
        self.relay = Relay(who, self._clients, self.send, self.refuse, first_system)

    def start(self) -> None:
        """Let ranks in from now on.

        Raises:
            InitializationError: If other nodes cannot be reached from here.
        """
        for listening in self._listening.sockets:
            self._listen(listening)
        self._awake.setblocking(False)
        self._wake.setblocking(False)
        self._selector.register(self._awake, selectors.EVENT_READ, self._run_posts)
        if self._who.links is not None:
            self._who.links.open(self.post, self.relay.receive, self.relay.lose_node)
        atexit.register(self._listening.close)
        threading.Thread(target=self._run, name="ascend-session-hub", daemon=True).start()

    def post(self, function: Callable[[], None]) -> None:
        """Have the hub's thread call a function."""
        self._posts.put(function)
        with contextlib.suppress(OSError):  # full, so that it wakes anyhow; or closed
            self._wake.send(b"\0")

    def forget(self) -> None:
        """Close what a forked process has inherited; the hub is the parent's."""
        atexit.unregister(self._listening.close)
        self._listening.forget()
        for client in self._clients.values():
            client.connection.close()
            client.empty_outbox()
        self.relay.close()
        self._selector.close()
        self._awake.close()
        self._wake.close()

    def send(self, client: Client, message: bytes, descriptor: Optional[int] = None) -> None:
        """Send a process a message, as soon as it takes it, and perhaps an open file with it."""
        if client.number not in self._clients:
            return
        if not client.outbox and descriptor is None:
            try:
                client.connection.send(message)
                return
            except BlockingIOError:
                pass
            except OSError:  # it has ended, which its connection says as well
                return
        client.outbox.append((message, None if descriptor is None else os.dup(descriptor)))
        if len(client.outbox) == 1:
            self._flush(client)

    def refuse(self, client: Client, reason: str) -> None:
        """Tell a process why it is not let in, and end its connection."""
        self.send(client, encode({"event": "refused", "reason": reason}))
        self._drop(client)  # it can still read what was sent

    def _run(self) -> None:
        try:
            looked_at, is_quiet = time.monotonic(), True
            while not self._is_done:
                events = self._selector.select(None if is_quiet else _TICK_S)
                for key, mask in events:
                    key.data(mask)
                is_quiet = False
                now = time.monotonic()
                if now - looked_at >= _TICK_S:
                    looked_at, is_quiet = now, not self._look(now)
        except Exception as error:
            _logger.exception("The hub of these ranks has failed")
            reason = (
                f"{CANNOT_GO_ON}rank {self._who.rank}, which coordinates the ranks of its "
                f"node, has failed: {type(error).__name__}: {error}"
            )
            for client in list(self._clients.values()):
                self.send(client, encode({"event": "end", "reason": reason, "rank": None}))
        finally:
            self._close()

    def _close(self) -> None:
        with _registry_lock:
            if _registry.get(self._who.rendezvous.names) is self:
                del _registry[self._who.rendezvous.names]
        self._listening.close()
        atexit.unregister(self._listening.close)
        for client in list(self._clients.values()):
            self._disconnect(client)
        self.relay.close()
        if self._who.links is not None:
            self._who.links.close()
        self._selector.close()

    def _run_posts(self, mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._awake.recv(4096)
        with contextlib.suppress(queue.Empty):
            while True:
                function = self._posts.get_nowait()
                try:
                    function()
                except UNREADABLE:
                    _logger.exception("Another node sent what cannot be followed")

    def _look(self, now: float) -> bool:
        """See what has taken too long; tell whether anything may do so later."""
        for client in self._silent():
            if now - client.since >= _HELLO_S:
                self._drop(client)
        for listening, at in list(self._resting.items()):
            if now >= at:
                del self._resting[listening]
                self._listen(listening)
        is_watched = self.relay.look(now)
        return is_watched or bool(self._silent() or self._resting)

    def _silent(self) -> List[Client]:
        """List the processes that have not said who they are, those that came first at first."""
        return [client for client in self._clients.values() if not client.has_said_hello]

    # Connections

    def _listen(self, listening: socket.socket) -> None:
        accept = functools.partial(self._accept, listening)
        self._selector.register(listening, selectors.EVENT_READ, accept)

    def _accept(self, listening: socket.socket, mask: int) -> None:
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # nobody any more
        except OSError as error:  # too many files are open, and it stays ready
            _logger.debug("A process could not be accepted: %s", error)
            self._selector.unregister(listening)
            self._resting[listening] = time.monotonic() + _REST_S
            return
        self._count += 1
        client = Client(self._count, connection)
        if client.uid != os.geteuid():
            connection.close()
            return
        silent = self._silent()
        if len(silent) >= max(_STRANGERS, self._who.size):
            self._drop(silent[0])
        connection.setblocking(False)
        self._clients[client.number] = client
        attend = functools.partial(self._attend, client)
        self._selector.register(connection, selectors.EVENT_READ, attend)

    def _attend(self, client: Client, mask: int) -> None:
        """Receive a process's next message, or send what it could not take before."""
        if client.number not in self._clients:
            return
        if mask & selectors.EVENT_WRITE:
            self._flush(client)
        if not mask & selectors.EVENT_READ:
            return
        try:
            size_bytes = client.connection.recv_into(self._buffer)
        except (BlockingIOError, ConnectionResetError):  # a reset comes before what was sent last
            return
        except OSError:
            size_bytes = 0
        if not size_bytes:
            self._drop(client)
            return
        try:
            if size_bytes > LARGEST:
                raise ValueError("a message is too long")
            self.relay.handle(client, *decode(bytes(self._buffer[:size_bytes])))
        except UNREADABLE:
            if not client.system:
                self.refuse(client, "That is no message of a rank of this job.")
            else:
                self._drop(client)

    def _drop(self, client: Client) -> None:
        """End a connection, which its system hears; a hub of one node ends with the last."""
        if self._disconnect(client):
            self.relay.disconnect(client)
            is_needed = self._clients or self._who.links is not None
            self._is_done = not is_needed and self.relay.is_over

    def _disconnect(self, client: Client) -> bool:
        if self._clients.pop(client.number, None) is None:
            return False
        self._selector.unregister(client.connection)
        client.connection.close()
        client.empty_outbox()
        return True

    def _flush(self, client: Client) -> None:
        """Send what there is, as far as the process takes it."""
        outbox = client.outbox
        try:
            while outbox:
                message, descriptor = outbox[0]
                rights = [] if descriptor is None else [descriptor]
                with_it = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", rights))]
                client.connection.sendmsg([message], with_it if rights else [])
                outbox.popleft()
                if descriptor is not None:
                    os.close(descriptor)
        except BlockingIOError:
            pass
        except OSError:  # it has ended, which its connection says as well
            client.empty_outbox()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if outbox else 0)
        key = self._selector.get_key(client.connection)
        if key.events != events:
            self._selector.modify(client.connection, events, key.data)


_registry: Dict[Tuple[str, ...], Hub] = {}
_registry_lock = threading.Lock()


def hub_of(who: Rank, system: int) -> Hub:
    """Give the hub that this process is, started if it is not there.

    Args:
        who: Which rank it is.
        system: Number of the system that this process is about to join.

    Raises:
        BlockingIOError: If another process is that.
        InitializationError: If it cannot listen.
    """
    names = who.rendezvous.names
    with _registry_lock:
        if names not in _registry:
            remove_abandoned()
            listening = Listening(names)
            try:
                hub = Hub(who, listening, system)
                hub.start()
            except BaseException:
                listening.close()
                raise
            _registry[names] = hub
        return _registry[names]


def forget_hubs() -> None:
    """Close the hubs that a forked process has inherited."""
    for hub in list(_registry.values()):
        hub.forget()
    _registry.clear()
