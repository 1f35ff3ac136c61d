"""Ask ``npu-smi``, parse its answers, and match its chips with device nodes.

Sources: guides/facts/devices.md#npu-smi-info (layouts of 1.9.3 to 26.0.rc2),
guides/facts/devices.md#other-questions-to-npu-smi, guides/facts/devices.md#numbers-of-a-device; the
manual of HCCL, rank_table_config_a3.md (``SDID`` and ``Super Pod ID``).
"""

import re
from dataclasses import dataclass
from typing import Callable, Dict, List, Match, NamedTuple, Optional, Sequence, Tuple

from ascend_session.hardware.program import (
    Program,
    clean_lines,
    parse_cpus,
    parse_decimal,
    parse_number,
    parse_pairs,
    quote_first_line,
)
from ascend_session.ids import PhysicalDeviceId

ChipKey = Tuple[int, int]
"""Number of the card, and of the chip on it, as ``npu-smi`` counts."""

_MAPPED = re.compile(
    r"\s*([0-9]{1,9})\s+([0-9]{1,9})\s+([0-9]{1,9})(?:\s+([0-9]{1,9}))?\s+([^\W\d_].*|[0-9]+[A-Za-z].*)"
)
# X, SYS, PHB, PIX, PXB, HCCS, HCCS_SW, SIO, UB, NA; labels in the header line end in a digit.
_RELATION = r"[A-Z][A-Z_]{0,15}"
_TOPOLOGY = re.compile(
    rf"\s*(NPU|Phy-ID)([0-9]{{1,9}})((?:\s+{_RELATION})+)(?:\s+([0-9][0-9, -]*))?"
)
_SUPER_POD_NUMBER = re.compile(r"[0-9]{1,10}")


class Memory(NamedTuple):
    """Memory of a chip in MB; None for a value that the table does not give."""

    used: Optional[int]
    total: Optional[int]


@dataclass(frozen=True)
class ChipIds:
    """The numbers and the name of a chip, as ``-m`` and ``-t phyid-remap`` give them.

    Attributes:
        npu_id: Number of the card, as ``npu-smi`` counts: not always a physical id.
        chip_id: Number of the chip on its card.
        logical_id: The driver's number; None if not printed.
        physical_id: The N of ``/dev/davinciN``; None if not printed.
        name: ``910B3``, ``310P3``, ...; empty if the tool does not know it.
    """

    npu_id: int
    chip_id: int
    logical_id: Optional[int]
    physical_id: Optional[int]
    name: str

    @property
    def key(self) -> ChipKey:
        """``(npu_id, chip_id)``."""
        return self.npu_id, self.chip_id


@dataclass(frozen=True)
class Chip(ChipIds):
    """One chip, which is one device; an A3 processor has two.

    The table has a column ``Phy-ID`` on A3, and on chips without HBM a column ``Device``, which is
    the logical id.

    Attributes:
        health: ``OK``, ``Warning``, ``Alarm``, ``Critical`` or ``UNKNOWN``, as printed.
        power: Watts.
        temperature: Degrees Celsius.
        bus_id: PCI address.
        ddr: The column ``Memory-Usage(MB)``.
        hbm: The column ``HBM-Usage(MB)``; None where there is no such column.
    """

    health: str
    power: Optional[float]
    temperature: Optional[int]
    bus_id: Optional[str]
    ddr: Memory
    hbm: Optional[Memory]


class Process(NamedTuple):
    """One process on a chip; memory in MB. Only the newest tables have the pid in its container."""

    npu_id: int
    chip_id: int
    pid: int
    name: str
    memory: Optional[int]
    container_pid: Optional[int]

    @property
    def key(self) -> ChipKey:
        """``(npu_id, chip_id)``."""
        return self.npu_id, self.chip_id


class InfoTable(NamedTuple):
    """What ``npu-smi info`` printed.

    Attributes:
        driver_version: The ``Version:`` of the first line.
        chips: The chips, in the order of the table.
        processes: The processes, in the order of the table.
        unread: Rows of no known shape, and chips with only one of their two rows.
    """

    driver_version: Optional[str]
    chips: Tuple[Chip, ...]
    processes: Tuple[Process, ...]
    unread: Tuple[str, ...]


class Affinity(NamedTuple):
    """CPUs near a device.

    Attributes:
        number: A physical id if ``physical``, else the card's number as ``npu-smi`` counts.
        physical: True if the row is labelled ``Phy-ID`` (A3), False if ``NPU``.
        cpus: CPUs, ascending; empty if the table has no such column.
    """

    number: int
    physical: bool
    cpus: Tuple[int, ...]


class NpuSmi(Program):
    """Asks ``npu-smi``; never raises, see `notes`."""

    name = "npu-smi"
    places = (
        "usr/local/bin",
        "usr/local/sbin",
        "usr/bin",
        "usr/sbin",
        "usr/local/Ascend/driver/tools",
    )
    note_if_missing = (
        "npu-smi, which comes with the driver, was not found on PATH or in /usr/local/bin: names, "
        "health, memory and temperature stay unknown."
    )

    def info(self) -> InfoTable:
        """Ask ``npu-smi info``."""
        table = self.ask(parse_info, "info")
        if table.unread:
            self.note(
                f"{len(table.unread)} row(s) of 'npu-smi info' could not be read, the first: "
                f"{quote_first_line(table.unread[0])}."
            )
        return table

    def mapping(self) -> Tuple[ChipIds, ...]:
        """Ask ``npu-smi info -m``: card, chip, logical and (on A3) physical ids."""
        return self.ask(parse_mapping, "info", "-m")

    def remap(self, physical_id: int) -> Optional[ChipIds]:
        """Ask ``npu-smi info -t phyid-remap``: the card and chip of a physical id."""
        return self.ask(
            parse_remap, "info", "-t", "phyid-remap", "-p", str(int(physical_id)), may_be_empty=True
        )

    def topology(self) -> Tuple[Affinity, ...]:
        """Ask ``npu-smi info -t topo``: the CPUs near each device."""
        return self.ask(parse_topology, "info", "-t", "topo")

    def super_pod(self, npu_id: int, chip_id: int) -> Optional[Tuple[str, str]]:
        """Ask ``npu-smi info -t spod-info``: the SDID of an A3 chip, and the id of its superpod."""
        return self.ask(
            parse_super_pod, "info", "-t", "spod-info", "-i", str(npu_id), "-c", str(chip_id)
        )


def parse_mapping(text: str) -> Tuple[ChipIds, ...]:
    """Parse ``npu-smi info -m``, without the rows of the cards' controllers (``Mcu``).

    The numbers are card, chip, logical id and, on A3, physical id. If the header has a ``Slot ID``
    (950) they are card, slot, chip and physical id.
    """
    with_slot = False
    chips: Dict[Tuple[int, int], ChipIds] = {}
    for line in clean_lines(text):
        with_slot = with_slot or "slot id" in line.lower()
        match = _MAPPED.fullmatch(line)
        if match is None:
            continue
        first, second, third = (int(match[group]) for group in (1, 2, 3))
        chip_id, logical_id = (third, None) if with_slot else (second, third)
        name = " ".join(match[5].split())
        chip = ChipIds(first, chip_id, logical_id, parse_number(match[4] or ""), name)
        chips.setdefault(chip.key, chip)
    return tuple(chips.values())


def parse_remap(text: str) -> Optional[ChipIds]:
    """Parse ``npu-smi info -t phyid-remap -p N``; None if a number is missing."""
    numbers = {key: parse_number(value) for key, value in parse_pairs(text)}
    npu, chip = numbers.get("npu id"), numbers.get("chip id")
    physical = numbers.get("chip physical id")
    if npu is None or chip is None or physical is None:
        return None
    return ChipIds(npu, chip, numbers.get("chip logic id"), physical, "")


def parse_topology(text: str) -> Tuple[Affinity, ...]:
    """Parse the last column, ``CPU Affinity``, of ``npu-smi info -t topo``."""
    rows = (_TOPOLOGY.fullmatch(line) for line in clean_lines(text))
    return tuple(
        Affinity(int(row[2]), row[1] == "Phy-ID", parse_cpus(row[4] or "")) for row in rows if row
    )


def parse_super_pod(text: str) -> Optional[Tuple[str, str]]:
    """Parse SDID and superpod id of ``npu-smi info -t spod-info``; None if one is missing."""
    values = dict(parse_pairs(text))
    device, pod = values.get("sdid", ""), values.get("super pod id", "")
    if _SUPER_POD_NUMBER.fullmatch(device) and _SUPER_POD_NUMBER.fullmatch(pod):
        return device, pod
    return None


# The two tables of ``npu-smi info``
#
# Headers may be translated, so their words do not count: the first block of header rows opens the
# table of devices, and the next one that of processes.
#
# A device has two rows: ``id name | health | power temperature [hugepages]`` and
# ``chip [number] | bus | [load] memory [HBM]``, each usage written ``used / total``. In the newest
# tables id and name have cells of their own and the chip has no number. No two shapes overlap, so
# a process is never taken for a device.

_ID, _COUNT = "[0-9]{1,9}", "[0-9]{1,9}|-|NA|N/A"
_VALUE = r"(?:[0-9]{1,9}(?:\.[0-9]{1,3})?|NA|N/A|-)"
_USAGE = rf"({_VALUE})\s*/\s*({_VALUE})"
_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]{1,4}|NA|N/A|-"
_WORD = re.compile(r"[^\W\d_][^\W\d_ ]*")
_BANNER = re.compile(r"npu-smi\s+(\S+)(?:.*[:\uff1a]\s*(\S+))?", re.IGNORECASE)

# Rows are matched as stripped cells joined by bars; the first two cells of a wide row become one.
_FIRST_ROW = re.compile(
    rf"({_ID})(?:\s+([^\s|][^|]*))?\|([^|]*)\|({_VALUE})\s+(-?{_VALUE})(?:\s+{_USAGE})?"
)
_SECOND_ROW = re.compile(
    rf"(?:({_ID})(?:\s+({_ID}))?)?\|({_BUS})\|(?:{_VALUE}\s+)?{_USAGE}(?:\s+{_USAGE})?"
)
# A process name may contain bars, so the cells after it are counted from the end of the row.
_PROCESS_ROW, _LAST_CELL = rf"({_ID})(?:\s+({_ID}))?\|({_COUNT})\|(.*)", rf"\|({_COUNT})"
_CELLS_TO_NAME, _FEWEST_PROCESS_CELLS = 3, 4


def parse_info(text: str) -> InfoTable:
    """Parse the tables of ``npu-smi info``, of any version, even cut off; never raises."""
    version: Optional[str] = None
    chips: Dict[ChipKey, Chip] = {}
    processes: List[Process] = []
    unread: List[str] = []
    first: Optional[Match[str]] = None  # first row of a device whose second row has not come yet
    is_first_wide = False
    header_ended = False
    process_cells = 0  # cells of a row in the table of processes; 0 before that table
    physical: Optional[bool] = None  # whether a chip's second number is a physical id, if known
    for line in map(str.strip, clean_lines(text)):
        if line.startswith("+="):
            header_ended = True
        if len(line) < 3 or line[0] != "|" or line[-1] != "|":
            continue
        cells = [cell.strip() for cell in line[1:-1].split("|")]
        if len(cells) == 1:
            match = _BANNER.match(cells[0])
            if match:
                version = match[2] or match[1]
                header_ended, process_cells, physical = False, 0, None
            continue
        # No cell of a header has a digit, and all rows with data have some.
        if not any(re.search("[0-9]", cell) for cell in cells):
            if len(cells) >= _FEWEST_PROCESS_CELLS and cells[0] and header_ended:
                process_cells = len(cells)
            words = cells[0].lower()
            if "phy" in words or "device" in words:
                physical = "phy" in words
            continue
        header_ended = True  # also where no rule stands above the data
        if process_cells:
            pattern = _PROCESS_ROW + _LAST_CELL * (process_cells - _CELLS_TO_NAME)
            match = re.fullmatch(pattern, "|".join(cells))
            if match is None:
                unread.append(line)
            elif parse_number(match[3]):  # a chip without a process has a row with NA
                processes.append(_make_process(match))
            continue
        is_wide = len(cells) == 4 and parse_number(cells[1]) is None
        row = "|".join([" ".join(cells[:2]).strip(), *cells[2:]] if is_wide else cells)
        begun, ended = _FIRST_ROW.fullmatch(row), _SECOND_ROW.fullmatch(row)
        if begun and (begun[2] or _WORD.fullmatch(begun[3])):
            unread += _describe_lone(first)
            first, is_first_wide = begun, is_wide
        elif first and ended and is_wide == is_first_wide == (ended[1] is None):
            chip = _make_chip(first, ended, physical)
            chips.setdefault(chip.key, chip)
            first = None
        else:
            unread.append(line)
    unread += _describe_lone(first)
    return InfoTable(version, tuple(chips.values()), tuple(processes), tuple(unread))


def _describe_lone(first: Optional[Match[str]]) -> List[str]:
    return [f"NPU {int(first[1])} {first[2] or ''}: one row only"] if first else []


def _make_chip(first: Match[str], second: Match[str], physical: Optional[bool]) -> Chip:
    """Make a chip from its two rows.

    If the header does not tell what the second number is, it is a physical id in tables with HBM,
    and a logical one in the others.
    """
    temperature, number = parse_decimal(first[5]), parse_number(second[2] or "")
    used, total, hbm_used, hbm_total = (parse_number(text or "") for text in second.groups()[3:])
    has_hbm = second[6] is not None
    is_physical = has_hbm if physical is None else physical
    return Chip(
        npu_id=int(first[1]),
        chip_id=int(second[1] or 0),
        name=first[2] or "",
        health=first[3],
        power=parse_decimal(first[4]),
        temperature=None if temperature is None else int(temperature),
        bus_id=second[3] if ":" in second[3] else None,
        ddr=Memory(used, total),
        hbm=Memory(hbm_used, hbm_total) if has_hbm else None,
        physical_id=number if is_physical else None,
        logical_id=None if is_physical else number,
    )


def _make_process(row: Match[str]) -> Process:
    memory, *container = (parse_number(text) for text in row.groups()[4:])
    return Process(
        npu_id=int(row[1]),
        chip_id=int(row[2] or 0),
        pid=int(row[3]),
        name=row[4],
        memory=memory,
        container_pid=container[-1] if container else None,
    )


class ChipListing:
    """The chips of ``npu-smi``, matched with the device nodes.

    The runtime counts devices from 0 (driver ids), nodes have physical ids, and ``npu-smi`` numbers
    cards, with gaps on inference cards, and the chips of a card. Only A3 tables print physical ids.

    Attributes:
        driver_version: The version in the table's first line; None if there is none.
        names: The name of each chip; empty for an unknown name. The chips are those of the table
            or, if it is empty, of ``npu-smi info -m``.
        chips: The chips of the table.
        physical: The physical id of each chip, as far as known.
        driver: The driver's number of each node, before ``ASCEND_RT_VISIBLE_DEVICES``.
        processes: The processes on each chip.
    """

    def __init__(self, npu_smi: NpuSmi, nodes: Sequence[PhysicalDeviceId]) -> None:
        """Ask ``npu-smi`` for table and mapping, and match them with ``nodes``, ascending."""
        table, mapping = npu_smi.info(), npu_smi.mapping()
        self.driver_version = table.driver_version
        self.chips = {chip.key: chip for chip in table.chips}
        self.processes: Dict[ChipKey, List[Process]] = {}
        for process in table.processes:
            self.processes.setdefault(process.key, []).append(process)
        rows = [*mapping, *table.chips]
        names = {row.key: row.name for row in rows if row.name}
        self.names = {row.key: names.get(row.key, "") for row in table.chips or mapping}
        logical = {row.key: row.logical_id for row in [*table.chips, *mapping]}
        self._logical = {key: number for key, number in logical.items() if number is not None}
        self.physical = self._find_physical(nodes, rows, npu_smi.remap)
        self.driver = self._number_nodes(nodes)

    def _find_physical(
        self,
        nodes: Sequence[PhysicalDeviceId],
        rows: Sequence[ChipIds],
        remap: Callable[[int], Optional[ChipIds]],
    ) -> Dict[ChipKey, PhysicalDeviceId]:
        """Find physical ids: as printed, else by order, else ask for the chip of each node."""
        keys, logical = list(self.names), self._logical
        printed: Dict[ChipKey, PhysicalDeviceId] = {}  # the first row of a chip or id counts
        for row in rows:
            number = row.physical_id
            if number is not None and row.key not in printed and number not in printed.values():
                printed[row.key] = PhysicalDeviceId(number)
        if printed:
            if all(key in printed for key in keys):
                return printed
        elif len(keys) == len(nodes):
            # A faulty chip may lack its number; then the numbers do not give the order.
            if len({logical[key] for key in keys if key in logical}) < len(keys):
                logical = {}
            return dict(zip(sorted(keys, key=lambda key: (logical.get(key, 0), key)), nodes))
        remapped: Dict[ChipKey, PhysicalDeviceId] = {}
        for node in (node for node in nodes if node not in printed.values()):
            mapped = remap(int(node))
            # A device that has dropped off the bus gives no answer; the others still do.
            if mapped is not None and mapped.physical_id == int(node):
                remapped[mapped.key] = node
        if printed or remapped or any(chip_id for _, chip_id in keys):
            return {**remapped, **printed}
        # On cards with one chip each, the physical id is the card's number if it has a node.
        by_number = {int(node): node for node in nodes}
        return {(npu, chip): by_number[npu] for npu, chip in keys if npu in by_number}

    def _number_nodes(self, nodes: Sequence[PhysicalDeviceId]) -> Dict[PhysicalDeviceId, int]:
        """Return the driver's number of each node: from ``npu-smi`` if complete, else by order."""
        physical, logical = self.physical, self._logical
        listed = {physical[key]: number for key, number in logical.items() if key in physical}
        if set(listed) == set(nodes) and sorted(listed.values()) == list(range(len(nodes))):
            return listed
        return {node: place for place, node in enumerate(nodes)}
