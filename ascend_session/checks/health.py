"""What ``npu-smi`` says of the devices' health.

Source: launch_facts.md, B2 (OK, Warning, Alarm, Critical, UNKNOWN; it can fail for all devices
because of one).
"""

from typing import Iterator, List, Sequence

from ascend_session.checks.finding import ERROR, NOT_CHECKED, OK, WARNING, Finding, listed
from ascend_session.hardware.device import Device, DeviceReport
from ascend_session.ids import PhysicalDeviceId

__all__ = ["check_health"]

_CHECK = "health"
_GOOD = "ok"
_BAD = ("alarm", "critical")


def check_health(report: DeviceReport, physical: Sequence[PhysicalDeviceId]) -> Iterator[Finding]:
    """Looks at the health of these devices.

    Args:
        report: What was seen of the machine.
        physical: The devices.
    """
    devices = {int(one.physical_id): one for one in report if one.physical_id is not None}
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
        yield Finding(_CHECK, OK, f"npu-smi says OK of device(s) {listed(good)}.")


def _ill(device: Device, is_bad: bool) -> Finding:
    said = f"The health of device {device.physical_id} is {device.health}, npu-smi says."
    if device.npu_id is None:
        return Finding(_CHECK, ERROR if is_bad else WARNING, said, "Use other devices.")
    hint = f"Look with `npu-smi info -t health -i {device.npu_id}`, or use other devices."
    return Finding(_CHECK, ERROR if is_bad else WARNING, said, hint)


def _unknown(report: DeviceReport, unknown: Sequence[int]) -> Finding:
    if any(device.health for device in report) and not report.unanswered:
        said = (
            f"npu-smi lists other devices, but not {listed(unknown)}: it may have dropped off the "
            "bus, or another container holds it."
        )
        return Finding(_CHECK, ERROR, said, "Use other devices, or look at the host's log.")
    why = " ".join(report.unanswered) or "npu-smi does not say it."
    return Finding(_CHECK, NOT_CHECKED, f"The health of device(s) {listed(unknown)}: {why}")
