"""The job that this process belongs to on the stub: its ranks, its groups, its time limits.

The open job of the process stands here, and nowhere else. Graphs are built before a system is open
and outlive it, so the operators in them look here, at each run, for the job that is open then. A
forked child has none.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.backends.collectives import Groups
from ascend_session.backends.exchange.group import ProcessGroup, Rank
from ascend_session.backends.exchange.rendezvous import Rendezvous
from ascend_session.backends.exchange.sentences import name_ranks
from ascend_session.cluster.job import Job
from ascend_session.cluster.machine import check_first_host, check_removed
from ascend_session.cluster.variables import RENDEZVOUS, read_number
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
    """The groups of one process of a stub's job, with HCCL's rules; it is in all of them.

    Nothing is sent: as with HCCL, a group is made on each of its ranks and nowhere else, its
    members are sorted, and its name is free again after its end.

    Source: hccl/manage/api.py and what it calls (hcom.cc).

    Args:
        rank: The process's rank in the job.
        size: The number of ranks in the job.
        local_size: How many ranks there are on each host; the last one may have fewer.
        nodes: What is the same for the ranks of a host, by rank; None means `local_size` says it.
    """

    def __init__(
        self, rank: int, size: int, local_size: int, nodes: Optional[Sequence[str]] = None
    ) -> None:
        self._rank = rank
        self._nodes = nodes or [str(number // local_size) for number in range(size)]
        self._members: Dict[str, Tuple[int, ...]] = {WORLD_GROUP: tuple(range(size))}

    def create(self, group: str, ranks: Sequence[int]) -> None:
        """Make a group of world ranks, given in any order; nothing is sent."""
        refusal = f"The group {group!r} of the ranks {list(ranks)} cannot be made: "
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
        """End a group; nothing is sent."""
        self.members(group)
        del self._members[group]

    def members(self, group: str) -> Tuple[int, ...]:
        """List the group's ranks in the job, ascending.

        Raises:
            CollectiveError: If this process has made no group of this name.
        """
        if group not in self._members:
            known = ", ".join(map(repr, self._members))
            raise CollectiveError(
                f"There is no group {group!r} in this process, rank {self._rank}; it has {known}.",
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
        """Return this process's place among the group's ranks of its host."""
        return self._neighbours(group).index(self._rank)

    def local_size(self, group: str) -> int:
        """Return how many of the group's ranks are on this process's host."""
        return len(self._neighbours(group))

    def world_rank(self, group: str, group_rank: int) -> int:
        """Return the rank in the job of a rank of the group."""
        members = self.members(group)
        if not 0 <= group_rank < len(members):
            raise CollectiveError(
                f"The group {group!r} has no rank {group_rank}: it has 0 to {len(members) - 1}."
            )
        return members[group_rank]

    def group_rank(self, world_rank: int, group: str) -> int:
        """Return the rank in the group of a rank of the job."""
        members = self.members(group)
        if world_rank not in members:
            raise CollectiveError(
                f"Rank {world_rank} of the job is not in the group {group!r}, which has "
                f"{name_ranks(members)}."
            )
        return members.index(world_rank)

    def _neighbours(self, group: str) -> List[int]:
        own = self._nodes[self._rank]
        return [rank for rank in self.members(group) if self._nodes[rank] == own]


class StubJob:
    """The open system's job.

    Attributes:
        process_group: This rank and the others, who have met.
        groups: Who is in which group.
    """

    def __init__(self, job: Job, process_group: ProcessGroup) -> None:
        self.process_group = process_group
        self.groups = StubGroups(job.rank, job.size, job.local_size, process_group.nodes)

    def close(self) -> None:
        """Leave the others in order."""
        global _open
        if _open is self:
            _open = None
        self.process_group.close()


def find_open_job() -> Optional[StubJob]:
    """Return the open job of this process, or None."""
    return _open


def current_job(caller: str) -> StubJob:
    """Return the open job.

    Args:
        caller: Who needs it, for the message.

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
    """List a group's ranks as text; its name while they are not known, as before a system opens."""
    if _open is None or group == WORLD_GROUP:
        return group
    return str(current_job(f"The group {group!r}").groups.members(group))


def open_job(job: Job, parameters: Mapping[str, Any], environ: Mapping[str, str]) -> StubJob:
    """Meet the other ranks, if there are any.

    Raises:
        InitializationError: Naming the ranks that did not come.
    """
    global _open
    process_group = _make_process_group(job, parameters, environ)
    process_group.open()
    _open = StubJob(job, process_group)
    return _open


def find_meeting(job: Job, environ: Mapping[str, str]) -> Rendezvous:
    """Find out where the ranks of a job meet, on this machine.

    Raises:
        JobError: If rank 0 is on another one, or if a variable says that it may be.
    """
    check_removed(environ)
    claim = job.identity.scheduler
    if claim is not None and claim.hosts is not None and claim.hosts[0] > 1:
        check_first_host(claim.hosts[1], claim.name, environ)
    source = job.mounted if claim is None else claim
    seed = "" if source is None else source.seed
    job_id = environ.get("JOB_ID") or seed
    name = environ.get(RENDEZVOUS) or seed
    if name:
        return Rendezvous.named(job_id, name)
    return Rendezvous.started_together(job_id, [job.rank, job.device_id])


def _make_process_group(
    job: Job, parameters: Mapping[str, Any], environ: Mapping[str, str]
) -> ProcessGroup:
    """Describe how this rank meets the others, whom `ProcessGroup.open` waits for."""
    if job.size == 1:
        return ProcessGroup(Rank(job.rank))
    timeout_s = float(read_number(environ, "HCCL_CONNECT_TIMEOUT") or CONNECT_SECONDS)
    timeout_s += CONNECT_SECONDS_MORE
    claim = job.identity.scheduler
    who = Rank(
        job.rank,
        job.size,
        (claim and claim.node) or str(job.rank - job.local_rank),
        job.local_size,
        find_meeting(job, environ),
        _describe_device(job, environ),
        claim.hosts[1] if claim is not None and claim.hosts is not None else "",
    )
    return ProcessGroup(who, timeout_s, _execution_limit(parameters, environ))


def _describe_device(job: Job, environ: Mapping[str, str]) -> str:
    """Describe the device that this rank was given by a variable or a scheduler; empty if none."""
    visible = environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
    own = environ.get("ASCEND_DEVICE_ID") or environ.get("DEVICE_ID")
    if own or visible:
        return f"{job.device_id} of {visible}" if visible else str(job.device_id)
    return "" if job.identity.scheduler is None else str(job.device_id)


def _execution_limit(parameters: Mapping[str, Any], environ: Mapping[str, str]) -> Optional[float]:
    """Find how long a collective may take: the option, else the variable, else HCCL's default."""
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
