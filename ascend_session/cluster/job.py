"""Rank and size of this process, read from the environment as the adapter reads them.

Source: options_notes.md, section b; launch_facts.md, A6 (ge_plugin.cc): several combinations of
variables switch collectives off without a word, and every rank then trains alone. Those are
refused here.
"""

import re
from typing import List, Mapping, NamedTuple, Optional

from ascend_session.errors import JobError

__all__ = ["Job"]

_CM_FAMILY = ("CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE")


class Job(NamedTuple):
    """One process's place in its job.

    Attributes:
        rank: Number of this process in the job, from 0.
        size: Number of processes in the job.
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
            JobError: If variables contradict each other, so that the adapter would silently
                switch collectives off, or if the rank is outside the size.
        """
        traps = _traps(environ)
        if traps:
            listed = "\n".join(f"  {trap}" for trap in traps)
            raise JobError(
                "This environment switches collectives off without a word; each rank would "
                f"train alone:\n{listed}",
                hint="Set either RANK_TABLE_FILE, RANK_ID and RANK_SIZE, or the CM_* family.",
            )
        size = max(_number(environ, "RANK_SIZE") or _number(environ, "CM_WORKER_SIZE") or 1, 1)
        rank = _number(environ, "RANK_ID") or 0
        if not 0 <= rank < size:
            ranks = f"0 to {size - 1}" if size > 1 else "0 alone, unless RANK_SIZE says otherwise"
            raise JobError(
                f"RANK_ID={rank} is no rank of this job of {size}: it has {ranks}.",
                hint="export RANK_SIZE as the number of processes, RANK_ID from 0.",
            )
        local_size = _number(environ, "LOCAL_SIZE") or min(size, 8)
        local_rank = _number(environ, "LOCAL_RANK")
        local_rank = rank % local_size if local_rank is None else local_rank
        return cls(rank, size, local_rank, local_size, _device(environ))


def _number(environ: Mapping[str, str], name: str) -> Optional[int]:
    """The variable as a number; None if unset or not a number, which the adapter ignores."""
    text = environ.get(name, "").strip()
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else None


def _device(environ: Mapping[str, str]) -> int:
    for name in ("ASCEND_DEVICE_ID", "DEVICE_ID"):
        if environ.get(name):
            return _number(environ, name) or 0
    return 0


def _traps(environ: Mapping[str, str]) -> List[str]:
    given = {name for name, value in environ.items() if value}
    table, chief = "RANK_TABLE_FILE" in given, "CM_CHIEF_IP" in given
    traps = []
    if table and chief:
        traps.append("RANK_TABLE_FILE and CM_CHIEF_IP are both set.")
    if table and "CM_WORKER_SIZE" in given:
        traps.append("RANK_TABLE_FILE and CM_WORKER_SIZE are both set.")
    if chief and "RANK_SIZE" in given:
        traps.append("CM_CHIEF_IP and RANK_SIZE are both set.")
    missing = [name for name in _CM_FAMILY if name not in given]
    if chief and missing:
        traps.append(f"CM_CHIEF_IP is set, but {' and '.join(missing)} is not.")
    size = _number(environ, "RANK_SIZE")
    if table and size is not None and (size == 0 or size < -1):
        traps.append(f"RANK_TABLE_FILE is set, but RANK_SIZE={size}.")
    return traps
