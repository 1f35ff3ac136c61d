"""Whether the device comes up at all: tried once in a process of its own.

A failed initialisation ends its process (guides/facts/process.md#a-failed-initialisation), which
would be that of the whole run, with nothing said.
"""

import functools
import signal
from typing import Optional

from hardware_tests.running import run

__all__ = ["why_it_ends"]

_LAST_LINES = 8


@functools.lru_cache(maxsize=None)
def why_it_ends() -> Optional[str]:
    """What a process said that initialising ended; None if it went on, however well."""
    ended = run("leaving", "by_the_end_of_the_block")
    if ended.code >= 0:
        return None
    last = "\n".join(line for line in ended.log.splitlines() if line.strip())
    tail = "\n".join(last.splitlines()[-_LAST_LINES:])
    return f"opening the device ends the process ({signal.Signals(-ended.code).name}):\n{tail}"
