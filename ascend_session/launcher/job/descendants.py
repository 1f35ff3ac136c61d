"""What lives below the ranks, or was left by them: one look at the process tree, and its pace.

A look sees each process once. Rules find in it which ranks a script has started, whether these
outlive it, which of them will never join their job, and whether each rank has started all
(`script_ranks`); and which trainings were left running (`background`). What counts only if it stays
so is a fact that has to last (`timers.Lasting`).
"""

import math
import os
import time
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Collection,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
)

from ascend_session.cluster.member import ENDED, FAILED
from ascend_session.launcher.job import script_ranks
from ascend_session.launcher.job.background import (
    IMPORT_S,
    MOMENT_S,
    Training,
    find_left,
)
from ascend_session.launcher.job.children import SeenProcess
from ascend_session.launcher.job.signals import TERMINATED
from ascend_session.launcher.job.start import GuardedRank
from ascend_session.launcher.job.timers import Lasting, Timers
from ascend_session.rank_folder import RANK_FOLDER

if TYPE_CHECKING:
    from ascend_session.launcher.job.reports import Reports

# A program that cannot start its own one lives for milliseconds.
_OFTEN_S, _REGULARLY_S, _BEGIN_S = 0.02, 0.2, 20.0
# By then most scripts have started their ranks. Those of a late one import TensorFlow, which takes
# two seconds, and longer where each of several scripts starts all ranks.
_RARELY_S, _REPEATS_RARELY_S = 2.0, 5.0
_LARGEST_SHARE = 0.05  # of a CPU that looks take; one takes 0.1 ms for each process of the job
_REPEATED_S = 0.2  # for which a rank is seen to have started others
_EXIT_S = 1.0  # that a process may take to exit when its rank has; later it was left behind


class DescendantWatch:
    """Looks at the processes below this one, and finds out what to wait for.

    Args:
        ranks: The ranks of the launch, by their numbers.
        size: The number of ranks of the job if they may be scripts that start ranks, or else 0.
        tell_absent: Tells a process that waits for a rank why that one never joins.
        timers: Those of the loop; "look" is set for the next look.

    Attributes:
        has_noted_ranks: Whether it was noted that ranks of a script outlive the script.
        is_waiting: Whether the job goes on though none of its ranks lives any more, as last seen.
    """

    def __init__(
        self,
        ranks: Mapping[int, GuardedRank],
        size: int,
        tell_absent: Callable[[int, str], None],
        timers: Timers,
    ) -> None:
        self._began = time.monotonic()
        self._ranks, self._size = ranks, size
        self._numbers = {rank.folder: rank.rank for rank in ranks.values()}
        self._tell_absent, self._timers = tell_absent, timers
        self._lasting = Lasting()
        self._known: Set[int] = set()  # the pids of ranks that a script has started
        self._has_suspects = False
        self._earliest = 0.0  # when other ranks are not kept waiting for a look
        self.has_noted_ranks = self.is_waiting = False
        self._trainings: Dict[int, Training] = {}  # by pid; each was one when it was last seen
        self._announced: Set[int] = set()

    @property
    def announced(self) -> Dict[int, int]:
        """The trainings that were reported and that live: pids by rank."""
        trainings = self._trainings.items()
        return {training.rank: pid for pid, training in trainings if pid in self._announced}

    def leave_out(self, seconds: float) -> None:
        """Leave out the last seconds, in which everyone was stopped, and look again."""
        self._lasting.leave_out(seconds)
        self._timers.set("look")

    def note_exit(self, pid: int, status: int, alive: Mapping[int, Any]) -> Optional[Training]:
        """Note that a child has exited; return it if it was a training whose status counts."""
        self._timers.set("look", max(0.0, self._earliest - time.monotonic()) if alive else 0.0)
        training = self._trainings.pop(pid, None)
        # Its script may have stopped it at its own end.
        was_stopped = status in TERMINATED and pid not in self._announced
        return None if was_stopped or (training and training.is_script_rank) else training

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
        self._lasting.begin_look()
        messages: List[Tuple[Any, ...]] = []
        if self._size == 1:
            messages += self._find_new(guardian)
            self._explain_absences(guardian, reports)
        adopted = [child for child in guardian.children if child.pid not in alive]
        if not is_stopping:
            if self._size > 1:
                messages += self._find_repeated(guardian, alive)
            messages += self._look_at_left(guardian, adopted, alive.values(), reports)
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
        if self._size == 1:
            return (_OFTEN_S if is_early else _RARELY_S) if is_running else _REGULARLY_S
        if self._size > 1:
            return _REGULARLY_S if is_early or self._has_suspects else _REPEATS_RARELY_S
        return math.inf

    def _find_new(self, guardian: SeenProcess) -> Iterator[Tuple[Any, ...]]:
        """Report the ranks of a script that were not there before."""
        for rank in script_ranks.find_ranks(guardian):
            if rank.pid not in self._known:
                self._known.add(rank.pid)
                yield "script_rank", rank.pid, rank.rank_id, rank.command, rank.output

    def _explain_absences(self, guardian: SeenProcess, reports: "Reports") -> None:
        """Tell the processes that wait for the ranks of a script's job which never joins."""
        if not reports.joining:
            return
        absent = script_ranks.find_absent(guardian, reports.joining)
        processes = reports.list_processes(next(iter(self._ranks)))
        for pid, joining in list(reports.joining.items()):
            text = script_ranks.explain_absence(pid, joining, processes, absent, self._lasting)
            if text:
                self._tell_absent(pid, text)  # once
            if text or not os.path.exists(f"/proc/{pid}"):
                del reports.joining[pid]

    def _find_repeated(
        self, guardian: SeenProcess, alive: Mapping[int, int]
    ) -> Iterator[Tuple[Any, ...]]:
        """Report a rank of the launch that has started other ranks of it, if that lasts."""
        ranks = {pid: self._ranks[rank].rank_id for pid, rank in alive.items()}
        repeated = script_ranks.find_repeated(guardian, ranks, self._size)
        self._has_suspects = bool(repeated)
        certain = [
            pid for pid in repeated if self._lasting.note_s(pid, "is repeated") >= _REPEATED_S
        ]
        if certain:
            yield "repeated", alive[min(certain)], tuple(repeated[min(certain)])

    def _look_at_left(
        self,
        guardian: SeenProcess,
        adopted: List[SeenProcess],
        alive: Collection[int],
        reports: "Reports",
    ) -> Iterator[Tuple[Any, ...]]:
        """Find out what to wait for when all ranks have exited, and report it after a moment."""
        waits_s = self._find_trainings(adopted, alive, reports.users)
        if alive:
            return
        longest_s = max(waits_s.values(), default=0.0)
        processes = [each for rank in self._ranks for each in reports.list_processes(rank)]
        awaited = script_ranks.find_awaited(guardian, processes)
        is_exiting = any(each.state in (ENDED, FAILED) and each.is_alive for each in processes)
        exiting_s = self._lasting.note_s("a rank is exiting") if is_exiting else math.inf
        if awaited:
            longest_s = math.inf
        elif is_exiting:
            longest_s = max(longest_s, MOMENT_S)
        is_busy = longest_s == math.inf
        self.is_waiting = is_busy or self._lasting.note_s("nothing is awaited") < longest_s
        left_s = self._lasting.note_s("all ranks have exited")
        if left_s < _EXIT_S:
            return
        if awaited and not self.has_noted_ranks:
            self.has_noted_ranks = True
            yield "awaiting", tuple(awaited)
        may_start = IMPORT_S in waits_s.values() and left_s <= IMPORT_S
        if awaited or exiting_s < MOMENT_S or may_start:
            return  # it is not clear yet which trainings there are
        trainings = {pid for pid, wait_s in waits_s.items() if wait_s == math.inf}
        new = [self._trainings[pid] for pid in sorted(trainings - self._announced)]
        self._announced.update(training.pid for training in new)
        if new:
            yield "background", tuple((each.rank, each.pid, each.command) for each in new)

    def _find_trainings(
        self, adopted: List[SeenProcess], alive: Collection[int], users: Collection[int]
    ) -> Dict[int, float]:
        """Note the trainings that ranks which have exited have left.

        Returns:
            For how many seconds to wait for each adopted process, by pid; infinite for a training.
        """
        waits_s = {}
        for process in adopted:
            number = self._numbers.get(process.environ.get(RANK_FOLDER, ""))
            if number in alive or (number is None and alive):
                continue
            wait_s, left = find_left(process, users, self._lasting)
            waits_s[process.pid] = wait_s
            if wait_s == math.inf and process.pid not in self._trainings:
                number = min(self._ranks) if number is None else number
                self._trainings[process.pid] = Training(
                    number, process.pid, left.command, left.output, left.is_script_rank
                )
        return waits_s
