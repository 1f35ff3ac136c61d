"""What the ranks of a job send each other: messages over sockets of this machine.

Each device has an address, as its network interface has; who has the device listens there. What
comes in waits in a box until it is asked for. All of it stands for sockets, memory and notifies of
devices: hicann/hccl, docs/en/user_guide/fault_diagnosis/param_link_stage.md, "HCCL creates socket
connections over the Parameter Plane network".
"""

import contextlib
import hashlib
import pickle
import socket
import struct
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

from fake_ge.faults import host_root

__all__ = ["Links", "UnreachableError", "accept", "connect", "read", "write"]

_LENGTH = struct.Struct(">Q")
_PAUSE = 0.01  # seconds between two attempts to reach somebody who does not listen yet


class UnreachableError(Exception):
    """Somebody who does not listen, or takes nothing, until the time was up."""


class Box:
    """What came in and was not asked for yet; one for a process, whatever became of its links.

    Somebody who was initialised again may send to one who was not yet, and is heard afterwards.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.gone: Set[str] = set()
        self._messages: Dict[Any, List[Any]] = {}

    def put(self, key: Any, message: Any) -> None:
        """Puts a message behind those with the same key."""
        with self.changed:
            self._messages.setdefault(key, []).append(message)
            self.changed.notify_all()

    def has(self, key: Any) -> bool:
        """Whether there is a message with this key."""
        return key in self._messages

    def take(self, key: Any) -> Any:
        """The first message with this key, which is there."""
        found = self._messages[key].pop(0)
        if not self._messages[key]:
            del self._messages[key]
        return found

    def fill(self, connection: socket.socket) -> None:
        """Takes in what somebody sends, to the end."""
        with connection:
            sender = str(read(connection))
            self.gone.discard(sender)
            while True:
                found = read(connection)
                if found is None:
                    break
                self.put(*found)
        with self.changed:
            self.gone.add(sender)
            self.changed.notify_all()


_BOX = Box()


class Links:
    """What one process sends and gets, from its initialisation to its end.

    Args:
        name: Its address; one for each device.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._sending = threading.Lock()
        self._peers: Dict[str, socket.socket] = {}
        self._listener = accept(name)
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, peer: str, key: Any, message: Any, until: float) -> None:
        """Puts a message under ``key`` into the box of a peer.

        Raises:
            UnreachableError: If it does not listen until then, or does not take it.
        """
        data = pickle.dumps((key, message), protocol=4)
        with self._sending:
            for last in (False, True):
                try:
                    self._connection(peer, until).settimeout(max(until - time.monotonic(), _PAUSE))
                    write(self._peers[peer], data)
                    return
                except (OSError, socket.timeout):
                    # It may have been initialised again since, and listens at a new socket.
                    self._peers.pop(peer).close()
                    if last:
                        raise UnreachableError(peer) from None

    def wait(self, keys: Iterable[Any], until: float, given_up: Callable[[], bool]) -> Any:
        """What lies under these keys, as soon as all is there, the time is up, or it is given up.

        Args:
            keys: What is waited for.
            until: Of ``time.monotonic``.
            given_up: Is asked whenever something has changed, see `stir`.
        """
        wanted = list(keys)
        with _BOX.changed:
            while not given_up() and not all(map(_BOX.has, wanted)):
                left = until - time.monotonic()
                # A wait of more than a year overflows.
                if left <= 0 or not _BOX.changed.wait(min(left, 1e6)):
                    break
            return {key: _BOX.take(key) for key in wanted if _BOX.has(key)}

    def stir(self) -> None:
        """Has all who wait look whether they give up."""
        with _BOX.changed:
            _BOX.changed.notify_all()

    def gone(self, peer: str) -> bool:
        """Whether a peer that had sent something has closed its connection since."""
        return peer in _BOX.gone

    def close(self) -> None:
        """Listens and sends no more; what was sent still arrives."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._sending:
            while self._peers:
                self._peers.popitem()[1].close()

    def _connection(self, peer: str, until: float) -> socket.socket:
        if peer not in self._peers:
            made = connect(peer, until)
            write(made, pickle.dumps(self._name))
            self._peers[peer] = made
        return self._peers[peer]

    def _listen(self) -> None:
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=_BOX.fill, args=[connection], daemon=True).start()


def accept(name: str) -> socket.socket:
    """A socket that listens at an address.

    Raises:
        OSError: If somebody does there already.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(_address(name))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def connect(name: str, until: float) -> socket.socket:
    """A connection to whoever listens at an address.

    Raises:
        UnreachableError: If nobody does until then.
    """
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(_address(name))
            return connection
        except OSError:
            connection.close()
            if time.monotonic() >= until:
                raise UnreachableError(name) from None
            time.sleep(_PAUSE)


def write(connection: socket.socket, data: bytes) -> None:
    """Sends one message whole."""
    connection.sendall(_LENGTH.pack(len(data)))
    connection.sendall(data)


def read(connection: socket.socket) -> Any:
    """The next message; None if there will be none."""
    head = _exactly(connection, _LENGTH.size)
    data = None if head is None else _exactly(connection, _LENGTH.unpack(head)[0])
    return None if data is None else pickle.loads(data)


def _exactly(connection: socket.socket, count: int) -> Optional[bytes]:
    parts = bytearray()
    while len(parts) < count:
        try:
            found = connection.recv(min(count - len(parts), 1 << 20))
        except OSError:
            return None
        if not found:
            return None
        parts += found
    return bytes(parts)


def _address(name: str) -> str:
    # Abstract, so that there is no file to be left and no path that is too long.
    host = hashlib.sha1(host_root().encode()).hexdigest()[:16]
    return f"\0fake_ge/{host}/{name}"
