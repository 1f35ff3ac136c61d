"""How the ranks of a job find each other: by a rank table, at a chief, or not at all."""

import os
from typing import Mapping, NamedTuple, Optional, Sequence

from ascend_session.cluster.kubernetes import mounted_table
from ascend_session.errors import JobError
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.devices import RankDevice
from ascend_session.launcher.environment import Chief
from ascend_session.launcher.nodes import Nodes
from ascend_session.launcher.ports import check_port, free_port, own_address

__all__ = ["Meeting", "meeting_of"]

_TABLE = "RANK_TABLE_FILE"


class Meeting(NamedTuple):
    """A table, a chief or neither.

    Attributes:
        rank_table: Absolute path of the table, or None.
        chief: The chief, or None.
        notes: What the user should know, in sentences.
    """

    rank_table: Optional[str] = None
    chief: Optional[Chief] = None
    notes: Sequence[str] = ()


def meeting_of(
    config: LaunchConfig,
    backend: str,
    devices: Sequence[RankDevice],
    environ: Mapping[str, str],
    nodes: Nodes = Nodes(),  # noqa: B008  (it never changes)
) -> Meeting:
    """Decides it.

    Args:
        config: What the launch is asked.
        backend: ``npu`` or ``stub``.
        devices: The devices of the ranks.
        environ: The launcher's environment with what the user adds.
        nodes: This node among those of the job.

    Raises:
        JobError: If several devices are to be one job and nothing says how, if the table is not
            there, or if the chief cannot be where it was asked for.
    """
    if config.rank_table is not None:
        return _with_table(config.rank_table, "rank_table")
    if config.no_rank_table:
        if backend == "npu" and nodes.of > 1:
            raise JobError(
                f"no_rank_table is given, but the job has {nodes.of} nodes: the launcher finds "
                "a chief for the ranks of one node only.",
                hint="Give rank_table, the table of all nodes.",
            )
        if backend == "npu":
            return _with_chief(config, devices, environ)
        return Meeting(notes=["no_rank_table has no effect on the stub, which has no chief."])
    if backend != "npu" or nodes.size(len(devices)) == 1:
        return Meeting()
    if environ.get(_TABLE):
        found = _with_table(environ[_TABLE], _TABLE)
        note = f"{_TABLE}={environ[_TABLE]!r} was inherited, and is the rank table of this job."
        return found._replace(notes=[note, *found.notes])
    mounted = mounted_table(environ)
    if mounted is not None:
        found = _with_table(mounted, "the mounted rank table")
        return found._replace(notes=[f"{mounted} is mounted, and is the rank table of this job."])
    raise JobError(
        f"{nodes.size(len(devices))} devices were asked for, but neither a rank table nor "
        "no_rank_table: each rank would train alone, without a word of the adapter.",
        hint="Give rank_table, or no_rank_table on Atlas training and A2.",
    )


def _with_table(given: str, name: str) -> Meeting:
    path = os.path.abspath(given)
    if os.path.exists(path) and not os.path.isfile(path):
        kind = "a folder" if os.path.isdir(path) else "a pipe or a device"
        raise JobError(
            f"{name}={given!r}: {path} is {kind}, and HCCL reads a rank table from a file.",
            hint="Give the path of the job's rank table.",
        )
    if not os.path.isfile(path):
        raise JobError(
            f"{name}={given!r}: there is no file {path}; HCCL would end the ranks.",
            hint="Give the path of the job's rank table.",
        )
    from ascend_session.cluster.rank_table.source import name_fault

    fault = name_fault(path)
    return Meeting(path, notes=[f"{name}={given!r}: {fault}"] if fault else [])


def _with_chief(
    config: LaunchConfig, devices: Sequence[RankDevice], environ: Mapping[str, str]
) -> Meeting:
    from ascend_session.launcher.product import check_chief

    physical = [one.physical for one in devices if one.physical is not None]
    notes = check_chief(physical, environ)
    address = config.chief_ip or own_address()
    if config.chief_port is None:
        port = free_port(address, environ)
        notes.append(
            f"Port {port} on {address} was free when this plan was made; it is not reserved, and "
            "can be lost until rank 0 uses it."
        )
    else:
        port = config.chief_port
        check_port(address, port, environ)
    return Meeting(chief=Chief(address, port, int(devices[0].logical)), notes=notes)
