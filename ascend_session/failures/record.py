"""Read a rank's record of its own end: its exception, and the stacks of its threads.

`witness` writes both into the rank's folder (see `rank_folder`). On the stub a rank writes its
exception as soon as it reports it to the others, and these write one when they learn of it.
"""

import json
import math
import os
import re
from typing import Any, List, NamedTuple, Optional, Tuple

from ascend_session.files import read_end
from ascend_session.rank_folder import RECORD_NAME, STACKS_NAME

# Exceptions that scripts and libraries raise for failures of the device, too.
_OPEN = ("Exception", "ImportError", "OSError", "RuntimeError", "SystemError", "SystemExit")
_OF_PYTHON = re.compile(r"[A-Z][A-Za-z]*")
_MOST_RECORD_BYTES = 1 << 20  # a rank writes far less
_MOST_STACKS_BYTES = 256 * 1024


class Frame(NamedTuple):
    """A frame of a stack: ``train.py``, 18, ``load_batch``."""

    path: str
    line: int
    function: str


class ErrorRecord(NamedTuple):
    """An exception that ended a rank's program, or its part in the job.

    Attributes:
        type: Qualified name of its type, without ``builtins.``.
        message: Its text; may be empty.
        traceback: The traceback as Python prints it, with chained causes; a long one lacks its
            middle.
        time: When it was recorded, in seconds since 1970.
        pid: The process.
        exit_code: The exit code that the process was going to have, 128+n for a signal.
        frames: The stack at which it was raised, innermost frame last; at most 100 frames.
        ends_program: True if it reached the top of the program. False if the rank only told the
            others that it cannot go on, or was told so, and may still be running.
        failed_rank: The rank whose failure caused it; None if it is this rank's own.
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
        """The name of the type, without ``__main__.``."""
        prefix = "__main__."
        return self.type[len(prefix) :] if self.type.startswith(prefix) else self.type

    @property
    def is_termination(self) -> bool:
        """True if it is what `session.signals` raises for SIGTERM."""
        return self.type == "ascend_session.session.signals.Terminated"

    @property
    def speaks_for_itself(self) -> bool:
        """True if no device can cause it: a KeyError or the like of Python, or a SIGTERM."""
        is_of_python = _OF_PYTHON.fullmatch(self.type) is not None
        return self.is_termination or (self.type not in _OPEN and is_of_python)


def read_record(folder: str) -> Optional[ErrorRecord]:
    """Read the record in a rank's folder; None if there is none, or the rank did not write it."""
    content = read_end(os.path.join(folder, RECORD_NAME), _MOST_RECORD_BYTES + 1)
    if not content or len(content) > _MOST_RECORD_BYTES:
        return None
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):  # not UTF-8, not JSON, or nested too deeply
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
    """Read frames; empty if one is malformed."""
    frames = []
    for item in value if isinstance(value, list) else ():
        if not isinstance(item, list) or [type(part) for part in item] != [str, int, str]:
            return ()
        frames.append(Frame(*item))
    return tuple(frames)


def read_stacks(folder: str, name: str = STACKS_NAME) -> str:
    """Read the last 256 KB that ``faulthandler`` wrote in a rank's folder; may be empty."""
    content = read_end(os.path.join(folder, name), _MOST_STACKS_BYTES)
    return content.decode("utf-8", "backslashreplace")


_FRAME = re.compile(r'  File "(.*)", line ([0-9]+) in (.*)')


def parse_frames(stack: str) -> List[Frame]:
    """Parse a thread's stack as ``faulthandler`` writes it, innermost frame first."""
    matches = [match for match in map(_FRAME.fullmatch, stack.splitlines()) if match]
    return [Frame(match[1], int(match[2]), match[3]) for match in matches]
