"""Which CPUs belong together: cores and NUMA nodes, as the kernel's ``/sys`` tells them.

Source: the kernel's documentation of ``/sys/devices/system/cpu`` (``topology/core_cpus_list``,
formerly ``thread_siblings_list``), ``/sys/devices/system/node`` and ``/sys/bus/pci/devices``
(``numa_node``, which is -1 where the firmware does not say).
"""

import os
import re
from typing import Iterable, List, Optional, Set, Tuple

from ascend_session.hardware._text import number

__all__ = ["cores_of", "node_cpus", "parse_cpus"]

_MOST_CPUS = 65536
_MOST_CHARACTERS = 65536
_BUS = re.compile(r"([0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])")
_SIBLINGS = ("core_cpus_list", "thread_siblings_list")


def parse_cpus(text: str) -> Tuple[int, ...]:
    """A list such as ``0-63,128-191``, ascending; empty if it is none."""
    found: Set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = number(first), number(last or first)
        if begin is None or end is None or not begin <= end < _MOST_CPUS:
            return ()
        found.update(range(begin, end + 1))
    return tuple(sorted(found))


def cores_of(cpus: Iterable[int], root: str) -> List[Tuple[int, ...]]:
    """The CPUs, those of one core together; in the order of each core's first CPU.

    Args:
        cpus: Of which those that are not among them are left out of their cores.
        root: Root of the host. A CPU of which it does not tell the core is a core by itself.
    """
    left = set(cpus)
    cores = []
    for cpu in sorted(left):
        if cpu in left:
            core = tuple(sorted(left.intersection({cpu, *_siblings(root, cpu)})))
            left.difference_update(core)
            cores.append(core)
    return cores


def node_cpus(bus_id: str, root: str) -> Tuple[int, ...]:
    """The CPUs of the NUMA node that a PCI device is on; empty if that is not told.

    Args:
        bus_id: As ``npu-smi`` prints it: ``0000:C1:00.0``.
        root: Root of the host.
    """
    match = _BUS.fullmatch(bus_id)
    if match is None:
        return ()
    domain, *rest = (int(part, 16) for part in match.groups())
    name = "{:04x}:{:02x}:{:02x}.{:x}".format(domain, *rest)
    node = number(_said(root, "sys/bus/pci/devices", name, "numa_node") or "")
    if node is None:
        return ()
    return parse_cpus(_said(root, "sys/devices/system/node", f"node{node}", "cpulist") or "")


def _siblings(root: str, cpu: int) -> Tuple[int, ...]:
    folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
    said = (_said(root, folder, name) for name in _SIBLINGS)
    return next((parse_cpus(text) for text in said if text), ())


def _said(root: str, *path: str) -> Optional[str]:
    try:
        with open(os.path.join(root, *path), encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS).strip()
    except (OSError, ValueError):
        return None
