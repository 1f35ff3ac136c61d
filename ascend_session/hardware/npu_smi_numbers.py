"""The numbers that ``npu-smi`` has for cards and chips: ``-l``, ``-m``, ``phyid-remap``, ``topo``.

Source: launch_facts.md, B2 ("Others").
"""

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from ascend_session.hardware._text import lines, number, pairs
from ascend_session.hardware.cpus import parse_cpus

__all__ = [
    "Affinity",
    "Mapped",
    "parse_list",
    "parse_mapping",
    "parse_remap",
    "parse_topology",
]

_MAPPED = re.compile(
    r"\s*([0-9]{1,9})\s+([0-9]{1,9})\s+([0-9]{1,9})(?:\s+([0-9]{1,9}))?\s+([^\W\d_].*|[0-9]+[A-Za-z].*)"
)
# X, SYS, PHB, PIX, PXB, HCCS, HCCS_SW, SIO, UB, NA; the labels in the first line end in a digit.
_RELATION = r"[A-Z][A-Z_]{0,15}"
_TOPOLOGY = re.compile(
    rf"\s*(NPU|Phy-ID)([0-9]{{1,9}})((?:\s+{_RELATION})+)(?:\s+([0-9][0-9, -]*))?"
)


class Mapped(NamedTuple):
    """One chip as ``-m`` or ``-t phyid-remap`` names it; None for a number that is not given."""

    npu_id: int
    chip_id: int
    logical_id: Optional[int]
    physical_id: Optional[int]
    name: str


class Affinity(NamedTuple):
    """CPUs near a device.

    Attributes:
        number: A physical id if ``physical``, else the card's number as ``npu-smi`` counts.
        physical: Whether the row was labelled ``Phy-ID`` (A3) and not ``NPU``.
        cpus: Ascending; empty if there is no such column.
    """

    number: int
    physical: bool
    cpus: Tuple[int, ...]


def parse_mapping(text: str) -> Tuple[Mapped, ...]:
    """Reads ``npu-smi info -m``; rows of the card's own controllers (``Mcu``) are left out.

    The third number is the logical id. Only where the header has a ``Slot ID`` (950) are the
    numbers card, slot, chip and physical id.
    """
    with_slot = False
    found: Dict[Tuple[int, int], Mapped] = {}
    for line in lines(text):
        with_slot = with_slot or "slot id" in line.lower()
        match = _MAPPED.fullmatch(line)
        if match:
            mapped = _mapped([number(part or "") for part in match.groups()[:4]], with_slot)
            name = " ".join(match.group(5).split())
            found.setdefault((mapped.npu_id, mapped.chip_id), mapped._replace(name=name))
    return tuple(found.values())


def parse_list(text: str) -> Tuple[Tuple[int, int], ...]:
    """Reads ``npu-smi info -l``: for each card its number and its count of chips."""
    found: List[Tuple[int, int]] = []
    card: Optional[int] = None
    for key, value in pairs(text):
        if key == "npu id":
            card = number(value)
        chips = number(value) if key == "chip count" else None
        if card is not None and chips is not None:
            found.append((card, chips))
            card = None
    return tuple(found)


def parse_remap(text: str) -> Optional[Mapped]:
    """Reads ``npu-smi info -t phyid-remap -p N``; None if it is not a whole answer."""
    said = {key: number(value) for key, value in pairs(text)}
    keys = ("npu id", "chip id", "chip logic id", "chip physical id")
    npu, chip, logical, physical = (said.get(key) for key in keys)
    if npu is None or chip is None or physical is None:
        return None
    return Mapped(npu, chip, logical, physical, "")


def parse_topology(text: str) -> Tuple[Affinity, ...]:
    """Reads ``npu-smi info -t topo``: the last column, ``CPU Affinity``."""
    found = (_TOPOLOGY.fullmatch(line) for line in lines(text))
    return tuple(
        Affinity(int(row[2]), row[1] == "Phy-ID", parse_cpus(row[4] or "")) for row in found if row
    )


def _mapped(numbers: List[Optional[int]], with_slot: bool) -> Mapped:
    first, second, third, fourth = numbers
    if with_slot:
        return Mapped(first or 0, third or 0, None, fourth, "")
    return Mapped(first or 0, second or 0, third, fourth, "")
