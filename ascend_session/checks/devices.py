"""Whether devices can be opened, and what ``npu-smi`` says of their health.

Source: launch_facts.md, B1 (nodes) and B2 (OK, Warning, Alarm, Critical, UNKNOWN; it can fail for
all devices because of one).
"""

from typing import Iterator, List, Sequence

from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.devices import Device, DeviceReport
from ascend_session.hardware.nodes import control_node_notes, node_note
from ascend_session.ids import PhysicalDeviceId
from ascend_session.text import format_ranges

_NODES, _HEALTH = "device nodes", "health"
_GOOD = "ok"
_BAD = ("alarm", "critical")


def check_nodes(root: str, physical: Sequence[PhysicalDeviceId]) -> Iterator[Finding]:
    """Look at the three control nodes and the nodes of these devices.

    Args:
        root: Root of the host.
        physical: The devices; with none nothing is looked at.
    """
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
    """Look at the health of these devices.

    Args:
        report: What was seen of the machine.
        physical: The devices.
    """
    devices = {
        int(device.physical_id): device for device in report if device.physical_id is not None
    }
    good: List[int] = []
    unknown: List[int] = []
    for number in (int(device) for device in physical if int(device) in devices):
        health = (devices[number].health or "").lower()
        if health == _GOOD:
            good.append(number)
        elif health:
            yield _ill(devices[number], health in _BAD)
        else:
            unknown.append(number)
    if unknown:
        yield _unknown(report, unknown)
    if good:
        yield Finding(OK, f"npu-smi says OK of device(s) {format_ranges(good)}.", rule=_HEALTH)


def _ill(device: Device, is_bad: bool) -> Finding:
    message = f"The health of device {device.physical_id} is {device.health}, npu-smi says."
    if device.npu_id is None:
        return Finding(ERROR if is_bad else WARNING, message, "Use other devices.", rule=_HEALTH)
    hint = f"Look with `npu-smi info -t health -i {device.npu_id}`, or use other devices."
    return Finding(ERROR if is_bad else WARNING, message, hint, rule=_HEALTH)


def _unknown(report: DeviceReport, unknown: Sequence[int]) -> Finding:
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
