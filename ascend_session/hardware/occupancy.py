"""Who holds a device: what ``/proc`` shows and what ``npu-smi`` lists, put together.

In a container ``npu-smi`` names processes by their numbers on the host, which mean nothing there,
unless the newest tables give the number in the container as well.

Source: launch_facts.md, B2 (process section; idle memory is not occupation).
"""

import os
from dataclasses import dataclass
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from ascend_session.hardware.npu_smi_rows import Process
from ascend_session.hardware.processes import command_of, open_devices, start_of
from ascend_session.ids import PhysicalDeviceId

__all__ = ["Holder", "Occupancy", "occupancy"]


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
    """

    pid: int
    command: str
    since: Optional[float]
    memory_mb: Optional[int]
    own: bool
    here: bool


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


def _holders(root: str, pids: List[int], listed: Sequence[Process], own: int) -> List[Holder]:
    by_pid: Dict[int, Optional[Process]] = dict.fromkeys(pids)
    by_pid.update({process.container_pid or process.pid: process for process in listed})
    return [_holder(root, pid, by_pid[pid], own) for pid in sorted(by_pid)]


def _holder(root: str, pid: int, process: Optional[Process], own: int) -> Holder:
    command = command_of(root, pid)
    return Holder(
        pid=pid,
        command=command or (process.name if process else ""),
        since=start_of(root, pid),
        memory_mb=process.memory if process else None,
        own=pid == own,
        here=command is not None,
    )
