"""The connections of a node's hub with those of the other nodes: one for each pair of nodes.

The hub of rank 0's node listens at the coordinator's address, and all others connect to it. Once
all ranks have joined, it tells them where the others are, and the later node of each pair connects
to the earlier one. The first node is called by the empty name.
"""

import functools
import logging
import os
import socket
from typing import Callable, Dict, List, Mapping, Optional, Set

from ascend_session.backends.exchange.credentials import Credentials
from ascend_session.backends.exchange.messages import Header, decode, encode
from ascend_session.backends.exchange.network import (
    Connection,
    Listener,
    connect,
    start_thread,
)
from ascend_session.cluster.coordinator import is_loopback, split_address
from ascend_session.errors import InitializationError

_logger = logging.getLogger(__name__)

_NAME_S = 30.0  # in which a name server may learn where rank 0 is, as in Kubernetes
_LATER_S = 10.0  # by which ranks whose time is up have said so themselves

Post = Callable[[Callable[[], None]], None]


class Links:
    """This node's connections.

    Args:
        name: This node's; empty if rank 0 is here.
        coordinator: Where the first node listens, ``host:port``.
        credentials: What this node proves itself with.
        timeout_s: How long other nodes may take to come.
    """

    def __init__(
        self, name: str, coordinator: str, credentials: Credentials, timeout_s: float
    ) -> None:
        # Two processes that believe they are the same node must not be taken for each other.
        self.name = name and f"{name} {os.urandom(8).hex()}"
        self._coordinator = coordinator
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._connections: Dict[str, Connection] = {}
        self._queued: Dict[str, List[bytes]] = {}
        self._introduced: Set[str] = set()
        self._listener: Optional[Listener] = None
        self._post: Post = lambda function: None
        self._receive: Callable[[str, Header, bytes], None] = lambda *message: None
        self._lose: Callable[[str, str], None] = lambda *names: None

    def open(
        self,
        post: Post,
        receive: Callable[[str, Header, bytes], None],
        lose: Callable[[str, str], None],
    ) -> None:
        """Listen, or begin to connect to the first node.

        Args:
            post: Runs a function in the hub's thread.
            receive: Called there with the name of a node and its message.
            lose: Called there with the name of a node whose connection has ended, and the reason
                if it could not be made.

        Raises:
            InitializationError: If this is the first node, and cannot listen.
        """
        self._post, self._receive, self._lose = post, receive, lose
        if self.name:
            start_thread(self._connect_to_first)
            return
        host, _ = split_address(self._coordinator)
        self._listen(self._coordinator)
        text = None if is_loopback(host) else self._credentials.warning(self._coordinator)
        if text:
            _logger.warning("%s", text)

    def send(self, node: str, header: Header, payload: bytes = b"") -> None:
        """Send a node something, once it is connected."""
        message = encode(header, payload)
        connection = self._connections.get(node)
        if connection is None:
            self._queued.setdefault(node, []).append(message)
        else:
            connection.send(message)

    def introduce(self, addresses: Mapping[str, str]) -> None:
        """Connect to the nodes that come before this one; all are connected to the first."""
        for name, address in addresses.items():
            if name < self.name and name not in self._introduced:
                self._introduced.add(name)
                start_thread(self._connect_to, name, address)

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections.values():
            connection.close()
        if self._listener is not None:
            self._listener.close()

    def _listen(self, address: str) -> None:
        self._listener = Listener(address, self.name, self._credentials, self._serve)

    def _connect_to_first(self) -> None:
        """Find out by which address others reach this machine, listen there, and connect."""
        import tenacity

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(InitializationError),
            stop=tenacity.stop_after_delay(min(self._timeout_s / 2, _NAME_S)),
            wait=tenacity.wait_fixed(_NAME_S / 60),
            reraise=True,
        )
        try:
            own = str(retrying(local_address, self._coordinator))
            self._listen(f"[{own}]:0" if ":" in own else f"{own}:0")
        except InitializationError as error:
            self._post(functools.partial(self._lose, "", str(error)))
        else:
            self._connect_to("", self._coordinator)

    def _connect_to(self, node: str, address: str) -> None:
        # Of a first node that never answers the ranks here tell themselves, when their time is up.
        timeout_s = self._timeout_s if node else self._timeout_s + _LATER_S
        try:
            with connect(address, self.name, self._credentials, timeout_s) as connection:
                connection.peer = node
                self._serve(connection)
        except InitializationError as error:
            self._post(functools.partial(self._lose, node, str(error)))

    def _serve(self, connection: Connection) -> None:
        """Hand on what a node sends, until its connection ends."""
        self._post(functools.partial(self._add, connection))
        try:
            for message in connection:
                header, payload = decode(message)
                self._post(functools.partial(self._receive, connection.peer, header, payload))
        except ValueError:
            _logger.exception("Node %r sent what is no message", connection.peer)
            connection.abort()
        self._post(functools.partial(self._remove, connection))

    def _add(self, connection: Connection) -> None:
        """Use a connection, unless a node that was slow to answer is connected anew already."""
        current = self._connections.get(connection.peer)
        if current is not None and current.number > connection.number:
            return
        self._connections[connection.peer] = connection
        if not connection.peer and self._listener is not None:
            connection.send(encode({"kind": "address", "address": self._listener.address}))
        for message in self._queued.pop(connection.peer, []):
            connection.send(message)

    def _remove(self, connection: Connection) -> None:
        """Note that a connection has ended; the node is lost unless it has a later one."""
        if self._connections.get(connection.peer) is connection:
            self._lose(connection.peer, "")


def local_address(coordinator: str) -> str:
    """Tell by which of its addresses this machine reaches the coordinator, and is reached.

    Nothing is sent; only the route is looked up.

    Raises:
        InitializationError: If there is no way.
    """
    host, port = split_address(coordinator)
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise InitializationError(
            f"Cannot reach {coordinator}, where rank 0's node listens for the "
            f"others: {error.strerror or error}. Give the coordinator an address that every node "
            "can reach."
        ) from error
