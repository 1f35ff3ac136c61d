"""What each process of a launched job reports to the launcher about its part in the job.

The launcher sees only the processes that it starts. It sees neither in which collective a rank
waits nor how a rank ended that a shell script started. So a process that opens a system reports on
the `channel` that it joined the job, in which collective it has been waiting, and how it ended.
The Pythons that are ranks of a script report before that (`witness`).
"""

import contextlib
import faulthandler
import os
import sys
import threading
import time
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.channel import read_absent, send
from ascend_session.process import find_frames, on_close, on_fork
from ascend_session.rank_folder import RANK_FOLDER, STACK_SIGNAL, is_rank_of_script, name_stacks
from ascend_session.text import one_line

LONG_WAIT_S = 0.5
"""Seconds of waiting for other ranks after which the wait is recorded."""

STARTED = "started"  # no system yet
OPEN = "open"  # opens a system or has one
CLOSED = "closed"  # has closed its system in order
FAILED = "failed"  # ended by an exception
ENDED = "ended"  # ended in order

_LONGEST_ERROR = 400  # characters


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
    """The last state of one process.

    Attributes:
        pid: The process.
        rank: Its rank in the job.
        state: ``started``, ``open``, ``closed``, ``failed`` or ``ended``.
        error: The exception that ended it, on one line; may be empty.
        time: When that was so, in seconds of `time.monotonic`.
        waits: The collectives in which it waits.
        joined: True if it joined the job; if not, `witness` has reported this.
        rank_id: Its RANK_ID, which need not be a number.
        rank_size: Its RANK_SIZE, likewise; empty if `witness` did not see it.
        output: The file or pipe of its standard error.
        uses_vendor: True if it has imported the vendor's packages.
        program: The script or module that it runs; empty if `witness` did not see it.
        began: When it started, likewise in seconds; 0 if `witness` did not see it.
        beside: Ranks of the script that lived when it started, by their pids.
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
    rank_size: str = ""
    began: float = 0.0
    beside: Tuple[int, ...] = ()

    @property
    def is_alive(self) -> bool:
        """True if the process is alive."""
        return os.path.exists(f"/proc/{self.pid}")

    @property
    def is_lost(self) -> bool:
        """True if the (dead) process was ended by an exception or a signal."""
        return self.state in (STARTED, OPEN, FAILED)


class _Record:
    """The state of this process, as it is reported."""

    def __init__(self, rank: int) -> None:
        output = ""
        with contextlib.suppress(OSError):
            output = os.readlink("/proc/self/fd/2")
        self.process = JoinedProcess(
            os.getpid(), rank, OPEN, "", 0.0, (), rank_id=str(rank), output=output
        )
        self.is_exiting = False
        self._lock = threading.Lock()

    def note(self, state: str, error: str = "") -> None:
        """Report a new state, unless the last one is `ENDED`."""
        with self._lock:
            if self.process.state != ENDED:
                self._report(state=state, error=error)

    def wait_in(self, key: str, *wait: CollectiveWait) -> None:
        """Report the collective waited in under this key; without one, end that wait."""
        with self._lock:
            others = (other for other in self.process.waits if other.key != key)
            self._report(is_optional=True, waits=(*others, *wait))

    def _report(self, is_optional: bool = False, **changes: Any) -> None:
        self.process = self.process._replace(time=time.monotonic(), **changes)
        waits = [wait._asdict() for wait in self.process.waits]
        values = {**self.process._asdict(), "waits": waits}
        send("state", is_optional=is_optional, **values)


_record: Optional[_Record] = None


def join(rank: int) -> None:
    """Report that this process opens a system as ``rank``, if it belongs to a launch."""
    global _record
    folder = os.environ.get(RANK_FOLDER)
    if not folder or not os.path.isdir(folder):
        return
    if _record is None:
        _record = _Record(rank)
        on_close("record", _note_end)
        _offer_stacks(folder)
    _record.note(OPEN)


def leave() -> None:
    """Report that the system was closed, unless `fail` reported an exception."""
    if _record is not None and _record.process.state != FAILED:
        _record.note(CLOSED)


def fail(error: BaseException) -> None:
    """Report that an exception ends this process's part in the job."""
    if _record is not None:
        _record.is_exiting = isinstance(error, SystemExit)
        _record.note(FAILED, _describe(error))


@contextlib.contextmanager
def waiting(
    key: str, name: str, ranks: Sequence[int], signature: str, is_first: bool
) -> Iterator[None]:
    """Report the collective that this process waits in while the block runs.

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

    frame = find_frames().get(threading.main_thread().ident or 0)
    what = f"{signature.partition(' ')[0]} '{name}'"
    since = time.monotonic() - LONG_WAIT_S
    wait = CollectiveWait(key, what, tuple(ranks), since, str(user_line(frame) or ""), is_first)
    record.wait_in(key, wait)
    try:
        yield
    finally:
        record.wait_in(key)


@contextlib.contextmanager
def joining(rank: int, size: int) -> Iterator[None]:
    """Report that this process waits for the ranks of a script's job to join while the block runs.

    `read_absent` returns why one of them never will, as soon as the launcher knows it.
    """
    if not is_rank_of_script(os.environ):
        yield
        return
    read_absent()  # which may be late, and about an earlier system
    send("joining", rank=rank, size=size)
    try:
        yield
    finally:
        send("joining", rank=rank, size=0)


def parse_state(message: Mapping[str, Any], pid: int) -> JoinedProcess:
    """Read what a process has reported about its state.

    Raises:
        TypeError: If it is something else; or KeyError.
    """
    values = {name: message[name] for name in JoinedProcess._fields if name in message}
    waits = tuple(CollectiveWait(**each) for each in message["waits"])
    beside = tuple(message.get("beside", ()))
    return JoinedProcess(**{**values, "pid": pid, "waits": waits, "beside": beside})


def _forget_in_child() -> None:
    """Forget the parent's record: a forked child has none until it joins."""
    global _record
    _record = None


on_fork(_forget_in_child)


def _note_end() -> None:
    """Report at exit how the program ended: by the exception in `sys.last_value`, or in order."""
    record, error = _record, getattr(sys, "last_value", None)
    if record is None:
        return
    if error is not None:
        record.note(FAILED, _describe(error))
    elif not (record.process.state == FAILED and record.is_exiting):  # other exceptions were caught
        record.note(ENDED)


def _describe(error: BaseException) -> str:
    from ascend_session.failures.reason import describe_error  # needed only after a failure

    return one_line(describe_error(error), _LONGEST_ERROR)


def _offer_stacks(folder: str) -> None:
    """Let the launcher request this process's stacks by a signal; `witness` may have done so."""
    if faulthandler.is_enabled():
        return
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        path = os.path.join(folder, name_stacks(os.getpid()))
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        faulthandler.register(STACK_SIGNAL, file, all_threads=True, chain=False)
