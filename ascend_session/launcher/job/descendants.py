"""What lives below the ranks, or was left by them: one look at the process tree, and its pace.

A look answers which ranks a script has started itself, whether these outlive it, and which of them
will never join their job (`script_ranks`); and which trainings were left running (`background`).
"""

import math
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple

from ascend_session.launcher.job.background import BackgroundWatch, Training
from ascend_session.launcher.job.children import SeenProcess
from ascend_session.launcher.job.script_ranks import Absence, RepeatWatch, ScriptWatch
from ascend_session.launcher.job.start import GuardedRank
from ascend_session.launcher.job.timers import Timers

if TYPE_CHECKING:
    from ascend_session.launcher.job.reports import Reports

# A program that cannot start its own one lives for milliseconds.
_OFTEN_S, _REGULARLY_S, _BEGIN_S = 0.02, 0.2, 20.0
# By then most scripts have started their ranks. Those of a late one import TensorFlow, which takes
# two seconds, and longer where each of several scripts starts all ranks.
_RARELY_S, _REPEATS_RARELY_S = 2.0, 5.0
_LARGEST_SHARE = 0.05  # of a CPU that looks take; one takes 0.1 ms for each process of the job


class DescendantWatch:
    """Looks at the processes below this one, and finds out what to wait for.

    Args:
        ranks: The ranks of the launch, by their numbers.
        size: The number of ranks of the job if they may be scripts that start ranks, or else 0.
        tell_absent: Tells a process that waits for a rank why that one never joins.
        timers: Those of the loop; "look" is set for the next look.

    Attributes:
        has_noted_ranks: Whether it was noted that ranks of a script outlive the script.
        is_awaiting: Whether they do.
        background: Looks at what the ranks have left.
    """

    def __init__(
        self,
        ranks: Mapping[int, GuardedRank],
        size: int,
        tell_absent: Callable[[int, str], None],
        timers: Timers,
    ) -> None:
        self._began = time.monotonic()
        self._timers = timers
        self.has_noted_ranks = self.is_awaiting = False
        self.background = BackgroundWatch({rank.folder: rank.rank for rank in ranks.values()})
        self._ranks = ranks
        self._scripts = ScriptWatch() if size == 1 else None
        self._repeats = RepeatWatch(size) if size > 1 else None
        self._tell_absent = tell_absent
        self._absences: Dict[int, Absence] = {}  # by pid
        self._earliest = 0.0  # when other ranks are not kept waiting for a look

    @property
    def is_waiting(self) -> bool:
        """Whether the job goes on though none of its ranks lives any more, as last seen."""
        return self.is_awaiting or self.background.is_waiting

    def note_exit(self, pid: int, status: int, alive: Mapping[int, Any]) -> Optional[Training]:
        """Note that a child has exited; return it if it was a training whose status counts."""
        self._timers.set("look", max(0.0, self._earliest - time.monotonic()) if alive else 0.0)
        return self.background.remove(pid, status)

    def look(
        self, alive: Mapping[int, int], reports: "Reports", is_stopping: bool = False
    ) -> List[Tuple[Any, ...]]:
        """Look at all of them.

        Args:
            alive: The rank of each that lives, by pid.
            reports: What the ranks have reported.
            is_stopping: Whether all are to exit; then nothing is waited for.

        Returns:
            The messages for the launcher, without their times.
        """
        began, guardian = time.process_time(), SeenProcess(os.getpid())
        messages: List[Tuple[Any, ...]] = []
        if self._scripts is not None:
            messages += [("script_rank", *rank) for rank in self._scripts.find_new(guardian)]
            self._scripts.note_absent(guardian, reports.joining)
            if not (alive or is_stopping):
                processes = reports.list_processes(next(iter(self._ranks)))
                self.is_awaiting, noted = self._scripts.find_awaited(guardian, processes)
                if noted and not self.has_noted_ranks:
                    self.has_noted_ranks = True
                    messages.append(("awaiting", tuple(noted)))
        elif self._repeats is not None and not is_stopping:
            ranks = {pid: self._ranks[rank].rank_id for pid, rank in alive.items()}
            for pid, rank_ids in self._repeats.find_repeated(guardian, ranks):
                messages.append(("repeated", alive[pid], tuple(rank_ids)))
        self._explain_absences(reports)
        adopted = [child for child in guardian.children if child.pid not in alive]
        if not is_stopping:
            self.background.examine(adopted, alive.values(), reports.users)
            new = [] if alive or self.is_awaiting else self.background.take_new()
            if new:
                trainings = tuple((each.rank, each.pid, each.command) for each in new)
                messages.append(("background", trainings))
        now, taken_s = time.monotonic(), time.process_time() - began
        self._earliest = now + max(_REGULARLY_S, taken_s / _LARGEST_SHARE)
        is_soon = bool(reports.joining or (adopted and not is_stopping))
        pause_s = math.inf if is_stopping else self._choose_pause(now - self._began, bool(alive))
        pause_s = min(pause_s, _REGULARLY_S) if is_soon else pause_s
        self._timers.set("look", max(pause_s, taken_s / _LARGEST_SHARE))
        return messages

    def _choose_pause(self, age_s: float, is_running: bool) -> float:
        """Choose the seconds between two looks at ranks that scripts start."""
        is_early = age_s < _BEGIN_S
        if self._scripts is not None:
            return (_OFTEN_S if is_early else _RARELY_S) if is_running else _REGULARLY_S
        if self._repeats is not None:
            is_often = is_early or self._repeats.suspects
            return _REGULARLY_S if is_often else _REPEATS_RARELY_S
        return math.inf

    def _explain_absences(self, reports: "Reports") -> None:
        """Tell the processes that wait for the ranks of a script's job which never joins."""
        absent = () if self._scripts is None else self._scripts.absent
        numbers = {joining.number for joining in reports.joining.values()}
        below = {number: reports.list_processes(number) for number in numbers}
        for pid, (number, rank, size) in list(reports.joining.items()):
            absence = self._absences.setdefault(pid, Absence(pid, rank, size))
            text = absence.explain(below[number], absent)
            if text:
                self._tell_absent(pid, text)  # once
            if text or not os.path.exists(f"/proc/{pid}"):
                del reports.joining[pid]
        self._absences = {pid: self._absences[pid] for pid in reports.joining}
