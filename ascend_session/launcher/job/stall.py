"""Whether a job stands still, and who waits for whom then.

Two things say so. A rank reports in which collective it waits for others, and since when, on the
stub (`cluster.member`). And no rank writes anything or uses a CPU (`activity`).

Where a rank is that does not wait, its stack says: it is asked for that by a signal. A note is all
that comes of it, since evaluation or a checkpoint on one rank is ordinary; but with a limit for
stalls, ranks that show no sign of life for so long are ended.
"""

import contextlib
import math
import os
import time
from typing import (
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import psutil

from ascend_session.cluster.member import OPEN, STARTED, CollectiveWait, JoinedProcess
from ascend_session.launcher.job.activity import (
    Meter,
    Processes,
    Steps,
    collect_stacks,
    describe_process,
    find_user_frame,
    list_family,
)
from ascend_session.launcher.job.events import Stalled, StallNote
from ascend_session.launcher.job.reports import Reports
from ascend_session.launcher.job.start import GuardedRank
from ascend_session.text import format_duration, format_ranges

REPORT_NAME = "stalled.log"
"""File in the attempt's folder with what each rank does, and its stacks, when a job has stalled."""

_SILENCE_FACTOR = 5  # by which silence of all ranks takes longer to be worth a note
# How often to look, as a part of the time and in seconds: a stall is noticed a tenth late at most.
_FRACTION, _SHORTEST, _LONGEST = 0.1, 0.2, 5.0
_MOST_NAMED, _MOST_PLACES = 5, 4


class _Standing(NamedTuple):
    """What stands still: a wait or, with None, all ranks; since when, for how long and too long."""

    wait: Optional[CollectiveWait]
    about: Any
    age_s: float
    limit_s: float


class WatchedJob(NamedTuple):
    """What the watch has to know of an attempt.

    Attributes:
        ranks: Its ranks, in order.
        size: The number of ranks of the job, on all nodes.
        folder: The attempt's.
        cwd: The working directory of the ranks.
        timeout_s: How long no rank may show any sign of life before the job counts as stalled;
            None for as long as they like.
        note_s: How long a rank may wait for others before that is noted; 0 for as long as it likes.
        limits: When HCCL would give up a job that stalled for so long, in sentences.
    """

    ranks: Tuple[GuardedRank, ...]
    size: int
    folder: str
    cwd: str
    timeout_s: Optional[float]
    note_s: float
    limits: Tuple[str, ...]

    def of(self, rank: int) -> GuardedRank:
        """Return a rank by its number in the job."""
        return self.ranks[rank - self.ranks[0].rank]


class StallWatch:
    """Looks now and then whether ranks wait long for others, and for signs of life.

    Args:
        job: The attempt.
        reports: What its ranks report.
    """

    def __init__(self, job: WatchedJob, reports: Reports) -> None:
        timeout_s = job.timeout_s
        self._timeout_s = timeout_s
        self._note_s = job.note_s or math.inf
        self._interval = _choose_interval(min(self._note_s, timeout_s or math.inf))
        # Within less than that, the ticks of a rank that only waits would look like use.
        self._measure_interval = _choose_interval(timeout_s or self._note_s)
        self._job = job
        self._reports = reports
        self._processes = Processes({rank.folder: rank.rank for rank in job.ranks})
        self._sizes: Dict[int, int] = {}  # of the logs of a rank, at the last look
        self._wrote: Dict[int, float] = {}  # when a rank last wrote something
        self._alive: Dict[int, int] = {}
        self._meters: Dict[int, Meter] = {}
        self._looked = self._sign = self._next = self._next_measure = time.monotonic()
        self._asked: Dict[Any, float] = {}  # the age of a wait at which ranks are asked again
        self._noted: Dict[Any, float] = {}  # the age at which the same is noted again
        self._pauses: List[Tuple[float, float]] = []

    def next_look_s(self) -> float:
        """Compute the seconds until `look` should be called; before that it does nothing."""
        return max(0.0, self._next - time.monotonic())

    def leave_out(self, began: float, ended: float) -> None:
        """Count a time in which all ranks were stopped neither as a wait nor as silence."""
        self._pauses.append((began, ended))
        self._sign += ended - began
        self._looked = self._next = self._next_measure = ended

    def look(self, alive: Mapping[int, int]) -> Steps[Union[Stalled, StallNote, None]]:
        """Look for waits and for signs of life of any rank; the end of a rank is one, too.

        If this was not called for long, because the launcher or the machine was stopped, nothing is
        known of that time and the wait begins anew.

        Returns:
            `Stalled` if there was no sign of life within the limit; `StallNote` if there is
            something to note; else None.
        """
        now = time.monotonic()
        if now < self._next:
            return None
        limit_s = self._timeout_s or self._note_s
        was_away = now - self._looked > max(3 * self._interval, min(1.0, limit_s / 2))
        is_new = was_away or not alive or dict(alive) != self._alive
        if is_new:
            self._sign, self._alive = now, dict(alive)
        self._look_at_logs(now)
        self._sign = max([self._sign, *(self._wrote.get(rank, 0.0) for rank in alive)])
        # Whose job writes now and then does not pay for a look at all processes.
        is_due = now - self._sign >= limit_s
        if is_due or (self._timeout_s is not None and (is_new or now >= self._next_measure)):
            self._measure(now)
        self._looked, self._next = now, now + self._interval
        if self._timeout_s is not None:
            due = max(self._sign + self._timeout_s, now + _SHORTEST)
            self._next = min(self._next, due)
            if now - self._sign >= self._timeout_s:
                return (yield from self._report_stall(now))
        with contextlib.suppress(OSError, psutil.Error):  # no job ends because of a note
            return (yield from self._note(now))
        return None

    def _look_at_logs(self, now: float) -> None:
        for rank in self._alive:
            states = []
            for path in self._job.of(rank).logs:
                with contextlib.suppress(OSError):
                    states.append(os.stat(path))
            size = sum(state.st_size for state in states)
            if states and size != self._sizes.get(rank, 0):
                self._sizes[rank] = size
                ago_s = time.time() - max(state.st_mtime for state in states)
                # The clock of a file server may be another one.
                self._wrote[rank] = min(now, max(now - ago_s, self._wrote.get(rank, 0.0)))

    def _measure(self, now: float) -> None:
        self._next_measure = now + self._measure_interval
        for rank, seconds in self._processes.look(self._alive).items():
            meter = self._meters.setdefault(rank, Meter(now))
            meter.add(seconds, now)
            self._sign = max(self._sign, meter.last)

    def locate_all(self, alive: Mapping[int, int]) -> Steps[List[str]]:
        """Say where each rank is now and who waits for whom, in parts of a sentence."""
        self._note_alive(alive, time.monotonic())
        with contextlib.suppress(OSError, psutil.Error):
            members = self._list_members()
            for wait in (_find_longest_wait(members), None):
                now = time.monotonic()
                _, parts = yield from self._describe(members, wait, now, is_about_all=True)
                if parts:
                    return parts
        return []

    def describe_standing(self, alive: Mapping[int, int]) -> Steps[str]:
        """Say who waits for whom in a job that stands still; empty for one that does not."""
        now = time.monotonic()
        self._note_alive(alive, now)
        with contextlib.suppress(OSError, psutil.Error):
            members = self._list_members()
            standing = self._find_standing(members, now)
            if standing is not None:
                _, parts = yield from self._describe(members, standing.wait, now)
                return "; ".join(parts)
        return ""

    def _list_members(self) -> List[JoinedProcess]:
        """List which processes of the ranks have joined the job and not left it, or may still."""
        members = [
            member
            for rank in sorted(self._alive)
            for member in self._reports.list_processes(rank)
            if member.state in (STARTED, OPEN) and member.rank >= 0 and member.is_alive
        ]
        # Where several have the number of a rank, the one that has joined the job is the rank.
        return sorted(members, key=lambda member: member.state == OPEN)

    def _note_alive(self, alive: Mapping[int, int], now: float) -> None:
        if dict(alive) != self._alive:  # the end of a rank is a sign of life
            self._sign, self._alive = now, dict(alive)

    def _note(self, now: float) -> Steps[Optional[StallNote]]:
        """Note what stands still for long, once and then after twice the time."""
        members = self._list_members()
        standing = self._find_standing(members, now)
        if standing is None:
            return None
        wait, about, age_s, limit_s = standing
        if age_s < self._asked.get(about, limit_s):
            return None
        self._asked = {about: _next_limit(limit_s, age_s)}
        subject, parts = yield from self._describe(members, wait, now)
        if not parts or age_s < self._noted.get(subject, limit_s):
            return None
        self._noted[subject] = _next_limit(limit_s, age_s)
        if wait is None:
            parts = [_describe_silence(now - self._sign), *parts]
        return StallNote("; ".join(parts) + ".", time.time())

    def _find_standing(self, members: Sequence[JoinedProcess], now: float) -> "Optional[_Standing]":
        """Find what stands still for long enough to be noted: a wait, or else all ranks."""
        first = _find_longest_wait(members)
        waited_s = 0.0 if first is None else self._elapsed_s(first.since, now)
        if first is not None and waited_s >= self._note_s:
            return _Standing(first, (first.key, first.since), waited_s, self._note_s)
        limit_s = _SILENCE_FACTOR * self._note_s
        if now - self._sign >= limit_s:
            return _Standing(None, self._sign, now - self._sign, limit_s)
        return None

    def _elapsed_s(self, since: float, now: float) -> float:
        """Compute the seconds since then in which the ranks were not stopped."""
        pauses = (max(0.0, ended - max(began, since)) for began, ended in self._pauses)
        return now - since - sum(pauses)

    def _report_stall(self, now: float) -> Steps[Stalled]:
        """Write down what each rank does, and say it in a sentence."""
        families = {rank: self._processes.of(rank, self._alive[rank]) for rank in self._alive}
        # Before the stacks, whose signal wakes whoever writes them.
        blocks = {rank: self._describe_rank(rank, families[rank], now) for rank in sorted(families)}
        folders = {rank: self._job.of(rank).folder for rank in families}
        ended = [rank.rank for rank in self._job.ranks if rank.rank not in self._alive]
        stacks = yield from collect_stacks(
            [(process, folders[rank]) for rank, family in families.items() for process in family]
        )
        lines = []
        for rank, block in blocks.items():
            written = [stacks[process.pid] for process in families[rank] if process.pid in stacks]
            text = "\n".join(written)
            lines.append(f"{block}\n{text}" if text else block)
        if ended:
            lines.append(f"Exited with code 0 before that: {_name(ended)}.")
        members = self._list_members()
        wait = _find_longest_wait(members)
        _, parts = yield from self._describe(members, wait, now, stacks)
        head = f"The job stalled: {_describe_silence(self._timeout_s or 0.0)}"
        sentence = "; ".join([head, *parts]) + "."
        path = os.path.join(self._job.folder, REPORT_NAME)
        advice = f"Read what each rank was doing, with its stacks, in {path}."
        try:
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write("\n".join([sentence, *lines]) + "\n")
        except OSError as error:
            advice = f"The stacks could not be written to {path}: {error.strerror}."
        return Stalled((sentence, advice, *self._job.limits), time.time())

    def _describe(
        self,
        members: Sequence[JoinedProcess],
        wait: Optional[CollectiveWait],
        now: float,
        stacks: Optional[Mapping[int, str]] = None,
        is_about_all: bool = False,
    ) -> Steps[Tuple[Any, List[str]]]:
        """Say who waits for whom, or where everybody is.

        Args:
            members: The processes that have joined the job.
            wait: The wait that it is about; None if none is known.
            now: The time.
            stacks: What processes have written, if they were asked already.
            is_about_all: Whether ranks that have no part in the wait are of interest, and none is
                left out because there are many places.

        Returns:
            What it is about, without numbers of seconds; and the parts of the sentence, of which
            there are none if the wait is over.
        """
        waiting = {
            member.rank: each
            for member in members
            for each in member.waits
            if wait is not None and each.key == wait.key
        }
        others = {member.rank: member for member in members if member.rank not in waiting}
        known = {member.rank for member in members}
        if self._job.size > 1 or not members:  # else a script below the rank starts them
            known |= self._alive.keys()
        late = sorted(known - waiting.keys())
        awaited = [rank for rank in late if wait is not None and rank in wait.ranks]
        is_elsewhere = wait is not None and bool(set(wait.ranks) - known)
        if wait is not None and not awaited and not is_elsewhere:
            return None, []  # they have come meanwhile
        is_part = wait is not None and not is_about_all
        places = yield from self._locate(awaited if is_part else late, others, stacks)
        line = "" if wait is None else _shorten(wait.place, self._job)
        is_same = bool(line) and {place.line for place in places.values()} == {line}
        if is_same and not is_elsewhere and wait is not None and wait.is_first:
            text = f"all ranks are in the same run for the first time, {line}: probably compiling"
            return text, [text]
        groups: Dict[str, List[int]] = {}
        for rank, place in places.items():
            groups.setdefault(place.text, []).append(rank)
        parts = [
            f"{_name(ranks)} {'is' if len(ranks) == 1 else 'are'} {text}"
            for text, ranks in groups.items()
        ]
        if len(parts) > _MOST_PLACES and not is_about_all:
            parts[_MOST_PLACES - 1 :] = ["the others are elsewhere"]
        subject = (tuple(groups), None if wait is None else wait.what)
        if wait is None:
            return subject, parts
        ranks, time_s = sorted(waiting), format_duration(self._elapsed_s(wait.since, now))
        whom = "it" if len(awaited) == 1 else "them"
        if len(parts) > 1 and is_about_all:
            whom = _name(awaited)
        if is_elsewhere:
            whom = f"{_name(sorted(set(wait.ranks) - waiting.keys()))}, some on other nodes"
        have = "has" if len(ranks) == 1 else "have"
        where = f"{wait.what}, {line}" if line else wait.what
        parts.append(f"{_name(ranks)} {have} waited {time_s} for {whom} in {where}")
        return subject, parts

    def _locate(
        self,
        ranks: Iterable[int],
        members: Mapping[int, JoinedProcess],
        stacks: Optional[Mapping[int, str]],
    ) -> "Steps[Dict[int, _Place]]":
        """Say of each rank where it is, by its stack or else by its process."""
        families: Dict[int, List[psutil.Process]] = {}
        for rank in ranks:
            pid = members[rank].pid if rank in members else self._alive.get(rank)
            families[rank] = [] if pid is None else list(list_family(pid))
        if stacks is None:
            # Ranks below a script, of which the launcher has started one, all have its folder.
            first = self._job.ranks[0].folder
            folders = {rank.rank: rank.folder for rank in self._job.ranks}
            stacks = yield from collect_stacks(
                [
                    (process, folders.get(rank, first))
                    for rank, family in families.items()
                    for process in family
                ]
            )
        return {
            rank: _place_of(members.get(rank), family, stacks, self._job)
            for rank, family in families.items()
        }

    def _describe_rank(self, rank: int, family: Sequence[psutil.Process], now: float) -> str:
        wrote_at = self._wrote.get(rank)
        wrote = (
            "has written nothing" if wrote_at is None else f"last wrote {now - wrote_at:.0f} s ago"
        )
        used = f"last used a CPU {now - self._meters[rank].last:.0f} s ago"
        processes = [describe_process(process) for process in family[:_MOST_NAMED]]
        processes += [f"{len(family) - _MOST_NAMED} more"] if len(family) > _MOST_NAMED else []
        return (
            f"Rank {rank} {wrote} and {used}: {', '.join(processes) or 'its process has exited'}."
        )


def _choose_interval(limit_s: float) -> float:
    """Choose the seconds between two looks; infinite where nothing is too long."""
    if limit_s == math.inf:
        return math.inf
    return min(max(limit_s * _FRACTION, _SHORTEST), _LONGEST)


def _next_limit(limit_s: float, age_s: float) -> float:
    """Double a limit until it is above an age."""
    while limit_s <= age_s:
        limit_s *= 2
    return limit_s


def _describe_silence(seconds: float) -> str:
    return f"no rank has written anything or used a CPU for {seconds:.3g} s"


def _name(ranks: Sequence[int]) -> str:
    noun = "rank" if len(ranks) == 1 else "ranks"
    *firsts, last = format_ranges(ranks).split(", ")
    return f"{noun} {', '.join(firsts)} and {last}" if firsts else f"{noun} {last}"


def _shorten(place: str, job: WatchedJob) -> str:
    """Give a place in a file below the ranks' folder, or in it, without that."""
    folder = job.cwd + os.sep
    return place[len(folder) :] if place.startswith(folder) else place


def _find_longest_wait(members: Sequence[JoinedProcess]) -> Optional[CollectiveWait]:
    waits = [wait for member in members for wait in member.waits]
    return min(waits, key=lambda wait: wait.since) if waits else None


class _Place(NamedTuple):
    """Where a rank is: the user's line, if it is known, and all in words that follow "is"."""

    line: str
    text: str


def _place_of(
    member: Optional[JoinedProcess],
    family: Sequence[psutil.Process],
    stacks: Mapping[int, str],
    job: WatchedJob,
) -> _Place:
    if member is not None and member.waits:
        wait = member.waits[0]
        line = _shorten(wait.place, job)
        return _Place(line, f"waiting in {wait.what}{', ' * bool(line)}{line}")
    for process in family:
        frame = find_user_frame(stacks.get(process.pid, ""))
        if frame is not None:
            line = _shorten(f"{frame.path}:{frame.line}", job)
            return _Place(line, f"at {line} ({frame.function})")
    if not family:
        return _Place("", "gone")
    with contextlib.suppress(psutil.Error):
        process, state = family[0], family[0].status()
        if state in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
            return _Place("", f"stopped (`kill -CONT {process.pid}` continues it)")
        return _Place("", f"{state} (process {process.pid})")
    return _Place("", "gone")
