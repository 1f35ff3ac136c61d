"""The job and the devices of a process, as the adapter finds them; those that would not work.

The adapter reads RANK_ID, RANK_SIZE, ASCEND_DEVICE_ID and RANK_TABLE_FILE from the environment of
its process, but no variables of Slurm, Open MPI or Kubernetes
(guides/facts/launch.md#variables-of-a-rank). ``cluster/variables.py`` has the checks that all
backends share.
"""

import contextlib
import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.cluster.job import Job
from ascend_session.cluster.kubernetes import find_mounted_rank
from ascend_session.cluster.schedulers import CHOICE, SourcedNumber, read_identity
from ascend_session.cluster.variables import read_number, uses_collectives
from ascend_session.errors import DeviceError, JobError
from ascend_session.hardware.nodes import (
    VISIBLE_VARIABLE,
    control_node_notes,
    host_root,
    processor_nodes,
    read_visible,
)
from ascend_session.ids import PhysicalDeviceId


def find_missing_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the adapter's variables that a scheduler or mounted rank table implies.

    Returns:
        Those that ``environ`` lacks; none for a job of one rank or without a scheduler.

    Raises:
        JobError: If two sources disagree about this process.
    """
    identity = read_identity(environ)
    mounted = find_mounted_rank(environ, identity)
    if mounted is not None:
        return mounted.find_missing_variables(environ)
    claim = identity.scheduler
    if claim is None:
        return {}
    job = Job.detect(environ)
    if job.size == 1:
        return {}
    variables = {"JOB_ID": claim.job_id}
    if not environ.get("CM_CHIEF_IP"):  # with it they would switch collectives off
        variables.update(RANK_ID=str(job.rank), RANK_SIZE=str(job.size))
    if not environ.get("DEVICE_ID"):
        variables["ASCEND_DEVICE_ID"] = str(job.device_id)
    return {name: value for name, value in variables.items() if value and not environ.get(name)}


@contextlib.contextmanager
def export_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process during the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def check_job(job: Job, environ: Mapping[str, str]) -> None:
    """Refuse jobs in which the rank would silently train alone, or HCCL end the process.

    Source: guides/facts/launch.md#collectives-that-are-switched-off; ge_plugin.cc, Init.

    Raises:
        JobError: If a variable or the rank table is missing.
    """
    if job.size > 1 and not uses_collectives(environ):
        given = next(
            (claim.size for claim in job.identity.claims if claim.key and claim.size), None
        )
        name = "RANK_SIZE" if environ.get("RANK_SIZE") else "CM_WORKER_SIZE"
        alone = f"unset {name}" if given is None else f"export {CHOICE}=none"
        raise JobError(
            f"{given or SourcedNumber(job.size, name)}, but neither RANK_TABLE_FILE nor "
            "CM_CHIEF_IP is set: the adapter would silently leave collectives off, and each rank "
            "would train alone.",
            hint=f"export RANK_TABLE_FILE, or {alone} to train alone.",
        )
    path = environ.get("RANK_TABLE_FILE")
    if path and not os.path.isfile(path):
        raise JobError(
            f"RANK_TABLE_FILE={path!r}: there is no such file; HCCL would abort the process.",
            hint="export RANK_TABLE_FILE as the path of the job's rank table.",
        )
    if path and not environ.get("RANK_ID") and not environ.get("POD_NAME"):
        raise JobError(
            "RANK_TABLE_FILE is set, but neither RANK_ID nor POD_NAME says which of its ranks "
            "this process is; HCCL would fail.",
            hint="export RANK_ID as this process's rank, from 0.",
        )


class Devices(NamedTuple):
    """The devices that a process gets, according to the device nodes.

    Attributes:
        physical: The physical ids of its devices, by logical id.
        nodes: The physical ids of all device nodes of this host.
        traps: Sentences about unexpected effects of ``ASCEND_RT_VISIBLE_DEVICES``.
        notes: Sentences about reasons why no device can be opened.
    """

    physical: Tuple[PhysicalDeviceId, ...]
    nodes: Tuple[PhysicalDeviceId, ...]
    traps: Tuple[str, ...]
    notes: Tuple[str, ...]

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Devices":
        """Read the devices of a process with this environment."""
        root = host_root(environ)
        nodes = processor_nodes(root)
        if not nodes:
            note = "There is no /dev/davinci<N>: initialising will abort this process."
            return cls((), (), (), (note,))
        visible = read_visible(environ.get(VISIBLE_VARIABLE), len(nodes))
        physical = tuple(nodes[driver] for driver in visible.ids)
        return cls(physical, tuple(nodes), visible.traps, tuple(control_node_notes(root)))

    def logical(self, physical: int) -> Optional[int]:
        """Return the logical id of a device; None if the process does not get it."""
        ids = (logical for logical, node in enumerate(self.physical) if int(node) == physical)
        return next(ids, None)

    def check(self, environ: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
        """Check that the process gets the devices that variables and options name.

        Raises:
            DeviceError: If not; lists all of them.
        """
        if not self.nodes:
            return  # nothing to compare with; the notes say so
        if not self.physical:
            raise DeviceError(self.traps[0])
        problems: List[str] = []
        logical = {"session_device_id": parameters.get("session_device_id")}
        if environ.get("ASCEND_DEVICE_ID"):
            device_id = read_number(environ, "ASCEND_DEVICE_ID")
            logical = {"ASCEND_DEVICE_ID": device_id, **logical}
        else:
            number = read_number(environ, "DEVICE_ID")
            if number is not None and self.logical(number) is None:
                ids = ", ".join(str(node) for node in self.physical)
                problems.append(
                    f"DEVICE_ID={number} is not the physical id of a device that this process "
                    f"gets: {ids}."
                )
        count = len(self.physical)
        problems += [
            f"{name}={number}: this process gets {count} device(s), 0 to {count - 1}."
            for name, number in logical.items()
            if number is not None and number >= count
        ]
        if problems:
            raise DeviceError("\n".join(problems), hint="ascend-session devices")
