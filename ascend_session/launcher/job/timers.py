"""What the loop of a job has to do later."""

import math
import time
from typing import Dict


class Timers:
    """When each thing is due, as `time.monotonic` counts; what is not set never is."""

    def __init__(self) -> None:
        self._due: Dict[str, float] = {}

    def __contains__(self, what: str) -> bool:
        return what in self._due

    def set(self, what: str, after_s: float = 0.0) -> None:
        """Let it be due after these seconds; never, if they are infinite."""
        self._due[what] = time.monotonic() + after_s

    def cancel(self, what: str) -> None:
        """Let it never be due."""
        self._due.pop(what, None)

    def is_due(self, what: str) -> bool:
        """Return whether it is due."""
        return what in self._due and time.monotonic() >= self._due[what]

    def take(self, what: str) -> bool:
        """Return whether it is due; if so, it is not again, until it is set."""
        is_due = self.is_due(what)
        if is_due:
            del self._due[what]
        return is_due

    def next_s(self) -> float:
        """Compute the seconds until something is due; infinite if nothing will be."""
        return max(0.0, min(self._due.values(), default=math.inf) - time.monotonic())
