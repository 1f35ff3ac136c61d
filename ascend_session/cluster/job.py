"""Rank and size of this process: from the adapter's variables, else from a scheduler."""

import re
from typing import Mapping, NamedTuple, Optional, Tuple

from ascend_session.cluster.kubernetes import MountedRank, find_mounted_rank
from ascend_session.cluster.schedulers import Identity, read_identity, refuse_other_launchers
from ascend_session.cluster.variables import (
    find_missing_table,
    find_superseded,
    find_traps,
    find_wrong_numbers,
    read_number,
)
from ascend_session.errors import JobError

_ASSUMED_LOCAL_SIZE = 8  # ranks of a node if no variable says how many there are


class Job(NamedTuple):
    """Rank, size and device of this process in its job.

    Attributes:
        rank: Number of this process in the job, from 0.
        size: Number of processes in the job; a lower bound if only a rank table knows it.
        local_rank: Number of this process on its server, from 0.
        local_size: Number of processes of the job on this server.
        device_id: Logical id of the process's own device.
        identity: Numbers from variables and schedulers.
        mounted: Its rank in the table that is mounted in its pod; None if a variable or a
            scheduler gives the rank.
        device_source: The variable or rule that chose the device; for logs.
        superseded: Variables of a launcher that do not count, because a script below it numbers
            its ranks itself.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    device_id: int
    identity: Identity = Identity()
    mounted: Optional[MountedRank] = None
    device_source: str = ""
    superseded: Tuple[str, ...] = ()

    @classmethod
    def detect(cls, environ: Mapping[str, str]) -> "Job":
        """Find rank, size and device in an environment.

        If a script below a launcher starts ranks, the variables that the script sets win.

        Raises:
            JobError: If variables contradict each other (see `find_traps`) or hold no numbers, if a
                rank is out of range, or if nothing says which rank of a mounted rank table this
                process is.
        """
        superseded = tuple(find_superseded(environ))
        if superseded:
            environ = {name: environ[name] for name in environ if name not in superseded}
        traps = [*find_traps(environ), *find_wrong_numbers(environ)]
        if traps:
            missing = find_missing_table(environ)
            lines = "\n".join(f"  {trap}" for trap in (missing, *traps) if trap)
            raise JobError(
                "The environment describes no valid job. The adapter does not report this; in most "
                f"such cases each rank would train alone:\n{lines}",
                hint="Set either RANK_TABLE_FILE, RANK_ID and RANK_SIZE, or CM_CHIEF_IP with the "
                "other CM_* variables; neither for an evaluator. Open systems in workers only.",
            )
        identity = read_identity(environ)
        mounted = find_mounted_rank(environ, identity)
        numbers = identity
        if mounted is not None:
            environ = {**environ, **mounted.find_missing_variables(environ)}
            numbers = read_identity(environ)
        rank = 0 if numbers.rank is None else numbers.rank.value
        size = _find_size(rank, numbers, environ)
        if not 0 <= rank < size:
            ranks = f"the ranks of this job of {size} are 0 to {size - 1}"
            if size == 1:
                ranks = "this job has rank 0 only, unless RANK_SIZE says otherwise"
            missing = find_missing_table(environ)
            name = "CM_WORKER_SIZE" if environ.get("CM_CHIEF_IP") else "RANK_SIZE"
            raise JobError(
                f"{missing} {numbers.rank} is out of range: {ranks}.".lstrip(),
                hint=f"export {name} as the number of processes, and RANK_ID from 0.",
            )
        local_size = (numbers.local_size.value if numbers.local_size else 0) or min(
            size, _ASSUMED_LOCAL_SIZE
        )
        local_rank = rank % local_size if numbers.local_rank is None else numbers.local_rank.value
        if numbers.local_rank and numbers.local_size and local_rank >= local_size > 0:
            raise JobError(
                f"{numbers.local_rank} is out of range: with {numbers.local_size} the local ranks "
                f"are 0 to {local_size - 1} ({numbers.reason}).",
                hint="export LOCAL_RANK as this process's number on its node, from 0, and "
                "LOCAL_SIZE as the number of the job's processes there.",
            )
        device_id, source = _find_device(environ, 0 if numbers.scheduler is None else local_rank)
        ids = (rank, size, local_rank, local_size, device_id)
        return cls(*ids, identity, mounted, source, superseded)

    @classmethod
    def of_system(cls, environ: Mapping[str, str]) -> "Job":
        """Find what `detect` finds, for a system that is about to open.

        Raises:
            JobError: As from `detect`, and for a process that only another launcher numbers.
        """
        job = cls.detect(environ)
        if job.mounted is None:
            refuse_other_launchers(environ, job.identity)
        return job

    @property
    def origin(self) -> str:
        """Where the numbers come from, for logs; empty without a scheduler or mounted table."""
        if self.identity.scheduler is not None:
            return f"{self.identity.reason}; device {self.device_id} by {self.device_source}"
        return "" if self.mounted is None else str(self.mounted)


def _find_size(rank: int, identity: Identity, environ: Mapping[str, str]) -> int:
    """Return the size; the smallest possible one if only a rank table, not read here, knows it."""
    if identity.size is not None:
        return identity.size.value
    if environ.get("RANK_TABLE_FILE"):
        return max(rank, 0) + 1
    if identity.scheduler is not None:
        raise JobError(
            f"{identity.scheduler.rank} ({identity.scheduler.name}) says which rank this process "
            "is, but nothing says how many ranks there are.",
            hint="export RANK_SIZE as the number of processes.",
        )
    return 1


def _find_device(environ: Mapping[str, str], local_rank: int) -> Tuple[int, str]:
    """Return the logical id of the device for this process, and the variable or rule that says so.

    Args:
        environ: The environment.
        local_rank: The device if no variable names one.
    """
    for name in ("ASCEND_DEVICE_ID", "DEVICE_ID"):
        if environ.get(name):
            device_id = read_number(environ, name) or 0
            return device_id, f"{name}={device_id}"
    visible = environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
    # Schedulers that show each task only its own device set this to one number.
    if re.fullmatch("[0-9]+", visible.strip()):
        return 0, f"ASCEND_RT_VISIBLE_DEVICES={visible}"
    return local_rank, "the rank on the node"
