"""The plan of a launch: what would be started, decided without starting any of it.

Nothing is written and no rank is started. ``npu-smi`` runs only where ranks are to be near their
devices or a rule depends on the product, and a port is bound for a moment where a free one is
needed. For a job of several ranks on the stub, ports are bound until the plan lets go of them.
"""

import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from ascend_session.backends import Choice, choose
from ascend_session.cluster.job import Job
from ascend_session.launcher.binding import Binding, bind
from ascend_session.launcher.command import command_of, working_directory
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.devices import Chosen, RankDevice
from ascend_session.launcher.environment import (
    PLOG_FOLDER,
    WORK_FOLDER,
    JobFacts,
    defaults,
    for_children,
    own_variables,
)
from ascend_session.launcher.inherited import moved, refuse_task, removed
from ascend_session.launcher.job_id import new_job_id, of_attempt
from ascend_session.launcher.meeting import Meeting, meeting_of
from ascend_session.launcher.nodes import Nodes, nodes_of
from ascend_session.launcher.rank import Rank
from ascend_session.launcher.reservation import Reservation, reserved_for
from ascend_session.launcher.show import parse_show
from ascend_session.launcher.table_nodes import chosen_for

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
        ranks: The ranks of this node, in order.
        shown: Those whose output is shown.
        removed: What the ranks do not inherit, each with the reason.
        notes: What the user should know, in sentences.
        bound: Where the ranks' CPUs come from, or why they have none of their own, in a few words.
        reserved: The ports of this attempt, which it has to let go of when it is over.
        nodes: This node among those of the job.
        size: Number of ranks on all nodes.
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
    bound: str
    reserved: Reservation = Reservation()
    nodes: Nodes = Nodes()
    size: int = 1

    def of(self, rank: int) -> Rank:
        """A rank of this node, by its number in the job."""
        return self.ranks[rank - self.ranks[0].rank]

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
            "size": self.size,
            "nodes": self.nodes.of,
            "node": self.nodes.number,
            "shown": list(self.shown),
            "removed": dict(self.removed),
            "notes": list(self.notes),
            "bound": self.bound,
            "coordinator": self.reserved.coordinator,
            "ports": list(self.reserved.ports),
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
    nodes = nodes_of(config, choice.name, together)
    chosen = chosen_for(config, choice.name, nodes, environ)
    here = len(chosen.devices)
    refuse_task(together, nodes.size(here))
    meeting = meeting_of(config, choice.name, chosen.devices, together, nodes)
    bound = bind(config.bind, [device.physical for device in chosen.devices], environ)
    said = [*nodes.notes, *chosen.notes, *meeting.notes, *bound.notes, *moved(environ, config.env)]
    reserved = reserved_for(choice.name, nodes, here)
    job_id = of_attempt(config.job_id, attempt) if config.job_id else nodes.job_id
    job = _facts(choice, job_id or new_job_id(), nodes, chosen, meeting, reserved)
    try:
        place = [nodes.described(here, reserved.coordinator)] if nodes.of > 1 else []
        notes = tuple(dict.fromkeys([*place, *said]))
        found = _filled(config, environ, choice, chosen, bound, job, notes, attempt, run, nodes)
        found = found._replace(reserved=reserved)
        return found if config.stall_timeout is None else _with_stall(found, config.stall_timeout)
    except BaseException:
        reserved.release()
        raise


def _with_stall(found: Plan, seconds: float) -> Plan:
    from ascend_session.launcher.hccl_limits import stall_notes

    return found._replace(notes=(*found.notes, *stall_notes(seconds, found)))


def _facts(
    choice: Choice,
    job_id: str,
    nodes: Nodes,
    chosen: Chosen,
    meeting: Meeting,
    reserved: Reservation,
) -> JobFacts:
    here = len(chosen.devices)
    return JobFacts(
        backend=choice.name,
        job_id=job_id,
        size=nodes.size(here),
        first=nodes.first_rank(here),
        here=here,
        rank_table=meeting.rank_table,
        chief=meeting.chief,
        stub_devices=chosen.stub_devices,
        coordinator=reserved.coordinator,
        ports=reserved.ports,
    )


def _filled(
    config: LaunchConfig,
    environ: Mapping[str, str],
    choice: Choice,
    chosen: Chosen,
    bound: Binding,
    job: JobFacts,
    notes: Tuple[str, ...],
    attempt: int,
    run: Optional[str],
    nodes: Nodes,
) -> Plan:
    cwd = working_directory(config)
    logs = os.path.abspath(config.log_dir) if config.log_dir else os.path.join(cwd, LOGS)
    # Launchers on several nodes may write to the same file server.
    whose = f"{job.job_id}.node_{nodes.number}" if nodes.of > 1 else job.job_id
    name = run or _new_folder(logs, whose)
    folder = os.path.join(logs, name, f"attempt_{attempt}")
    away = removed(environ, own_variables(job, 0, chosen.devices[0]), config.env)
    kept = {name: value for name, value in environ.items() if name not in away}
    command = command_of(config, cwd, {**kept, **config.env})
    ranks = []
    for local, (device, cpus) in enumerate(zip(chosen.devices, bound.cpus)):
        number = job.first + local
        place = os.path.join(folder, f"rank_{number}")
        own = own_variables(job, local, device)
        environment = {**kept, **defaults(place), **config.env, **own}
        if config.program is not None and choice.name == "stub":
            environment.update(for_children(environment))
        _check(job, environment)
        changed = {n: v for n, v in sorted(environment.items()) if environ.get(n) != v}
        ranks.append(_rank(number, local, command, cwd, environment, changed, device, cpus, place))
    return Plan(
        backend=choice.name,
        reason=choice.reason,
        job_id=job.job_id,
        run=name,
        attempt=attempt,
        folder=folder,
        ranks=tuple(ranks),
        shown=tuple(sorted(parse_show(config.show, job.size) & {rank.rank for rank in ranks})),
        removed=away,
        notes=notes,
        bound=bound.said,
        nodes=nodes,
        size=job.size,
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
    local: int,
    command: Tuple[str, ...],
    cwd: str,
    environment: Mapping[str, str],
    changed: Mapping[str, str],
    device: RankDevice,
    cpus: Optional[Tuple[int, ...]],
    place: str,
) -> Rank:
    return Rank(
        rank=number,
        local=local,
        command=command,
        cwd=cwd,
        environment=environment,
        changed=changed,
        device=device.logical,
        physical=device.physical,
        cpus=cpus,
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
