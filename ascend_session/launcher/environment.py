"""The complete environment of a rank.

Source: launch_facts.md, A2 rule 6 (physical ids in tables), A6 (``CM_*`` family; order in which a
process looks for its device), B4 (logs); options_notes.md, section b.
"""

import os
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from ascend_session.cluster.variables import COORDINATOR, PORT
from ascend_session.launcher.devices import STUB_DEVICES_VARIABLE, RankDevice
from ascend_session.launcher.variables import LOG_PATH, RANK_FOLDER, WORK_PATH

__all__ = [
    "PLOG_FOLDER",
    "WORK_FOLDER",
    "Chief",
    "JobFacts",
    "defaults",
    "for_children",
    "own_variables",
]

# Where Pythons find the stand-ins for the vendor's packages (compat/inherited).
_STAND_INS = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "compat", "inherited"
)

PLOG_FOLDER, WORK_FOLDER = "plog", "work"


class Chief(NamedTuple):
    """Where ranks without a table meet.

    Attributes:
        address: IP address on this server.
        port: TCP port; free when it was looked for.
        device: Logical id of rank 0's device.
    """

    address: str
    port: int
    device: int


class JobFacts(NamedTuple):
    """What is the same for all ranks of an attempt.

    Attributes:
        backend: ``npu`` or ``stub``.
        job_id: ``JOB_ID``.
        size: Number of ranks of the whole job.
        rank_table: Absolute path of the table, or None.
        chief: Instead of a table, or None.
        stub_devices: How many devices the stub is to have; None on devices.
        coordinator: Where rank 0 listens for the others, ``host:port``, if it is to.
        ports: For the servers of this node's ranks, in their order; none where there are none.
        first: The first rank of this node.
        here: Number of ranks on this node.
    """

    backend: str
    job_id: str
    size: int
    rank_table: Optional[str] = None
    chief: Optional[Chief] = None
    stub_devices: Optional[int] = None
    coordinator: Optional[str] = None
    ports: Tuple[int, ...] = ()
    first: int = 0
    here: int = 1


def own_variables(job: JobFacts, local: int, device: RankDevice) -> Dict[str, str]:
    """What only the launcher says: who the rank is, and on what it runs.

    A job with a chief has no ``RANK_ID`` and no ``RANK_SIZE``, which would switch collectives off;
    there ``LOCAL_RANK`` is the rank.

    Args:
        job: What all ranks have in common.
        local: The rank's number on this node, from 0.
        device: Its device.
    """
    # The stub's devices have no nodes; scripts that read DEVICE_ID find the same number there.
    physical = device.logical if device.physical is None else device.physical
    found = {
        "ASCEND_SESSION_BACKEND": job.backend,
        "JOB_ID": job.job_id,
        "LOCAL_RANK": str(local),
        "LOCAL_SIZE": str(job.here),
        "ASCEND_DEVICE_ID": str(device.logical),
        "DEVICE_ID": str(physical),
    }
    if job.chief is None:
        found.update({"RANK_ID": str(job.first + local), "RANK_SIZE": str(job.size)})
    else:
        found.update(_family(job.chief, job.size))
    if job.rank_table is not None:
        found["RANK_TABLE_FILE"] = job.rank_table
    if job.stub_devices is not None:
        found[STUB_DEVICES_VARIABLE] = str(job.stub_devices)
    if job.coordinator is not None:
        found[COORDINATOR] = job.coordinator
    if job.ports:
        found[PORT] = str(job.ports[local])
    return found


def defaults(folder: str) -> Dict[str, str]:
    """What a rank gets unless the user gives it in ``env``; nobody may give the folder itself.

    Args:
        folder: The rank's own folder, absolute.
    """
    return {
        "PYTHONUNBUFFERED": "1",
        RANK_FOLDER: folder,
        LOG_PATH: os.path.join(folder, PLOG_FOLDER),
        WORK_PATH: os.path.join(folder, WORK_FOLDER),
    }


def for_children(environment: Mapping[str, str]) -> Dict[str, str]:
    """What Pythons need that a program other than Python starts, where there is no device.

    Args:
        environment: The program's.
    """
    path = environment.get("PYTHONPATH")
    return {"PYTHONPATH": _STAND_INS + (os.pathsep + path if path else "")}


def _family(chief: Chief, size: int) -> Mapping[str, str]:
    return {
        "CM_CHIEF_IP": chief.address,
        "CM_CHIEF_PORT": str(chief.port),
        "CM_CHIEF_DEVICE": str(chief.device),
        "CM_WORKER_SIZE": str(size),
        "CM_WORKER_IP": chief.address,
    }
