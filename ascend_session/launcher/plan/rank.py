"""A rank of a launch: planned, then seen, then judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

from ascend_session.failures.record import ErrorRecord
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId


class Outcome:
    """How a rank ended; the values are the words for reports."""

    SUCCEEDED = "succeeded"
    """With exit code 0."""

    FAILED = "failed"
    """With another code, or by a signal, before anyone stopped it."""

    STOPPED = "stopped"
    """Because the launcher ended it, or because another rank failed, whatever code it had then."""

    LEFT = "left early"
    """With exit code 0 or because it was stopped, but other ranks failed for want of it."""

    NOT_STARTED = "not started"
    """Its program could not be started."""


_FIRST_DEVICE = LogicalDeviceId(0)
_PLANNED = (
    "rank",
    "command",
    "cwd",
    "device_id",
    "physical_id",
    "cpus",
    "folder",
    "stdout",
    "stderr",
    "plog",
    "work",
    "changed",
)
_OF_RESULT = (
    "rank",
    "outcome",
    "pid",
    "status",
    "started",
    "ended",
    "trouble",
    "error",
    "stdout",
    "stderr",
    "plog",
    "stop_failure",
)


@dataclass
class LaunchRank:
    """What is known of one rank: made by the plan, filled as it is noticed, complete when judged.

    Attributes:
        rank: Its number in the job, from 0.
        command: The program, by its absolute path, and its arguments.
        cwd: Working directory, absolute.
        device_id: Logical id of its device.
        physical_id: The N of its ``/dev/davinci<N>``; None for a device of another kind.
        cpus: The CPUs that it may use; None means those of the launcher.
        folder: Its own folder, absolute. It, ``plog`` and ``work`` are made before the start.
        stdout: File with its standard output; empty for the attached rank, which has none.
        stderr: File with its standard error, likewise.
        plog: Folder for the vendor's logs.
        work: Folder for what the vendor's stack leaves behind.
        changed: The part of the environment that differs from the launcher's.
        environment: The complete environment, which may hold secrets.
        is_attached: Whether it has the launcher's standard streams, and no file for its output.
        pid: Its process; None if there was none.
        status: Its exit code, 0 to 255; negative if a signal ended it, as in ``subprocess``; None
            if it was never started, or did not end although it was killed.
        started: When it was started, in seconds since 1970; None if it was not.
        ended: When its end was noticed, likewise.
        trouble: Why it could not be started, as a sentence; empty if it was.
        start_errno: The error's number if it could not be started.
        outcome: One of `Outcome`.
        error: Its own record of the exception that ended it, or None.
        stop_failure: What went wrong after a signal had stopped the job, as a sentence, such as an
            exception while it saved; empty if nothing did.
    """

    rank: int
    command: Tuple[str, ...] = ()
    cwd: str = ""
    device_id: LogicalDeviceId = _FIRST_DEVICE
    physical_id: Optional[PhysicalDeviceId] = None
    cpus: Optional[Tuple[int, ...]] = None
    folder: str = ""
    stdout: str = ""
    stderr: str = ""
    plog: str = ""
    work: str = ""
    changed: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_attached: bool = False

    pid: Optional[int] = None
    status: Optional[int] = None
    started: Optional[float] = None
    ended: Optional[float] = None
    trouble: str = ""
    start_errno: Optional[int] = None

    outcome: str = Outcome.NOT_STARTED
    error: Optional[ErrorRecord] = None
    stop_failure: str = ""

    @property
    def exit_code(self) -> int:
        """Its exit code as a shell counts: 128+n for a signal, 127 if it was not started."""
        if self.status is None:
            return 127 if self.outcome == Outcome.NOT_STARTED else 137
        return self.status if self.status >= 0 else 128 - self.status

    def describe_plan(self) -> Dict[str, Any]:
        """Give what is planned as plain values, without its whole environment."""
        return {name: getattr(self, name) for name in _PLANNED}

    def as_dict(self) -> Dict[str, Any]:
        """Give what became of it as plain values."""
        values = {name: getattr(self, name) for name in _OF_RESULT}
        values["error"] = None if self.error is None else self.error._asdict()
        return {**values, "exit_code": self.exit_code}
