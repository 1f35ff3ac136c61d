"""The two tables that ``npu-smi info`` prints: where the one ends and the other begins.

No version's columns or words are relied on, for headers may be translated: the first block of
header rows opens the table of devices, the next header opens that of processes.

Source: launch_facts.md, B2 (layouts of 1.9.3 to 26.0.rc2).
"""

import re
from typing import List, NamedTuple, Optional, Set, Tuple

from ascend_session.hardware._text import lines
from ascend_session.hardware.npu_smi_rows import (
    Chip,
    First,
    Process,
    chip_row,
    first_row,
    process_row,
)

__all__ = ["InfoTable", "parse_info"]

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
    """Reads the tables of any version, whole or cut off; never raises, never makes up a device."""
    reader = _Reader()
    for line in lines(text):
        reader.feed(line.strip())
    return reader.result()


class _Reader:
    """Goes through the output line by line and knows in which of the two tables it is."""

    def __init__(self) -> None:
        self._version: Optional[str] = None
        self._chips: List[Chip] = []
        self._seen: Set[Tuple[int, int]] = set()
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
        """Takes the next line."""
        if line.startswith("+="):
            self._header_ended = True
        if len(line) < 3 or line[0] != "|" or line[-1] != "|":
            return
        cells = [cell.strip() for cell in line[1:-1].split("|")]
        if len(cells) == 1:
            self._banner(cells[0])
        elif not (self._header(cells) or self._data(cells)):
            self._unread.append(line)

    def result(self) -> InfoTable:
        """What was read."""
        self._begin(None)
        return InfoTable(
            self._version, tuple(self._chips), tuple(self._processes), tuple(self._unread)
        )

    def _banner(self, text: str) -> None:
        match = _BANNER.match(text)
        if match:
            self._start()
            self._version = match.group(2) or match.group(1)

    def _header(self, cells: List[str]) -> bool:
        """Takes a header; no cell of one has a digit, and all rows with data have some."""
        if any(re.search("[0-9]", cell) for cell in cells):
            return False
        if len(cells) >= _FEWEST_PROCESS_CELLS and cells[0] and self._header_ended:
            self._width = len(cells)
        words = cells[0].lower()
        if "phy" in words or "device" in words:
            self._physical = "phy" in words
        return True

    def _data(self, cells: List[str]) -> bool:
        # Data without a rule above it: the header is over all the same.
        self._header_ended = True
        if self._width:
            return self._process(cells)
        first = first_row(cells)
        if first:
            self._begin(first)
            return True
        return self._second(cells)

    def _begin(self, first: Optional[First]) -> None:
        if self._first:
            self._unread.append(f"NPU {self._first.npu_id} {self._first.name}: one row only")
        self._first = first

    def _second(self, cells: List[str]) -> bool:
        chip = self._first and chip_row(self._first, cells, self._physical)
        if not chip:
            return False
        self._first = None
        if (chip.npu_id, chip.chip_id) not in self._seen:
            self._seen.add((chip.npu_id, chip.chip_id))
            self._chips.append(chip)
        return True

    def _process(self, cells: List[str]) -> bool:
        try:
            self._processes += process_row(cells, self._width)
        except ValueError:
            return False
        return True
