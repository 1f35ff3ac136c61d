"""The rows of the tables of ``npu-smi info``: the shape by which each kind is known.

A device has two rows: ``id name | health | power temperature [hugepages]`` and
``chip [number] | bus | [load] memory [HBM]``, each usage written ``used / total``. On the newest
tables id and name have cells of their own and the chip has no number. No two shapes overlap, so a
process is never taken for a device, whatever the headers say.

Source: launch_facts.md, B2 (layouts of 1.9.3 to 26.0.rc2).
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ascend_session.hardware._text import number, real

__all__ = ["Chip", "First", "Memory", "Process", "chip_row", "first_row", "process_row"]

_VALUE = r"(?:[0-9]{1,9}(?:\.[0-9]{1,3})?|NA|N/A|-)"
_USAGE = rf"({_VALUE})\s*/\s*({_VALUE})"
_FIRST_READINGS = re.compile(rf"({_VALUE})\s+(-?{_VALUE})(?:\s+{_USAGE})?")
_CHIP_READINGS = re.compile(rf"(?:{_VALUE}\s+)?{_USAGE}(?:\s+{_USAGE})?")
_ID_AND_NAME = re.compile(r"([0-9]{1,9})(?:\s+(\S.*))?")
_ONE_OR_TWO_IDS = re.compile(r"([0-9]{1,9})(?:\s+([0-9]{1,9}))?")
_WORD = re.compile(r"[^\W\d_][^\W\d_ ]*")
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]{1,4}|NA|N/A|-")
_UNKNOWN = ("-", "NA", "N/A")


class Memory(NamedTuple):
    """Memory of a chip in MB; None for what the table leaves open."""

    used: Optional[int]
    total: Optional[int]


class First(NamedTuple):
    """The first row of a device; its fields are those of `Chip`."""

    npu_id: int
    name: str
    health: str
    power: Optional[float]
    temperature: Optional[int]
    wide: bool


class Chip(NamedTuple):
    """One chip, which is one device; an A3 processor has two.

    Attributes:
        npu_id: Number of the card, as ``npu-smi`` counts: not always a physical id.
        chip_id: Number of the chip on its card.
        name: ``910B3``, ``310P3``, ...; empty if the tool does not know it.
        health: ``OK``, ``Warning``, ``Alarm``, ``Critical`` or ``UNKNOWN``, as printed.
        power: In watts.
        temperature: In degrees Celsius.
        bus_id: PCI address.
        ddr: The column ``Memory-Usage(MB)``.
        hbm: The column ``HBM-Usage(MB)``; None where there is no such column.
        physical_id: From the column ``Phy-ID`` (A3).
        logical_id: From the column ``Device`` (tables without HBM).
    """

    npu_id: int
    chip_id: int
    name: str
    health: str
    power: Optional[float]
    temperature: Optional[int]
    bus_id: Optional[str]
    ddr: Memory
    hbm: Optional[Memory]
    physical_id: Optional[int]
    logical_id: Optional[int]


class Process(NamedTuple):
    """One process on a chip; its memory in MB; the pid in its container on newest tables only."""

    npu_id: int
    chip_id: int
    pid: int
    name: str
    memory: Optional[int]
    container_pid: Optional[int]


def first_row(cells: Sequence[str]) -> Optional[First]:
    """The cells as the first row of a device; None if they are none."""
    wide = len(cells) == 4
    if len(cells) not in (3, 4) or (wide and number(cells[1]) is not None):
        return None
    named = _ID_AND_NAME.fullmatch(f"{cells[0]} {cells[1]}".strip() if wide else cells[0])
    readings = _FIRST_READINGS.fullmatch(cells[-1])
    if not (named and readings and (named.group(2) or _WORD.fullmatch(cells[-2]))):
        return None
    temperature = real(readings.group(2))
    return First(
        npu_id=int(named.group(1)),
        name=named.group(2) or "",
        health=cells[-2],
        power=real(readings.group(1)),
        temperature=None if temperature is None else int(temperature),
        wide=wide,
    )


def chip_row(first: First, cells: Sequence[str], physical: Optional[bool]) -> Optional[Chip]:
    """The cells as the second row of the device that ``first`` began; None if they are none.

    Args:
        first: The row above.
        cells: This row.
        physical: Whether a second number is a physical id (else a logical one); None if the
            header does not say. Tables with HBM have physical ids there, those without logical.
    """
    if len(cells) != (4 if first.wide else 3) or (first.wide and any(cells[:2])):
        return None
    ids = _ONE_OR_TWO_IDS.fullmatch("0" if first.wide else cells[0])
    readings = _CHIP_READINGS.fullmatch(cells[-1])
    if not (ids and readings and _BUS.fullmatch(cells[-2])):
        return None
    ddr, hbm = _memories(readings.groups())
    second = number(ids.group(2) or "")
    is_physical = hbm is not None if physical is None else physical
    return Chip(
        npu_id=first.npu_id,
        chip_id=int(ids.group(1)),
        name=first.name,
        health=first.health,
        power=first.power,
        temperature=first.temperature,
        bus_id=None if cells[-2] in _UNKNOWN else cells[-2],
        ddr=ddr,
        hbm=hbm,
        physical_id=second if is_physical else None,
        logical_id=None if is_physical else second,
    )


def process_row(cells: Sequence[str], width: int) -> List[Process]:
    """The process in the row of a process table that is ``width`` cells wide; none for ``NA``.

    Raises:
        ValueError: If the cells are no row of such a table.
    """
    ids = _ONE_OR_TWO_IDS.fullmatch(cells[0])
    pid = number(cells[1])
    # A name may have the separator in it; what follows the name has not.
    after = width - 3
    known = [cell in _UNKNOWN or number(cell) is not None for cell in (cells[1], *cells[-after:])]
    if ids is None or len(cells) < width or not all(known):
        raise ValueError(cells)
    process = Process(
        npu_id=int(ids.group(1)),
        chip_id=int(ids.group(2) or 0),
        pid=pid or 0,
        name="|".join(cells[2:-after]),
        memory=number(cells[-after]),
        container_pid=number(cells[-1]) if after > 1 else None,
    )
    return [process] if pid else []


def _memories(usages: Sequence[Optional[str]]) -> Tuple[Memory, Optional[Memory]]:
    numbers = [None if text is None else number(text) for text in usages]
    hbm = None if usages[2] is None else Memory(numbers[2], numbers[3])
    return Memory(numbers[0], numbers[1]), hbm
