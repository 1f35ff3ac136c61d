"""The job of this process on the stub: its ranks, groups and timeouts.

This module has the open job of the process. Graphs are built before a system opens, and outlive it,
so at each run their operators look up the job here. A forked child has none.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.backends.collectives import Groups
from ascend_session.backends.exchange.group import ProcessGroup, Rank
from ascend_session.backends.exchange.rendezvous import Endpoint
from ascend_session.backends.exchange.sentences import name_ranks
from ascend_session.backends.model_report import ModelObserver
from ascend_session.backends.tf_sessions import add_observer, remove_observer
from ascend_session.cluster.job import Job
from ascend_session.cluster.machine import check_first_host, check_removed
from ascend_session.cluster.variables import RENDEZVOUS, is_independent, read_number
from ascend_session.errors import CollectiveError, LifecycleError
from ascend_session.process import on_fork
from ascend_session.vendor import (
    CONNECT_SECONDS,
    CONNECT_SECONDS_MORE,
    EXECUTION_SECONDS,
    WORLD_GROUP,
)

_open: "Optional[StubJob]" = None


class StubGroups(Groups):
    """The groups of ranks that this process has created, with HCCL's rules.

    As with HCCL, a group is created on each of its ranks and nowhere else, its members are sorted,
    and its name can be used again after `destroy`. Nothing is sent.

    Source: hccl/manage/api.py and what it calls (hcom.cc).

    Args:
        rank: The rank of this process in the job.
        nodes: For each rank of the job, the name of its node.
    """

    def __init__(self, rank: int, nodes: Sequence[str]) -> None:
        self._rank = rank
        self._nodes = nodes
        self._members: Dict[str, Tuple[int, ...]] = {WORLD_GROUP: tuple(range(len(nodes)))}

    def create(self, group: str, ranks: Sequence[int]) -> None:
        """Create a group of ranks of the job, given in any order; nothing is sent."""
        refusal = f"The group {group!r} of the ranks {list(ranks)} cannot be created: "
        if group in self._members:
            raise CollectiveError(
                f"{refusal}there is a group of this name already, of "
                f"{name_ranks(self._members[group])}.",
                hint="Use another name, or hccl.destroy_group(name) first.",
            )
        world = self._members[WORLD_GROUP]
        unknown = sorted(set(ranks) - set(world))
        reason = ""
        if unknown:
            reason = f"the job has {name_ranks(world)}, not {', '.join(map(str, unknown))}"
        elif self._rank not in ranks:
            reason = f"this process is rank {self._rank}, which is not among them"
        if reason:
            raise CollectiveError(
                f"{refusal}{reason}.",
                hint="Call hccl.create_group(name, number, ranks) with the same ranks on each of "
                "them, and on no other rank.",
            )
        self._members[group] = tuple(sorted(ranks))

    def destroy(self, group: str) -> None:
        """Destroy a group; nothing is sent."""
        self.members(group)
        del self._members[group]

    def members(self, group: str) -> Tuple[int, ...]:
        """Return the group's ranks in the job, in ascending order.

        Raises:
            CollectiveError: If this process has not created a group of this name.
        """
        if group not in self._members:
            names = ", ".join(map(repr, self._members))
            raise CollectiveError(
                f"There is no group {group!r} in this process, rank {self._rank}; it has {names}.",
                hint="hccl.create_group(name, number, ranks) makes one, on each of its ranks, "
                "inside the system in which it is used.",
            )
        return self._members[group]

    def rank(self, group: str) -> int:
        """Return this process's rank in the group."""
        return self.members(group).index(self._rank)

    def size(self, group: str) -> int:
        """Return the number of ranks of the group."""
        return len(self.members(group))

    def local_rank(self, group: str) -> int:
        """Return the index of this process among the group's ranks on its host."""
        return self._neighbours(group).index(self._rank)

    def local_size(self, group: str) -> int:
        """Return the number of the group's ranks on this process's host."""
        return len(self._neighbours(group))

    def world_rank(self, group: str, group_rank: int) -> int:
        """Return the rank in the job of a rank in the group."""
        members = self.members(group)
        if not 0 <= group_rank < len(members):
            raise CollectiveError(
                f"The group {group!r} has no rank {group_rank}: it has 0 to {len(members) - 1}."
            )
        return members[group_rank]

    def group_rank(self, world_rank: int, group: str) -> int:
        """Return the rank in the group of a rank in the job."""
        members = self.members(group)
        if world_rank not in members:
            raise CollectiveError(
                f"Rank {world_rank} of the job is not in the group {group!r}, which has "
                f"{name_ranks(members)}."
            )
        return members.index(world_rank)

    def _neighbours(self, group: str) -> List[int]:
        node = self._nodes[self._rank]
        return [rank for rank in self.members(group) if self._nodes[rank] == node]


class StubJob:
    """The job of the open system.

    Attributes:
        process_group: The connection to the other ranks.
        groups: The groups of this process.
    """

    def __init__(self, job: Job, process_group: ProcessGroup, is_compared: bool = False) -> None:
        self.process_group = process_group
        # A rank without others has exchanged no names of nodes.
        self.groups = StubGroups(job.rank, process_group.nodes or [""] * job.size)
        self._models: Optional[ModelObserver] = None
        if is_compared:
            self._models = ModelObserver(process_group, self.groups)
            add_observer(self._models)

    def close(self) -> None:
        """Leave the job in order, and report on this rank's model."""
        global _open
        if _open is self:
            _open = None
        report = None
        if self._models is not None:
            remove_observer(self._models)
            report = self._models.make_report()
        self.process_group.close(report)


def find_open_job() -> Optional[StubJob]:
    """Return the open job of this process, or None."""
    return _open


def current_job(caller: str) -> StubJob:
    """Return the open job.

    Args:
        caller: The subject of the error message.

    Raises:
        LifecycleError: If no system is open on the stub.
    """
    job = _open
    if job is None:
        raise LifecycleError(
            f"{caller} needs an open system: the ranks of a job find each other when it opens.",
            hint="with ascend_system(config) as system: ...",
        )
    return job


def members_now(group: str) -> str:
    """Return a group's ranks as text; the name of the world group, or while no system is open."""
    job = _open
    if job is None or group == WORLD_GROUP:
        return group
    return str(job.groups.members(group))


def open_job(job: Job, parameters: Mapping[str, Any], environ: Mapping[str, str]) -> StubJob:
    """Wait until the other ranks have joined, if there are any, and return the job.

    Raises:
        InitializationError: If ranks did not join in time; names them.
    """
    global _open
    process_group = _make_process_group(job, parameters, environ)
    process_group.open()
    _open = StubJob(job, process_group, job.size > 1 and not is_independent(environ))
    return _open


def find_endpoint(job: Job, environ: Mapping[str, str]) -> Endpoint:
    """Return the endpoint of a job's ranks, which is on this machine.

    Raises:
        JobError: If rank 0 is on another machine, or a variable asks for several machines.
    """
    check_removed(environ)
    claim = job.identity.scheduler
    if claim is not None and claim.hosts is not None and claim.hosts[0] > 1:
        check_first_host(claim.hosts[1], claim.name, environ)
    source = job.mounted if claim is None else claim
    given_id = "" if source is None else source.job_id
    job_id = environ.get("JOB_ID") or given_id
    name = environ.get(RENDEZVOUS) or given_id
    if name:
        return Endpoint.named(job_id, name)
    return Endpoint.started_together(job_id, [job.rank, job.device_id])


def _make_process_group(
    job: Job, parameters: Mapping[str, Any], environ: Mapping[str, str]
) -> ProcessGroup:
    """Create the process group of this rank, without connecting it."""
    if job.size == 1:
        return ProcessGroup(Rank(job.rank))
    timeout_s = float(read_number(environ, "HCCL_CONNECT_TIMEOUT") or CONNECT_SECONDS)
    timeout_s += CONNECT_SECONDS_MORE
    claim = job.identity.scheduler
    rank = Rank(
        job.rank,
        job.size,
        (claim and claim.node) or str(job.rank - job.local_rank),
        job.local_size,
        find_endpoint(job, environ),
        _describe_device(job, environ),
        claim.hosts[1] if claim is not None and claim.hosts is not None else "",
    )
    return ProcessGroup(rank, timeout_s, _execution_limit(parameters, environ))


def _describe_device(job: Job, environ: Mapping[str, str]) -> str:
    """Describe the device that a variable or scheduler gives to this rank; empty if none does."""
    visible = environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
    number = environ.get("ASCEND_DEVICE_ID") or environ.get("DEVICE_ID")
    if number or visible:
        return f"{job.device_id} of {visible}" if visible else str(job.device_id)
    return "" if job.identity.scheduler is None else str(job.device_id)


def _execution_limit(parameters: Mapping[str, Any], environ: Mapping[str, str]) -> Optional[float]:
    """Return the seconds that a collective may take, from option, variable or HCCL's default."""
    given = parameters.get("hccl_timeout")
    if given is None:
        given = read_number(environ, "HCCL_EXEC_TIMEOUT")
    if given is None:
        return float(EXECUTION_SECONDS)
    return float(given) if given > 0 else None


def _forget_in_child() -> None:
    global _open
    _open = None


on_fork(_forget_in_child)
