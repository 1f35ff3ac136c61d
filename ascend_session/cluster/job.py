"""Rank and size of this process: as the adapter reads them, else as a scheduler says them."""

from typing import Mapping, NamedTuple, Optional

from ascend_session.cluster.claim import Said
from ascend_session.cluster.mounted import mounted_place
from ascend_session.cluster.schedulers import Detected, detected
from ascend_session.cluster.traps import traps
from ascend_session.cluster.variables import number
from ascend_session.errors import JobError

__all__ = ["Job", "device_reason"]


class Job(NamedTuple):
    """One process's place in its job.

    Attributes:
        rank: Number of this process in the job, from 0.
        size: Number of processes in the job; as few as there can be, where only a rank table says.
        local_rank: Number of this process on its server, from 0.
        local_size: Number of processes of the job on this server.
        device_id: Logical id of the process's own device.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    device_id: int

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Job":
        """Reads the job from ``environ``.

        Raises:
            JobError: If variables contradict each other (see `traps`), or if the rank is outside
                the size, or the rank on the node outside the size there; or if nothing says which
                rank of a mounted rank table this process is.
        """
        found = traps(environ)
        if found:
            listed = "\n".join(f"  {trap}" for trap in found)
            raise JobError(
                "This environment describes no job. The adapter would not say so; in most such "
                f"cases each rank would train alone:\n{listed}",
                hint="Set either RANK_TABLE_FILE, RANK_ID and RANK_SIZE, or CM_CHIEF_IP with the "
                "other CM_* variables; neither for an evaluator. Open systems in workers only.",
            )
        mounted = mounted_place(environ)
        if mounted is not None:
            environ = {**environ, **mounted.missing(environ)}
        known = detected(environ)
        rank = 0 if known.rank is None else known.rank.value
        size = _size(rank, known, environ)
        _check_rank(rank, size, known, environ)
        said_size, said_rank = known.local_size, known.local_rank
        local_size = (said_size.value if said_size else 0) or min(size, 8)
        local_rank = rank % local_size if said_rank is None else said_rank.value
        if said_rank and said_size and local_rank >= local_size > 0:
            raise JobError(
                f"{said_rank} is no place on a node with {said_size}: it has 0 to "
                f"{local_size - 1} ({known.reason}).",
                hint="export LOCAL_RANK and LOCAL_SIZE as this process's place on its node, from "
                "0, and the number of the job's processes there.",
            )
        scheduler = known.scheduler
        device_id = _device(environ, 0 if scheduler is None else local_rank)
        return cls(rank, size, local_rank, local_size, device_id)


def _check_rank(rank: int, size: int, found: Detected, environ: Mapping[str, str]) -> None:
    if 0 <= rank < size:
        return
    ranks = f"0 to {size - 1}" if size > 1 else "0 alone, unless RANK_SIZE says otherwise"
    name = "CM_WORKER_SIZE" if environ.get("CM_CHIEF_IP") else "RANK_SIZE"
    raise JobError(
        f"{found.rank} is no rank of this job of {size}: it has {ranks}.",
        hint=f"export {name} as the number of processes, RANK_ID from 0.",
    )


def _size(rank: int, found: Detected, environ: Mapping[str, str]) -> int:
    """The size that is said; with a rank table that alone knows it, one that this rank fits in."""
    if found.size is not None:
        return found.size.value
    if environ.get("RANK_TABLE_FILE"):
        return max(rank, 0) + 1
    scheduler = found.scheduler
    if scheduler is not None:
        raise JobError(
            f"{scheduler.rank} ({scheduler.name}) says which rank this process is, but nothing "
            "says of how many.",
            hint="export RANK_SIZE as the number of processes.",
        )
    return 1


def device_reason(environ: Mapping[str, str]) -> str:
    """What names the device of a process that a scheduler has started; for logs."""
    named = _named_device(environ)
    if named is not None:
        return str(named)
    if _sees_one(environ):
        return f"ASCEND_RT_VISIBLE_DEVICES={environ['ASCEND_RT_VISIBLE_DEVICES']}"
    return "the rank on the node"


def _named_device(environ: Mapping[str, str]) -> Optional[Said]:
    for name in ("ASCEND_DEVICE_ID", "DEVICE_ID"):
        if environ.get(name):
            return Said(number(environ, name) or 0, name)
    return None


def _device(environ: Mapping[str, str], local_rank: int) -> int:
    """The device that is named; else, of ranks that a scheduler started, one for each in turn."""
    named = _named_device(environ)
    if named is not None:
        return named.value
    return 0 if _sees_one(environ) else local_rank


def _sees_one(environ: Mapping[str, str]) -> bool:
    """Whether a scheduler gives each of its tasks a device of its own: it shows it no other one."""
    return environ.get("ASCEND_RT_VISIBLE_DEVICES", "").strip().isdigit()
