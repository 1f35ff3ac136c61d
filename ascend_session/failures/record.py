"""Read a rank's own record of its end: its exception, and the stacks of its threads.

The runner writes both into the rank's folder, as `rank_folder` says. A rank on the stub writes its
exception already when it tells the others of it, and those do when they hear of it.
"""

import json
import math
import os
import re
from typing import Any, List, NamedTuple, Optional, Tuple

from ascend_session.files import read_end
from ascend_session.rank_folder import RECORD_NAME, STACKS_NAME

# Exceptions that scripts and libraries raise because of what the device said.
_OPEN = ("Exception", "OSError", "RuntimeError", "SystemError", "SystemExit")
_PYTHONS_OWN = re.compile(r"[A-Z][A-Za-z]*")
_MOST_RECORD_BYTES = 1 << 20  # the runner writes far less
_MOST_STACKS_BYTES = 256 * 1024


class Frame(NamedTuple):
    """A frame of a stack: ``train.py``, 18, ``load_batch``."""

    path: str
    line: int
    function: str


class ErrorRecord(NamedTuple):
    """An exception that ended a rank's program, or its part in the job.

    Attributes:
        type: Its qualified name; that of a builtin without ``builtins``.
        message: Its text; may be empty.
        traceback: As Python prints it, with chained causes; cut in the middle if it is long.
        time: When it reached the top of the program, in seconds since 1970.
        pid: The process that it ended.
        exit_code: What the process was going to end with, 128+n for a signal.
        frames: Where it was raised, the innermost frame last; at most 100.
        ends_program: Whether it reached the top of the program; else the rank has told the others
            that it cannot go on, or heard so, and may still be ending.
        failed_rank: The rank whose failure this merely follows from, or None.
    """

    type: str
    message: str
    traceback: str
    time: float
    pid: int
    exit_code: int
    frames: Tuple[Frame, ...] = ()
    ends_program: bool = True
    failed_rank: Optional[int] = None

    @property
    def name(self) -> str:
        """The type as the program itself calls it, without ``__main__``."""
        prefix = "__main__."
        return self.type[len(prefix) :] if self.type.startswith(prefix) else self.type

    @property
    def speaks_for_itself(self) -> bool:
        """True if it is an exception of Python that no device can cause, such as a KeyError."""
        return self.type not in _OPEN and _PYTHONS_OWN.fullmatch(self.type) is not None


def read_record(folder: str) -> Optional[ErrorRecord]:
    """Read the record in a rank's folder; None without one that the runner wrote."""
    content = read_end(os.path.join(folder, RECORD_NAME), _MOST_RECORD_BYTES + 1)
    if not content or len(content) > _MOST_RECORD_BYTES:
        return None
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):  # no UTF-8, no JSON, too deep
        return None
    if not isinstance(value, dict):
        return None
    fields: Any = [value.get(name) for name in ErrorRecord._fields[:6]]
    record = ErrorRecord(*fields)
    has_texts = all(isinstance(text, str) for text in record[:3])
    has_numbers = type(record.time) is float and type(record.pid) is type(record.exit_code) is int
    if not has_texts or not has_numbers or not math.isfinite(record.time):
        return None
    failed_rank = value.get("failed_rank")
    return record._replace(
        frames=_read_frames(value.get("frames")),
        ends_program=value.get("ends_program") is not False,
        failed_rank=failed_rank if type(failed_rank) is int else None,
    )


def _read_frames(value: Any) -> Tuple[Frame, ...]:
    """Read frames; none of them if one is something else."""
    frames = []
    for item in value if isinstance(value, list) else ():
        if not isinstance(item, list) or [type(part) for part in item] != [str, int, str]:
            return ()
        frames.append(Frame(*item))
    return tuple(frames)


def read_stacks(folder: str) -> str:
    """Read what ``faulthandler`` left in a rank's folder, the last 256 KB of it; may be empty."""
    content = read_end(os.path.join(folder, STACKS_NAME), _MOST_STACKS_BYTES)
    return content.decode("utf-8", "backslashreplace")


_FRAME = re.compile(r'  File "(.*)", line ([0-9]+) in (.*)')


def parse_frames(stack: str) -> List[Frame]:
    """Parse a thread's stack as ``faulthandler`` writes it; the innermost frame comes first."""
    matches = [match for match in map(_FRAME.fullmatch, stack.splitlines()) if match]
    return [Frame(match[1], int(match[2]), match[3]) for match in matches]
