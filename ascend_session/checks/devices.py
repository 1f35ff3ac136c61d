"""Whether devices can be opened, and what ``npu-smi`` says of their health.

Sources: guides/facts/devices.md#device-nodes, guides/facts/devices.md#npu-smi-info (the words for
health), guides/facts/devices.md#failures-of-npu-smi (it can fail for all devices because of one).
"""

from typing import Iterator, List, Sequence

from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.devices import Device, DeviceReport
from ascend_session.hardware.nodes import control_node_notes, node_note
from ascend_session.ids import PhysicalDeviceId
from ascend_session.text import format_ranges

_NODES, _HEALTH = "device nodes", "health"


def check_nodes(root: str, physical: Sequence[PhysicalDeviceId]) -> Iterator[Finding]:
    """Look at the three control nodes and the nodes of these devices; at nothing without any."""
    if not physical:
        return
    notes = [*control_node_notes(root), *(node_note(root, device) for device in physical)]
    faults = [note for note in notes if note]
    for note in faults:
        message, _, hint = note.partition(". ")
        yield Finding(ERROR, f"{message.rstrip('.')}.", hint or None, rule=_NODES)
    if not faults:
        message = (
            f"This user may read and write the nodes of device(s) {format_ranges(physical)} and "
            "the three control nodes."
        )
        yield Finding(OK, message, rule=_NODES)


def check_health(report: DeviceReport, physical: Sequence[PhysicalDeviceId]) -> Iterator[Finding]:
    """Look at the health of these devices."""
    devices = {
        int(device.physical_id): device for device in report if device.physical_id is not None
    }
    good: List[int] = []
    unknown: List[int] = []
    for number in (int(device) for device in physical if int(device) in devices):
        health = (devices[number].health or "").lower()
        if health == "ok":
            good.append(number)
        elif health:
            yield _report_ill(devices[number])
        else:
            unknown.append(number)
    if unknown:
        yield _report_unknown(report, unknown)
    if good:
        yield Finding(OK, f"npu-smi reports OK for device(s) {format_ranges(good)}.", rule=_HEALTH)


def _report_ill(device: Device) -> Finding:
    severity = ERROR if str(device.health).lower() in ("alarm", "critical") else WARNING
    message = f"npu-smi reports the health of device {device.physical_id} as {device.health}."
    hint = "Use other devices."
    if device.npu_id is not None:
        hint = f"Look with `npu-smi info -t health -i {device.npu_id}`, or use other devices."
    return Finding(severity, message, hint, rule=_HEALTH)


def _report_unknown(report: DeviceReport, unknown: Sequence[int]) -> Finding:
    if any(device.health for device in report) and not report.unanswered:
        message = (
            f"npu-smi lists other devices, but not {format_ranges(unknown)}: it may have dropped "
            "off the bus, or another container holds it."
        )
        return Finding(
            ERROR, message, "Use other devices, or look at the host's log.", rule=_HEALTH
        )
    why = " ".join(report.unanswered) or "npu-smi does not say it."
    return Finding(
        NOT_CHECKED, f"The health of device(s) {format_ranges(unknown)}: {why}", rule=_HEALTH
    )
