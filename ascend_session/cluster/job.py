"""Rank and size of this process: as the adapter reads them, else as a scheduler says them."""

from typing import Mapping, NamedTuple, Optional, Tuple

from ascend_session.cluster.kubernetes import MountedPlace, find_mounted_place
from ascend_session.cluster.schedulers import Identity, read_identity
from ascend_session.cluster.variables import find_traps, read_number
from ascend_session.errors import JobError


class Job(NamedTuple):
    """One process's place in its job.

    Attributes:
        rank: Number of this process in the job, from 0.
        size: Number of processes in the job; as few as there can be, where only a rank table says.
        local_rank: Number of this process on its server, from 0.
        local_size: Number of processes of the job on this server.
        device_id: Logical id of the process's own device.
        identity: What variables and schedulers say of it.
        mounted: Its place in the rank table that is mounted in its pod, if that alone says it.
        device_source: What names the device; for logs.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    device_id: int
    identity: Identity = Identity()
    mounted: Optional[MountedPlace] = None
    device_source: str = ""

    @classmethod
    def detect(cls, environ: Mapping[str, str]) -> "Job":
        """Find out the job from an environment.

        Raises:
            JobError: If variables contradict each other (see `find_traps`), or if the rank is
                outside the size, or the rank on the node outside the size there; or if nothing says
                which rank of a mounted rank table this process is.
        """
        _refuse_traps(environ)
        identity = read_identity(environ)
        mounted = find_mounted_place(environ, identity)
        known = identity
        if mounted is not None:
            environ = {**environ, **mounted.missing_variables(environ)}
            known = read_identity(environ)
        rank = 0 if known.rank is None else known.rank.value
        size = _find_size(rank, known, environ)
        _check_rank(rank, size, known, environ)
        local_size = (known.local_size.value if known.local_size else 0) or min(size, 8)
        local_rank = rank % local_size if known.local_rank is None else known.local_rank.value
        if known.local_rank and known.local_size and local_rank >= local_size > 0:
            raise JobError(
                f"{known.local_rank} is no place on a node with {known.local_size}: it has 0 to "
                f"{local_size - 1} ({known.reason}).",
                hint="export LOCAL_RANK and LOCAL_SIZE as this process's place on its node, from "
                "0, and the number of the job's processes there.",
            )
        device_id, source = _find_device(environ, 0 if known.scheduler is None else local_rank)
        return cls(rank, size, local_rank, local_size, device_id, identity, mounted, source)

    @property
    def origin(self) -> str:
        """Who says all this, for logs; empty without a scheduler or a mounted table."""
        if self.identity.scheduler is not None:
            return f"{self.identity.reason}; device {self.device_id} by {self.device_source}"
        return "" if self.mounted is None else str(self.mounted)


def _refuse_traps(environ: Mapping[str, str]) -> None:
    traps = find_traps(environ)
    if traps:
        listed = "\n".join(f"  {trap}" for trap in traps)
        raise JobError(
            "This environment describes no job. The adapter would not say so; in most such "
            f"cases each rank would train alone:\n{listed}",
            hint="Set either RANK_TABLE_FILE, RANK_ID and RANK_SIZE, or CM_CHIEF_IP with the "
            "other CM_* variables; neither for an evaluator. Open systems in workers only.",
        )


def _find_size(rank: int, known: Identity, environ: Mapping[str, str]) -> int:
    """Find the size; with a rank table that alone knows it, one that this rank fits in."""
    if known.size is not None:
        return known.size.value
    if environ.get("RANK_TABLE_FILE"):
        return max(rank, 0) + 1
    scheduler = known.scheduler
    if scheduler is not None:
        raise JobError(
            f"{scheduler.rank} ({scheduler.name}) says which rank this process is, but nothing "
            "says of how many.",
            hint="export RANK_SIZE as the number of processes.",
        )
    return 1


def _check_rank(rank: int, size: int, known: Identity, environ: Mapping[str, str]) -> None:
    if 0 <= rank < size:
        return
    ranks = f"0 to {size - 1}" if size > 1 else "0 alone, unless RANK_SIZE says otherwise"
    name = "CM_WORKER_SIZE" if environ.get("CM_CHIEF_IP") else "RANK_SIZE"
    raise JobError(
        f"{known.rank} is no rank of this job of {size}: it has {ranks}.",
        hint=f"export {name} as the number of processes, RANK_ID from 0.",
    )


def _find_device(environ: Mapping[str, str], local_rank: int) -> Tuple[int, str]:
    """Find the device that is named; else, of ranks that a scheduler started, one for each.

    Returns:
        Its id, and what says it.
    """
    for name in ("ASCEND_DEVICE_ID", "DEVICE_ID"):
        if environ.get(name):
            device_id = read_number(environ, name) or 0
            return device_id, f"{name}={device_id}"
    visible = environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
    if visible.strip().isdigit():  # a scheduler shows each of its tasks a device of its own
        return 0, f"ASCEND_RT_VISIBLE_DEVICES={visible}"
    return local_rank, "the rank on the node"
