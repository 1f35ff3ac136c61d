"""Which device node is which chip of ``npu-smi``: three numberings brought together.

The runtime counts devices from 0 (logical ids), nodes carry physical ids, and ``npu-smi`` has a
number per card, sparse on inference cards, and one per chip. Only A3 tables print physical ids.

Source: launch_facts.md, B1 (in containers N stays physical), B2 (``-m``, ``phyid-remap``, sparse
ids), B3 (logical ids).
"""

from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ascend_session.hardware.npu_smi_numbers import Mapped
from ascend_session.hardware.npu_smi_rows import Chip
from ascend_session.ids import PhysicalDeviceId

__all__ = ["ChipKey", "driver_ids", "keys_of", "logical_ids", "physical_ids"]

# Card and chip, as npu-smi counts.
ChipKey = Tuple[int, int]


def keys_of(chips: Sequence[Chip], mapping: Sequence[Mapped]) -> List[ChipKey]:
    """The chips that the table has, or, if it has none, those of the mapping."""
    found: Iterable[ChipKey] = [(chip.npu_id, chip.chip_id) for chip in chips]
    return list(found) or [(mapped.npu_id, mapped.chip_id) for mapped in mapping]


def logical_ids(chips: Sequence[Chip], mapping: Sequence[Mapped]) -> Dict[ChipKey, int]:
    """The driver's number of each chip, as far as ``-m`` or the table gives it."""
    found = {(chip.npu_id, chip.chip_id): chip.logical_id for chip in chips}
    found.update({(one.npu_id, one.chip_id): one.logical_id for one in mapping})
    return {key: number for key, number in found.items() if number is not None}


def physical_ids(
    nodes: Sequence[PhysicalDeviceId],
    chips: Sequence[Chip],
    mapping: Sequence[Mapped],
    remap: Callable[[int], Optional[Mapped]],
) -> Dict[ChipKey, PhysicalDeviceId]:
    """The physical id of each chip, as far as it can be told.

    Args:
        nodes: The device nodes, ascending.
        chips: The table of ``npu-smi info``.
        mapping: The rows of ``npu-smi info -m``.
        remap: Asks ``npu-smi`` which chip a physical id is. Called only if the counts of nodes
            and chips differ, so that their order says nothing.
    """
    keys = keys_of(chips, mapping)
    found = _printed(chips, mapping)
    if found:
        missing = [node for node in nodes if node not in found.values()]
        unknown = any(key not in found for key in keys)
        return {**_asked(missing, remap), **found} if unknown else found
    if len(keys) == len(nodes):
        logical = logical_ids(chips, mapping)
        # A sick chip may lack its number: then the numbers say nothing of its place.
        if len({logical[key] for key in keys if key in logical}) < len(keys):
            logical = {}
        order = sorted(keys, key=lambda key: (logical.get(key, 0), key))
        return dict(zip(order, nodes))
    return _asked(nodes, remap) or _same_number(nodes, keys)


def driver_ids(
    nodes: Sequence[PhysicalDeviceId],
    physical: Mapping[ChipKey, PhysicalDeviceId],
    logical: Mapping[ChipKey, int],
) -> Dict[PhysicalDeviceId, int]:
    """The runtime's number for each node, before ``ASCEND_RT_VISIBLE_DEVICES``.

    It is what ``npu-smi`` says if that numbers all nodes without a gap, else their order.
    """
    said = {physical[key]: number for key, number in logical.items() if key in physical}
    if set(said) == set(nodes) and sorted(said.values()) == list(range(len(nodes))):
        return said
    return {node: place for place, node in enumerate(nodes)}


def _printed(chips: Sequence[Chip], mapping: Sequence[Mapped]) -> Dict[ChipKey, PhysicalDeviceId]:
    rows = [(one.npu_id, one.chip_id, one.physical_id) for one in mapping]
    rows += [(chip.npu_id, chip.chip_id, chip.physical_id) for chip in chips]
    found: Dict[ChipKey, PhysicalDeviceId] = {}
    taken: Set[int] = set()
    for npu_id, chip_id, physical in rows:
        if physical is not None and (npu_id, chip_id) not in found and physical not in taken:
            found[npu_id, chip_id] = PhysicalDeviceId(physical)
            taken.add(physical)
    return found


def _asked(
    nodes: Sequence[PhysicalDeviceId], remap: Callable[[int], Optional[Mapped]]
) -> Dict[ChipKey, PhysicalDeviceId]:
    found: Dict[ChipKey, PhysicalDeviceId] = {}
    for node in nodes:
        mapped = remap(int(node))
        # A device that has dropped off the bus gives no answer; the others still do.
        if mapped is not None and mapped.physical_id == int(node):
            found[mapped.npu_id, mapped.chip_id] = node
    return found


def _same_number(
    nodes: Sequence[PhysicalDeviceId], keys: Sequence[ChipKey]
) -> Dict[ChipKey, PhysicalDeviceId]:
    """On cards with one chip each, the card's number, where there is such a node."""
    if any(chip_id for _, chip_id in keys):
        return {}
    return {(npu_id, 0): node for node in nodes for npu_id, _ in keys if npu_id == int(node)}
