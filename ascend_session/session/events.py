"""What a system did, in order."""

import logging
import time
from typing import List, NamedTuple

__all__ = ["Event", "EventLog"]

_logger = logging.getLogger(__name__)


class Event(NamedTuple):
    """One thing that was done.

    Attributes:
        name: ``job`` (which scheduler says who this process is), ``wait for device``, ``probe``,
            ``initialize``, ``bring up``, ``session open``, ``session close``, ``shutdown``,
            ``signal`` or ``failure``.
        detail: What it was done to or with; may be empty.
        seconds: When, in seconds since the system began to open.
    """

    name: str
    detail: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:8.3f} s  {self.name}" + (f": {self.detail}" if self.detail else "")


class EventLog(List[Event]):
    """The events of one system; also sent to the log at level DEBUG."""

    def __init__(self) -> None:
        super().__init__()
        self._start = time.monotonic()

    def record(self, name: str, detail: str = "") -> None:
        """Adds an event that happened just now."""
        event = Event(name, detail, time.monotonic() - self._start)
        self.append(event)
        _logger.debug("%s", event)
