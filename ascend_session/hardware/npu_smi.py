"""The questions that ``npu-smi`` is asked besides its table, and how its answers are read.

Source: guides/facts/devices.md#other-questions-to-npu-smi; the manual of HCCL,
rank_table_config_a3.md (``SDID`` and ``Super Pod ID``).
"""

import re
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from ascend_session.hardware.npu_smi_info import InfoTable, parse_info
from ascend_session.hardware.program import (
    TIME_LIMIT,
    Program,
    clean_lines,
    parse_cpus,
    parse_number,
    parse_pairs,
    quote_first_line,
)

_PLACES = (
    "usr/local/bin",
    "usr/local/sbin",
    "usr/bin",
    "usr/sbin",
    "usr/local/Ascend/driver/tools",
)
_MAPPED = re.compile(
    r"\s*([0-9]{1,9})\s+([0-9]{1,9})\s+([0-9]{1,9})(?:\s+([0-9]{1,9}))?\s+([^\W\d_].*|[0-9]+[A-Za-z].*)"
)
# X, SYS, PHB, PIX, PXB, HCCS, HCCS_SW, SIO, UB, NA; the labels in the first line end in a digit.
_RELATION = r"[A-Z][A-Z_]{0,15}"
_TOPOLOGY = re.compile(
    rf"\s*(NPU|Phy-ID)([0-9]{{1,9}})((?:\s+{_RELATION})+)(?:\s+([0-9][0-9, -]*))?"
)
_SUPER_POD_NUMBER = re.compile(r"[0-9]{1,10}")


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


class SuperPodPlace(NamedTuple):
    """Number of a chip in its superpod (SDID), and the superpod's own."""

    device: str
    pod: str


class NpuSmi(Program):
    """One round of questions to ``npu-smi``; never raises, see `notes`."""

    def __init__(
        self, environ: Mapping[str, str], root: str = "/", timeout: float = TIME_LIMIT
    ) -> None:
        """Look for the program; the arguments are those of `Program`."""
        super().__init__("npu-smi", _PLACES, environ, root, timeout)
        if not self.answers:
            self.note(
                "npu-smi, which comes with the driver, was not found on PATH or in "
                "/usr/local/bin: names, health, memory and temperature stay unknown."
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

    def mapping(self) -> Tuple[Mapped, ...]:
        """Ask ``npu-smi info -m``: card, chip, logical and (on A3) physical ids."""
        return self.ask(parse_mapping, "info", "-m")

    def remap(self, physical_id: int) -> Optional[Mapped]:
        """Ask ``npu-smi info -t phyid-remap``: which card and chip a physical id is."""
        return self.ask(
            parse_remap, "info", "-t", "phyid-remap", "-p", str(int(physical_id)), may_be_empty=True
        )

    def topology(self) -> Tuple[Affinity, ...]:
        """Ask ``npu-smi info -t topo``: the CPUs near each device."""
        return self.ask(parse_topology, "info", "-t", "topo")

    def super_pod(self, npu_id: int, chip_id: int) -> Optional[SuperPodPlace]:
        """Ask ``npu-smi info -t spod-info``: where a chip of an A3 is in its superpod."""
        return self.ask(
            parse_super_pod, "info", "-t", "spod-info", "-i", str(npu_id), "-c", str(chip_id)
        )


def parse_mapping(text: str) -> Tuple[Mapped, ...]:
    """Read ``npu-smi info -m``; leave out rows of the card's own controllers (``Mcu``).

    The third number is the logical id. Only where the header has a ``Slot ID`` (950) are the
    numbers card, slot, chip and physical id.
    """
    with_slot = False
    chips: Dict[Tuple[int, int], Mapped] = {}
    for line in clean_lines(text):
        with_slot = with_slot or "slot id" in line.lower()
        match = _MAPPED.fullmatch(line)
        if match is None:
            continue
        first, second, third = (int(match.group(group)) for group in (1, 2, 3))
        fourth = parse_number(match.group(4) or "")
        name = " ".join(match.group(5).split())
        if with_slot:
            chip = Mapped(first, third, None, fourth, name)
        else:
            chip = Mapped(first, second, third, fourth, name)
        chips.setdefault((chip.npu_id, chip.chip_id), chip)
    return tuple(chips.values())


def parse_remap(text: str) -> Optional[Mapped]:
    """Read ``npu-smi info -t phyid-remap -p N``; None if it is not a whole answer."""
    numbers = {key: parse_number(value) for key, value in parse_pairs(text)}
    npu, chip = numbers.get("npu id"), numbers.get("chip id")
    physical = numbers.get("chip physical id")
    if npu is None or chip is None or physical is None:
        return None
    return Mapped(npu, chip, numbers.get("chip logic id"), physical, "")


def parse_topology(text: str) -> Tuple[Affinity, ...]:
    """Read ``npu-smi info -t topo``: the last column, ``CPU Affinity``."""
    rows = (_TOPOLOGY.fullmatch(line) for line in clean_lines(text))
    return tuple(
        Affinity(int(row[2]), row[1] == "Phy-ID", parse_cpus(row[4] or "")) for row in rows if row
    )


def parse_super_pod(text: str) -> Optional[SuperPodPlace]:
    """Read ``npu-smi info -t spod-info``; None if it does not give both numbers."""
    values = dict(parse_pairs(text))
    device, pod = values.get("sdid", ""), values.get("super pod id", "")
    if _SUPER_POD_NUMBER.fullmatch(device) and _SUPER_POD_NUMBER.fullmatch(pod):
        return SuperPodPlace(device, pod)
    return None
