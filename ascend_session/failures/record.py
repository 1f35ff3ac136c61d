"""What a rank itself left behind about its end: its exception, and the stacks of its threads.

The runner writes both into the rank's folder, the exception by `failures.record_writer` and the
stacks as ``launcher/rank_main.py`` says. That imports nothing of this package, so that it starts as
fast as plain Python: the name and the number below stand there again, and a test compares them. A
rank on the stub writes its exception already when it tells the others of it.
"""

import json
import math
import os
import signal
from typing import Any, Dict, NamedTuple, Optional

from ascend_session.failures.record_writer import RECORD_NAME

STACKS_NAME = "stacks.log"

STACK_SIGNAL = signal.SIGRTMIN + 7
"""Number of the signal that makes a rank write its stacks; it ends a program that has no runner."""

_RECORD_LIMIT = 1 << 20  # bytes; the runner writes far less
_STACKS_LIMIT = 256 * 1024  # bytes


class ErrorRecord(NamedTuple):
    """An exception that ended a rank's program.

    Attributes:
        type: Its qualified name; that of a builtin without ``builtins``.
        message: Its text; may be empty.
        traceback: As Python prints it, with chained causes; cut in the middle if it is long.
        time: When it reached the top of the program, in seconds since 1970.
        pid: The process that it ended.
        exit_code: What the process was going to end with, 128+n for a signal.
    """

    type: str
    message: str
    traceback: str
    time: float
    pid: int
    exit_code: int


def end_of(path: str, limit: int) -> bytes:
    """The last bytes of a file, at most so many; empty if it cannot be read."""
    try:
        # A pipe or a device of this name would block or never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return b""
    try:
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            file.seek(max(0, size - limit))
            return file.read(limit)
    except OSError:
        return b""


def read_record(folder: str) -> Optional[ErrorRecord]:
    """The record in a rank's folder; None if there is none, or no file that the runner wrote."""
    data = end_of(os.path.join(folder, RECORD_NAME), _RECORD_LIMIT + 1)
    if not data or len(data) > _RECORD_LIMIT:
        return None
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):  # no UTF-8, no JSON, too deep
        return None
    return _record(found) if isinstance(found, dict) else None


def read_stacks(folder: str) -> str:
    """What ``faulthandler`` left in a rank's folder, the last 256 KB of it; empty if nothing."""
    data = end_of(os.path.join(folder, STACKS_NAME), _STACKS_LIMIT)
    return data.decode("utf-8", "backslashreplace")


def _record(found: Dict[str, Any]) -> Optional[ErrorRecord]:
    """The record in a parsed file; None if it holds anything but a record."""
    values: Any = [found.get(name) for name in ErrorRecord._fields]
    record = ErrorRecord(*values)
    texts = all(isinstance(text, str) for text in record[:3])
    numbers = type(record.time) is float and type(record.pid) is type(record.exit_code) is int
    return record if texts and numbers and math.isfinite(record.time) else None
