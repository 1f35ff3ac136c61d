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
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import psutil

from ascend_session.cluster.member import OPEN, STARTED, CollectiveWait, JoinedProcess
from ascend_session.launcher.job.activity import Activity, WatchedJob
from ascend_session.launcher.job.events import Stalled, StallNote
from ascend_session.launcher.job.places import Inquiry, Situation, name_ranks
from ascend_session.launcher.job.reports import Reports

REPORT_NAME = "stalled.log"
"""File in the attempt's folder with what each rank does, and its stacks, when a job has stalled."""

_SILENCE_FACTOR = 5  # by which silence of all ranks takes longer to be worth a note
# How often to look, as a part of the time and in seconds: a stall is noticed a tenth late at most.
_FRACTION, _SHORTEST, _LONGEST = 0.1, 0.2, 5.0


class _Standing(NamedTuple):
    """What stands still: a wait or, with None, all ranks; since when, for how long and too long."""

    wait: Optional[CollectiveWait]
    about: Any
    age_s: float
    limit_s: float


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
        self._activity = Activity(job)
        self._looked = self._next = self._next_measure = time.monotonic()
        self._asked: Dict[Any, float] = {}  # the age of a wait at which ranks are asked again
        self._noted: Dict[Any, float] = {}  # the age at which the same is noted again
        self._pauses: List[Tuple[float, float]] = []

    def next_look_s(self) -> float:
        """Compute the seconds until `look` should be called; before that it does nothing."""
        return max(0.0, self._next - time.monotonic())

    def leave_out(self, began: float, ended: float) -> None:
        """Count a time in which all ranks were stopped neither as a wait nor as silence."""
        self._pauses.append((began, ended))
        self._activity.sign += ended - began
        self._looked = self._next = self._next_measure = ended

    def look(
        self, alive: Mapping[int, int]
    ) -> "Optional[Inquiry[Union[Stalled, StallNote, None]]]":
        """Look for waits and for signs of life of any rank; the end of a rank is one, too.

        If this was not called for long, because the launcher or the machine was stopped, nothing is
        known of that time and the wait begins anew.

        Returns:
            None, or what answers with `Stalled` if there was no sign of life within the limit, and
            with `StallNote` if there is something to note.
        """
        now = time.monotonic()
        if now < self._next:
            return None
        activity = self._activity
        limit_s = self._timeout_s or self._note_s
        is_new = activity.note_alive(alive, now)
        if now - self._looked > max(3 * self._interval, min(1.0, limit_s / 2)) or not alive:
            is_new, activity.sign = True, now
        activity.look_at_logs(now)
        # Whose job writes now and then does not pay for a look at all processes.
        is_due = now - activity.sign >= limit_s
        if is_due or (self._timeout_s is not None and (is_new or now >= self._next_measure)):
            self._next_measure = now + self._measure_interval
            activity.measure(now)
        self._looked, self._next = now, now + self._interval
        if self._timeout_s is not None:
            due = max(activity.sign + self._timeout_s, now + _SHORTEST)
            self._next = min(self._next, due)
            if now - activity.sign >= self._timeout_s:
                return self._report_stall(now)
        with contextlib.suppress(OSError, psutil.Error):  # no job ends because of a note
            return self._note(now)
        return None

    def locate_all(self, alive: Mapping[int, int]) -> "Inquiry[List[str]]":
        """Ask where each rank is now and who waits for whom; the answer are parts of a sentence."""
        now = time.monotonic()
        self._activity.note_alive(alive, now)
        situation = self._see(_find_longest_wait(self._list_members()), now, is_about_all=True)
        if situation.is_over:
            situation = self._see(None, now, is_about_all=True)
        return Inquiry(situation.processes, lambda stacks: situation.describe(stacks)[1])

    def describe_standing(self, alive: Mapping[int, int]) -> "Optional[Inquiry[str]]":
        """Ask who waits for whom in a job that stands still; None for one that does not."""
        now = time.monotonic()
        self._activity.note_alive(alive, now)
        standing = self._find_standing(now)
        if standing is None:
            return None
        situation = self._see(standing.wait, now)
        return Inquiry(situation.processes, lambda stacks: "; ".join(situation.describe(stacks)[1]))

    def _list_members(self) -> List[JoinedProcess]:
        """List which processes of the ranks have joined the job and not left it, or may still."""
        members = [
            member
            for rank in sorted(self._activity.alive)
            for member in self._reports.list_processes(rank)
            if member.state in (STARTED, OPEN) and member.rank >= 0 and member.is_alive
        ]
        # Where several have the number of a rank, the one that has joined the job is the rank.
        return sorted(members, key=lambda member: member.state == OPEN)

    def _see(
        self, wait: Optional[CollectiveWait], now: float, is_about_all: bool = False
    ) -> Situation:
        waited_s = 0.0 if wait is None else self._elapsed_s(wait.since, now)
        members, alive = self._list_members(), self._activity.alive
        return Situation(self._job, alive, members, wait, waited_s, is_about_all)

    def _note(self, now: float) -> "Optional[Inquiry[Optional[StallNote]]]":
        """Note what stands still for long, once and then after twice the time."""
        standing = self._find_standing(now)
        if standing is None:
            return None
        wait, about, age_s, limit_s = standing
        if age_s < self._asked.get(about, limit_s):
            return None
        self._asked = {about: _next_limit(limit_s, age_s)}
        situation = self._see(wait, now)

        def explain(stacks: Mapping[int, str]) -> Optional[StallNote]:
            subject, parts = situation.describe(stacks)
            if not parts or age_s < self._noted.get(subject, limit_s):
                return None
            self._noted[subject] = _next_limit(limit_s, age_s)
            silence = [_describe_silence(age_s)] if wait is None else []
            return StallNote("; ".join([*silence, *parts]) + ".", time.time())

        return Inquiry(situation.processes, explain)

    def _find_standing(self, now: float) -> "Optional[_Standing]":
        """Find what stands still for long enough to be noted: a wait, or else all ranks."""
        first = _find_longest_wait(self._list_members())
        waited_s = 0.0 if first is None else self._elapsed_s(first.since, now)
        if first is not None and waited_s >= self._note_s:
            return _Standing(first, (first.key, first.since), waited_s, self._note_s)
        limit_s, sign = _SILENCE_FACTOR * self._note_s, self._activity.sign
        return _Standing(None, sign, now - sign, limit_s) if now - sign >= limit_s else None

    def _elapsed_s(self, since: float, now: float) -> float:
        """Compute the seconds since then in which the ranks were not stopped."""
        pauses = (max(0.0, ended - max(began, since)) for began, ended in self._pauses)
        return now - since - sum(pauses)

    def _report_stall(self, now: float) -> "Inquiry[Stalled]":
        """Write down what each rank does, and say it in a sentence."""
        families = self._activity.find_processes()
        # Before the stacks, whose signal wakes whoever writes them.
        blocks = {
            rank: self._activity.describe(rank, families[rank], now) for rank in sorted(families)
        }
        ended = [rank.rank for rank in self._job.ranks if rank.rank not in families]

        def explain(stacks: Mapping[int, str]) -> Stalled:
            lines = []
            for rank, block in blocks.items():
                written = [stacks[each.pid] for each in families[rank] if each.pid in stacks]
                lines += [block, *written]
            if ended:
                lines.append(f"Exited with code 0 before that: {name_ranks(ended)}.")
            _, parts = self._see(_find_longest_wait(self._list_members()), now).describe(stacks)
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

        processes = [
            (process, self._job.of(rank).folder)
            for rank, family in families.items()
            for process in family
        ]
        return Inquiry(processes, explain)


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


def _find_longest_wait(members: Sequence[JoinedProcess]) -> Optional[CollectiveWait]:
    waits = [wait for member in members for wait in member.waits]
    return min(waits, key=lambda wait: wait.since) if waits else None
