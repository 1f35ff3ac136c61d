"""The job that this process belongs to on the stub: its ranks, its groups, its time limits.

Graphs are built before a system is open and outlive it, so the operators in them look here, at
each run, for the job of the system that is open then.
"""

from functools import partial
from typing import Any, Callable, Mapping, Optional

from ascend_session.backends.ranks.exchange import Exchange
from ascend_session.backends.stub_groups import Groups
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import ADDRESSES, COORDINATOR, number
from ascend_session.errors import JobError, LifecycleError
from ascend_session.vendor import (
    CONNECT_SECONDS,
    CONNECT_SECONDS_MORE,
    EXECUTION_SECONDS,
    WORLD_GROUP,
)

__all__ = ["StubJob", "check_addresses", "current_job", "members_now", "open_job"]

_current: "Optional[StubJob]" = None


class StubJob:
    """The open system's job.

    Attributes:
        exchange: This rank among the others.
        groups: Who is in which group.
    """

    def __init__(self, job: Job, exchange: Exchange) -> None:
        self.exchange = exchange
        self.groups = Groups(job.rank, job.size, job.local_size)

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
        opened.exchange.open()
    except BaseException as error:
        opened.close(error)
        raise
    _current = opened
    return opened


def check_addresses(job: Job, environ: Mapping[str, str]) -> None:
    """Whether the launcher has given this rank what it needs to find the others.

    Raises:
        JobError: If not.
    """
    addresses = (environ.get(ADDRESSES) or "").split(",")
    if job.size == 1 or (environ.get(COORDINATOR) and len(addresses) == job.size):
        return
    said = f"{len(addresses)} addresses" if environ.get(ADDRESSES) else "no addresses"
    raise JobError(
        f"RANK_SIZE says that this job has {job.size} ranks, but there are {said} at which they "
        f"could meet ({ADDRESSES}, {COORDINATOR}).",
        hint="Let `ascend-session launch` start the ranks, or unset RANK_SIZE and RANK_TABLE_FILE "
        "to train alone.",
    )


def _exchange(job: Job, parameters: Mapping[str, Any], environ: Mapping[str, str]) -> Exchange:
    if job.size == 1:
        return Exchange(job.rank, job.size)
    # Slow to import, and not needed by one rank.
    from ascend_session.backends.ranks.meeting import Meeting
    from ascend_session.backends.ranks.runtime import runtime

    addresses = environ[ADDRESSES].split(",")
    connect = number(environ, "HCCL_CONNECT_TIMEOUT") or CONNECT_SECONDS
    connect += CONNECT_SECONDS_MORE

    def meet(on_end: Callable[[str], None]) -> Meeting:
        where, name = environ[COORDINATOR], environ.get("JOB_ID", "")
        return Meeting(job.rank, job.size, where, name, connect, on_end)

    seconds = _execution_limit(parameters, environ)
    starter = partial(runtime, job.rank, addresses)
    return Exchange(job.rank, job.size, seconds, connect, meet, starter)


def _execution_limit(parameters: Mapping[str, Any], environ: Mapping[str, str]) -> Optional[float]:
    """Seconds that a collective may take: the option, else the variable, else HCCL's default."""
    given = parameters.get("hccl_timeout")
    if given is None:
        given = number(environ, "HCCL_EXEC_TIMEOUT")
    if given is None:
        return float(EXECUTION_SECONDS)
    return float(given) if given > 0 else None
