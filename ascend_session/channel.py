"""The channel: one connection of each process below a launch to the launcher.

A message is an object in JSON, in one packet of a Unix socket, with its name under ``kind``:

| kind | what it says | its values |
|---|---|---|
| `hello` | who this is; the first message | `folder`, that of the rank |
| `uses` | below a rank: it uses this package, or imports the vendor's | |
| `witness` | a Python that is a rank of a script starts, imports the vendor's packages, or ends; \
`witness` sends this, which cannot import this file | see `cluster.member` |
| `joining` | it waits for ranks of a script to join; or no more, if `size` is 0 | `rank`, `size` |
| `state` | it has joined the job, waits for other ranks, or leaves | see `cluster.member` |
| `step` | training has made a step | `step`; `total`, the last one, or null; `time`; `pace`, \
see `training.progress` |
| `gaps` | how long the host took between runs | see `backends.run_times` |
| `first_step` | training begins with this step | `step` |
| `not_finite` | gradients are not finite; or are again, if `step` is null | `step`, counted from \
the start; `variable`, may be empty; `is_own`, whether this rank's own gradient was not finite |
| `models` | how the ranks' models compare, from rank 0 on the stub | `is_one_model`, or null; \
`error`, a sentence or null; `notes`, sentences; `late_shares`, a number for each rank, or none; \
`slow_rank`, or null |
| `replaced` | which options were set from outside over a script's own | `options`, of \
each its path, its value, and the one in the script; null where there is none |

The launcher sends

* `stop` with its `time`, right before a signal by which it asks this process to exit;
* `paused`, when it lets processes continue that it had stopped;
* `absent` with a `text`, to one that is `joining`: which rank never will, and why.

Times are in seconds, from `time.monotonic`. `launcher.job.reports` is the other end, and makes
`exit` with a `code` of a packet of one byte, which the C library of a rank of a script sends.

No process waits for the launcher: what there is no room for is lost. Optional messages are sent
while less than half of the send buffer is used, so that there is room for the others, even if the
launcher has been stopped. Outside of a launch, and where the launcher cannot be reached, as by
another user or in a container with a network of its own, nothing is sent.
"""

import contextlib
import fcntl
import json
import os
import socket
import struct
import sys
from typing import Any, Dict, Optional

from ascend_session.process import on_fork
from ascend_session.rank_folder import CHANNEL, RANK_FOLDER, connect

_MOST_BYTES = 1 << 16  # of a message; a send buffer has room for three of them
_UNREAD_BYTES = 0x5411  # SIOCOUTQ, unix(7)


class _Connection:
    """A connection to the launcher, which does not block."""

    def __init__(self, address: str, folder: str) -> None:
        fd = connect(address)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=fd)
        self._socket.setblocking(False)
        self._half_bytes = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2
        self.stop_time: Optional[float] = None
        self.absent = ""
        self.pause_count = 0
        self.send({"kind": "hello", "folder": folder}, is_optional=False)

    def send(self, message: Dict[str, Any], is_optional: bool) -> bool:
        """Send a message if there is room; return whether it was sent.

        Raises:
            OSError: If there is none, or if the launcher is gone.
        """
        data = json.dumps(message).encode()
        if len(data) > _MOST_BYTES or (is_optional and self._count_unread() > self._half_bytes):
            return False
        self._socket.send(data, socket.MSG_NOSIGNAL)
        return True

    def receive(self) -> None:
        """Read what the launcher has sent."""
        with contextlib.suppress(OSError, ValueError):
            while True:
                data = self._socket.recv(_MOST_BYTES)
                if not data:
                    break
                message = json.loads(data.decode())
                if message["kind"] == "stop":
                    self.stop_time = message["time"]
                elif message["kind"] == "paused":
                    self.pause_count += 1
                else:
                    self.absent = message["text"]

    def close(self) -> None:
        self._socket.close()

    def _count_unread(self) -> int:
        """Count the bytes that the launcher has not read, with what the kernel needs for them."""
        size = fcntl.ioctl(self._socket, _UNREAD_BYTES, bytes(4))
        return int(struct.unpack("i", size)[0])


# The only one, by its address. There is no lock: it would stay locked if a signal raised while an
# exception leaves its block, as where there is no room (Python 3.7); then nothing could be sent.
_connections: Dict[str, _Connection] = {}


def _find_connection() -> Optional[_Connection]:
    return next(iter(tuple(_connections.values())), None)


def is_below_launch() -> bool:
    """Return whether there is a launcher that reads what is sent."""
    return bool(os.environ.get(CHANNEL) and os.environ.get(RANK_FOLDER))


def send(kind: str, *, is_optional: bool = False, **values: Any) -> bool:
    """Send a message to the launcher, if there is one; ignore errors.

    Args:
        kind: The name of the message.
        is_optional: Whether it may be left out as long as the launcher reads slowly.
        **values: What JSON can hold.

    Returns:
        Whether it was sent.
    """
    address, folder = os.environ.get(CHANNEL), os.environ.get(RANK_FOLDER)
    if not (address and folder):
        return False
    # One that cannot be sent is lost, and the next one may find the launcher.
    with contextlib.suppress(OSError):
        connection = _connections.get(address)
        if connection is None:
            opened = _Connection(address, folder)
            connection = _connections.setdefault(address, opened)
            if connection is not opened:  # another thread was faster
                opened.close()
        return connection.send({"kind": kind, **values}, is_optional)
    return False


def note_use() -> None:
    """Report that this process below a rank uses this package, or imports the vendor's.

    Neither the rank itself, which leads its session, nor a process with TensorFlow needs that.
    """
    if os.getsid(0) != os.getpid() and "tensorflow" not in sys.modules:
        send("uses")


def read_stop() -> Optional[float]:
    """Return when the launcher last sent the signal to stop, just before; None if it has not."""
    connection = _find_connection()  # a signal's handler calls this
    if connection is None:
        return None
    connection.receive()
    return connection.stop_time


def read_absent() -> str:
    """Return which rank of the job will never join, and why; empty as long as that is not known."""
    connection = _find_connection()
    if connection is None:
        return ""
    connection.receive()
    text, connection.absent = connection.absent, ""
    return text


def count_pauses() -> int:
    """Return how often the launcher has stopped this process and let it continue."""
    connection = _find_connection()
    if connection is None:
        return 0
    connection.receive()
    return connection.pause_count


def _forget_in_child() -> None:
    """Forget the parent's connection: a forked child has its own once it sends anything."""
    while _connections:
        _connections.popitem()[1].close()


on_fork(_forget_in_child)
