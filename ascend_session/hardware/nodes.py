"""Device nodes: whether an Ascend processor is present, and whether it can be opened.

Source: launch_facts.md, B1 (``/dev/davinci<N>``, N may have several digits; in containers N stays
the physical id; virtual devices are ``/dev/vdavinci<N>``; three control nodes must be there too).
"""

import os
import re
from typing import List, Mapping, Optional, Set

from ascend_session.ids import PhysicalDeviceId

__all__ = [
    "CONTROL_NODES",
    "HOST_ROOT_VARIABLE",
    "control_node_notes",
    "device_nodes",
    "host_root",
    "node_name",
    "node_note",
    "processor_nodes",
]

HOST_ROOT_VARIABLE = "ASCEND_SESSION_HOST_ROOT"
CONTROL_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")

_NODE = re.compile(r"(v?)davinci([0-9]{1,9})")
_MOUNT = "In a container, pass the node in with --device; on a host, look at the driver."
_GROUP = "The user usually has to be in the group HwHiAiUser."


def host_root(environ: Mapping[str, str]) -> str:
    """The root of the host to read: ``ASCEND_SESSION_HOST_ROOT``, default ``/``."""
    return environ.get(HOST_ROOT_VARIABLE) or "/"


def device_nodes(root: str) -> List[PhysicalDeviceId]:
    """Physical ids of the device nodes below ``root``, ascending; empty if there are none."""
    return sorted(_numbers(root, "") | _numbers(root, "v"))


def processor_nodes(root: str) -> List[PhysicalDeviceId]:
    """The nodes that the driver counts as devices, ascending.

    Where there are nodes of whole processors, virtual devices are parts of these, cut off for
    containers; inside such a container there may be nothing else.
    """
    return sorted(_numbers(root, "")) or sorted(_numbers(root, "v"))


def control_node_notes(root: str) -> List[str]:
    """A sentence for each control node that is missing or that this user cannot open."""
    notes = (_access_note(os.path.join(root, "dev", name), name) for name in CONTROL_NODES)
    return [note for note in notes if note]


def node_name(root: str, device: PhysicalDeviceId) -> str:
    """What the device's node is called: ``davinci3``, or ``vdavinci3`` if it is a virtual one."""
    names = [f"davinci{int(device)}", f"vdavinci{int(device)}"]
    there = (name for name in names if os.path.exists(os.path.join(root, "dev", name)))
    return next(there, names[0])


def node_note(root: str, device: PhysicalDeviceId) -> Optional[str]:
    """A sentence if this user cannot open the device's node, else None."""
    name = node_name(root, device)
    path = os.path.join(root, "dev", name)
    if os.path.exists(path):
        return _access_note(path, name)
    return f"There is no /dev/{name}: this process cannot open the device. {_MOUNT}"


def _numbers(root: str, prefix: str) -> Set[PhysicalDeviceId]:
    try:
        names = os.listdir(os.path.join(root, "dev"))
    except OSError:
        return set()
    found = (_NODE.fullmatch(name) for name in names)
    return {PhysicalDeviceId(int(match[2])) for match in found if match and match[1] == prefix}


def _access_note(path: str, name: str) -> Optional[str]:
    if not os.path.exists(path):
        return f"There is no /dev/{name}, without which no device can be opened. {_MOUNT}"
    if os.path.isdir(path):
        # Docker makes one where -v names a node that the host does not have.
        return f"/dev/{name} is a folder, and no device. {_MOUNT}"
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        return f"This user may not read and write /dev/{name}. {_GROUP}"
    return None
