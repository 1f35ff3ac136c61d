"""Which ranks of a script's job will never join it, for those that wait for them."""

import time
from typing import Collection, Dict, Optional, Sequence

from ascend_session.cluster.member import FAILED, STARTED, JoinedProcess

_NEXT_PROGRAM_S = 5.0  # for a script to start a rank after another program of it has ended


class Absence:
    """Explains to one process that waits for the ranks of its job why one of them is absent.

    Args:
        pid: The process.
        rank: Its rank in the job.
        size: The number of ranks.
    """

    def __init__(self, pid: int, rank: int, size: int) -> None:
        self._pid, self._rank, self._size = pid, rank, size
        self._ended: Dict[int, float] = {}  # pid -> when its end was noticed
        self._absent: Dict[int, float] = {}  # rank -> when its absence was noticed

    def explain(self, processes: Sequence[JoinedProcess], absent: Collection[int]) -> str:
        """Return which rank will never join, and why; empty while all still may.

        Args:
            processes: Those that are or were ranks below the same rank of the launch.
            absent: The ranks that do not live, and that nothing is left to start.
        """
        now = time.monotonic()
        ended = self._find_ended(processes, now)
        if ended is not None:
            how = f": {ended.error}" if ended.error else ", as by a signal"
            end = "" if how.endswith((".", "!", "?")) else "."
            return f"rank {ended.rank} exited before it joined the job{how}{end}"
        ranks = sorted(rank for rank in absent if rank < self._size)
        self._absent = {rank: self._absent.get(rank, now) for rank in ranks}
        for rank, since in self._absent.items():
            if now - since > _NEXT_PROGRAM_S:
                return (
                    f"no process is rank {rank}, and nothing is left that could start it: its "
                    "program exited before it joined the job, or could not be started."
                )
        return ""

    def _find_ended(
        self, processes: Sequence[JoinedProcess], now: float
    ) -> Optional[JoinedProcess]:
        """Find a rank that died before it joined and was not replaced."""
        own = [each for each in processes if each.rank == self._rank and each.pid != self._pid]
        # An earlier job of the script ended when its process with this rank did.
        began = max((each.time for each in own if not each.is_alive), default=0.0)
        newest = {each.rank: each for each in sorted(processes, key=lambda each: each.time)}
        for rank, process in newest.items():
            is_dead = process.state == STARTED and not process.is_alive
            is_lost = process.state == FAILED or is_dead
            if process.joined or not is_lost or process.time < began:
                continue
            since = self._ended.setdefault(process.pid, now)
            has_failed = process.state == FAILED and process.uses_vendor
            if 0 <= rank < self._size and (has_failed or now - since > _NEXT_PROGRAM_S):
                return process
        return None
