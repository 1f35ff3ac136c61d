"""The CPUs near each device: what ``npu-smi`` says, else the NUMA node that it is on.

Source: launch_facts.md, B2 (``npu-smi info -t topo``: the last column, ``CPU Affinity``; rows by
card, on A3 by physical id). Not every product has that column: of a 950 the matrix ends without it
(vllm-project/vllm-ascend, issue 10463).
"""

from typing import Dict, Mapping, NamedTuple, Sequence, Tuple

from ascend_session.hardware.command import TIME_LIMIT
from ascend_session.hardware.cpus import node_cpus
from ascend_session.hardware.nodes import host_root, processor_nodes
from ascend_session.hardware.npu_smi import NpuSmi
from ascend_session.hardware.npu_smi_numbers import Affinity
from ascend_session.hardware.pairing import ChipKey, physical_ids
from ascend_session.ids import PhysicalDeviceId

__all__ = ["Near", "near_cpus"]

_Cpus = Dict[PhysicalDeviceId, Tuple[int, ...]]


class Near(NamedTuple):
    """The CPUs near devices, ascending; a device of which nothing is known is in neither.

    Attributes:
        said: By ``npu-smi``.
        by_node: Of the NUMA node that the device is on; asked for only if ``said`` lacks a device.
    """

    said: _Cpus
    by_node: _Cpus

    def of(self, device: PhysicalDeviceId) -> Tuple[int, ...]:
        """What is known of a device, from the better source; empty if nothing is."""
        return self.said.get(device, self.by_node.get(device, ()))


def near_cpus(environ: Mapping[str, str], timeout: float = TIME_LIMIT) -> Near:
    """Asks ``npu-smi``, with a time limit; never raises.

    Args:
        environ: Names the host and where its programs are.
        timeout: Seconds for one answer; after one that did not come no more is asked.
    """
    root = host_root(environ)
    nodes = processor_nodes(root)
    npu_smi = NpuSmi(environ, root, timeout)
    rows = npu_smi.topology()
    said = {PhysicalDeviceId(row.number): row.cpus for row in rows if row.physical and row.cpus}
    if set(nodes) <= set(said):
        return Near(said, {})
    chips = npu_smi.info().chips
    mapping = npu_smi.mapping() if npu_smi.answers else ()
    physical = physical_ids(nodes, chips, mapping, npu_smi.remap)
    said.update(_by_label([row for row in rows if not row.physical], physical))
    buses = [(chip.npu_id, chip.chip_id, chip.bus_id) for chip in chips if chip.bus_id]
    by_node = {
        physical[npu, chip]: node_cpus(bus, root)
        for npu, chip, bus in buses
        if (npu, chip) in physical
    }
    return Near(said, {device: cpus for device, cpus in by_node.items() if cpus})


def _by_label(
    rows: Sequence[Affinity], physical: Mapping[ChipKey, PhysicalDeviceId]
) -> Dict[PhysicalDeviceId, Tuple[int, ...]]:
    """What rows labelled ``NPU`` say: of cards, or of chips where there are more than cards."""
    cpus = {row.number: row.cpus for row in reversed(rows) if row.cpus}
    cards = {npu for npu, _ in physical}
    if len(cards) < len(physical) and not cards.issuperset(row.number for row in rows):
        places = enumerate(sorted(physical.values()))
        return {device: cpus[place] for place, device in places if place in cpus}
    return {device: cpus[npu] for (npu, _), device in physical.items() if npu in cpus}
