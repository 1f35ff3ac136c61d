"""Where the ranks are, and who waits for whom.

Where a process is, its stacks say. `faulthandler` writes them at a signal, in ranks that the
launcher has started (``stacks.log``) and in other processes that have joined the job
(``stacks_<pid>.log``).
"""

import contextlib
import os
import re
import time
from itertools import repeat
from typing import (
    Any,
    Callable,
    Dict,
    Generic,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import psutil

from ascend_session.cluster.member import CollectiveWait, JoinedProcess
from ascend_session.failures.record import Frame, parse_frames
from ascend_session.files import read_end
from ascend_session.launcher.job.activity import WatchedJob, list_family
from ascend_session.launcher.job.signals import catches_signal
from ascend_session.rank_folder import STACK_SIGNAL, STACKS_NAME, name_stacks
from ascend_session.text import clean, format_duration, label_ranks
from ascend_session.user_code import is_user_file

_Answer = TypeVar("_Answer", covariant=True)

_MOST_PLACES = 4
_ANSWER_S = 2.0  # that processes have to write their stacks
_QUIET_S = 0.2  # after which nothing more is expected
_MOST_BYTES = 16 * 1024
_DEAF = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE)


class Inquiry(Generic[_Answer]):
    """A question whose answer needs stacks, which processes write into files when they are asked.

    Nothing waits for them: `is_answered` is to be called now and then.

    Args:
        processes: Those that are asked, each with the folder of its rank.
        explain: Makes the answer from what each has written that can, by its pid, or from that it
            has written nothing.
    """

    def __init__(
        self,
        processes: Sequence[Tuple[psutil.Process, str]],
        explain: Callable[[Mapping[int, str]], _Answer],
    ) -> None:
        self._explain = explain
        self._begun: Dict[int, Tuple[str, int]] = {}  # by pid: its file, and the size before
        for process, folder in processes:
            for name in (name_stacks(process.pid), STACKS_NAME):
                path = os.path.join(folder, name)
                size = _size(path)
                if process.pid not in self._begun and _request_stacks(process, path):
                    self._begun[process.pid] = path, size
        self._sizes: Dict[int, int] = {}
        self._quiet_since = time.monotonic()
        self._limit = self._quiet_since + _ANSWER_S

    def is_answered(self) -> bool:
        """Return whether all have written their stacks, or have had the time for that."""
        now = time.monotonic()
        if not self._begun or now >= self._limit:
            return True
        sizes = {pid: _size(path) for pid, (path, _) in self._begun.items()}
        if sizes != self._sizes:
            self._sizes, self._quiet_since = sizes, now
        have_answered = all(self._begun[pid][1] < size for pid, size in sizes.items())
        are_whole = all(read_end(path, 1) == b"\n" for path, _ in self._begun.values())
        # Who writes piece by piece may be kept from it for a moment, also in the middle of a line.
        return have_answered and are_whole and now - self._quiet_since >= _QUIET_S

    def read_answer(self) -> Optional[_Answer]:
        """Make the answer; None if that fails, as no job ends because of an explanation."""
        stacks = {}
        for pid, (path, size) in self._begun.items():
            text = _read_text(path, size).rstrip()
            stacks[pid] = text or f"Process {pid} wrote no stacks within {_ANSWER_S:g} s."
        with contextlib.suppress(OSError, psutil.Error):
            return self._explain(stacks)
        return None


def _request_stacks(process: psutil.Process, path: str) -> bool:
    """Send the signal to a process that writes its stacks there; return whether it is one.

    By default the signal ends a program. It goes only to one that catches it and has the file open.
    """
    with contextlib.suppress(psutil.Error, OSError):
        files = [f"/proc/{process.pid}/fd/{fd}" for fd in os.listdir(f"/proc/{process.pid}/fd")]
        is_able = catches_signal(process.pid, STACK_SIGNAL) and process.status() not in _DEAF
        if is_able and any(map(os.path.samefile, files, repeat(path))):
            process.send_signal(STACK_SIGNAL)
            return True
    return False


def _size(path: str) -> int:
    with contextlib.suppress(OSError):
        return os.path.getsize(path)
    return 0


def _read_text(path: str, begin: int = 0) -> str:
    """Read a file's text from ``begin`` on, or the end of that; empty if it cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(begin, _size(path) - _MOST_BYTES))
        return clean(file.read(_MOST_BYTES), colour=False).decode().strip()
    return ""


_STANDARD_LIBRARY = re.compile(r"/lib/python[0-9.]+/")  # of an interpreter that is not this one


def find_user_frame(stacks: str) -> Optional[Frame]:
    """Find the innermost frame of the user's own files in the main thread, or else of any.

    The main thread is the last one that ``faulthandler`` writes.
    """
    last = re.split("^(?:Current thread|Thread) 0x", stacks, flags=re.MULTILINE)[-1]
    frames = parse_frames(last)
    own = [
        frame
        for frame in frames
        if is_user_file(frame.path) and not _STANDARD_LIBRARY.search(frame.path)
    ]
    return next(iter(own or frames), None)


class Situation:
    """Who waits for whom at one moment, or where everybody is.

    Args:
        job: The attempt.
        alive: The pid of each rank that lives.
        members: The processes that have joined the job.
        wait: The wait that it is about; None if none is known.
        waited_s: Its seconds.
        is_about_all: Whether ranks that have no part in the wait are of interest, and none is left
            out because there are many places.

    Attributes:
        is_over: Whether all have come by now who were waited for.
        processes: Those whose stacks say where the ranks are, each with the folder of its rank.
    """

    def __init__(
        self,
        job: WatchedJob,
        alive: Mapping[int, int],
        members: Sequence[JoinedProcess],
        wait: Optional[CollectiveWait] = None,
        waited_s: float = 0.0,
        is_about_all: bool = False,
    ) -> None:
        self._job, self._wait, self._waited_s = job, wait, waited_s
        self._is_about_all = is_about_all
        waiting = {
            member.rank
            for member in members
            for each in member.waits
            if wait is not None and each.key == wait.key
        }
        known = {member.rank for member in members}
        if job.size > 1 or not members:  # else a script below the rank starts them
            known |= alive.keys()
        late = sorted(known - waiting)
        self._waiting = sorted(waiting)
        self._awaited = [rank for rank in late if wait is not None and rank in wait.ranks]
        self._is_elsewhere = wait is not None and bool(set(wait.ranks) - known)
        self.is_over = wait is not None and not self._awaited and not self._is_elsewhere
        self._members = {member.rank: member for member in members if member.rank not in waiting}
        self._families: Dict[int, List[psutil.Process]] = {}
        for rank in late if wait is None or is_about_all else self._awaited:
            pid = self._members[rank].pid if rank in self._members else alive.get(rank)
            self._families[rank] = [] if pid is None else list(list_family(pid))
        # Ranks below a script, of which the launcher has started one, all have its folder.
        folders, first = {rank.rank: rank.folder for rank in job.ranks}, job.ranks[0].folder
        self.processes = [
            (process, folders.get(rank, first))
            for rank, family in self._families.items()
            for process in family
        ]

    def describe(self, stacks: Mapping[int, str]) -> Tuple[Any, List[str]]:
        """Say it, with what processes have written about their stacks.

        Returns:
            What it is about, without numbers of seconds; and the parts of the sentence, of which
            there are none if the wait is over.
        """
        wait = self._wait
        if self.is_over:
            return None, []
        places = {
            rank: _place_of(self._members.get(rank), family, stacks, self._job)
            for rank, family in self._families.items()
        }
        line = "" if wait is None else _shorten(wait.place, self._job)
        is_same = bool(line) and {place.line for place in places.values()} == {line}
        if is_same and not self._is_elsewhere and wait is not None and wait.is_first:
            text = f"all ranks are in the same run for the first time, {line}: probably compiling"
            return text, [text]
        groups: Dict[str, List[int]] = {}
        for rank, place in places.items():
            groups.setdefault(place.text, []).append(rank)
        parts = [
            f"{name_ranks(ranks)} {'is' if len(ranks) == 1 else 'are'} {text}"
            for text, ranks in groups.items()
        ]
        if len(parts) > _MOST_PLACES and not self._is_about_all:
            parts[_MOST_PLACES - 1 :] = ["the others are elsewhere"]
        subject = (tuple(groups), None if wait is None else wait.what)
        if wait is not None:
            parts.append(self._describe_wait(wait, line, is_only_part=len(parts) <= 1))
        return subject, parts

    def _describe_wait(self, wait: CollectiveWait, line: str, is_only_part: bool) -> str:
        whom = "it" if len(self._awaited) == 1 else "them"
        if self._is_about_all and not is_only_part:
            whom = name_ranks(self._awaited)
        if self._is_elsewhere:
            absent = sorted(set(wait.ranks) - set(self._waiting))
            whom = f"{name_ranks(absent)}, some on other nodes"
        have = "has" if len(self._waiting) == 1 else "have"
        where = f"{wait.what}, {line}" if line else wait.what
        time_s = format_duration(self._waited_s)
        return f"{name_ranks(self._waiting)} {have} waited {time_s} for {whom} in {where}"


def name_ranks(ranks: Sequence[int]) -> str:
    """Name ranks by their numbers: ``ranks 0-1 and 3``."""
    firsts, comma, last = label_ranks(ranks).rpartition(", ")
    return f"{firsts} and {last}" if comma else last


def _shorten(place: str, job: WatchedJob) -> str:
    """Give a place in a file below the ranks' folder, or in it, without that."""
    folder = job.cwd + os.sep
    return place[len(folder) :] if place.startswith(folder) else place


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
