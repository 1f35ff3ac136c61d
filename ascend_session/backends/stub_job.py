"""The job that this process belongs to on the stub: its ranks, its groups, its time limits.

Graphs are built before a system is open and outlive it, so the operators in them look here, at
each run, for the job of the system that is open then.
"""

import os
import socket
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.backends.collectives import Groups
from ascend_session.backends.exchange.messages import name_ranks
from ascend_session.backends.exchange.process_group import ProcessGroup
from ascend_session.backends.exchange.rendezvous import Rank, Rendezvous
from ascend_session.backends.stub import StubBackend
from ascend_session.cluster.coordinator import find_coordinator, is_loopback, split_address
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import COORDINATOR, RENDEZVOUS, read_number
from ascend_session.errors import CollectiveError, JobError, LifecycleError
from ascend_session.vendor import (
    CONNECT_SECONDS,
    CONNECT_SECONDS_MORE,
    EXECUTION_SECONDS,
    WORLD_GROUP,
)


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
        self.process_group.close()


def current_job(caller: str) -> StubJob:
    """Return the open job.

    Args:
        caller: Who needs it, for the message.

    Raises:
        LifecycleError: If no system is open on the stub.
    """
    backend = StubBackend.opened
    job = None if backend is None else backend.joined_job()
    if job is None:
        raise LifecycleError(
            f"{caller} needs an open system: the ranks of a job find each other when it opens.",
            hint="with ascend_system(config) as system: ...",
        )
    return job


def members_now(group: str) -> str:
    """List a group's ranks as text; its name while they are not known, as before a system opens."""
    if StubBackend.opened is None or group == WORLD_GROUP:
        return group
    return str(current_job(f"The group {group!r}").groups.members(group))


def open_job(job: Job, parameters: Mapping[str, Any], environ: Mapping[str, str]) -> StubJob:
    """Meet the other ranks, if there are any.

    Raises:
        InitializationError: Naming the ranks that did not come.
    """
    process_group = _make_process_group(job, parameters, environ)
    try:
        process_group.open()
    except BaseException as error:
        process_group.close(error)
        raise
    return StubJob(job, process_group)


def find_rendezvous(job: Job, environ: Mapping[str, str]) -> Optional[str]:
    """Find the address at which the job's nodes meet; None if all ranks are on this one.

    Raises:
        JobError: If this rank cannot know where the others are.
    """
    claim = job.identity.scheduler
    address = find_coordinator(environ, claim)
    if address is not None:
        # An address that no other machine can reach, and no word of nodes: there is one.
        is_inside = is_loopback(split_address(address)[0])
        return None if is_inside and job.identity.local_rank is None else address
    if claim is not None and not claim.is_on_one_node:
        raise JobError(
            f"The {job.size} ranks of this job ({claim.name}) are on several nodes, and nothing "
            f"says which of them is rank 0's: {COORDINATOR} is not set.",
            hint=f"Give all of them {COORDINATOR}=HOST:PORT, an address of rank 0's node and a "
            f"free port there: export it for srun; mpirun -x {COORDINATOR}=HOST:PORT ...",
        )
    if job.mounted is not None:
        raise JobError(
            f"{job.mounted} says that this job has {job.size} ranks, but nothing says where they "
            f"could meet ({COORDINATOR}).",
            hint="Let `ascend-session launch` start the ranks, or unset RANK_TABLE_FILE to train "
            "alone.",
        )
    return None


def _make_process_group(
    job: Job, parameters: Mapping[str, Any], environ: Mapping[str, str]
) -> ProcessGroup:
    """Describe how this rank meets the others, whom `ProcessGroup.open` waits for."""
    if job.size == 1:
        return ProcessGroup(job.rank)
    timeout_s = float(read_number(environ, "HCCL_CONNECT_TIMEOUT") or CONNECT_SECONDS)
    timeout_s += CONNECT_SECONDS_MORE
    claim, token = job.identity.scheduler, environ.get(RENDEZVOUS, "")
    source = job.mounted if claim is None else claim
    seed = "" if source is None else source.seed
    job_id = environ.get("JOB_ID") or seed
    coordinator = find_rendezvous(job, environ)
    label = (claim and claim.node) or str(job.rank - job.local_rank)
    links = None
    if coordinator is None:
        is_hub = job.rank == 0
        if token or environ.get(COORDINATOR):
            rendezvous = Rendezvous.named(job_id, token or environ[COORDINATOR])
        elif seed:
            rendezvous = Rendezvous.named(job_id, seed)
        else:
            rendezvous = Rendezvous.started_together(job_id, [job.rank, job.device_id])
    else:
        from ascend_session.backends.exchange.credentials import read_credentials
        from ascend_session.backends.exchange.links import Links

        known = job.identity.local_rank
        local_rank = 0 if job.mounted is not None else known and known.value
        is_hub = local_rank == 0
        node = token or (claim and claim.node) or _this_machine()
        if local_rank is None or (job.rank == 0 and not is_hub):
            # Nobody knows who else is on this machine: such a rank is a node of its own.
            is_hub, node = True, f"rank {job.rank}"
        rendezvous = Rendezvous.named(job_id, coordinator, node)
        if is_hub:
            credentials = read_credentials(environ, job_id)
            links = Links(node if job.rank else "", coordinator, credentials, timeout_s)
    who = Rank(job.rank, job.size, label, job.local_size, rendezvous, is_hub, coordinator, links)
    return ProcessGroup(job.rank, who, timeout_s, _execution_limit(parameters, environ))


def _this_machine() -> str:
    """Give what processes have in common that can see each other."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _execution_limit(parameters: Mapping[str, Any], environ: Mapping[str, str]) -> Optional[float]:
    """Find how long a collective may take: the option, else the variable, else HCCL's default."""
    given = parameters.get("hccl_timeout")
    if given is None:
        given = read_number(environ, "HCCL_EXEC_TIMEOUT")
    if given is None:
        return float(EXECUTION_SECONDS)
    return float(given) if given > 0 else None
