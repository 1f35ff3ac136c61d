"""What the ranks and hubs send each other: a JSON header, and raw bytes behind it.

Also the sentences about ranks that several of them say.
"""

import functools
import json
import struct
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ascend_session.failures import JOB_CANNOT_GO_ON

CANNOT_GO_ON = JOB_CANNOT_GO_ON

FIRST_NODE_LEFT = (
    f"{CANNOT_GO_ON}rank 0 has left (it closed its system) and its process has ended; the ranks of "
    "other nodes reach each other through it. All ranks have to run each collective equally often."
)

LARGEST = 128 * 1024
"""Bytes that a message through a Unix socket has at most."""

SMALL_BYTES = 64 * 1024
"""What a collective gives at most if its tensors travel with the agreement, in no shared memory."""

ALL_SMALL_BYTES = 512 * 1024
"""What all of its ranks have together at most then: the first rank's process holds all of it."""

_LENGTH = struct.Struct("<I")
_KNOWN_BYTES = 1024  # of a header that is kept

Header = Dict[str, Any]

UNREADABLE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a message raises that is none, or that says something else than it should."""


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

    @classmethod
    @functools.lru_cache(maxsize=256)  # a training step has the same as the one before
    def of(cls, key: Any, name: Any, ranks: Tuple[Any, ...], signature: Any) -> "Operation":
        """Make an operation of what was received.

        Raises:
            One of UNREADABLE: If it is none.
        """
        return cls(str(key), str(name), tuple(map(int, ranks)), str(signature))

    def __str__(self) -> str:
        return f'"{self.name}" ({self.signature})'


def encode(header: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """Write a message."""
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    return b"".join((_LENGTH.pack(len(text)), text, payload))


def decode(message: bytes) -> Tuple[Header, bytes]:
    """Read a message.

    Returns:
        The header, which must not be changed, and the bytes behind it.

    Raises:
        ValueError: If it is none.
    """
    if len(message) < _LENGTH.size:
        raise ValueError("a message begins with the length of its header")
    end = _LENGTH.size + _LENGTH.unpack_from(message)[0]
    if end > len(message):
        raise ValueError("a message is as long as it says")
    text = message[_LENGTH.size : end]
    header = _parse_known(text) if len(text) <= _KNOWN_BYTES else _parse(text)
    return header, message[end:]


def _parse(text: bytes) -> Header:
    try:
        header = json.loads(text.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("a header is not nested so deeply") from error
    if not isinstance(header, dict):
        raise ValueError("a header is a JSON object")
    return header


# A training step has the same headers as the one before.
_parse_known = functools.lru_cache(maxsize=256)(_parse)


@functools.lru_cache(maxsize=256)
def encode_entry(operation: Operation, plan: str, size_bytes: int, is_small: bool) -> bytes:
    """Write that a rank is ready for a collective; what it has, if little, comes behind it."""
    header = {"kind": "enter", **operation._asdict()}
    return encode({**header, "plan": plan, "size_bytes": size_bytes, "is_small": is_small})


def is_small(plan: str, size_bytes: int, ranks: int, room_bytes: int = LARGEST) -> bool:
    """Tell whether a collective is small enough for its tensors to travel with the agreement.

    Args:
        plan: ``gather``, which gives what all ranks have together, or a reduction.
        size_bytes: How much one rank has.
        ranks: How many take part.
        room_bytes: How much a message takes.
    """
    all_bytes = size_bytes * ranks
    result_bytes = all_bytes if plan == "gather" else size_bytes
    return result_bytes <= min(SMALL_BYTES, room_bytes) and all_bytes <= ALL_SMALL_BYTES


def rank_ended(rank: int, were_all_there: bool = True) -> str:
    """Say that a rank's process has ended."""
    when = "" if were_all_there else " before all ranks were there"
    return (
        f"{CANNOT_GO_ON}rank {rank} has ended{when} (its connection broke). Look at its output for "
        "the reason."
    )


def rank_failed(rank: int, reason: str) -> str:
    """Say why a rank cannot go on."""
    return f"{CANNOT_GO_ON}rank {rank} failed: {reason}"


def rank_has_left(rank: int, waiting: Sequence[int], operation: Operation, count: int) -> str:
    """Say that ranks wait for one that has closed its system, in their ``count``-th run."""
    times = f" for the {ordinal(count)} time" if count > 1 else ""
    return (
        f"{CANNOT_GO_ON}rank {rank} has left (it closed its system), but {name_ranks(waiting)} "
        f"{conjugate('wait', waiting)} for it in {operation}{times}. All ranks have to run each "
        "collective equally often."
    )


def name_ranks(ranks: Sequence[int], noun: str = "rank") -> str:
    """Give ``rank 3``, ``rank 3 and rank 5``, ``ranks 0 to 2, 5 and 7``."""
    if len(ranks) <= 2:
        return " and ".join(f"{noun} {rank}" for rank in sorted(ranks))
    parts: List[str] = []
    numbers = sorted(ranks)
    while numbers:
        count = next(n for n in range(1, len(numbers) + 1) if numbers[n:][:1] != [numbers[0] + n])
        run, numbers = numbers[:count], numbers[count:]
        parts += [f"{run[0]} to {run[-1]}"] if count > 2 else map(str, run)
    return f"{noun}s " + (f"{', '.join(parts[:-1])} and {parts[-1]}" if parts[1:] else parts[0])


def conjugate(verb: str, ranks: Sequence[int]) -> str:
    """Give ``waits`` for one rank, ``wait`` for several."""
    return verb if len(ranks) > 1 else f"{verb}s"


def ordinal(number: int) -> str:
    """Give ``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
