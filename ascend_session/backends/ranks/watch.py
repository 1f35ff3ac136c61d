"""Looks at ranks that wait, from rank 0: whether they still live, and whether they can go on.

Nothing is looked at while nobody waits.
"""

import logging
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

from ascend_session.backends.ranks import wording
from ascend_session.backends.ranks.coordinator import Coordinator, Seat
from ascend_session.backends.ranks.endpoint import this_machine
from ascend_session.backends.ranks.processes import EndedError, RankProcess
from ascend_session.backends.ranks.verdict import Situation, verdict

__all__ = ["Watch"]

_logger = logging.getLogger(__name__)

_INTERVAL = 0.5  # seconds between two looks
_MOST = 2.0  # seconds that one look counts for at most
_LATE = 5.0  # seconds after which what a rank elsewhere said of itself counts no more
_INTERVAL_PER_RANK = (
    0.02  # and more with many ranks, for a look takes a fifth of a millisecond each
)


class Watch:
    """A thread that looks at the ranks as long as somebody waits.

    Args:
        lock: Held while a coordinator is asked or told something.
        coordinators: The systems that there are at the moment; called with the lock held.
    """

    def __init__(self, lock: Any, coordinators: Callable[[], List[Coordinator]]) -> None:
        self._lock = lock
        self._coordinators = coordinators
        self._awake = threading.Event()
        self._vigils: Dict[Coordinator, _Vigil] = {}

    def start(self) -> None:
        """Begins; there is no end but the process's."""
        threading.Thread(target=self._run, name="ascend-session-watch", daemon=True).start()

    def wake(self) -> None:
        """Somebody may wait from now on."""
        self._awake.set()

    def _run(self) -> None:
        while self._awake.wait():
            self._awake.clear()
            time.sleep(_INTERVAL)  # most waits are over by then
            while True:
                ranks = self._look()
                if not ranks:
                    break
                time.sleep(_INTERVAL + _INTERVAL_PER_RANK * ranks)

    def _look(self) -> int:
        """Looks at all systems in which anybody waits; the number of their ranks."""
        with self._lock:
            waited_for = [c for c in self._coordinators() if not c.is_over and c.waits]
        self._vigils = {c: self._vigils.get(c) or _Vigil(c, self._lock) for c in waited_for}
        return sum(vigil.look() for vigil in self._vigils.values())


class _Vigil:
    """What was seen of one system since somebody began to wait in it."""

    def __init__(self, coordinator: Coordinator, lock: Any) -> None:
        self._coordinator = coordinator
        self._lock = lock
        self._version = -1
        self._seconds = 0.0
        self._used: Dict[int, Optional[float]] = {}
        self._looked = time.monotonic()
        self._processes: Dict[int, RankProcess] = {}
        self._machine = this_machine()

    def look(self) -> int:
        """Looks once, and ends the job if somebody has ended or nobody can go on.

        Returns:
            The number of ranks that were looked at.
        """
        with self._lock:
            version, staying = self._coordinator.version, self._coordinator.staying
        used = {rank: self._used_by(rank, seat, version) for rank, seat in staying.items()}
        now = time.monotonic()
        # A job that was stopped for a while (Ctrl-Z) has not waited all that time.
        passed, self._looked = min(now - self._looked, _MOST), now
        self._seconds += passed
        if version != self._version:
            self._version, self._seconds, self._used = version, 0.0, {}
        for rank in used:  # a rank elsewhere says it a little later
            if self._used.get(rank) is None:
                self._used[rank] = used[rank]
        computed = {rank: _difference(used[rank], self._used.get(rank)) for rank in used}
        self._judge(version, staying, computed)
        return len(staying)

    def _judge(
        self, version: int, staying: Iterable[int], computed: Dict[int, Optional[float]]
    ) -> None:
        with self._lock:
            if self._coordinator.version == version and not self._coordinator.is_over:
                waits = self._coordinator.waits
                found = verdict(Situation(list(staying), waits, self._seconds, computed))
                if found is not None:
                    _logger.debug("Seconds waited %.1f, computed %s", self._seconds, computed)
                    self._coordinator.end(found)

    def _used_by(self, rank: int, seat: Seat, version: int) -> Optional[float]:
        if seat.endpoint.machine not in ("", self._machine):
            return _said_by(seat, version)
        try:
            return self._processes.setdefault(rank, RankProcess(seat.pid)).processor_seconds()
        except EndedError:
            with self._lock:
                if rank in self._coordinator.staying:
                    self._coordinator.end(wording.gone(rank))
            return None


def _said_by(seat: Seat, version: int) -> Optional[float]:
    """What it said since anything changed, and not too long ago."""
    if seat.used is None:
        return None
    seconds, when, heard = seat.used
    return seconds if when == version and time.monotonic() - heard < _LATE else None


def _difference(now: Optional[float], before: Optional[float]) -> Optional[float]:
    return None if now is None or before is None else now - before
