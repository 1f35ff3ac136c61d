"""The job that this process belongs to on the stub: its ranks, its groups, its time limits.

Graphs are built before a system is open and outlive it, so the operators in them look here, at
each run, for the job of the system that is open then.
"""

from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

from ascend_session.backends.ranks.endpoint import Endpoint, own_port, servers
from ascend_session.backends.ranks.exchange import Exchange
from ascend_session.backends.stub_groups import Groups
from ascend_session.cluster.coordinator import coordinator_of
from ascend_session.cluster.job import Job
from ascend_session.cluster.mounted import mounted_place
from ascend_session.cluster.schedulers import detected
from ascend_session.cluster.variables import COORDINATOR, number
from ascend_session.errors import JobError, LifecycleError
from ascend_session.vendor import (
    CONNECT_SECONDS,
    CONNECT_SECONDS_MORE,
    EXECUTION_SECONDS,
    WORLD_GROUP,
)

__all__ = ["StubJob", "check_meeting", "current_job", "members_now", "open_job"]

_current: "Optional[StubJob]" = None


class StubJob:
    """The open system's job.

    Attributes:
        exchange: This rank among the others.
        groups: Who is in which group.
    """

    def __init__(self, job: Job, exchange: Exchange) -> None:
        self.exchange = exchange
        self._job = job
        self.groups = Groups(job.rank, job.size, job.local_size)

    def open(self) -> None:
        """Meets the others, and learns who shares a node with whom."""
        self.exchange.open()
        nodes = [place.node for place in self.exchange.places]
        self.groups = Groups(self._job.rank, self._job.size, self._job.local_size, nodes)

    def close(self, failure: Optional[BaseException] = None) -> None:
        """Leaves the others in order, or says why not; afterwards no operator finds this job."""
        global _current
        try:
            self.exchange.close(failure)
        finally:
            if _current is self:
                _current = None


def current_job(asked: str) -> StubJob:
    """The open job.

    Args:
        asked: Who asks, for the message.

    Raises:
        LifecycleError: If no system is open on the stub.
    """
    if _current is None:
        raise LifecycleError(
            f"{asked} needs an open system: the ranks of a job find each other when it opens.",
            hint="with ascend_system(config) as system: ...",
        )
    return _current


def members_now(group: str) -> str:
    """Who is in a group, as text; its name while that is not known, as before a system is open."""
    if _current is None or group == WORLD_GROUP:
        return group
    return str(_current.groups.members(group))


def open_job(job: Job, parameters: Mapping[str, Any], environ: Mapping[str, str]) -> StubJob:
    """Meets the other ranks, if there are any.

    Raises:
        InitializationError: Naming the ranks that did not come.
    """
    global _current
    opened = StubJob(job, _exchange(job, parameters, environ))
    try:
        opened.open()
    except BaseException as error:
        opened.close(error)
        raise
    _current = opened
    return opened


class _MeetingPoint(NamedTuple):
    """Where the ranks meet, and what shows that they belong together."""

    address: str
    job_id: str


def check_meeting(job: Job, environ: Mapping[str, str]) -> None:
    """Whether this rank can know where to find the others.

    Raises:
        JobError: If not.
    """
    if job.size > 1:
        _meeting_point(job, environ)


def _meeting_point(job: Job, environ: Mapping[str, str]) -> _MeetingPoint:
    claim, mounted = detected(environ).scheduler, mounted_place(environ)
    address = coordinator_of(environ, claim)
    if address is not None:
        source = mounted if claim is None else claim
        seed = "" if source is None else source.seed
        return _MeetingPoint(address, environ.get("JOB_ID") or seed)
    if claim is not None:
        raise JobError(
            f"The {job.size} ranks of this job ({claim.name}) are on several nodes, and nothing "
            f"says which of them is rank 0's: {COORDINATOR} is not set.",
            hint=f"Give all of them {COORDINATOR}=HOST:PORT, an address of rank 0's node and a "
            f"free port there: export it for srun; mpirun -x {COORDINATOR}=HOST:PORT ...",
        )
    raise JobError(
        f"{mounted or 'RANK_SIZE'} says that this job has {job.size} ranks, but nothing says where "
        f"they could meet ({COORDINATOR}).",
        hint="Let `ascend-session launch` start the ranks, or unset RANK_SIZE and RANK_TABLE_FILE "
        "to train alone.",
    )


def _exchange(job: Job, parameters: Mapping[str, Any], environ: Mapping[str, str]) -> Exchange:
    if job.size == 1:
        return Exchange(job.rank, job.size)
    # Slow to import, and not needed by one rank.
    from ascend_session.backends.ranks.meeting import Meeting
    from ascend_session.backends.ranks.runtime import Runtime, runtime

    connect = number(environ, "HCCL_CONNECT_TIMEOUT") or CONNECT_SECONDS
    connect += CONNECT_SECONDS_MORE
    where, name = _meeting_point(job, environ)
    claim = detected(environ).scheduler
    node = (claim and claim.node) or str(job.rank - job.local_rank)
    place = Endpoint(own_port(environ), node=node, local_size=job.local_size)

    def meet(on_end: Callable[[str], None]) -> Meeting:
        return Meeting(job.rank, job.size, where, name, connect, on_end, place)

    def start(places: Sequence[Endpoint]) -> Runtime:
        return runtime(job.rank, servers(places, where, job.rank))

    seconds = _execution_limit(parameters, environ)
    return Exchange(job.rank, job.size, seconds, connect, meet, start)


def _execution_limit(parameters: Mapping[str, Any], environ: Mapping[str, str]) -> Optional[float]:
    """Seconds that a collective may take: the option, else the variable, else HCCL's default."""
    given = parameters.get("hccl_timeout")
    if given is None:
        given = number(environ, "HCCL_EXEC_TIMEOUT")
    if given is None:
        return float(EXECUTION_SECONDS)
    return float(given) if given > 0 else None
