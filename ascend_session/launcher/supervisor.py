"""One attempt at a job, from its pipes to the end of its last process.

`Guarding` starts the guardian, talks to it, and sees that it ends. If the guardian itself is
killed, the ranks end with it, by their parent-death signal. What they started does not, and belongs
to nobody then; `end_orphans` knows it by the rank's folder in its environment, which no other job
has.
"""

import contextlib
import functools
import importlib
import importlib.util
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from ascend_session.cluster.variables import RANK_FOLDER
from ascend_session.errors import JobError
from ascend_session.launcher.channel import Channel
from ascend_session.launcher.events import (
    Ended,
    Event,
    Killing,
    Left,
    NotBound,
    NotStarted,
    Over,
    Planned,
    Stalled,
    Started,
    Stopping,
)
from ascend_session.launcher.output import Output
from ascend_session.launcher.plan import Plan, RankPlan
from ascend_session.launcher.process import Signals, enough_open_files
from ascend_session.launcher.pump import Pump, RankPipes
from ascend_session.launcher.result import RankResult, why_not_started

if TYPE_CHECKING:
    from ascend_session.launcher.stall import StallWatch

Message = Union[NotBound, Started, NotStarted, Ended, Stopping, Killing, Left, Over]

_KINDS: Dict[str, Any] = {
    "started": Started,
    "not bound": NotBound,
    "not started": NotStarted,
    "ended": Ended,
    "stopping": Stopping,
    "killing": Killing,
    "left": Left,
    "over": Over,
}

_OF_RANK = ("not bound", "started", "not started", "ended")

# The package's own __init__ would load what the guardian has no use for.
_PROGRAM = """
import sys, types
package = sys.modules["ascend_session"] = types.ModuleType("ascend_session")
package.__path__ = [sys.argv.pop(1)]
from ascend_session.launcher.guardian import main
main()
"""


class Guarding:
    """A guardian and its job.

    Args:
        ranks: What it is to start.
        pipes: Where each writes. They are closed here as soon as the guardian has them.
        grace: Seconds from SIGTERM to SIGKILL.
        open_files: The limits of open files that the ranks get; None means the launcher's.

    Raises:
        JobError: If it cannot be started.
    """

    def __init__(
        self,
        ranks: Sequence[RankPlan],
        pipes: Sequence[RankPipes],
        grace: float,
        open_files: Optional[Tuple[int, int]] = None,
    ) -> None:
        self._grace = grace
        self._ranks = [rank.rank for rank in ranks]
        self.is_over = False
        ends = [fd for pair in pipes for fd in pair]
        try:
            job = _job(ranks, pipes, grace, open_files)
            self._socket, theirs = socket.socketpair()
            try:
                self._process = _started(theirs.fileno(), ends)
            except BaseException:
                self._socket.close()
                raise
            finally:
                theirs.close()
        except OSError as failure:
            raise JobError(
                f"The guardian of the job could not be started: {failure.strerror}."
            ) from None
        finally:
            for fd in ends:
                os.close(fd)
        self._channel = Channel(self._socket.fileno())
        self._channel.say(job)
        self._channel.flush(wait=True)

    def fileno(self) -> int:
        """Become readable when there is something to hear, for poll(2)."""
        return self._channel.fd

    def hear(self) -> Iterator[Message]:
        """Read what has happened since; after `Over` there is nothing more."""
        for kind, *values in self._channel.hear():
            if kind in _OF_RANK:  # the guardian counts what it starts
                values[0] = self._ranks[values[0]]
            message = _KINDS[kind](*values)
            self.is_over = isinstance(message, Over)
            yield message
        if not self._channel.is_open and not self.is_over:
            self.is_over = True
            yield Over((), time.time(), orderly=False)

    def stop(self, number: int) -> None:
        """Ask every process of the job to end, by this signal; `grace` later they are ended."""
        self._tell(("stop", int(number), self._grace))

    def kill(self) -> None:
        """End every process of the job now."""
        self._tell(("kill",))

    def close(self) -> None:
        """Close the socket, on which a guardian that still runs ends its job; wait for it."""
        self._socket.close()
        self._process.wait()

    def _tell(self, message: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)  # one that was stopped hears nothing
        self._channel.say(message)
        self._channel.flush(wait=True)


def _started(fd: int, pipes: Sequence[int]) -> "subprocess.Popen[bytes]":
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, package, str(fd), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[fd, *pipes],
        start_new_session=True,  # what is typed at the terminal is for the launcher alone
    )


def _job(
    ranks: Sequence[RankPlan],
    pipes: Sequence[RankPipes],
    grace: float,
    open_files: Optional[Tuple[int, int]],
) -> Dict[str, Any]:
    # As bytes, for the guardian may decode them in another way than this process. What all ranks
    # have is one object, which is sent once.
    as_bytes = functools.lru_cache(maxsize=None)(os.fsencode)
    return {
        "ranks": [
            {
                "command": [as_bytes(word) for word in rank.command],
                "cwd": as_bytes(rank.cwd),
                "environment": {as_bytes(n): as_bytes(v) for n, v in rank.environment.items()},
                "cpus": None if rank.cpus is None else list(rank.cpus),
                "stdout": own.stdout,
                "stderr": own.stderr,
                "open_files": open_files,
            }
            for rank, own in zip(ranks, pipes)
        ],
        "grace": grace,
        "psutil": _folders_of("psutil"),
    }


def _folders_of(package: str) -> List[str]:
    """Give the folder in which a package is found, without loading it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return []
    return [os.path.dirname(os.path.dirname(spec.origin))]


_QUIET = 0.3  # seconds


@dataclass
class Noticed:
    """What was noticed of an attempt.

    Attributes:
        ranks: Of each rank, in order.
        began: When it began, in seconds since 1970.
        over: When no process of it lived any more.
        stopped: When everyone was asked to end; None if nobody was.
        failed_first: Whether that was because a rank had failed.
        signal: The signal to the launcher because of which everyone was, or None.
        stall: What the ranks were doing when they stalled, in sentences; empty if they did not.
        guardian_died: Whether the guardian did not live to the end.
        not_bound: The ranks that could not be bound to their CPUs.
        swept: What lived on when no rank did.
        left: What did not end although it was killed.
    """

    ranks: List[RankResult]
    began: float = field(default_factory=time.time)
    over: float = 0.0
    stopped: Optional[float] = None
    failed_first: bool = False
    signal: Optional[int] = None
    stall: Tuple[str, ...] = ()
    guardian_died: bool = False
    not_bound: Tuple[NotBound, ...] = ()
    swept: Tuple[str, ...] = ()
    left: Tuple[str, ...] = ()

    def of(self, rank: int) -> RankResult:
        """Say what was noticed of a rank; those of a node follow each other."""
        return self.ranks[rank - self.ranks[0].rank]

    @property
    def alive(self) -> Dict[int, int]:
        """Rank and pid of those that were started and have not ended."""
        pairs = [(one.rank, one.pid) for one in self.ranks if one.ended is None]
        return {rank: pid for rank, pid in pairs if pid is not None}


def supervise(
    plan: Plan,
    grace: float,
    output: Output,
    signals: Signals,
    on_event: Callable[[Event], None],
    stall_timeout: Optional[float] = None,
) -> Noticed:
    """Run an attempt; return when no process of it lives any more.

    Args:
        plan: The attempt.
        grace: Seconds from SIGTERM to SIGKILL.
        output: Where the ranks' lines go.
        signals: Those that the launcher gets; the first asks everyone to end, the second ends
            them.
        on_event: Is told what happens, in this thread.
        stall_timeout: Seconds without a sign of life after which everyone is ended.

    Raises:
        JobError: If the guardian or a thread could not be started, or there may not be enough
            open files.
        BaseException: What ``on_event`` raises; everyone is ended first.
    """
    with enough_open_files(len(plan.ranks)) as open_files:
        on_event(Planned(plan, time.time()))
        noticed = Noticed([RankResult.of(rank) for rank in plan.ranks])
        pump, pipes = output.pump(plan.ranks)
        try:
            pump.start()
        except BaseException:
            for fd in [fd for pair in pipes for fd in pair]:
                os.close(fd)
            raise
        try:
            guarding = Guarding(plan.ranks, pipes, grace, open_files)
            try:
                stall = _stall_watch(stall_timeout, pump, plan)
                _Supervision(plan, noticed, guarding, signals, on_event, stall).run()
            except BaseException:
                guarding.kill()
                raise
            finally:
                guarding.close()
                if noticed.guardian_died:
                    _end_orphans(plan, noticed)
        finally:
            output.finish(pump, signals)
    return noticed


class _Supervision:
    """The loop: it sleeps until the guardian says something or a signal comes."""

    def __init__(
        self,
        plan: Plan,
        noticed: Noticed,
        guarding: Guarding,
        signals: Signals,
        on_event: Callable[[Event], None],
        stall: "Optional[StallWatch]",
    ) -> None:
        self._plan = plan
        self._noticed = noticed
        self._guarding = guarding
        self._signals = signals
        self._on_event = on_event
        self._stall = stall
        self._is_ready = False

    def run(self) -> None:
        """Run it until the guardian says that it is over, or has died."""
        poll = select.poll()
        poll.register(self._guarding, select.POLLIN)
        poll.register(self._signals, select.POLLIN)
        while not self._guarding.is_over:
            if not poll.poll(self._patience()) and not self._is_ready:
                self._get_ready()
            for number in self._signals.take():
                self._obey(number)
            for message in self._guarding.hear():
                self._note(message)
                self._on_event(message)
            self._look_for_a_stall()

    def _patience(self) -> Optional[float]:
        """Give milliseconds, for poll(2)."""
        seconds = [] if self._stall is None else [self._stall.patience()]
        seconds += [] if self._is_ready else [_QUIET]
        return 1000 * min(seconds) if seconds else None

    def _get_ready(self) -> None:
        """Load what judges a failure while nothing happens, for it takes longer than ranks do."""
        importlib.import_module("ascend_session.launcher.report")
        self._is_ready = True

    def _obey(self, number: int) -> None:
        if self._noticed.signal is None:
            self._noticed.signal = number
            # At a terminal, Ctrl-C means an interruption; whatever else comes means the end.
            self._guarding.stop(number if number == signal.SIGINT else signal.SIGTERM)
        else:
            self._guarding.kill()

    def _note(self, event: Event) -> None:
        noticed = self._noticed
        if isinstance(event, (Started, NotStarted, Ended)):
            self._note_of(event, noticed.of(event.rank))
        elif isinstance(event, NotBound):
            noticed.not_bound += (event,)
        elif isinstance(event, Stopping):
            if event.why != "left behind":
                noticed.stopped = event.time
            noticed.failed_first = event.why == "failure"
        elif isinstance(event, Left):
            noticed.swept = event.processes
        elif isinstance(event, Over):
            noticed.over = event.time
            noticed.left = event.living
            noticed.guardian_died = not event.orderly

    def _note_of(self, event: Event, rank: RankResult) -> None:
        if isinstance(event, Started):
            rank.pid, rank.started = event.pid, event.time
        elif isinstance(event, NotStarted):
            rank.pid, rank.ended = None, event.time
            rank.trouble = why_not_started(self._plan.of(event.rank), event)
        elif isinstance(event, Ended):
            rank.status, rank.ended = event.status, event.time

    def _look_for_a_stall(self) -> None:
        if self._stall is None or self._noticed.stopped is not None or self._guarding.is_over:
            return
        report = self._stall.look(self._noticed.alive)
        if report:
            self._noticed.stall = tuple(report)
            self._on_event(Stalled(self._noticed.stall, time.time()))
            self._guarding.stop(signal.SIGTERM)
            self._stall = None


def _end_orphans(plan: Plan, noticed: Noticed) -> None:
    noticed.left = tuple(end_orphans(plan.folder))
    noticed.over = time.time()


def _stall_watch(seconds: Optional[float], pump: Pump, plan: Plan) -> "Optional[StallWatch]":
    if seconds is None:
        return None
    from ascend_session.launcher.stall import StallWatch

    return StallWatch(seconds, pump, plan)


_PATIENCE = 10.0


def end_orphans(attempt_folder: str) -> List[str]:
    """Kill every process of an attempt whose guardian has died.

    Args:
        attempt_folder: The attempt's own folder, absolute.

    Returns:
        Those that did not end, each as pid and command.
    """
    import psutil

    limit = time.monotonic() + _PATIENCE
    orphans = _of_attempt(attempt_folder)
    while orphans and time.monotonic() < limit:
        for process in orphans:
            try:
                process.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(orphans, timeout=0.2)
        orphans = _of_attempt(attempt_folder)
    return [f"{process.pid} ({process.info['name']})" for process in orphans]


def _of_attempt(folder: str) -> List[Any]:
    import psutil

    processes = []
    for process in psutil.process_iter(["name", "environ", "status"]):
        info: Dict[str, Any] = vars(process)["info"]
        place = (info["environ"] or {}).get(RANK_FOLDER, "")
        is_ours = os.path.dirname(place) == folder
        if is_ours and info["status"] != psutil.STATUS_ZOMBIE:
            processes.append(process)
    return processes
