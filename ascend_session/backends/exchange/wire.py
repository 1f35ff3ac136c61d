"""Messages between the ranks and their hub: a line of JSON followed by raw bytes.

They travel through SOCK_SEQPACKET sockets, which deliver each message whole or not at all: a rank
that is stopped while it sends one does not hold up the hub. Nothing is pickled.
"""

import array
import functools
import json
import socket
import struct
from typing import Any, Dict, List, NamedTuple, Tuple

LARGEST = 128 * 1024
"""Size limit of a message in bytes."""

MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions raised while parsing something that is not a valid message."""

Header = Dict[str, Any]

_SMALL_RESULT_BYTES = 64 * 1024  # largest result of a collective whose tensors travel in messages
_SMALL_TOTAL_BYTES = 512 * 1024  # largest sum of its tensors, which the hub holds
_CREDENTIALS = struct.Struct("3i")  # SO_PEERCRED: pid, uid, gid
_DESCRIPTOR_SPACE = socket.CMSG_SPACE(array.array("i").itemsize)


class Operation(NamedTuple):
    """One collective in the program.

    Attributes:
        key: Its place in the program, the same on all ranks, such as ``graph 1, hccl_world_group,
            collective 3``.
        name: The operator's name in the graph, for messages.
        ranks: World ranks that take part, ascending.
        signature: What must be equal on all of them, readable: ``allreduce sum float32 [4, 3]``.
        line: The user's line that has added it to its graph, for messages; empty if it is unknown.
    """

    key: str
    name: str
    ranks: Tuple[int, ...]
    signature: str
    line: str = ""

    def __str__(self) -> str:
        return f'"{self.name}" ({self.signature}){self.place}'

    @property
    def place(self) -> str:
        """The line, as a sentence continues with it."""
        return f" of {self.line}" if self.line else ""


def encode(header: Header, payload: bytes = b"") -> bytes:
    """Write a message."""
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + payload


@functools.lru_cache(maxsize=256)
def encode_entry(operation: Operation, plan: str, size_bytes: int) -> bytes:
    """Write that a rank enters a collective; its tensor follows if that is small."""
    return encode({"kind": "enter", **operation._asdict(), "plan": plan, "size_bytes": size_bytes})


def decode(message: bytes) -> Tuple[Header, bytes]:
    """Read a message; raise ValueError if it is malformed. The header must not be changed."""
    text, _, payload = message.partition(b"\n")
    return _parse(text), payload


@functools.lru_cache(maxsize=256)  # training steps repeat their headers
def _parse(text: bytes) -> Header:
    try:
        header = json.loads(text.decode())
    except RecursionError as error:
        raise ValueError("the header is nested too deeply") from error
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    return header


def is_small(plan: str, size_bytes: int, rank_count: int) -> bool:
    """Return whether a tensor is sent with the message that enters, not through shared memory.

    Args:
        plan: ``gather``, which gives what all ranks have together, or a reduction.
        size_bytes: The size of this rank's tensor.
        rank_count: How many ranks take part.
    """
    all_bytes = size_bytes * rank_count
    result_bytes = all_bytes if plan == "gather" else size_bytes
    return result_bytes <= _SMALL_RESULT_BYTES and all_bytes <= _SMALL_TOTAL_BYTES


def make_socket() -> socket.socket:
    """Make a socket for messages, whose buffer has room for the largest one."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST)
    return connection


def read_peer(connection: socket.socket) -> Tuple[int, int]:
    """Return pid and uid of the process at the other end, as the kernel knows them.

    The pid is 0 for a process of another pid namespace.
    """
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(peer)
    return pid, uid


def receive(connection: socket.socket, buffer: memoryview) -> Tuple[bytes, List[int]]:
    """Receive a message, and the open files that came with it, which the caller has to close.

    Args:
        connection: Where from.
        buffer: Room for a message of `LARGEST` bytes. A longer one counts as the end.

    Returns:
        The message; empty at the end of the connection.

    Raises:
        BlockingIOError: If there is none now, on a socket that does not block.
    """
    while True:
        try:
            size_bytes, rights, flags, _ = connection.recvmsg_into(
                [buffer], _DESCRIPTOR_SPACE, socket.MSG_CMSG_CLOEXEC
            )
            break
        except ConnectionResetError:  # comes once, before what was sent last
            continue
        except BlockingIOError:
            raise
        except OSError:
            return b"", []
    files = array.array("i")
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
    return b"" if flags & socket.MSG_TRUNC else bytes(buffer[:size_bytes]), list(files)
