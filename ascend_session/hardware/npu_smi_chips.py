"""What ``npu-smi`` says of the chips of one card: ``-t usages``, ``-t health``, ``-t proc-mem``.

Source: launch_facts.md, B2 ("Others").
"""

import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from ascend_session.hardware._text import lines, number, pairs

__all__ = [
    "ChipHealth",
    "ChipUsage",
    "MemoryHolder",
    "parse_health",
    "parse_process_memory",
    "parse_usages",
]

_HOLDER = re.compile(
    r"\s*Process id\s*:\s*([0-9]{1,9})\s+Process name\s*:(.*?)Process memory\(MB\)\s*:\s*"
    r"([0-9]{1,9})\s*",
    re.IGNORECASE,
)


class ChipUsage(NamedTuple):
    """How busy a chip is: load and memory in percent, capacity in MB, HBM or else DDR."""

    chip_id: int
    load: Optional[int]
    memory: Optional[int]
    capacity: Optional[int]


class ChipHealth(NamedTuple):
    """Health of a chip with its error codes, as printed; empty for ``NA``."""

    chip_id: int
    health: str
    error_code: str
    information: str


class MemoryHolder(NamedTuple):
    """A process that holds memory (MB) on a chip."""

    chip_id: int
    pid: int
    name: str
    memory: int


def parse_usages(text: str) -> Tuple[ChipUsage, ...]:
    """Reads ``npu-smi info -t usages -i N``."""
    return tuple(
        ChipUsage(
            chip,
            _percent(said.get("aicore usage rate(%)")),
            _percent(_one_of(said, "usage rate(%)")),
            number(_one_of(said, "capacity(mb)")),
        )
        for chip, said in _chips(text)
        if any("usage rate" in key for key in said)
    )


def parse_health(text: str) -> Tuple[ChipHealth, ...]:
    """Reads ``npu-smi info -t health -i N``."""
    return tuple(
        ChipHealth(
            chip,
            said.get("health") or said["health status"],
            _unless_na(said.get("error code", "")),
            _unless_na(said.get("error information", "")),
        )
        for chip, said in _chips(text)
        if said.get("health") or said.get("health status")
    )


def parse_process_memory(text: str) -> Tuple[MemoryHolder, ...]:
    """Reads ``npu-smi info -t proc-mem -i N``: only processes of the caller's own container."""
    found: List[MemoryHolder] = []
    waiting: List[Tuple[int, str, int]] = []
    for line in lines(text):
        holder = _HOLDER.fullmatch(line)
        if holder:
            waiting.append((int(holder[1]), holder[2].strip(), int(holder[3])))
        chip = next((number(value) for key, value in pairs(line) if key == "chip id"), None)
        if chip is not None:
            found += [MemoryHolder(chip, *one) for one in waiting]
            waiting = []
    return tuple(found + [MemoryHolder(0, *one) for one in waiting])


def _chips(text: str) -> Iterator[Tuple[int, Dict[str, str]]]:
    """The ``key : value`` lines of each chip; its ``Chip ID`` comes last, or is missing."""
    said: Dict[str, str] = {}
    for key, value in pairs(text):
        chip = number(value) if key == "chip id" else None
        if chip is None:
            said[key] = value
        else:
            yield chip, said
            said = {}
    if said:
        yield 0, said


def _one_of(said: Dict[str, str], what: str) -> str:
    """The value for the memory that the chip has: HBM if any, else DDR, else just memory."""
    for kind in ("hbm", "ddr", "memory"):
        value = said.get(f"{kind} {what}", "")
        if value and said.get(f"{kind} capacity(mb)") != "0":
            return value
    return ""


def _percent(text: Optional[str]) -> Optional[int]:
    value = number(text or "")
    return value if value is not None and value <= 100 else None


def _unless_na(text: str) -> str:
    return "" if text.upper() in ("NA", "N/A", "-") else text
