"""What happens during a launch: its own events around those of the job (`job.events`).

`EventFile` is ``--events FILE``: the same as JSON lines, for programs that watch a launch.
"""

import json
import os
from typing import Any, Dict, NamedTuple, Type, Union

from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding
from ascend_session.launcher.job.events import EVENTS, BackgroundEnded, Ended, FromGuardian
from ascend_session.launcher.plan.plan import Plan
from ascend_session.launcher.show.screen import Notices
from ascend_session.launcher.verdict.result import LaunchResult
from ascend_session.spelling import option


class Planned(NamedTuple):
    """An attempt begins."""

    plan: Plan
    time: float


class Continued(NamedTuple):
    """They go on, after so many seconds."""

    paused_s: float
    time: float


class Resumed(NamedTuple):
    """Rank 0 has begun with this global step, which is above 0: training goes on there."""

    step: int
    time: float


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


Event = Union[Planned, FromGuardian, Continued, Resumed, Restarting, Waiting, Finished]

_NAMES: Dict[Type[Any], str] = {
    **{kind: name for name, kind in EVENTS.items()},
    Planned: "plan",
    Continued: "continued",
    Resumed: "resumed",
    Restarting: "restart",
    Waiting: "waiting",
    Finished: "summary",
}


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

    def write(self, event: Event, notices: Notices) -> None:
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
                f"The file of events {self._path} misses some of them: {why}. The job continues.",
            )
