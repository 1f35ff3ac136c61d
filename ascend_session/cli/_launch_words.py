"""What the launcher itself says while a job runs, sentence by sentence; the summary comes later."""

from typing import Callable, Optional, Set

from ascend_session.launcher.binding import not_bound
from ascend_session.launcher.events import (
    Ended,
    Event,
    Killing,
    Left,
    NotBound,
    NotStarted,
    Planned,
    Stalled,
    Stopping,
)
from ascend_session.launcher.process import Signals, signal_name

__all__ = ["Words"]


class Words:
    """Turns events into sentences; what happens as it should is not worth one.

    Args:
        say: Shows a sentence.
        signals: The signals to the launcher.
        grace: Seconds from SIGTERM to SIGKILL.
    """

    def __init__(self, say: Callable[[str], None], signals: Signals, grace: float) -> None:
        self._say = say
        self._signals = signals
        self._grace = grace
        self._noted: Set[str] = set()
        self._alive = 0
        self._failed: Optional[str] = None

    def note(self, event: Event) -> None:
        """Says what is to be said of an event."""
        if isinstance(event, Planned):
            self._alive, self._failed = len(event.plan.ranks), None
            for sentence in event.plan.notes:
                self._once(sentence)
        elif isinstance(event, (Ended, NotStarted)):
            self._alive -= 1
            if self._failed is None:
                self._failed = _failure(event)
        elif isinstance(event, NotBound):
            self._once(not_bound(event.rank, event.text))
        elif isinstance(event, Stopping):
            self._stopping(event.why)
        elif isinstance(event, Killing):
            self._say("What has not ended by now is killed.")
        elif isinstance(event, Left):
            left = ", ".join(event.processes)
            self._say(f"The ranks have ended and left processes behind, which are ended: {left}.")
        elif isinstance(event, Stalled):
            for sentence in event.report:
                self._say(sentence)

    def _stopping(self, why: str) -> None:
        then = f"SIGKILL in {self._grace:g} s"
        if why == "failure" and self._alive > 0:
            failed = self._failed or "A rank has failed"
            self._say(f"{failed}. The others get SIGTERM now, and {then}.")
        elif why == "asked" and self._signals.noted:
            name = signal_name(self._signals.noted[0])
            self._say(f"{name}: every rank is asked to end, and gets {then}. Again: at once.")
        elif why == "told":
            self._say(f"The job's guardian got a signal: every rank is asked to end; {then}.")

    def _once(self, sentence: str) -> None:
        if sentence not in self._noted:
            self._noted.add(sentence)
            self._say(sentence)


def _failure(event: Event) -> Optional[str]:
    """How a rank failed; None if it did not."""
    if isinstance(event, NotStarted):
        return f"Rank {event.rank} could not be started"
    if not isinstance(event, Ended) or event.status == 0:
        return None
    if event.status < 0:
        return f"Rank {event.rank} was ended by {signal_name(-event.status)}"
    return f"Rank {event.rank} has ended with exit code {event.status}"
