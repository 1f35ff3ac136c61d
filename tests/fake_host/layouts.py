"""The tables of ``npu-smi info``, drawn as each version draws them.

Source: guides/facts/devices.md#npu-smi-info; widths from full tables of those versions.
"""

from typing import Dict, List, NamedTuple, Sequence

from tests.fake_host.chips import FakeChip, FakeProcess

__all__ = ["LAYOUTS", "draw"]


class Layout(NamedTuple):
    """How one version draws."""

    version: str
    first: str
    second: str
    header: Sequence[str]
    rule: str
    between: str
    process: str = ""
    process_header: str = ""


def draw(
    layout: str,
    chips: Sequence[FakeChip],
    processes: Sequence[FakeProcess] = (),
    version: str = "",
) -> str:
    """The whole output of ``npu-smi info``."""
    drawn = LAYOUTS[layout]
    wide = len(drawn.rule)
    lines = ["+" + "-" * (wide - 2) + "+", _banner(version or drawn.version, wide), *drawn.header]
    for place, chip in enumerate(chips):
        lines += [_filled(drawn.first, chip), _filled(drawn.second, chip)]
        last = place + 1 == len(chips) or chips[place + 1].npu != chip.npu
        lines.append(drawn.rule if last else drawn.between)
    if drawn.process:
        lines += [drawn.rule.replace("=", "-"), drawn.process_header, drawn.rule]
        lines += _process_rows(drawn, chips, processes)
    return "\n".join(lines) + "\n"


def _banner(version: str, wide: int) -> str:
    said = f"| npu-smi {version}".ljust(wide * 36 // 100) + f"Version: {version}"
    return said.ljust(wide - 1) + "|"


def _filled(row: str, chip: FakeChip) -> str:
    used, total = chip.hbm or (0, 0)
    return row.format(c=chip, ddr_used=chip.ddr[0], ddr=chip.ddr[1], hbm_used=used, hbm=total)


def _process_rows(
    drawn: Layout, chips: Sequence[FakeChip], processes: Sequence[FakeProcess]
) -> List[str]:
    lines: List[str] = []
    for npu in dict.fromkeys(chip.npu for chip in chips):
        rows = [drawn.process.format(p=process) for process in processes if process.npu == npu]
        nobody = f"| No running processes found in NPU {npu}".ljust(len(drawn.rule) - 1) + "|"
        lines += [*(rows or [nobody]), drawn.rule]
    return lines


# B2, "910A, npu-smi 1.9.3 / 21.0": narrow, no hugepages, no process table.
_NARROW = "+======================+===============+=============================================+"
_910A = Layout(
    version="1.9.3",
    header=(
        _NARROW.replace("=", "-"),
        "| NPU   Name           | Health        | Power(W)   Temp(C)                          |",
        "| Chip                 | Bus-Id        | AICore(%)  Memory-Usage(MB)  HBM-Usage(MB)  |",
        _NARROW,
    ),
    first="| {c.npu:<5} {c.name:<15}| {c.health:<13} | {c.power:<10} {c.temperature:<33}|",
    second=(
        "| {c.chip:<21}| {c.bus:<13} | {c.load:<10} {ddr_used:<5}/ {ddr:<10} "
        "{hbm_used:<5}/ {hbm:<8}|"
    ),
    rule=_NARROW,
    between=_NARROW.replace("=", "-"),
)

# B2, "910B, 22.x-25.x".
_MIDDLE = "+" + "=" * 27 + "+" + "=" * 15 + "+" + "=" * 52 + "+"
_910B = Layout(
    version="24.1.rc2",
    header=(
        _MIDDLE.replace("=", "-"),
        "| NPU   Name                | Health        | Power(W)    Temp(C)           "
        "Hugepages-Usage(page)|",
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  "
        "HBM-Usage(MB)        |",
        _MIDDLE,
    ),
    first=(
        "| {c.npu:<5} {c.name:<20}| {c.health:<13} | {c.power:<11} {c.temperature:<17} "
        "0    / 0             |"
    ),
    second=(
        "| {c.chip:<26}| {c.bus:<13} | {c.load:<11} {ddr_used:<5}/ {ddr:<10} "
        "{hbm_used:<5}/ {hbm:<13} |"
    ),
    rule=_MIDDLE,
    between=_MIDDLE.replace("=", "-"),
    process="| {p.npu:<7} {p.chip:<18}| {p.pid:<13} | {p.name:<24} | {p.memory:<23} |",
    process_header=(
        "| NPU     Chip              | Process id    | Process name             "
        "| Process memory(MB)      |"
    ),
)

# B2, "A3": the header has Phy-ID, a plain rule stands between the two chips of a processor.
_A3 = _910B._replace(
    version="24.1.rc3.7",
    header=(*_910B.header[:2], _910B.header[2].replace("Chip        ", "Chip  Phy-ID"), _MIDDLE),
    second=_910B.second.replace("{c.chip:<26}", "{c.chip:<5} {c.physical:<20}"),
    between="+" + "-" * 96 + "+",
)

# B2, "310P/310B": no HBM; Device is the logical id.
_BROAD = "+" + "=" * 31 + "+" + "=" * 17 + "+" + "=" * 54 + "+"
_310 = Layout(
    version="23.0.rc2",
    header=(
        _BROAD.replace("=", "-"),
        "| NPU     Name                  | Health          | Power(W)     Temp(C)           "
        "Hugepages-Usage(page) |",
        "| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)  "
        "                      |",
        _BROAD,
    ),
    first=(
        "| {c.npu:<7} {c.name:<22}| {c.health:<15} | {c.power:<12} {c.temperature:<17} "
        "0     / 0             |"
    ),
    second="| {c.chip:<7} {c.logical:<22}| {c.bus:<15} | {c.load:<12} {ddr_used:<5}/ {ddr:<32} |",
    rule=_BROAD,
    between=_BROAD.replace("=", "-"),
    process="| {p.npu:<7} {p.chip:<22}| {p.pid:<15} | {p.name:<24} | {p.memory:<25} |",
    process_header=(
        "| NPU     Chip                  | Process id      | Process name             "
        "| Process memory(MB)        |"
    ),
)

# B2, "26.0.rc2": wider, and the process table has the number in the container.
_WIDEST = "+" + "=" * 27 + "+" + "=" * 15 + "+" + "=" * 70 + "+"
_26 = Layout(
    version="26.0.rc2",
    header=(
        _WIDEST.replace("=", "-"),
        "| NPU   Name                | Health        | Power(W)             Temp(C)"
        "                 Hugepages-Usage(page)   |",
        "| Chip                      | Bus-Id        | AICore(%)            Memory-Usage(MB)"
        "        HBM-Usage(MB)           |",
        _WIDEST,
    ),
    first=(
        "| {c.npu:<5} {c.name:<20}| {c.health:<13} | {c.power:<20} {c.temperature:<23} "
        "0    / 0                |"
    ),
    second=(
        "| {c.chip:<26}| {c.bus:<13} | {c.load:<20} {ddr_used:<5}/ {ddr:<16} "
        "{hbm_used:<5}/ {hbm:<16} |"
    ),
    rule=_WIDEST,
    between=_WIDEST.replace("=", "-"),
    process=(
        "| {p.npu:<7} {p.chip:<18}| {p.pid:<13} | {p.name:<18} | {p.memory:<21} "
        "| {p.container:<23} |"
    ),
    process_header=(
        "| NPU     Chip              | Process id    | Process name       "
        "| Process memory(MB)    | Process id in container |"
    ),
)
_26_A3 = _26._replace(
    header=(*_26.header[:2], _26.header[2].replace("Chip        ", "Chip  Phy-ID"), _WIDEST),
    second=_26.second.replace("{c.chip:<26}", "{c.chip:<5} {c.physical:<20}"),
    between="+" + "-" * 114 + "+",
)

LAYOUTS: Dict[str, Layout] = {
    "910A": _910A,
    "910B": _910B,
    "A3": _A3,
    "310": _310,
    "26": _26,
    "26-A3": _26_A3,
}
