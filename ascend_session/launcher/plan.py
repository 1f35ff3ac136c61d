"""The plan of a launch: what would be started, decided without starting any of it.

Nothing is written and no rank is started. ``npu-smi`` runs only where a rule depends on the
product, and a port is bound for a moment where a free one is needed. For a job of several ranks on
the stub, ports are bound until the plan lets go of them.
"""

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.backends import Choice, choose
from ascend_session.cluster.job import Job
from ascend_session.launcher.command import command_of, working_directory
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.devices import Chosen, RankDevice, on_npu, on_stub
from ascend_session.launcher.environment import (
    PLOG_FOLDER,
    WORK_FOLDER,
    JobFacts,
    defaults,
    own_variables,
)
from ascend_session.launcher.inherited import refuse_task, removed
from ascend_session.launcher.job_id import new_job_id, of_attempt
from ascend_session.launcher.meeting import meeting_of
from ascend_session.launcher.rank import Rank
from ascend_session.launcher.reservation import Reservation, reserve
from ascend_session.launcher.show import parse_show
from ascend_session.launcher.variables import LOG_PATH, WORK_PATH

__all__ = ["LOGS", "Plan", "plan"]

LOGS = "ascend-logs"
"""The folder for logs, where no other is given."""


class Plan(NamedTuple):
    """One attempt at a job.

    Attributes:
        backend: ``npu`` or ``stub``, for all ranks.
        reason: Why it is that one, in a few words.
        job_id: ``JOB_ID`` of this attempt.
        run: Name of the launch and of its folder, the same for all its attempts.
        attempt: Number of the attempt, from 1.
        folder: The attempt's own folder, absolute; the ranks' are below it.
        ranks: The ranks, in order.
        shown: Those whose output is shown.
        removed: What the ranks do not inherit, each with the reason.
        notes: What the user should know, in sentences.
        reserved: The ports of this attempt, which it has to let go of when it is over.
    """

    backend: str
    reason: str
    job_id: str
    run: str
    attempt: int
    folder: str
    ranks: Tuple[Rank, ...]
    shown: Tuple[int, ...]
    removed: Mapping[str, str]
    notes: Tuple[str, ...]
    reserved: Reservation = Reservation()

    def as_dict(self, complete: bool = False) -> Dict[str, Any]:
        """The plan as plain values, which JSON can hold.

        Args:
            complete: Whether each rank shows its whole environment, which may hold secrets, and
                not only what differs from the launcher's.
        """
        return {
            "backend": self.backend,
            "reason": self.reason,
            "job_id": self.job_id,
            "run": self.run,
            "attempt": self.attempt,
            "folder": self.folder,
            "size": len(self.ranks),
            "shown": list(self.shown),
            "removed": dict(self.removed),
            "notes": list(self.notes),
            "coordinator": self.reserved.coordinator,
            "addresses": list(self.reserved.addresses),
            "ranks": [rank.as_dict(complete) for rank in self.ranks],
        }


def plan(
    config: LaunchConfig,
    environ: Mapping[str, str],
    *,
    attempt: int = 1,
    run: Optional[str] = None,
) -> Plan:
    """Makes the plan of one attempt.

    Args:
        config: What the launch is asked.
        environ: The launcher's environment.
        attempt: Number of the attempt, from 1; each has a ``JOB_ID`` and a folder of its own.
        run: `Plan.run` of the first attempt; None for the first.

    Raises:
        BackendError: If the backend is not known.
        ConfigError: If output of ranks is to be shown that there are not.
        DeviceError: If the devices asked for are not there, or are no job on this product.
        JobError: If the ranks could not be one job, there is nothing to start, or no port is free.
    """
    choice = choose(config.backend, environ)
    together = {**environ, **config.env}
    choose_devices = on_npu if choice.name == "npu" else on_stub
    chosen = choose_devices(config.devices, config.processes, environ)
    refuse_task(together, len(chosen.devices))
    meeting = meeting_of(config, choice.name, chosen.devices, together)
    notes = tuple(dict.fromkeys([*chosen.notes, *meeting.notes, *_moved(config, environ)]))
    size = len(chosen.devices)
    reserved = reserve(size) if choice.name == "stub" and size > 1 else Reservation()
    job = JobFacts(
        backend=choice.name,
        job_id=of_attempt(config.job_id, attempt) if config.job_id else new_job_id(),
        size=size,
        rank_table=meeting.rank_table,
        chief=meeting.chief,
        stub_devices=chosen.stub_devices,
        coordinator=reserved.coordinator,
        addresses=",".join(reserved.addresses) or None,
    )
    try:
        found = _filled(config, environ, choice, chosen, job, notes, attempt, run)
        found = found._replace(reserved=reserved)
        return found if config.stall_timeout is None else _with_stall(found, config.stall_timeout)
    except BaseException:
        reserved.release()
        raise


def _with_stall(found: Plan, seconds: float) -> Plan:
    from ascend_session.launcher.hccl_limits import stall_notes

    return found._replace(notes=(*found.notes, *stall_notes(seconds, found)))


def _moved(config: LaunchConfig, environ: Mapping[str, str]) -> List[str]:
    """A sentence for each folder that the launcher's environment names and ranks do not use."""
    return [
        f"{name}={environ[name]!r} is replaced by a folder for each rank; to keep it, give it in "
        "env."
        for name in (LOG_PATH, WORK_PATH)
        if environ.get(name) and name not in config.env
    ]


def _filled(
    config: LaunchConfig,
    environ: Mapping[str, str],
    choice: Choice,
    chosen: Chosen,
    job: JobFacts,
    notes: Tuple[str, ...],
    attempt: int,
    run: Optional[str],
) -> Plan:
    cwd = working_directory(config)
    logs = os.path.abspath(config.log_dir) if config.log_dir else os.path.join(cwd, LOGS)
    name = run or _new_folder(logs, job.job_id)
    folder = os.path.join(logs, name, f"attempt_{attempt}")
    away = removed(environ, own_variables(job, 0, chosen.devices[0]), config.env)
    kept = {name: value for name, value in environ.items() if name not in away}
    command = command_of(config, cwd, {**kept, **config.env})
    ranks = []
    for number, device in enumerate(chosen.devices):
        place = os.path.join(folder, f"rank_{number}")
        own = own_variables(job, number, device)
        environment = {**kept, **defaults(place), **config.env, **own}
        _check(job, environment)
        changed = {n: v for n, v in sorted(environment.items()) if environ.get(n) != v}
        ranks.append(_rank(number, command, cwd, environment, changed, device, place))
    return Plan(
        backend=choice.name,
        reason=choice.reason,
        job_id=job.job_id,
        run=name,
        attempt=attempt,
        folder=folder,
        ranks=tuple(ranks),
        shown=tuple(sorted(parse_show(config.show, len(ranks)))),
        removed=away,
        notes=notes,
    )


def _new_folder(logs: str, job_id: str) -> str:
    """A name that no earlier launch with this ``JOB_ID`` has taken.

    What such a launch left would be lost, and its failure be taken for one of this launch.
    """
    name, number = job_id, 1
    while os.path.lexists(os.path.join(logs, name)):
        number += 1
        name = f"{job_id}.{number}"  # no JOB_ID has a dot in it
    return name


def _rank(
    number: int,
    command: Tuple[str, ...],
    cwd: str,
    environment: Mapping[str, str],
    changed: Mapping[str, str],
    device: RankDevice,
    place: str,
) -> Rank:
    return Rank(
        rank=number,
        command=command,
        cwd=cwd,
        environment=environment,
        changed=changed,
        device=device.logical,
        physical=device.physical,
        cpus=None,
        folder=place,
        stdout=os.path.join(place, "stdout.log"),
        stderr=os.path.join(place, "stderr.log"),
        plog=os.path.join(place, PLOG_FOLDER),
        work=os.path.join(place, WORK_FOLDER),
    )


def _check(job: JobFacts, environment: Mapping[str, str]) -> None:
    """What a rank would refuse is refused here, before anything is started."""
    found = Job.from_env(environment)
    if job.backend == "npu":
        from ascend_session.backends.npu_job import check_job

        check_job(found, environment)
