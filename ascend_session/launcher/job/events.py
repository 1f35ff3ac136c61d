"""What the guardian notices of a job, in that order; times in seconds since 1970."""

from typing import Any, Dict, NamedTuple, Optional, Tuple, Type, Union


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


class StallNote(NamedTuple):
    """Ranks have waited long for others; ``note`` is a sentence that says who for whom."""

    note: str
    time: float


class Located(NamedTuple):
    """Somebody has asked where the ranks are (SIGQUIT); a part of a sentence for each place."""

    places: Tuple[str, ...]
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

EVENTS: Dict[str, Type[Any]] = {
    "not_bound": NotBound,
    "not_logged": NotLogged,
    "start": Started,
    "not_started": NotStarted,
    "exit": Ended,
    "reported": Reported,
    "passed_on": PassedOn,
    "paused": Paused,
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
    "stall": Stalled,
    "over": Over,
}
"""Each event by its name in JSON lines, and in what the guardian sends."""
