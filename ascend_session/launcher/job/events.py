"""What happens during a launch, in the order in which it does; times in seconds since 1970.

`EventFile` is ``--events FILE``: the same as JSON lines, for programs that watch a launch.
"""

import json
import os
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Tuple, Type, Union

from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.spelling import option

if TYPE_CHECKING:
    from ascend_session.launcher.plan.plan import Plan
    from ascend_session.launcher.show.screen import Notices
    from ascend_session.launcher.verdict.result import LaunchResult


class Planned(NamedTuple):
    """An attempt begins."""

    plan: "Plan"
    time: float


class NotBound(NamedTuple):
    """A rank could not be bound to its CPUs, and runs on those of the launcher."""

    rank: int
    text: str
    time: float


class Started(NamedTuple):
    """A rank has a process."""

    rank: int
    pid: int
    time: float


class NotStarted(NamedTuple):
    """A rank could not be started: what was tried, the error's number and its text."""

    rank: int
    tried: str
    number: int
    text: str
    time: float


class Ended(NamedTuple):
    """A rank has ended: with its exit code, or by minus the signal."""

    rank: int
    status: int
    time: float


class NotLogged(NamedTuple):
    """A log file takes no more of what a rank writes through a pipe; its path, and why."""

    rank: int
    path: str
    text: str
    time: float


class Reported(NamedTuple):
    """A process of a rank has reported something on its channel; this is in no file of events.

    Attributes:
        rank: The rank.
        pid: The process.
        message: What it has reported, see `ascend_session.channel`.
        time: When it was read.
    """

    rank: int
    pid: int
    message: Dict[str, Any]
    time: float


class ScriptRank(NamedTuple):
    """A script has started a rank itself; its command, and what its standard error goes to."""

    pid: int
    rank_id: str
    command: str
    output: str
    time: float


class Awaiting(NamedTuple):
    """The script has ended, and ranks that it has started have not; each by its RANK_ID."""

    ranks: Tuple[str, ...]
    time: float


class BackgroundAwaited(NamedTuple):
    """The ranks have exited with 0, but left trainings running, which the job waits for.

    Attributes:
        processes: Rank, pid and command of each.
        time: When that was seen.
    """

    processes: Tuple[Tuple[int, int, str], ...]
    time: float


class BackgroundEnded(NamedTuple):
    """A training that a rank left running has exited, before anybody stopped the job.

    Attributes:
        rank: The rank.
        pid: Its process.
        command: Its command.
        output: What its standard error went to.
        status: Its exit code, or minus the signal.
        time: When that was.
    """

    rank: int
    pid: int
    command: str
    output: str
    status: int
    time: float


class Repeated(NamedTuple):
    """A rank has started other ranks of the launch, as each rank of it does; the job ends.

    Attributes:
        rank: The rank.
        rank_ids: The RANK_ID of each that lived below it.
        time: When that was seen.
    """

    rank: int
    rank_ids: Tuple[str, ...]
    time: float


class Stopping(NamedTuple):
    """Everyone is asked to end; who ends later, ends because of that.

    Attributes:
        why: ``failure`` (a rank failed), ``asked`` (by the launcher), ``left behind`` (all ranks
            have ended, other processes have not), ``repeated`` (each rank starts all of them) or
            ``told`` (the guardian got a signal).
        time: When that was.
        rank: The rank whose failure explains those of the others, as far as there are any by
            then; None if that is not clear yet.
    """

    why: str
    time: float
    rank: Optional[int] = None


class Killing(NamedTuple):
    """Those that did not end in time are ended."""

    time: float


class LeftBehind(NamedTuple):
    """What lived on when no rank did, each as pid and command; it is asked to end."""

    processes: Tuple[str, ...]
    time: float


class PassedOn(NamedTuple):
    """A signal to the launcher went on to these processes, which catch it."""

    signal: int
    processes: Tuple[int, ...]
    time: float


class Paused(NamedTuple):
    """Every process of the job is stopped (Ctrl-Z), and the launcher stops next."""

    time: float


class Continued(NamedTuple):
    """They go on, after so many seconds."""

    paused_s: float
    time: float


class StallNote(NamedTuple):
    """Ranks have waited long for others; ``note`` is a sentence that says who for whom."""

    note: str
    time: float


class Located(NamedTuple):
    """Somebody has asked where the ranks are (SIGQUIT); a part of a sentence for each place."""

    places: Tuple[str, ...]
    time: float


class Resumed(NamedTuple):
    """Rank 0 has begun with this global step, which is above 0: training goes on there."""

    step: int
    time: float


class Standing(NamedTuple):
    """The job stood still when it was to stop: who waited for whom; in no file of events."""

    text: str
    time: float


class Stalled(NamedTuple):
    """No rank has written or computed for too long; who waits for whom, and more sentences."""

    report: Tuple[str, ...]
    time: float


class Over(NamedTuple):
    """No process of the attempt lives any more.

    Attributes:
        living: Except these, which did not end although they were killed.
        time: When that was.
        orderly: Whether the guardian said so; otherwise it has died.
    """

    living: Tuple[str, ...]
    time: float
    orderly: bool = True


class Restarting(NamedTuple):
    """Another attempt follows, after ``wait`` seconds; ``why`` is a sentence."""

    why: str
    wait: float
    time: float


class Waiting(NamedTuple):
    """Something is waited for before an attempt; ``who`` is a sentence that says who or what."""

    who: str
    time: float


class Finished(NamedTuple):
    """The end of the launch."""

    result: "LaunchResult"
    time: float


FromGuardian = Union[
    NotBound,
    NotLogged,
    Started,
    NotStarted,
    Ended,
    Reported,
    PassedOn,
    Paused,
    ScriptRank,
    Awaiting,
    BackgroundAwaited,
    BackgroundEnded,
    Repeated,
    Stopping,
    Killing,
    LeftBehind,
    StallNote,
    Located,
    Standing,
    Stalled,
    Over,
]
Event = Union[
    Planned,
    FromGuardian,
    Continued,
    Resumed,
    Restarting,
    Waiting,
    Finished,
]

EVENTS: Dict[str, Type[Any]] = {
    "plan": Planned,
    "not_bound": NotBound,
    "not_logged": NotLogged,
    "start": Started,
    "not_started": NotStarted,
    "exit": Ended,
    "reported": Reported,
    "passed_on": PassedOn,
    "paused": Paused,
    "continued": Continued,
    "script_rank": ScriptRank,
    "awaiting": Awaiting,
    "background": BackgroundAwaited,
    "background_exit": BackgroundEnded,
    "repeated": Repeated,
    "stopping": Stopping,
    "killing": Killing,
    "left_behind": LeftBehind,
    "stall_note": StallNote,
    "located": Located,
    "standing": Standing,
    "resumed": Resumed,
    "stall": Stalled,
    "over": Over,
    "restart": Restarting,
    "waiting": Waiting,
    "summary": Finished,
}
"""Each event by its name in JSON lines, and in what the guardian says."""

_NAMES = {kind: name for name, kind in EVENTS.items()}


def as_dict(event: Event) -> Dict[str, Any]:
    """Convert an event to plain values, its name under ``event``.

    The end of a rank has ``exit_code`` or ``signal``, the other one is None.
    """
    values = event._asdict()
    if isinstance(event, Planned):
        values = {"plan": event.plan.as_dict()}
    elif isinstance(event, Finished):
        values = {"result": event.result.as_dict()}
    elif isinstance(event, (Ended, BackgroundEnded)):
        status = values.pop("status")
        values["exit_code"] = status if status >= 0 else None
        values["signal"] = -status if status < 0 else None
    return {"event": _NAMES[type(event)], "time": event.time, **values}


class EventFile:
    """A file with one line for each event; what an earlier launch left in it is gone.

    Each line is written at once and as a whole, so that whoever follows the file sees what has
    happened. A pipe that somebody reads will do as well; it is never waited for.

    Args:
        path: The file; its folder is there.

    Raises:
        ConfigError: If it cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_torn = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        try:
            # A named pipe that nobody reads is refused then, instead of waited for.
            self._fd = os.open(path, flags | os.O_NONBLOCK, 0o666)
        except OSError as failure:
            message = f"{option('events', path)} cannot be written: {failure.strerror}."
            hint = "Give a file in a folder that this user may write to."
            raise ConfigError.from_problems(
                [Finding(ERROR, message, hint, option="events")]
            ) from None

    def __enter__(self) -> "EventFile":
        return self

    def __exit__(self, *failure: Any) -> None:
        os.close(self._fd)

    def write(self, event: Event, notices: "Notices") -> None:
        """Write an event; trouble with the file is reported once, and changes nothing else."""
        line = json.dumps(as_dict(event), separators=(",", ":")).encode() + b"\n"
        if self._is_torn:
            line = b"\n" + line
        try:
            written = os.write(self._fd, line)
        except OSError as failure:
            why = failure.strerror or str(failure)
        else:
            self._is_torn = written < len(line)
            why = "there is no room for a whole line" if self._is_torn else ""
        if why:
            notices.once(
                "events",
                f"The file of events {self._path} misses some of them: {why}. The job goes on.",
            )
