"""How the facts about one device become its record, and what is worth a note about it."""

from typing import List, NamedTuple, Optional, Tuple

from ascend_session.hardware.device import Device
from ascend_session.hardware.families import family, has_nic
from ascend_session.hardware.nodes import node_note
from ascend_session.hardware.npu_smi_rows import Chip, Memory
from ascend_session.hardware.occupancy import Holder
from ascend_session.hardware.pairing import ChipKey
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId

__all__ = ["Facts", "may_have_address", "record"]


class Facts(NamedTuple):
    """What the sources say about one device.

    Attributes:
        physical: Its physical id; None if a chip could not be brought together with a node.
        driver: The runtime's number; None without a node.
        key: Card and chip in ``npu-smi``; None if it does not list the device.
        chip: Its rows in ``npu-smi info``.
        name: Its name there or in ``npu-smi info -m``.
        listed: Whether ``npu-smi`` lists any device at all.
        logical: Its logical id in this process.
        hidden_by: The setting that hides it from this process.
        holders: Who holds it.
        address: Of its network interface.
    """

    physical: Optional[PhysicalDeviceId]
    driver: Optional[int]
    key: Optional[ChipKey]
    chip: Optional[Chip]
    name: str
    listed: bool
    logical: Optional[LogicalDeviceId] = None
    hidden_by: Optional[str] = None
    holders: Tuple[Holder, ...] = ()
    address: Optional[str] = None


def may_have_address(facts: Facts) -> bool:
    """Whether the device is of a family with network interfaces, or of an unknown one."""
    found = family(facts.name)
    return found is None or has_nic(found)


def record(index: int, facts: Facts, root: str) -> Device:
    """The record of a device.

    Args:
        index: Its place in the report.
        facts: What is known about it.
        root: Root of the host, for a look at its node.
    """
    chip = facts.chip
    kind, memory = _memory(chip)
    return Device(
        index=index,
        physical_id=facts.physical,
        logical_id=facts.logical,
        driver_id=facts.driver,
        npu_id=facts.key[0] if facts.key else None,
        chip_id=facts.key[1] if facts.key else None,
        name=facts.name or None,
        family=family(facts.name),
        health=chip.health if chip else None,
        memory_kind=kind,
        memory_used_mb=memory.used,
        memory_total_mb=memory.total,
        temperature_c=chip.temperature if chip else None,
        power_w=chip.power if chip else None,
        bus_id=chip.bus_id if chip else None,
        address=facts.address,
        holders=facts.holders,
        notes=tuple(_notes(facts, root)),
    )


def _memory(chip: Optional[Chip]) -> Tuple[Optional[str], Memory]:
    if chip is None:
        return None, Memory(None, None)
    # Where there is HBM the column for DDR counts the chip's own processor, or shows 0 / 0.
    return ("HBM", chip.hbm) if chip.hbm else ("DDR", chip.ddr)


def _notes(facts: Facts, root: str) -> List[str]:
    notes = [None if facts.physical is None else node_note(root, facts.physical)]
    if facts.physical is None:
        notes.append("Which /dev/davinci<N> it is cannot be told.")
    if facts.hidden_by:
        notes.append(f"{facts.hidden_by} hides it from this process.")
    if facts.listed and facts.key is None:
        notes.append(
            "npu-smi does not list it: it may have dropped off the bus, or another container "
            "holds it."
        )
    elsewhere = [str(holder.pid) for holder in facts.holders if not holder.here]
    if elsewhere:
        notes.append(
            f"Process {', '.join(elsewhere)} is listed by npu-smi but not in /proc here: it runs "
            "in another container, or that is the host's number of one listed here."
        )
    return [note for note in notes if note]
