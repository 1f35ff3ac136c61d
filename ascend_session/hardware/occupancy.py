"""Who holds a device: what ``/proc`` shows and what ``npu-smi`` lists, put together.

In a container ``npu-smi`` names processes by their numbers on the host, which mean nothing there,
unless the newest tables give the number in the container as well.

Source: launch_facts.md, B2 (process section; idle memory is not occupation).
"""

import os
from dataclasses import dataclass
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from ascend_session.hardware.npu_smi_rows import Process
from ascend_session.hardware.processes import (
    command_of,
    files_known,
    name_of,
    open_devices,
    proc_problem,
    start_of,
    user_of,
)
from ascend_session.ids import PhysicalDeviceId

__all__ = ["Holder", "Occupancy", "holders_listed", "occupancy"]


@dataclass(frozen=True)
class Holder:
    """A process that holds a device.

    Attributes:
        pid: Its number here; the host's number if it belongs to another container.
        command: Its command line, or the name that ``npu-smi`` gives; empty if neither is known.
        since: When it began, in seconds since 1970; None if that cannot be told.
        memory_mb: Memory on the device as ``npu-smi`` says.
        own: Whether it is this process.
        here: Whether ``/proc`` shows the process.
        user: Whose it is, by name, or by number if the name is not known; None if not seen here.
    """

    pid: int
    command: str
    since: Optional[float]
    memory_mb: Optional[int]
    own: bool
    here: bool
    user: Optional[str] = None


class Occupancy(NamedTuple):
    """Holders per device, ascending by pid, and what could not be seen."""

    holders: Dict[PhysicalDeviceId, List[Holder]]
    notes: List[str]


def occupancy(
    root: str,
    listed: Mapping[PhysicalDeviceId, Sequence[Process]],
    own_pid: Optional[int] = None,
) -> Occupancy:
    """Finds who holds which device.

    Args:
        root: Root of the host to look at.
        listed: What ``npu-smi`` lists for each device; may be empty.
        own_pid: The process to mark as this one; the calling one if None.
    """
    seen = open_devices(root)
    own = os.getpid() if own_pid is None else own_pid
    notes = []
    problem = proc_problem(root)
    if problem:
        notes.append(
            f"/proc could not be read: {problem}. Who holds a device is known only if npu-smi "
            "lists it."
        )
    if seen.unreadable:
        notes.append(
            f"The open files of {seen.unreadable} process(es) of other users could not be looked "
            "at; a holder among them is known only if npu-smi lists it."
        )
    return Occupancy(
        {
            device: _holders(root, seen.pids.get(device, []), listed.get(device, ()), own)
            for device in sorted({*seen.pids, *listed}, key=int)
        },
        notes,
    )


def holders_listed(root: str, listed: Sequence[Process]) -> List[Holder]:
    """The holders, as ``npu-smi`` lists them, of a device whose node is not known."""
    return _holders(root, [], listed, os.getpid())


def _holders(root: str, pids: List[int], listed: Sequence[Process], own: int) -> List[Holder]:
    by_pid: Dict[int, Optional[Process]] = dict.fromkeys(pids)
    by_pid.update({process.container_pid or process.pid: process for process in listed})
    return [_holder(root, pid, by_pid[pid], pid in pids, own) for pid in sorted(by_pid)]


def _holder(root: str, pid: int, process: Optional[Process], seen: bool, own: int) -> Holder:
    """A holder; ``seen`` says that ``/proc`` shows it with the device open."""
    command = command_of(root, pid)
    if not seen and process and command is not None and _another(root, pid, process, command):
        command = None
    here = command is not None
    return Holder(
        pid=pid,
        command=command or (process.name if process else ""),
        since=start_of(root, pid) if here else None,
        memory_mb=process.memory if process else None,
        own=here and pid == own,
        here=here,
        user=user_of(root, pid) if here else None,
    )


def _another(root: str, pid: int, process: Process, command: str) -> bool:
    """Whether the process here only has the same number as one that ``npu-smi`` lists.

    In a container the list has the host's numbers, and a small number may be taken here as well.
    Only what is certain counts: no device among the files that it has open, and another name.
    """
    # npu-smi cuts long names.
    name = os.path.basename(process.name)[:15].rstrip(".")
    if process.container_pid or not name or not files_known(root, pid):
        return False
    return name not in command and name not in (name_of(root, pid) or "")
