"""Looks at ranks that wait: whether their processes live, and whether any of them still computes.

The end of a connection is noticed at once, but does not come while a child that a rank has forked
keeps it open. And ranks that wait for each other in different places would wait for ever.
"""

import time
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from ascend_session.backends.exchange.coordinator import STANDSTILL_S, Coordinator

INTERVAL_S = 0.5
"""Between two looks."""

_INTERVAL_PER_RANK_S = 0.02  # and more with many ranks: a look takes a fifth of a millisecond each
_LOOK_COUNTS_S = 2.0  # that one look counts for at most: a job may have been stopped for a while
_REPORT_COUNTS_S = 5.0  # for which what another node's hub has reported counts


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


class Lookout:
    """What is seen of one system's ranks, as long as some of them wait.

    Args:
        lose: Called with a rank of this node whose process has ended.
    """

    def __init__(self, lose: Callable[[int], None]) -> None:
        self._lose = lose
        self._processes: Dict[int, RankProcess] = {}
        self._next = 0.0
        self._version = -1
        self._since = 0.0
        self._unchanged_s = 0.0
        self._first: Dict[int, Optional[float]] = {}  # processor seconds when it changed last
        self._reports: Dict[int, Tuple[float, int, float]] = {}

    def is_due(self, now: float, since: float) -> bool:
        """Tell whether to look; most waits are over before the first look."""
        return now >= max(self._next, since + INTERVAL_S)

    def report(self, used_s: Mapping[int, float], version: int) -> None:
        """Note what another node's hub has seen of its ranks."""
        now = time.monotonic()
        self._reports.update({rank: (used, version, now) for rank, used in used_s.items()})

    def look(self, pids: Mapping[int, int]) -> Dict[int, float]:
        """Look at the processes of this node's ranks.

        Args:
            pids: Of each rank that is here and has not left; 0 for one that is not visible.

        Returns:
            The processor seconds that each has used, where that can be seen.
        """
        self._next = time.monotonic() + INTERVAL_S + _INTERVAL_PER_RANK_S * len(pids)
        used_s = {}
        for rank, pid in pids.items():
            if not pid:
                continue
            try:
                seconds = self._processes.setdefault(rank, RankProcess(pid)).processor_seconds()
            except EndedError:
                self._lose(rank)
            else:
                if seconds is not None:
                    used_s[rank] = seconds
        return used_s

    def judge(self, coordinator: Coordinator, used_s: Mapping[int, float]) -> None:
        """Have the coordinator judge whether ranks that all wait can go on."""
        now = time.monotonic()
        version = coordinator.version
        latest: Dict[int, Optional[float]] = dict(used_s)
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
        coordinator.judge(self._unchanged_s, differences)
        if self._unchanged_s >= 2 * STANDSTILL_S:  # what a rank computed before does not count
            self._version = -1
