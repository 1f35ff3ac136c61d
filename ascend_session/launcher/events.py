"""What happens during a launch, in the order in which it does; times in seconds since 1970."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Tuple, Union

if TYPE_CHECKING:
    from ascend_session.launcher.plan import Plan
    from ascend_session.launcher.result import LaunchResult

__all__ = [
    "Ended",
    "Event",
    "Finished",
    "Killing",
    "Left",
    "NotBound",
    "NotStarted",
    "Over",
    "Planned",
    "Restarting",
    "Stalled",
    "Started",
    "Stopping",
    "Waiting",
    "as_dict",
]


class Planned(NamedTuple):
    """An attempt begins."""

    plan: Plan
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


class Stopping(NamedTuple):
    """Everyone is asked to end; who ends later, ends because of that.

    ``why`` is ``failure`` (a rank failed), ``asked`` (by the launcher), ``left behind`` (all ranks
    have ended, other processes have not) or ``told`` (the guardian got a signal).
    """

    why: str
    time: float


class Killing(NamedTuple):
    """Those that did not end in time are ended."""

    time: float


class Left(NamedTuple):
    """What lived on when no rank did, each as pid and command; it is asked to end."""

    processes: Tuple[str, ...]
    time: float


class Stalled(NamedTuple):
    """No rank has written or computed for too long; what each is doing, in sentences."""

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

    result: LaunchResult
    time: float


Event = Union[
    Planned,
    NotBound,
    Started,
    NotStarted,
    Ended,
    Stopping,
    Killing,
    Left,
    Stalled,
    Over,
    Restarting,
    Waiting,
    Finished,
]

_NAMES = {
    Planned: "plan",
    NotBound: "not_bound",
    Started: "start",
    NotStarted: "not_started",
    Ended: "exit",
    Stopping: "stopping",
    Killing: "killing",
    Left: "left_behind",
    Stalled: "stall",
    Over: "over",
    Restarting: "restart",
    Waiting: "waiting",
    Finished: "summary",
}


def as_dict(event: Event) -> Dict[str, Any]:
    """An event as plain values, its name under ``event``.

    The end of a rank has ``exit_code`` or ``signal``, the other one is None.
    """
    found: Dict[str, Any] = {"event": _NAMES[type(event)], "time": event.time}
    values = event._asdict()
    if isinstance(event, Planned):
        values = {"plan": event.plan.as_dict()}
    elif isinstance(event, Finished):
        values = {"result": event.result.as_dict()}
    elif isinstance(event, Ended):
        code: Optional[int] = event.status if event.status >= 0 else None
        number = -event.status if event.status < 0 else None
        values = {"rank": event.rank, "exit_code": code, "signal": number}
    return {**found, **values}
