"""The questions that ``npu-smi`` is asked, and the folders where it is.

Source: launch_facts.md, B2 (it can block on a sick card; its failure texts).
"""

from typing import Mapping, Optional, Tuple

from ascend_session.hardware._text import quoted
from ascend_session.hardware.command import TIME_LIMIT
from ascend_session.hardware.npu_smi_chips import (
    ChipHealth,
    ChipUsage,
    MemoryHolder,
    parse_health,
    parse_process_memory,
    parse_usages,
)
from ascend_session.hardware.npu_smi_info import InfoTable, parse_info
from ascend_session.hardware.npu_smi_numbers import (
    Affinity,
    Mapped,
    parse_list,
    parse_mapping,
    parse_remap,
    parse_topology,
)
from ascend_session.hardware.program import Program
from ascend_session.hardware.super_pods import SuperPodPlace, parse_super_pod

__all__ = ["NpuSmi"]

_PLACES = (
    "usr/local/bin",
    "usr/local/sbin",
    "usr/bin",
    "usr/sbin",
    "usr/local/Ascend/driver/tools",
)


class NpuSmi(Program):
    """One round of questions to ``npu-smi``. Nothing here raises; see `notes`."""

    def __init__(
        self, environ: Mapping[str, str], root: str = "/", timeout: float = TIME_LIMIT
    ) -> None:
        """Looks for the program below ``root`` and on the ``PATH`` of ``environ``.

        Args:
            environ: The environment that it runs in.
            root: Root of the host to look at.
            timeout: Seconds for one answer. After one that did not come no more is asked.
        """
        super().__init__("npu-smi", _PLACES, environ, root, timeout)
        if not self.answers:
            self.note(
                "npu-smi, which comes with the driver, was not found on PATH or in "
                "/usr/local/bin: names, health, memory and temperature stay unknown."
            )

    def info(self) -> InfoTable:
        """Asks ``npu-smi info``."""
        table = self.ask(parse_info, "info")
        if table.unread:
            self.note(
                f"{len(table.unread)} row(s) of 'npu-smi info' could not be read, the first: "
                f"{quoted(table.unread[0])}."
            )
        return table

    def mapping(self) -> Tuple[Mapped, ...]:
        """Asks ``npu-smi info -m``: card, chip, logical and (on A3) physical ids."""
        return self.ask(parse_mapping, "info", "-m")

    def cards(self) -> Tuple[Tuple[int, int], ...]:
        """Asks ``npu-smi info -l``: each card's number and count of chips."""
        return self.ask(parse_list, "info", "-l")

    def remap(self, physical_id: int) -> Optional[Mapped]:
        """Asks ``npu-smi info -t phyid-remap``: which card and chip a physical id is."""
        return self.ask(
            parse_remap, "info", "-t", "phyid-remap", "-p", str(int(physical_id)), may_be_empty=True
        )

    def usages(self, npu_id: int) -> Tuple[ChipUsage, ...]:
        """Asks ``npu-smi info -t usages`` for one card."""
        return self.ask(parse_usages, "info", "-t", "usages", "-i", str(npu_id))

    def health(self, npu_id: int) -> Tuple[ChipHealth, ...]:
        """Asks ``npu-smi info -t health`` for one card."""
        return self.ask(parse_health, "info", "-t", "health", "-i", str(npu_id))

    def process_memory(self, npu_id: int) -> Tuple[MemoryHolder, ...]:
        """Asks ``npu-smi info -t proc-mem`` for one card; empty if no process holds memory."""
        return self.ask(
            parse_process_memory, "info", "-t", "proc-mem", "-i", str(npu_id), may_be_empty=True
        )

    def topology(self) -> Tuple[Affinity, ...]:
        """Asks ``npu-smi info -t topo``: the CPUs near each device."""
        return self.ask(parse_topology, "info", "-t", "topo")

    def super_pod(self, npu_id: int, chip_id: int) -> Optional[SuperPodPlace]:
        """Asks ``npu-smi info -t spod-info``: where a chip of an A3 is in its superpod."""
        return self.ask(
            parse_super_pod, "info", "-t", "spod-info", "-i", str(npu_id), "-c", str(chip_id)
        )
