"""The device nodes of the host, and which this process holds open.

Source: guides/facts/devices.md#device-nodes, guides/facts/devices.md#visible-devices; who has a
node open is what ``/proc/<pid>/fd`` shows.

Known: GEFinalize gives the device back. GELib::Finalize resets the process's own device
(hicann/ge, gelib.cc, SystemFinalize: rtDeviceReset) and each GE session its own (inner_session.cc,
Finalize: aclrtResetDevice). Manual, "aclrtResetDevice" (CANN 8.0, aclcppdevg_03_0040): set and
reset are counted, and "Resources on the device are released only when the reference count decreases
to 0"; what is left is released when the process exits. The runtime then closes the device
(hicann/runtime, npu_driver.cc, DeviceClose: halDeviceClose), and the driver its files
(hicann/driver, drv_comm_intf.c; trs: drvDeviceCloseComm).

ASSUMED, and only here:
- The count is 0 after GEFinalize, so that another process can have the device. A call of
  aclrtSetDevice without its reset would keep it (npu_attrs.cc, CheckIsNewDataTransfer, has one, for
  graphs with a dataset; so has inner_session.cc, Initialize, when the dump settings fail).
- What a process holds is /dev/davinci<N> (guides/facts/devices.md#processes-on-a-device). The
  public source of the driver opens /dev/davinci_manager instead, and names the device in an ioctl.
- A session's node closes with GE; in the source it may close before, with its GE session.
- Without collectives two processes share a device: that is what a shared lock stands for. With
  them the second fails with EJ0001 (guides/facts/failures.md#devices-in-use).
"""

import fcntl
import glob
import os
import re
import subprocess
from typing import Dict, List, Optional

from fake_ge.faults import fault, host_root
from fake_ge.journal import note
from fake_ge.messages import nested

__all__ = [
    "NodeError",
    "hold",
    "leave_orphan",
    "logical_of",
    "physical_of",
    "release",
    "release_all",
]

_held: Dict[int, int] = {}
_orphans: List[int] = []


class NodeError(Exception):
    """A device that cannot be opened; the text is what GE says."""


def physical_of(logical: int) -> int:
    """The physical id of a device of this process.

    Raises:
        NodeError: If it has none with this logical id.
    """
    own = _visible()
    if logical >= len(own):
        reason = f"Set device failed, invalid device={logical}, valid range is [0, {len(own)})"
        raise NodeError(nested("EE1001", reason))
    return own[logical]


def logical_of(physical: int) -> Optional[int]:
    """The logical id of the device with this physical id; None if this process has it not."""
    own = _visible()
    return own.index(physical) if physical in own else None


def hold(logical: int, alone: bool = False) -> None:
    """Opens the node of a device, and keeps it open.

    Args:
        logical: Its logical id.
        alone: With collectives: only if no other process has it.

    Raises:
        NodeError: If there is no such device, or another process has it.
    """
    physical = physical_of(logical)
    if physical not in _held:
        path = os.path.join(host_root(), "dev", f"davinci{physical}")
        _held[physical] = os.open(path, os.O_RDWR)
    try:
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        fcntl.flock(_held[physical], kind | fcntl.LOCK_NB)
    except BlockingIOError:
        if alone:
            # guides/facts/failures.md#devices-in-use
            os.close(_held.pop(physical))
            raise NodeError(nested("EJ0001")) from None
        if fault("keeps-device") is not None:
            os.close(_held.pop(physical))
            raise NodeError(nested("EL0005")) from None


def release() -> None:
    """Closes all nodes, as GEFinalize does: what of this is assumed is said above."""
    if fault("keeps-device") is None:
        release_all()
    for descriptor in _held.values():  # kept from all other processes
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def release_all() -> None:
    """Closes all nodes, whatever fault there is."""
    while _held:
        os.close(_held.popitem()[1])


def leave_orphan() -> None:
    """Leaves one process that has all nodes open and outlives this one; its pid is recorded."""
    if _orphans:
        return
    # The shell ends at once, so that the sleeper is nobody's child.
    started = subprocess.run(
        ["/bin/sh", "-c", "sleep 3600 </dev/null >/dev/null 2>&1 & echo $!"],
        pass_fds=list(_held.values()),
        stdout=subprocess.PIPE,
        check=True,
    )
    _orphans.append(int(started.stdout))
    note("orphan", orphan=_orphans[0], command="sleep 3600")


def _visible() -> List[int]:
    """The physical ids that this process gets, in the order of the logical ones."""
    paths = glob.glob(os.path.join(host_root(), "dev", "davinci*"))
    found = [re.fullmatch(r"davinci([0-9]+)", os.path.basename(path)) for path in paths]
    nodes = sorted(int(match.group(1)) for match in found if match)
    text = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if text is None:
        return nodes
    # guides/facts/devices.md#visible-devices: where parsing stops without a word
    chosen: List[int] = []
    for word in text.split(","):
        if not re.fullmatch(r"[0-9]{1,9}", word) or int(word) >= len(nodes):
            break
        chosen.append(int(word))
    # guides/facts/devices.md#visible-devices: duplicates, or nothing usable
    if not chosen or len(set(chosen)) < len(chosen):
        raise NodeError(nested("EE2002", f"input data range[0-{len(nodes)})"))
    # guides/facts/devices.md#visible-devices: what does not ascend is not available
    seen = [max(chosen[:place], default=-1) for place in range(len(chosen))]
    return [nodes[one] for one, before in zip(chosen, seen) if one > before]
