"""What a fake ``npu-smi`` answers, for a set of chips.

Source: guides/facts/devices.md#npu-smi-info and the sections after it.
"""

from typing import Dict, List, Optional, Sequence

from tests.fake_host.chips import FakeChip, FakeProcess
from tests.fake_host.layouts import draw
from tests.fake_host.program import Reply

__all__ = [
    "npu_smi_answers",
    "said_health",
    "said_list",
    "said_mapping",
    "said_process_memory",
    "said_remap",
    "said_super_pod",
    "said_topology",
    "said_usages",
]


def npu_smi_answers(
    layout: str,
    chips: Sequence[FakeChip],
    processes: Sequence[FakeProcess] = (),
    cpus: Optional[Sequence[str]] = None,
) -> Dict[str, Reply]:
    """The replies to every query that the facts name; ``cpus`` are those near a chip."""
    answers = {
        "info": Reply(draw(layout, chips, processes)),
        "info -m": Reply(said_mapping(chips, physical="A3" in layout)),
        "info -l": Reply(said_list(chips)),
        "info -t topo": Reply(said_topology(chips, "A3" in layout, cpus)),
        "": Reply("Usage: npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]\n", code=1),
    }
    for npu in _npus(chips):
        own = [chip for chip in chips if chip.npu == npu]
        answers[f"info -t usages -i {npu}"] = Reply(said_usages(own))
        answers[f"info -t health -i {npu}"] = Reply(said_health(own))
        answers[f"info -t proc-mem -i {npu}"] = Reply(said_process_memory(own, processes))
    for chip in chips:
        answers[f"info -t phyid-remap -p {chip.physical}"] = Reply(said_remap(chip))
        if "A3" in layout:
            place = f"-i {chip.npu} -c {chip.chip}"
            answers[f"info -t spod-info {place}"] = Reply(said_super_pod(chip))
    return answers


def said_list(chips: Sequence[FakeChip]) -> str:
    """B2: ``Total Count : 8 / NPU ID : 0 / Chip Count : 1``."""
    text = _line("Total Count", len(_npus(chips))) + "\n"
    for npu in _npus(chips):
        count = sum(chip.npu == npu for chip in chips)
        text += _line("NPU ID", npu) + _line("Chip Count", count) + "\n"
    return text


def said_super_pod(chip: FakeChip) -> str:
    """A3: where a chip is in its superpod."""
    sdid = _line("SDID", 16777216 + chip.physical)
    return sdid + _line("Super Pod Size", 384) + _line("Super Pod ID", 3) + _line("Server Index", 4)


def said_mapping(chips: Sequence[FakeChip], physical: bool) -> str:
    """B2: ``NPU ID  Chip ID  Chip Logic ID  [Chip Phy-ID]  Chip Name``, Mcu rows with ``-``."""
    names = ["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if physical else [])]
    rows = [[*names, "Chip Name"]]
    for npu in _npus(chips):
        own = [chip for chip in chips if chip.npu == npu]
        for chip in own:
            numbers = [chip.npu, chip.chip, chip.logical, *([chip.physical] if physical else [])]
            name = chip.name if chip.name.startswith("Ascend") else f"Ascend {chip.name}"
            rows.append([*map(str, numbers), name])
        dashes = ["-"] * (len(names) - 2)
        rows.append([str(npu), str(len(own)), *dashes, "Mcu"])
    return "".join("\t" + " ".join(cell.ljust(30) for cell in row) + "\n" for row in rows)


def said_topology(
    chips: Sequence[FakeChip], physical: bool, near: Optional[Sequence[str]] = None
) -> str:
    """B2: a matrix whose last column is ``CPU Affinity``: ``144-167`` or ``0-63,128-191``.

    Cards on the same NUMA node have the same, and some releases have no such column (``near`` is
    empty texts then).
    """
    label = "Phy-ID" if physical else "NPU"
    names = [f"{label}{chip.physical if physical else chip.npu}" for chip in chips]
    column = "" if near and not any(near) else "CPU Affinity"
    text = "           " + "".join(name.ljust(11) for name in names) + column + "\n"
    for place, name in enumerate(names):
        links = ["X" if other == place else "HCCS" for other in range(len(names))]
        cpus = f"{24 * place}-{24 * place + 23}" if place else "0-23,192-215"
        cpus = near[place] if near else cpus
        text += name.ljust(11) + "".join(link.ljust(11) for link in links) + cpus + "\n"
    return text + "\nLegend:\n\n  X    = Self\n  HCCS = Connection traversing HCCS.\n"


def said_usages(chips: Sequence[FakeChip]) -> str:
    """B2: ``Aicore Usage Rate(%) : 55 / HBM Usage Rate(%) : 4 / HBM Capacity(MB) : 65536``."""
    text = _line("NPU ID", chips[0].npu) + _line("Chip Count", len(chips)) + "\n"
    for chip in chips:
        if chip.hbm:
            text += _line("DDR Capacity(MB)", chip.ddr[1])
        kind, (used, total) = ("HBM", chip.hbm) if chip.hbm else ("DDR", chip.ddr)
        text += _line(f"{kind} Capacity(MB)", total)
        text += _line(f"{kind} Usage Rate(%)", 100 * used // total)
        text += _line("Aicore Usage Rate(%)", chip.load) + _line("Chip ID", chip.chip) + "\n"
    return text


def said_health(chips: Sequence[FakeChip]) -> str:
    """B2: ``npu-smi info -t health -i 0``."""
    text = _line("NPU ID", chips[0].npu) + _line("Chip Count", len(chips)) + "\n"
    for chip in chips:
        wrong = chip.health != "OK"
        text += _line("Health", chip.health)
        text += _line("Error Code", "80E01801" if wrong else "NA")
        text += _line("Error Information", "node type=HBM: ECC" if wrong else "NA")
        text += _line("Chip ID", chip.chip) + "\n"
    return text


def said_process_memory(chips: Sequence[FakeChip], processes: Sequence[FakeProcess]) -> str:
    """B2: ``proc-mem`` (own container's processes only)."""
    text = _line("NPU ID", chips[0].npu) + _line("Chip Count", len(chips)) + "\n"
    for chip in chips:
        own = [one for one in processes if (one.npu, one.chip) == (chip.npu, chip.chip)]
        rows = [
            f"\tProcess id:{one.pid} Process name:{one.name:<19}Process memory(MB):{one.memory}\n"
            for one in own
        ]
        text += "".join(rows or ["\tNo process in device.\n"]) + _line("Chip ID", chip.chip) + "\n"
    return text


def said_remap(chip: FakeChip) -> str:
    """B2: ``Chip Physical ID / Chip Logic ID / NPU ID / Chip ID``."""
    said = {
        "Chip Physical ID": chip.physical,
        "Chip Logic ID": chip.logical,
        "NPU ID": chip.npu,
        "Chip ID": chip.chip,
    }
    return "".join(f"\t{key:<30}:{value}\n" for key, value in said.items())


def _npus(chips: Sequence[FakeChip]) -> List[int]:
    return list(dict.fromkeys(chip.npu for chip in chips))


def _line(key: str, value: object) -> str:
    return f"\t{key:<30} : {value}\n"
