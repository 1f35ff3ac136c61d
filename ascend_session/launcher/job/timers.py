"""What the loop of a job has to do later, and for how long it has seen something."""

import math
import time
from typing import Any, Dict


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


class Lasting:
    """For how long facts have been true, as a loop sees that looks now and then.

    What is seen only once may be about to change. A fact that one look does not note is over.

    Attributes:
        left_out_s: The seconds that do not count.
    """

    def __init__(self) -> None:
        self.left_out_s = 0.0
        self._since: Dict[Any, float] = {}
        self._before: Dict[Any, float] = {}  # at the last look

    def begin_look(self) -> None:
        """Begin a look, in which each fact is to be noted that is still true."""
        self._since, self._before = {}, self._since

    def leave_out(self, seconds: float) -> None:
        """Leave out the last seconds, in which no look was taken."""
        self.left_out_s += seconds
        self._since = {fact: since + seconds for fact, since in self._since.items()}

    def note_s(self, *fact: Any) -> float:
        """Note a fact; return the seconds since the first look of those that have all noted it."""
        now = time.monotonic()
        return now - self._since.setdefault(fact, self._before.get(fact, now))
