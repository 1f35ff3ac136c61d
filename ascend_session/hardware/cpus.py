"""CPU cores, and the CPUs near each device: as ``npu-smi`` says, else those of its NUMA node.

Source: the kernel's documentation of ``/sys/devices/system/cpu`` (``topology/core_cpus_list``,
formerly ``thread_siblings_list``), ``/sys/devices/system/node`` and ``/sys/bus/pci/devices``
(``numa_node``, which is -1 where the firmware does not say);
guides/facts/devices.md#other-questions-to-npu-smi (``npu-smi info -t topo``: the last column,
``CPU Affinity``; rows by card, on A3 by physical id). Not every product has that column: the matrix
of a 950 ends without it (vllm-project/vllm-ascend, issue 10463).
"""

import re
from typing import Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from ascend_session.hardware.nodes import host_root, processor_nodes, read_host_file
from ascend_session.hardware.npu_smi import Affinity, ChipKey, ChipListing, NpuSmi
from ascend_session.hardware.program import parse_cpus, parse_number
from ascend_session.ids import PhysicalDeviceId

_Cpus = Dict[PhysicalDeviceId, Tuple[int, ...]]

_BUS = re.compile(r"([0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])")
_SIBLINGS = ("core_cpus_list", "thread_siblings_list")


class NearCpus(NamedTuple):
    """The CPUs near devices, ascending; neither mapping has a device without known CPUs.

    Attributes:
        by_npu_smi: The CPUs that ``npu-smi`` reports.
        by_node: The CPUs of the device's NUMA node; read only if ``npu-smi`` leaves out a device.
    """

    by_npu_smi: _Cpus
    by_node: _Cpus

    def find(self, device: PhysicalDeviceId) -> Tuple[int, ...]:
        """Return the CPUs near a device, from ``npu-smi`` if it reports them; empty if unknown."""
        return self.by_npu_smi.get(device, self.by_node.get(device, ()))


def find_near_cpus(environ: Mapping[str, str]) -> NearCpus:
    """Find the CPUs near each device; never raises.

    Args:
        environ: Names the host's root, and ``PATH`` for ``npu-smi``.
    """
    root = host_root(environ)
    nodes = processor_nodes(root)
    npu_smi = NpuSmi(environ, root)
    rows = npu_smi.topology()
    by_npu_smi = {
        PhysicalDeviceId(row.number): row.cpus for row in rows if row.physical and row.cpus
    }
    if set(nodes) <= set(by_npu_smi):
        return NearCpus(by_npu_smi, {})
    listing = ChipListing(npu_smi, nodes)
    chips, physical = listing.chips.values(), listing.physical
    by_npu_smi.update(_cpus_by_label([row for row in rows if not row.physical], physical))
    by_node: _Cpus = {}
    for chip in chips:
        device = physical.get(chip.key)
        cpus = read_node_cpus(chip.bus_id, root) if chip.bus_id else ()
        if device is not None and cpus:
            by_node[device] = cpus
    return NearCpus(by_npu_smi, by_node)


def _cpus_by_label(rows: Sequence[Affinity], physical: Mapping[ChipKey, PhysicalDeviceId]) -> _Cpus:
    """Read rows labelled ``NPU``: one for each card, or for each chip if there are more chips."""
    cpus = {row.number: row.cpus for row in reversed(rows) if row.cpus}
    cards = {npu for npu, _ in physical}
    if len(cards) < len(physical) and not cards.issuperset(row.number for row in rows):
        places = enumerate(sorted(physical.values()))
        return {device: cpus[place] for place, device in places if place in cpus}
    return {device: cpus[npu] for (npu, _), device in physical.items() if npu in cpus}


def group_by_core(cpus: Iterable[int], root: str) -> List[Tuple[int, ...]]:
    """Group CPUs by core, in the order of each core's first CPU.

    Args:
        cpus: The CPUs to group. One whose core is not known is a group by itself.
        root: Root of the host.
    """
    remaining = set(cpus)
    cores = []
    for cpu in sorted(remaining):
        if cpu in remaining:
            folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
            texts = (read_host_file(root, folder, name) for name in _SIBLINGS)
            siblings = parse_cpus(next((text for text in texts if text and text.strip()), ""))
            core = tuple(sorted(remaining.intersection({cpu, *siblings})))
            remaining.difference_update(core)
            cores.append(core)
    return cores


def read_node_cpus(bus_id: str, root: str) -> Tuple[int, ...]:
    """List the CPUs of a PCI device's NUMA node; empty if the node is not known.

    Args:
        bus_id: The PCI address as ``npu-smi`` prints it: ``0000:C1:00.0``.
        root: Root of the host.
    """
    match = _BUS.fullmatch(bus_id)
    if match is None:
        return ()
    name = "{:04x}:{:02x}:{:02x}.{:x}".format(*(int(part, 16) for part in match.groups()))
    node = parse_number(read_host_file(root, "sys/bus/pci/devices", name, "numa_node") or "")
    if node is None:
        return ()
    return parse_cpus(read_host_file(root, f"sys/devices/system/node/node{node}/cpulist") or "")
