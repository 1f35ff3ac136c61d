"""The two tables that ``npu-smi info`` prints: where each begins, and the shapes of its rows.

No version's columns or words are relied on, for headers may be translated: the first block of
header rows opens the table of devices, the next header opens that of processes.

A device has two rows: ``id name | health | power temperature [hugepages]`` and
``chip [number] | bus | [load] memory [HBM]``, each usage written ``used / total``. On the newest
tables id and name have cells of their own and the chip has no number. No two shapes overlap, so a
process is never taken for a device, whatever the headers say.

Source: guides/facts/devices.md#npu-smi-info (layouts of 1.9.3 to 26.0.rc2).
"""

import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ascend_session.hardware.program import clean_lines, parse_decimal, parse_number

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
    """Read the first row of a device; None if the cells are none."""
    wide = len(cells) == 4
    if len(cells) not in (3, 4) or (wide and parse_number(cells[1]) is not None):
        return None
    named = _ID_AND_NAME.fullmatch(f"{cells[0]} {cells[1]}".strip() if wide else cells[0])
    readings = _FIRST_READINGS.fullmatch(cells[-1])
    if not (named and readings and (named.group(2) or _WORD.fullmatch(cells[-2]))):
        return None
    temperature = parse_decimal(readings.group(2))
    return First(
        npu_id=int(named.group(1)),
        name=named.group(2) or "",
        health=cells[-2],
        power=parse_decimal(readings.group(1)),
        temperature=None if temperature is None else int(temperature),
        wide=wide,
    )


def chip_row(first: First, cells: Sequence[str], physical: Optional[bool]) -> Optional[Chip]:
    """Read the second row of the device that ``first`` began; None if the cells are none.

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
    numbers = [parse_number(text or "") for text in readings.groups()]
    second = parse_number(ids.group(2) or "")
    has_hbm = readings.group(3) is not None
    is_physical = has_hbm if physical is None else physical
    return Chip(
        npu_id=first.npu_id,
        chip_id=int(ids.group(1)),
        name=first.name,
        health=first.health,
        power=first.power,
        temperature=first.temperature,
        bus_id=None if cells[-2] in _UNKNOWN else cells[-2],
        ddr=Memory(numbers[0], numbers[1]),
        hbm=Memory(numbers[2], numbers[3]) if has_hbm else None,
        physical_id=second if is_physical else None,
        logical_id=None if is_physical else second,
    )


def process_row(cells: Sequence[str], width: int) -> List[Process]:
    """Read the process in a row of a table that is ``width`` cells wide; none for ``NA``.

    Raises:
        ValueError: If the cells are no row of such a table.
    """
    ids = _ONE_OR_TWO_IDS.fullmatch(cells[0])
    pid = parse_number(cells[1])
    # A name may have the separator in it; what follows the name has not.
    after = width - 3
    known = [
        cell in _UNKNOWN or parse_number(cell) is not None for cell in (cells[1], *cells[-after:])
    ]
    if ids is None or len(cells) < width or not all(known):
        raise ValueError(cells)
    process = Process(
        npu_id=int(ids.group(1)),
        chip_id=int(ids.group(2) or 0),
        pid=pid or 0,
        name="|".join(cells[2:-after]),
        memory=parse_number(cells[-after]),
        container_pid=parse_number(cells[-1]) if after > 1 else None,
    )
    return [process] if pid else []


_BANNER = re.compile(r"npu-smi\s+(\S+)(?:.*[:\uff1a]\s*(\S+))?", re.IGNORECASE)
_FEWEST_PROCESS_CELLS = 4


class InfoTable(NamedTuple):
    """What ``npu-smi info`` printed.

    Attributes:
        driver_version: The ``Version:`` of the first line.
        chips: In the order of the table.
        processes: In the order of the table.
        unread: Rows that have none of the known shapes, or lack their other half.
    """

    driver_version: Optional[str]
    chips: Tuple[Chip, ...]
    processes: Tuple[Process, ...]
    unread: Tuple[str, ...]


def parse_info(text: str) -> InfoTable:
    """Read the tables of any version, whole or cut off; never raises, never makes up a device."""
    reader = _Reader()
    for line in clean_lines(text):
        reader.feed(line.strip())
    return reader.result()


class _Reader:
    """Goes through the output line by line and knows in which of the two tables it is."""

    def __init__(self) -> None:
        self._version: Optional[str] = None
        self._chips: Dict[Tuple[int, int], Chip] = {}
        self._processes: List[Process] = []
        self._unread: List[str] = []
        self._first: Optional[First] = None
        self._start()

    def _start(self) -> None:
        self._header_ended = False
        # Cells of a row in the process table; 0 before that table.
        self._width = 0
        self._physical: Optional[bool] = None

    def feed(self, line: str) -> None:
        """Take the next line."""
        if line.startswith("+="):
            self._header_ended = True
        if len(line) < 3 or line[0] != "|" or line[-1] != "|":
            return
        cells = [cell.strip() for cell in line[1:-1].split("|")]
        if len(cells) == 1:
            match = _BANNER.match(cells[0])
            if match:
                self._start()
                self._version = match.group(2) or match.group(1)
        elif not any(re.search("[0-9]", cell) for cell in cells):
            # No cell of a header has a digit, and all rows with data have some.
            self._read_header(cells)
        elif not self._read_data(cells):
            self._unread.append(line)

    def result(self) -> InfoTable:
        """Give what was read."""
        self._begin(None)
        return InfoTable(
            self._version, tuple(self._chips.values()), tuple(self._processes), tuple(self._unread)
        )

    def _read_header(self, cells: List[str]) -> None:
        if len(cells) >= _FEWEST_PROCESS_CELLS and cells[0] and self._header_ended:
            self._width = len(cells)
        words = cells[0].lower()
        if "phy" in words or "device" in words:
            self._physical = "phy" in words

    def _read_data(self, cells: List[str]) -> bool:
        """Take a row; return False if it has none of the known shapes, or lacks its first half."""
        # Data without a rule above it: the header is over all the same.
        self._header_ended = True
        if self._width:
            try:
                self._processes += process_row(cells, self._width)
            except ValueError:
                return False
            return True
        first = first_row(cells)
        if first:
            self._begin(first)
            return True
        chip = self._first and chip_row(self._first, cells, self._physical)
        if not chip:
            return False
        self._first = None
        self._chips.setdefault((chip.npu_id, chip.chip_id), chip)
        return True

    def _begin(self, first: Optional[First]) -> None:
        if self._first:
            self._unread.append(f"NPU {self._first.npu_id} {self._first.name}: one row only")
        self._first = first
