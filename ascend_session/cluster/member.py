"""State files, in which each process of a launched job reports to the launcher.

The launcher sees only the processes that it starts. It sees neither in which collective a rank
waits nor how a rank ended that a shell script started. So a process that opens a system writes
``process_<pid>.json`` into its rank's folder: that it joined the job, in which collective it has
been waiting, and how it ended. Outside of a launch nothing is written. Failures to write are
ignored.
"""

import contextlib
import faulthandler
import json
import os
import sys
import threading
import time
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ascend_session.cluster.script_rank import EXIT_CODE, is_rank_of_script
from ascend_session.files import UnreadableError, read_regular_file, replace_file
from ascend_session.process import on_close, on_fork
from ascend_session.rank_folder import (
    ABSENT_NAME,
    PROCESS_PREFIX,
    PROCESS_SUFFIX,
    RANK_FOLDER,
    STACK_SIGNAL,
    name_process,
    name_stacks,
    name_waiting,
)
from ascend_session.text import one_line

LONG_WAIT_S = 0.5
"""Seconds of waiting for other ranks after which the wait is recorded."""

STARTED = "started"  # no system yet
KILLED = "killed"  # died in state STARTED, before another program with its RANK_ID started
OPEN = "open"  # opens a system or has one
CLOSED = "closed"  # has closed its system in order
FAILED = "failed"  # ended by an exception
ENDED = "ended"  # ended in order

_UNREADABLE = (UnreadableError, ValueError, TypeError, KeyError, AttributeError)
_LONGEST_ERROR = 400  # characters
_MOST_BYTES = 1 << 16  # of a file
_CHECK_EVERY_S = 0.3
_NEXT_PROGRAM_S = 5.0  # for a script to start a rank after another program of it has ended


class CollectiveWait(NamedTuple):
    """A collective in which a process waits for other ranks.

    Attributes:
        key: Identifies the collective; the same on all ranks that wait in it.
        what: The collective in words, as in ``allreduce 'gradients'``.
        ranks: The ranks that take part.
        since: When the wait began, in seconds of `time.monotonic`.
        place: The line of the user's code that the main thread is in; may be empty.
        is_first: True if this process has not completed this collective before.
    """

    key: str
    what: str
    ranks: Tuple[int, ...]
    since: float
    place: str
    is_first: bool


class JoinedProcess(NamedTuple):
    """The state file of one process.

    Attributes:
        pid: The process.
        rank: Its rank in the job.
        state: ``started``, ``killed``, ``open``, ``closed``, ``failed`` or ``ended``.
        error: The exception that ended it, on one line; may be empty.
        time: When it last wrote the file, in seconds of `time.monotonic`.
        waits: The collectives in which it waits.
        joined: True if it joined the job; if not, `script_rank` wrote the file.
        rank_id: Its RANK_ID, which need not be a number.
        output: The file or pipe of its standard error.
        uses_vendor: True if it has imported the vendor's packages.
        program: The script or module that it runs; empty once it has joined the job.
    """

    pid: int
    rank: int
    state: str
    error: str
    time: float
    waits: Tuple[CollectiveWait, ...]
    joined: bool = True
    rank_id: str = ""
    output: str = ""
    uses_vendor: bool = True
    program: str = ""

    @property
    def is_alive(self) -> bool:
        """True if the process is alive."""
        return os.path.exists(f"/proc/{self.pid}")

    @property
    def is_lost(self) -> bool:
        """True if the (dead) process was ended by an exception or a signal."""
        return self.state in (STARTED, KILLED, OPEN, FAILED)


class _Record:
    """The state file of this process, one line of JSON."""

    def __init__(self, folder: str, rank: int) -> None:
        output = ""
        with contextlib.suppress(OSError):
            output = os.readlink("/proc/self/fd/2")
        self.process = JoinedProcess(
            os.getpid(), rank, OPEN, "", 0.0, (), rank_id=str(rank), output=output
        )
        self.is_exiting = False
        self._path = os.path.join(folder, name_process(self.process.pid))
        self._lock = threading.Lock()

    def note(self, state: str, error: str = "") -> None:
        """Write a new state, unless the last one is `ENDED`."""
        with self._lock:
            if self.process.state != ENDED:
                self._write(state=state, error=error)

    def wait_in(self, key: str, *wait: CollectiveWait) -> None:
        """Record the collective waited in under this key; without one, end that wait."""
        with self._lock:
            others = (other for other in self.process.waits if other.key != key)
            self._write(waits=(*others, *wait))

    def _write(self, **changes: Any) -> None:
        self.process = self.process._replace(time=time.monotonic(), **changes)
        waits = [wait._asdict() for wait in self.process.waits]
        values: Dict[str, Any] = {**self.process._asdict(), "waits": waits}
        with contextlib.suppress(OSError):
            replace_file(self._path, f"{json.dumps(values)}\n".encode())


_record: Optional[_Record] = None


def join(rank: int) -> None:
    """Record that this process opens a system as ``rank``, if it belongs to a launch."""
    global _record
    folder = os.environ.get(RANK_FOLDER)
    if not folder or not os.path.isdir(folder):
        return
    if _record is None:
        _record = _Record(folder, rank)
        on_close("record", _note_end)
        _offer_stacks(folder)
    _record.note(OPEN)


def leave() -> None:
    """Record that the system was closed, unless `fail` recorded an exception."""
    if _record is not None and _record.process.state != FAILED:
        _record.note(CLOSED)


def fail(error: BaseException) -> None:
    """Record that an exception ends this process's part in the job."""
    if _record is not None:
        _record.is_exiting = isinstance(error, SystemExit)
        _record.note(FAILED, _describe(error))


@contextlib.contextmanager
def waiting(
    key: str, name: str, ranks: Sequence[int], signature: str, is_first: bool
) -> Iterator[None]:
    """Record the collective that this process waits in while the block runs.

    Args:
        key: Identifies the collective; the same on all ranks.
        name: Its name in the graph.
        ranks: The ranks that take part.
        signature: Its kind and settings, as in ``allreduce sum float32 [4]``.
        is_first: True if this process has not completed this collective before.
    """
    record = _record
    if record is None:
        yield
        return
    from ascend_session.user_code import user_line  # not needed by the launcher, which only reads

    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    what = f"{signature.partition(' ')[0]} '{name}'"
    since = time.monotonic() - LONG_WAIT_S
    wait = CollectiveWait(key, what, tuple(ranks), since, str(user_line(frame) or ""), is_first)
    record.wait_in(key, wait)
    try:
        yield
    finally:
        record.wait_in(key)


def read_members(folder: str) -> List[JoinedProcess]:
    """Read the files in a rank's folder of processes that joined the job, in order of rank."""
    return [process for process in read_processes(folder) if process.joined]


def read_processes(folder: str) -> List[JoinedProcess]:
    """Read all state files in a rank's folder, in order of rank and time."""
    processes = []
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(PROCESS_PREFIX) and name.endswith(PROCESS_SUFFIX):
                # Skip files that are half-written or not ours.
                with contextlib.suppress(*_UNREADABLE):
                    path = os.path.join(folder, name)
                    values = json.loads(read_regular_file(path, _MOST_BYTES).decode())
                    waits = tuple(CollectiveWait(**each) for each in values.pop("waits"))
                    process = JoinedProcess(**values, waits=waits)
                    processes.append(_with_exit_code(process, path + EXIT_CODE))
    return sorted(processes, key=lambda process: (process.rank, process.time))


def _with_exit_code(process: JoinedProcess, path: str) -> JoinedProcess:
    """Add the exit code to a process that ended in order; a code other than 0 is a failure."""
    code = b""
    if process.state == ENDED:
        with contextlib.suppress(UnreadableError):
            code = read_regular_file(path, 1)
    if not any(code):
        return process
    text = process.error if code[0] == 1 else ""  # sys.exit(text) ends with code 1
    return process._replace(state=FAILED, error=text or f"SystemExit: {code[0]}")


def find_lost(processes: Sequence[JoinedProcess]) -> List[JoinedProcess]:
    """Return the dead processes that an exception, a signal or a code other than 0 ended.

    A script may start and kill processes that are no ranks. So a process that did not join counts
    only if no other process had its rank, if it failed after importing the vendor's packages, or if
    it was killed before another program with its rank started.
    """
    joined = {process.rank for process in processes if process.joined}
    in_order = joined | {process.rank for process in processes if process.state == ENDED}
    lost = []
    for process in processes:
        excused = in_order if process.state == STARTED else joined
        is_rank = process.joined or (process.state == FAILED and process.uses_vendor)
        is_rank = is_rank or process.state == KILLED
        if process.is_lost and (is_rank or process.rank not in excused):
            lost.append(process)
    return lost


class AbsentRanks:
    """Finds out which ranks of a script's job will never join, for a rank that waits for them.

    Args:
        rank: The rank that waits.
        size: The number of ranks.
    """

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size
        is_of_script = is_rank_of_script(os.environ)
        self._folder = os.environ.get(RANK_FOLDER, "") if is_of_script else ""
        self._ended: Dict[int, float] = {}  # pid -> when its end was noticed
        self._absent: Dict[int, float] = {}  # rank -> when its absence was noticed
        self._next_check = 0.0

    def explain(self) -> str:
        """Return which rank will never join, and why; empty while all still may."""
        now = time.monotonic()
        if not self._folder or now < self._next_check:
            return ""
        with contextlib.suppress(OSError):
            open(os.path.join(self._folder, name_waiting(os.getpid())), "w").close()
        self._next_check = now + _CHECK_EVERY_S
        ended = self._find_ended(now)
        if ended is not None:
            how = f": {ended.error}" if ended.error else ", as by a signal"
            end = "" if how.endswith((".", "!", "?")) else "."
            return f"rank {ended.rank} has ended before it joined the job{how}{end}"
        absent = _read_absent_ranks(self._folder) & set(range(self._size))
        self._absent = {rank: self._absent.get(rank, now) for rank in sorted(absent)}
        for rank, since in self._absent.items():
            if now - since > _NEXT_PROGRAM_S:
                return (
                    f"no process is rank {rank}, and nothing is left that could start it: its "
                    "program has ended before it joined the job, or could not be started."
                )
        return ""

    def stop(self) -> None:
        """Remove the file in which `explain` recorded that this process waits."""
        with contextlib.suppress(OSError):
            os.remove(os.path.join(self._folder, name_waiting(os.getpid())))

    def _find_ended(self, now: float) -> Optional[JoinedProcess]:
        """Find a rank that died before it joined and was not replaced."""
        processes = read_processes(self._folder)
        own = [each for each in processes if each.rank == self._rank and each.pid != os.getpid()]
        # An earlier job of the script ended when its process with this rank did.
        began = max((each.time for each in own if not each.is_alive), default=0.0)
        newest = {each.rank: each for each in sorted(processes, key=lambda each: each.time)}
        for rank, process in newest.items():
            is_dead = process.state == KILLED or (process.state == STARTED and not process.is_alive)
            is_lost = process.state == FAILED or is_dead
            if process.joined or not is_lost or process.time < began:
                continue
            since = self._ended.setdefault(process.pid, now)
            has_failed = process.state == FAILED and process.uses_vendor
            if 0 <= rank < self._size and (has_failed or now - since > _NEXT_PROGRAM_S):
                return process
        return None


def waits_for_ranks(folder: str, pid: int) -> bool:
    """Return whether a process waits for the other ranks of its job to join."""
    return os.path.exists(os.path.join(folder, name_waiting(pid)))


def write_absent_ranks(folder: str, ranks: Iterable[int]) -> None:
    """Record ranks of a script's job that no process of the launch can start any more."""
    with contextlib.suppress(OSError):
        replace_file(os.path.join(folder, ABSENT_NAME), f"{json.dumps(list(ranks))}\n".encode())


def _read_absent_ranks(folder: str) -> Set[int]:
    with contextlib.suppress(*_UNREADABLE):
        text = read_regular_file(os.path.join(folder, ABSENT_NAME), _MOST_BYTES).decode()
        return set(map(int, json.loads(text)))
    return set()


def _forget_in_child() -> None:
    """Forget the parent's record: a forked child has none until it joins."""
    global _record
    _record = None


on_fork(_forget_in_child)


def _note_end() -> None:
    """Record at exit how the program ended: by the exception in `sys.last_value`, or in order."""
    record, error = _record, getattr(sys, "last_value", None)
    if record is None:
        return
    if error is not None:
        record.note(FAILED, _describe(error))
    elif not (record.process.state == FAILED and record.is_exiting):  # other exceptions were caught
        record.note(ENDED)


def _describe(error: BaseException) -> str:
    from ascend_session.failures.graph_error import describe_error  # needed only after a failure

    return one_line(describe_error(error), _LONGEST_ERROR)


def _offer_stacks(folder: str) -> None:
    """Let the launcher request this process's stacks by a signal; `witness` may have done so."""
    if faulthandler.is_enabled():
        return
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        path = os.path.join(folder, name_stacks(os.getpid()))
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        faulthandler.register(STACK_SIGNAL, file, all_threads=True, chain=False)
