"""Looks at ranks that wait: whether their processes live, and whether any of them still computes.

The end of a connection is noticed at once, but does not come while a child that a rank has forked
keeps it open. And ranks that wait for each other in different places would wait for ever.
"""

import time
from typing import Any, Dict, Optional, Tuple

STANDSTILL_S = 3.0
"""Seconds without any change after which it is judged whether ranks that wait can go on."""

_LOOK_COUNTS_S = 2.0  # that one look counts for at most: a job may have been stopped for a while
_REPORT_COUNTS_S = 5.0  # for which what a node's hub has reported counts


class EndedError(Exception):
    """The process is no more, or only a zombie."""


class RankProcess:
    """The process of a rank on this machine."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._process: Any = None

    def processor_seconds(self) -> Optional[float]:
        """Give what it has used until now, all threads together; None if that cannot be seen.

        Raises:
            EndedError: If it has ended.
        """
        import psutil  # only ranks that wait need it

        try:
            if self._process is None:
                self._process = psutil.Process(self._pid)
            if not self._process.is_running() or self._process.status() == psutil.STATUS_ZOMBIE:
                raise EndedError
            times = self._process.cpu_times()
        except psutil.NoSuchProcess as error:
            raise EndedError from error
        except psutil.Error:
            return None
        return float(times.user + times.system)


class Standstill:
    """What is seen of one system's ranks, as long as some of them wait."""

    def __init__(self) -> None:
        self._version = -1
        self._since = 0.0
        self._unchanged_s = 0.0
        self._first: Dict[int, Optional[float]] = {}  # processor seconds when it changed last
        self._reports: Dict[int, Tuple[float, int, float]] = {}

    def report(self, rank: int, used_s: float, version: int) -> None:
        """Note the processor seconds that a rank has used, as its node's hub has seen them."""
        self._reports[rank] = (used_s, version, time.monotonic())

    def measure(self, version: int) -> Tuple[float, Dict[int, Optional[float]]]:
        """Measure for how long nothing has changed, and what the ranks have used meanwhile.

        Args:
            version: Another number whenever something has changed.

        Returns:
            Seconds, and the processor seconds of each rank; None if unknown.
        """
        now = time.monotonic()
        latest: Dict[int, Optional[float]] = {}
        for rank, (used, reported_version, reported_at) in self._reports.items():
            is_fresh = reported_version == version and now - reported_at < _REPORT_COUNTS_S
            latest[rank] = used if is_fresh else None
        if version != self._version:
            self._version, self._unchanged_s, self._first = version, 0.0, {}
        else:
            self._unchanged_s += min(now - self._since, _LOOK_COUNTS_S)
        self._since = now
        differences: Dict[int, Optional[float]] = {}
        for rank, used_now in latest.items():
            if self._first.get(rank) is None:  # a rank elsewhere is reported a little later
                self._first[rank] = used_now
            first = self._first[rank]
            differences[rank] = None if used_now is None or first is None else used_now - first
        if self._unchanged_s >= 2 * STANDSTILL_S:  # what a rank computed before does not count
            self._version = -1
        return self._unchanged_s, differences
