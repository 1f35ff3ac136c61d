"""Messages between the ranks and their hub: a JSON header, and raw bytes behind it.

They travel through sockets of the kind SOCK_SEQPACKET, which keep messages apart: each is there as
a whole or not at all. So a rank that is stopped in the middle of one never holds up the hub, as it
would with the length-prefixed stream of `multiprocessing.connection`. Nothing is pickled.
"""

import array
import functools
import json
import socket
import struct
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

LARGEST = 128 * 1024
"""Bytes that a message has at most."""

MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions raised while reading something that is not a valid message."""

Header = Dict[str, Any]

_SMALL_BYTES = 64 * 1024  # what a collective gives at most if its tensors travel in messages
_ALL_SMALL_BYTES = 512 * 1024  # what all of its ranks have together then: the hub holds it
_LENGTH = struct.Struct("<I")
_CREDENTIALS = struct.Struct("3i")  # SO_PEERCRED: pid, uid, gid
_DESCRIPTOR_SPACE = socket.CMSG_SPACE(array.array("i").itemsize)
_TRUNCATED = int(socket.MSG_TRUNC)


class Operation(NamedTuple):
    """One collective in the program.

    Attributes:
        key: Its place in the program, the same on all ranks: ``graph 1, hccl_world_group,
            collective 3``.
        name: The operator's name in the graph, for messages.
        ranks: World ranks that take part, ascending.
        signature: What must be equal on all of them, readable: ``allreduce sum float32 [4, 3]``.
    """

    key: str
    name: str
    ranks: Tuple[int, ...]
    signature: str

    def __str__(self) -> str:
        return f'"{self.name}" ({self.signature})'


def encode(header: Header, payload: bytes = b"") -> bytes:
    """Write a message."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((_LENGTH.pack(len(text)), text, payload))


@functools.lru_cache(maxsize=256)
def encode_entry(operation: Operation, plan: str, size_bytes: int) -> bytes:
    """Write that a rank enters a collective; a small tensor is to be put behind it."""
    return encode({"kind": "enter", **operation._asdict(), "plan": plan, "size_bytes": size_bytes})


def decode(message: bytes) -> Tuple[Header, bytes]:
    """Read a message; raise ValueError if it is not one. The header must not be changed."""
    if len(message) < _LENGTH.size:
        raise ValueError("a message begins with the length of its header")
    end = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    if end > len(message):
        raise ValueError("a message is as long as it says")
    return _parse(message[_LENGTH.size : end]), message[end:]


@functools.lru_cache(maxsize=256)  # a training step has the same headers as the one before
def _parse(text: bytes) -> Header:
    try:
        header = json.loads(text.decode())
    except RecursionError as error:
        raise ValueError("a header is not nested so deeply") from error
    if not isinstance(header, dict):
        raise ValueError("a header is a JSON object")
    return header


def is_small(plan: str, size_bytes: int, rank_count: int) -> bool:
    """Tell whether a tensor of so many bytes travels in the message that enters its collective.

    Args:
        plan: ``gather``, which gives what all ranks have together, or a reduction.
        size_bytes: The size of this rank's tensor.
        rank_count: How many ranks take part.
    """
    all_bytes = size_bytes * rank_count
    result_bytes = all_bytes if plan == "gather" else size_bytes
    return result_bytes <= _SMALL_BYTES and all_bytes <= _ALL_SMALL_BYTES


def make_socket() -> socket.socket:
    """Make a socket for messages, whose buffer has room for the largest one."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST)
    return made


def find_user(connection: socket.socket) -> Tuple[int, int]:
    """Return pid and uid of the process at the other end, as the kernel knows them.

    The pid is 0 for a process of another pid namespace.
    """
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(peer)
    return pid, uid


def send(connection: socket.socket, message: bytes, descriptor: Optional[int] = None) -> None:
    """Send a message, and an open file with it.

    Raises:
        BlockingIOError: If the other end cannot take it now, on a socket that does not block.
    """
    if descriptor is None:
        connection.send(message)
    else:
        files = array.array("i", [descriptor])
        connection.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])


def pack_time(seconds: Optional[float]) -> bytes:
    """Write a time limit of a socket, at least 1 µs; to the kernel 0 is none, as None is here."""
    if seconds is None:
        return struct.pack("@ll", 0, 0)
    return struct.pack("@ll", int(seconds), max(int(seconds % 1 * 1e6), 1))


def receive(
    connection: socket.socket, buffer: memoryview, must_wait: bool = True
) -> Tuple[bytes, List[int]]:
    """Receive a message, and the open files that came with it, which the caller has to close.

    Args:
        connection: Where from.
        buffer: Room for a message of `LARGEST` bytes. One that is longer counts as the end.
        must_wait: Whether to wait for one, if the socket blocks.

    Returns:
        The message; empty at the end of the connection.

    Raises:
        BlockingIOError: If there is none now, or within the socket's time limit.
    """
    flags_now = socket.MSG_CMSG_CLOEXEC | (0 if must_wait else socket.MSG_DONTWAIT)
    while True:
        try:
            size_bytes, rights, flags, _ = connection.recvmsg_into(
                [buffer], _DESCRIPTOR_SPACE, flags_now
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
    return b"" if flags & _TRUNCATED else bytes(buffer[:size_bytes]), list(files)
