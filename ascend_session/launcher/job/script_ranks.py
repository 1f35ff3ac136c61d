"""The ranks that a script starts itself, as the guardian sees them from outside.

Three things together keep a launch from a success that was none:

* each Python that is a rank reports how it ended (`witness`, and `cluster.member` once it has
  joined the job). It is exact, but needs the launcher's PYTHONPATH;
* the guardian looks at the processes below it, here. It sees every program that lives long enough,
  and what its output goes to, but not how it ended;
* the text of the script says that it is for several ranks, if nothing was seen of them at all.

The guardian waits for ranks that outlive the script, and tells a rank that waits for others which
of them never joins. The verdict decides with all three what failed. A script that starts all ranks,
and was itself started once for each of them, is found here, too.
"""

import math
import time
from typing import Collection, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ascend_session.cluster.member import ENDED, FAILED, STARTED, JoinedProcess
from ascend_session.launcher.job.children import DEEPEST, SeenProcess, read_environ
from ascend_session.rank_folder import SCRIPT_RANK_PID, is_alone, is_rank_of_script

_Seen = Tuple[int, str, str, str]  # pid, RANK_ID, command and what standard error goes to

_BETWEEN_S = 0.2  # two looks that are compared
_NOTE_S = 1.0  # that a rank may take to exit after its script, before that is noted
_SHELL_S = 1.0  # that a shell which a script leaves behind has to start a rank
_READERS = ("tail", "tee")  # which go on as long as what they read, and start nothing
_NEXT_PROGRAM_S = 5.0  # for a script to start a rank after another program of it has ended
_MOST_DIGITS = 4


class ScriptWatch:
    """Looks for the ranks that a launch's only rank has started, below this process."""

    def __init__(self) -> None:
        self._known: Set[int] = set()
        self._awaiting_since = self._last_seen = math.inf
        self._activity: List[Tuple[int, str]] = []
        self.absent: List[int] = []
        self._next_note = 0.0

    def find_new(self, guardian: SeenProcess) -> List[_Seen]:
        """Find the ranks that were not there before."""
        new = [rank for rank in _find_ranks(guardian) if rank[0] not in self._known]
        self._known.update(rank[0] for rank in new)
        return new

    def note_absent(self, guardian: SeenProcess, joining: Collection[int]) -> None:
        """Note which ranks do not live and can no more be started, in `absent`.

        Args:
            guardian: This process.
            joining: The processes that wait for other ranks to join.
        """
        now = time.monotonic()
        if now >= self._next_note:
            self._next_note = now + _BETWEEN_S
            self.absent = self._find_absent(guardian, joining)

    def _find_absent(self, guardian: SeenProcess, joining: Collection[int]) -> List[int]:
        """Find the ranks that do not live, if none of the living processes may start one.

        A rank that waits for others starts none, unless it has children, which may change its
        variables. Nor do a program that has only started a rank (``timeout``), and a shell that has
        done nothing since the last look, because it waits. Anything else may: a shell that works,
        or one that waits for a program which prepares something.
        """
        ranks: Set[str] = set()
        sizes: Set[str] = set()
        activity = []
        for process in guardian.walk(_is_python_of_rank):
            if not process.words:  # it has just ended
                continue
            is_rank = is_rank_of_script(process.environ)
            if is_rank:
                ranks.add(process.environ["RANK_ID"])
                sizes.add(process.environ["RANK_SIZE"])
            if process.is_shell:
                activity.append((process.pid, process.activity))
            elif process.name not in _READERS and not (is_rank and _is_idle(process, joining)):
                return []
        is_quiet, self._activity = activity == self._activity, activity
        if not is_quiet or len(sizes) != 1 or not all(map(_is_number, ranks | sizes)):
            return []
        return sorted(set(range(int(sizes.pop()))) - {int(rank) for rank in ranks})

    def find_awaited(
        self, guardian: SeenProcess, processes: Sequence[JoinedProcess]
    ) -> Tuple[bool, List[str]]:
        """Find out whether ranks live on after the end of their script.

        A board or a pager has the last one's variables if a script starts it below its loop. So
        what has not joined the job does not count where another process was that rank. A shell may
        be about to become a rank, and a rank may be exiting: they are given a moment.

        Args:
            guardian: This process.
            processes: What the ranks have reported.

        Returns:
            Whether to wait; and the RANK_ID of each that lives, if they do not just exit.
        """
        now, joined = time.monotonic(), [process for process in processes if process.joined]
        # By their own pid: what the script has started for each may be a program around it.
        living = [each for each in joined if is_rank_of_script(read_environ(each.pid))]
        others = {process.rank_id for process in processes if process.state != STARTED}
        awaited = {rank for _, rank, _, _ in _find_ranks(guardian)} - others
        awaited |= {each.rank_id for each in living}
        if awaited:
            self._awaiting_since = min(self._awaiting_since, now)
        self._last_seen = now if awaited else min(self._last_seen, now)
        is_exiting = any(each.state in (ENDED, FAILED) and each.is_alive for each in processes)
        is_soon = now - self._last_seen <= _SHELL_S and (is_exiting or _has_shell(guardian))
        is_noted = now - self._awaiting_since >= _NOTE_S
        return bool(awaited) or is_soon, sorted(awaited) if is_noted else []


class RepeatWatch:
    """Looks for ranks that are there more than once, because each rank of a launch starts all.

    A shell that changes the number of its only rank, or gives one to a helper, starts no others. So
    what counts is a rank below which processes of two other ranks live, and are seen twice; or of
    both ranks, if there are two.

    Args:
        size: The number of ranks of the launch, above 1.

    Attributes:
        suspects: The pids of those that are to be seen a second time.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.suspects: Set[int] = set()
        self._next = 0.0

    def find_repeated(
        self, guardian: SeenProcess, ranks: Mapping[int, str]
    ) -> Iterator[Tuple[int, List[str]]]:
        """Find a rank of the launch that has started other ranks of it.

        Args:
            guardian: This process.
            ranks: The RANK_ID of each that lives, by pid.

        Yields:
            Its pid, and the RANK_ID of each rank below it.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _BETWEEN_S
        below = {
            child.pid: set(self._find_numbers(child, ranks[child.pid]))
            for child in guardian.children
            if child.pid in ranks
        }
        repeated = {pid for pid, numbers in below.items() if len(numbers) > 1}
        certain, self.suspects = self.suspects & repeated, repeated
        if certain:
            yield min(certain), sorted(below[min(certain)], key=int)

    def _find_numbers(self, process: SeenProcess, own: str, depth: int = 0) -> Iterator[str]:
        for child in process.children:
            number = child.environ.get("RANK_ID", "")
            is_of_job = _is_number(number) and int(number) < self._size
            is_rank = is_of_job and not is_alone(child.environ.get("RANK_SIZE", "1"))
            is_own = number == own
            if is_own and child.is_python:
                # Of two ranks, one and the other is all there is.
                yield from [number] if is_rank and self._size == 2 else []
            elif is_rank and not is_own and not child.is_shell:  # whose tools have its own number
                yield number
            elif depth < DEEPEST:
                yield from self._find_numbers(child, own, depth + 1)


def _is_idle(process: SeenProcess, joining: Collection[int]) -> bool:
    if process.is_python:
        return not process.children and process.pid in joining
    return bool(process.children)


def _is_first(process: SeenProcess) -> bool:
    """Return whether a process is a rank of a script, and not only started by one."""
    is_rank = SCRIPT_RANK_PID not in process.environ and is_rank_of_script(process.environ)
    return is_rank and not process.is_shell


def _find_ranks(guardian: SeenProcess) -> Iterator[_Seen]:
    """Find the first ranks below this process; what a rank starts is its own business."""
    for process in guardian.walk(_is_first):
        if process.command and _is_first(process):  # else it has just ended
            yield process.pid, process.environ["RANK_ID"], process.command, process.output


def _is_python_of_rank(process: SeenProcess) -> bool:
    return process.is_python and is_rank_of_script(process.environ)


def _has_shell(guardian: SeenProcess) -> bool:
    """Tell whether a shell lives right below this process."""
    return any(child.is_shell and child.words for child in guardian.children)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


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
