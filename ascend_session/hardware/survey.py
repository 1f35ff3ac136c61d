"""The order in which the machine is looked at, and what is made of sources that disagree."""

from dataclasses import replace
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.hardware.device import Device, DeviceReport
from ascend_session.hardware.hccn import HccnTool, conf_address, read_conf
from ascend_session.hardware.nodes import control_node_notes, processor_nodes
from ascend_session.hardware.npu_smi import NpuSmi
from ascend_session.hardware.npu_smi_info import InfoTable
from ascend_session.hardware.npu_smi_rows import Chip, Process
from ascend_session.hardware.occupancy import Holder, Occupancy, holders_listed, occupancy
from ascend_session.hardware.pairing import (
    ChipKey,
    driver_ids,
    keys_of,
    logical_ids,
    physical_ids,
)
from ascend_session.hardware.records import Facts, may_have_address, record
from ascend_session.hardware.versions import Component, Versions, read_versions
from ascend_session.hardware.visible import VISIBLE_VARIABLE, Visible, read_visible
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId

__all__ = ["survey"]

_MOST_NOTES = 4


class _Seen(NamedTuple):
    """What the nodes and ``npu-smi`` say, brought together."""

    nodes: List[PhysicalDeviceId]
    table: InfoTable
    names: Dict[ChipKey, str]
    physical: Dict[ChipKey, PhysicalDeviceId]
    driver: Dict[PhysicalDeviceId, int]


def survey(
    environ: Mapping[str, str],
    root: str,
    timeout: float,
    addresses: bool = True,
    tool: Optional[HccnTool] = None,
) -> DeviceReport:
    """Looks at everything; see `ascend_session.hardware.device.devices`.

    Without ``addresses`` no ``hccn_tool`` is asked: who wants the holders looks again and again.
    With ``tool`` that one is asked, for one who asks it more and wants to know how that went.
    """
    versions = read_versions(environ, root)
    npu_smi = NpuSmi(environ, root, timeout)
    if not processor_nodes(root) and not npu_smi.answers:
        return _report((), versions, None, ["There is no Ascend device here: no /dev/davinci<N>."])
    seen = _look(npu_smi, root)
    visible = read_visible(environ.get(VISIBLE_VARIABLE), len(seen.nodes))
    held = occupancy(root, _processes(seen))
    facts = [
        fact._replace(
            holders=tuple(_holders(fact, held, seen, root)),
            hidden_by=_hidden_by(fact, environ),
        )
        for fact in _facts(seen, visible)
    ]
    notes = [*visible.traps, *_node_notes(seen, root), *_few(npu_smi.notes), *held.notes]
    if addresses:
        asked = tool or HccnTool(environ, root, timeout)
        facts = _with_addresses(facts, asked, root, notes)
    found = [record(index, fact, root) for index, fact in enumerate(facts)]
    report = _report(found, versions, seen.table.driver_version, notes)
    ask_address = HccnTool(environ, root, timeout).address
    return replace(report, unanswered=tuple(_few(npu_smi.notes))).asking(ask_address)


def _report(
    found: Sequence[Device], versions: Versions, said: Optional[str], notes: Sequence[str]
) -> DeviceReport:
    return DeviceReport(
        devices=tuple(found),
        driver=versions.driver or (Component(said, None, None) if said else None),
        firmware=versions.firmware,
        toolkits=versions.toolkits,
        notes=tuple(dict.fromkeys([*notes, *versions.notes])),
    )


def _look(npu_smi: NpuSmi, root: str) -> _Seen:
    nodes = processor_nodes(root)
    table = npu_smi.info()
    mapping = npu_smi.mapping() if npu_smi.answers else ()
    physical = physical_ids(nodes, table.chips, mapping, npu_smi.remap)
    logical = logical_ids(table.chips, mapping)
    names = {(one.npu_id, one.chip_id): one.name for one in mapping}
    names.update({(chip.npu_id, chip.chip_id): chip.name for chip in table.chips if chip.name})
    names = {key: names.get(key, "") for key in keys_of(table.chips, mapping)}
    return _Seen(nodes, table, names, physical, driver_ids(nodes, physical, logical))


def _facts(seen: _Seen, visible: Visible) -> List[Facts]:
    """One per device: visible ones in the order of their logical ids, then the others."""
    chips: Dict[ChipKey, Chip] = {(chip.npu_id, chip.chip_id): chip for chip in seen.table.chips}
    key_of = {physical: key for key, physical in seen.physical.items()}
    places: List[Tuple[Optional[PhysicalDeviceId], Optional[ChipKey]]] = [
        (node, key_of.get(node)) for node in seen.nodes
    ]
    places += [
        (seen.physical.get(key), key)
        for key in seen.names
        if seen.physical.get(key) not in seen.nodes
    ]
    logical = {driver: place for place, driver in enumerate(visible.ids)}
    facts = [
        Facts(
            physical=physical,
            driver=None if physical is None else seen.driver.get(physical),
            key=key,
            chip=chips.get(key) if key else None,
            name=seen.names.get(key, "") if key else "",
            listed=bool(seen.names),
        )
        for physical, key in places
    ]
    facts = [fact._replace(logical=_logical(fact, logical)) for fact in facts]
    return sorted(facts, key=_visible_first)


def _logical(fact: Facts, logical: Mapping[int, int]) -> Optional[LogicalDeviceId]:
    place = None if fact.driver is None else logical.get(fact.driver)
    return None if place is None else LogicalDeviceId(place)


def _visible_first(fact: Facts) -> Tuple[bool, int, ChipKey]:
    if fact.logical is not None:
        return False, int(fact.logical), (0, 0)
    return True, -1 if fact.physical is None else int(fact.physical), fact.key or (0, 0)


def _hidden_by(fact: Facts, environ: Mapping[str, str]) -> Optional[str]:
    if fact.logical is None and fact.driver is not None:
        return f"{VISIBLE_VARIABLE}={environ.get(VISIBLE_VARIABLE)!r}"
    return None


def _processes(seen: _Seen) -> Dict[PhysicalDeviceId, List[Process]]:
    found: Dict[PhysicalDeviceId, List[Process]] = {}
    for process in seen.table.processes:
        physical = seen.physical.get((process.npu_id, process.chip_id))
        if physical is not None:
            found.setdefault(physical, []).append(process)
    return found


def _holders(fact: Facts, held: Occupancy, seen: _Seen, root: str) -> List[Holder]:
    if fact.physical is not None:
        return held.holders.get(fact.physical, [])
    listed = [one for one in seen.table.processes if (one.npu_id, one.chip_id) == fact.key]
    return holders_listed(root, listed)


def _node_notes(seen: _Seen, root: str) -> List[str]:
    if not seen.nodes:
        return ["There is no /dev/davinci<N>: this process cannot open a device."]
    return control_node_notes(root)


def _with_addresses(
    facts: Sequence[Facts], tool: HccnTool, root: str, notes: List[str]
) -> List[Facts]:
    """The facts with the addresses that ``hccn.conf`` has; for the others the tool is asked."""
    conf = read_conf(root, notes)
    found = []
    for fact in facts:
        address = None
        if fact.physical is not None and may_have_address(fact):
            address = conf_address(conf.get(int(fact.physical), {}))
            interface = None if address else tool.address(int(fact.physical))
            address = interface.address if interface else address
        found.append(fact._replace(address=address))
    notes += _few(tool.notes)
    return found


def _few(notes: Sequence[str]) -> List[str]:
    """The first notes, for a tool that fails for one device may fail for all of them."""
    if len(notes) <= _MOST_NOTES:
        return list(notes)
    left = len(notes) - _MOST_NOTES
    return [*notes[:_MOST_NOTES], f"{left} more answers of the same program were no better."]
