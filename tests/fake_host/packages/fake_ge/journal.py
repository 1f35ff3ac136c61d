"""What can be seen from outside, in order: in this process and in the file of the whole host."""

import json
import os
from typing import Any, Dict, List

__all__ = ["calls", "note", "record"]

_entries: List[Dict[str, Any]] = []


def note(call: str, **facts: Any) -> None:
    """Records a call, and appends it to the file ``FAKE_GE_RECORD`` as one line of JSON."""
    entry = {"call": call, **facts}
    _entries.append(entry)
    path = os.environ.get("FAKE_GE_RECORD")
    if path:
        line = json.dumps({**entry, "pid": os.getpid()}, default=str) + "\n"
        # One write of less than a page: lines of several processes do not mix.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def record() -> List[Dict[str, Any]]:
    """What this process did; the list grows."""
    return _entries


def calls() -> List[str]:
    """The names alone."""
    return [str(entry["call"]) for entry in _entries]
