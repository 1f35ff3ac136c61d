"""Which device node is which chip of ``npu-smi``: three numberings brought together.

The runtime counts devices from 0 (logical ids), nodes carry physical ids, and ``npu-smi`` has a
number per card, sparse on inference cards, and one per chip. Only A3 tables print physical ids.

Source: guides/facts/devices.md#numbers-of-a-device.
"""

from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.hardware.npu_smi import Mapped
from ascend_session.hardware.npu_smi_info import Chip
from ascend_session.ids import PhysicalDeviceId

# Card and chip, as npu-smi counts.
ChipKey = Tuple[int, int]


def keys_of(chips: Sequence[Chip], mapping: Sequence[Mapped]) -> List[ChipKey]:
    """List the chips that the table has, or, if it has none, those of the mapping."""
    keys = [(chip.npu_id, chip.chip_id) for chip in chips]
    return keys or [(mapped.npu_id, mapped.chip_id) for mapped in mapping]


def logical_ids(chips: Sequence[Chip], mapping: Sequence[Mapped]) -> Dict[ChipKey, int]:
    """Find the driver's number of each chip, as far as ``-m`` or the table gives it."""
    ids = {(chip.npu_id, chip.chip_id): chip.logical_id for chip in chips}
    ids.update({(mapped.npu_id, mapped.chip_id): mapped.logical_id for mapped in mapping})
    return {key: number for key, number in ids.items() if number is not None}


def physical_ids(
    nodes: Sequence[PhysicalDeviceId],
    chips: Sequence[Chip],
    mapping: Sequence[Mapped],
    remap: Callable[[int], Optional[Mapped]],
) -> Dict[ChipKey, PhysicalDeviceId]:
    """Find the physical id of each chip, as far as that is possible.

    Args:
        nodes: The device nodes, ascending.
        chips: The table of ``npu-smi info``.
        mapping: The rows of ``npu-smi info -m``.
        remap: Asks ``npu-smi`` which chip a physical id is. Called only if the counts of nodes
            and chips differ, so that their order says nothing.
    """
    keys = keys_of(chips, mapping)
    printed = _printed_ids(chips, mapping)
    if printed:
        if all(key in printed for key in keys):
            return printed
        missing = [node for node in nodes if node not in printed.values()]
        return {**_ask_remap(missing, remap), **printed}
    if len(keys) == len(nodes):
        logical = logical_ids(chips, mapping)
        # A sick chip may lack its number: then the numbers say nothing of its place.
        if len({logical[key] for key in keys if key in logical}) < len(keys):
            logical = {}
        return dict(zip(sorted(keys, key=lambda key: (logical.get(key, 0), key)), nodes))
    remapped = _ask_remap(nodes, remap)
    if remapped or any(chip_id for _, chip_id in keys):
        return remapped
    # On cards with one chip each it is the card's number, where there is such a node.
    by_number = {int(node): node for node in nodes}
    return {(npu, chip): by_number[npu] for npu, chip in keys if npu in by_number}


def driver_ids(
    nodes: Sequence[PhysicalDeviceId],
    physical: Mapping[ChipKey, PhysicalDeviceId],
    logical: Mapping[ChipKey, int],
) -> Dict[PhysicalDeviceId, int]:
    """Find the runtime's number for each node, before ``ASCEND_RT_VISIBLE_DEVICES``.

    It is what ``npu-smi`` says if that numbers all nodes without a gap, else their order.
    """
    listed = {physical[key]: number for key, number in logical.items() if key in physical}
    if set(listed) == set(nodes) and sorted(listed.values()) == list(range(len(nodes))):
        return listed
    return {node: place for place, node in enumerate(nodes)}


def _printed_ids(
    chips: Sequence[Chip], mapping: Sequence[Mapped]
) -> Dict[ChipKey, PhysicalDeviceId]:
    """Collect the physical ids that the tables print; the first row of a chip or id counts."""
    ids: Dict[ChipKey, PhysicalDeviceId] = {}
    rows = [(mapped.npu_id, mapped.chip_id, mapped.physical_id) for mapped in mapping]
    rows += [(chip.npu_id, chip.chip_id, chip.physical_id) for chip in chips]
    for npu_id, chip_id, number in rows:
        physical = None if number is None else PhysicalDeviceId(number)
        if physical is not None and (npu_id, chip_id) not in ids and physical not in ids.values():
            ids[npu_id, chip_id] = physical
    return ids


def _ask_remap(
    nodes: Sequence[PhysicalDeviceId], remap: Callable[[int], Optional[Mapped]]
) -> Dict[ChipKey, PhysicalDeviceId]:
    ids: Dict[ChipKey, PhysicalDeviceId] = {}
    for node in nodes:
        mapped = remap(int(node))
        # A device that has dropped off the bus gives no answer; the others still do.
        if mapped is not None and mapped.physical_id == int(node):
            ids[mapped.npu_id, mapped.chip_id] = node
    return ids
