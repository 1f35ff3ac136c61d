"""Rank and size of this process, read from the environment as the adapter reads them."""

from typing import Mapping, NamedTuple

from ascend_session.cluster.traps import traps
from ascend_session.cluster.variables import number, size_given
from ascend_session.errors import JobError

__all__ = ["Job"]


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
                the size.
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
        rank = number(environ, "RANK_ID") or 0
        size = _size(rank, environ)
        if not 0 <= rank < size:
            ranks = f"0 to {size - 1}" if size > 1 else "0 alone, unless RANK_SIZE says otherwise"
            name = "CM_WORKER_SIZE" if environ.get("CM_CHIEF_IP") else "RANK_SIZE"
            raise JobError(
                f"RANK_ID={rank} is no rank of this job of {size}: it has {ranks}.",
                hint=f"export {name} as the number of processes, RANK_ID from 0.",
            )
        local_size = number(environ, "LOCAL_SIZE") or min(size, 8)
        local_rank = number(environ, "LOCAL_RANK")
        local_rank = rank % local_size if local_rank is None else local_rank
        return cls(rank, size, local_rank, local_size, _device(environ))


def _size(rank: int, environ: Mapping[str, str]) -> int:
    """The size that is said; with a rank table that alone knows it, one that this rank fits in."""
    return size_given(environ) or (max(rank, 0) + 1 if environ.get("RANK_TABLE_FILE") else 1)


def _device(environ: Mapping[str, str]) -> int:
    for name in ("ASCEND_DEVICE_ID", "DEVICE_ID"):
        if environ.get(name):
            return number(environ, name) or 0
    return 0
