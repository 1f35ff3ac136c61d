"""What is said below the table of devices: versions, what is not in order, and every note."""

import os
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Tuple

if TYPE_CHECKING:
    from ascend_session.hardware.devices import Device, DeviceReport
    from ascend_session.hardware.versions import Component

__all__ = ["UNKNOWN", "facts", "is_healthy", "or_unknown", "place"]

UNKNOWN = "-"


def is_healthy(device: "Device") -> bool:
    """Whether nobody says that something is wrong with it."""
    return device.health is None or device.health.upper() == "OK"


def or_unknown(fact: Optional[object]) -> str:
    """A fact as text, or what stands for one that is not known."""
    return UNKNOWN if fact is None else str(fact)


def place(device: "Device") -> str:
    """The device's node, or its place in ``npu-smi`` if the node is not known."""
    if device.physical_id is not None:
        return f"davinci{device.physical_id}"
    return f"NPU {or_unknown(device.npu_id)} chip {or_unknown(device.chip_id)}"


def facts(report: "DeviceReport") -> Iterator[Tuple[str, str]]:
    """Labels and texts: the versions, then the notes in full sentences."""
    yield "Driver", _version(report.driver)
    yield "Firmware", _version(report.firmware)
    yield from _labelled("Toolkit", list(map(_toolkit, report.toolkits)) or [UNKNOWN])
    yield from _labelled("Notes", list(_notes(report)))


def _labelled(label: str, texts: List[str]) -> List[Tuple[str, str]]:
    """Each text with a label, which stands before the first one only."""
    return [("" if number else label, text) for number, text in enumerate(texts)]


def _version(component: "Optional[Component]") -> str:
    return UNKNOWN if component is None else component.version


def _toolkit(component: "Component") -> str:
    """Its version and the folder that it is in, for there may be several."""
    if component.path is None:
        return component.version
    folder = os.path.dirname(component.path)
    if folder.endswith("-linux"):
        folder = os.path.dirname(folder)
    return f"{component.version} in {folder}"


def _notes(report: "DeviceReport") -> Iterator[str]:
    """What decides about the exit code first, then what the report says of all, then of some."""
    if report.devices and not report.visible:
        yield "This process gets no device."
    for device in report.visible:
        if not is_healthy(device):
            yield f"{_named(device)} is not healthy: npu-smi says {device.health}."
    yield from report.notes
    if all(device.driver_id is None for device in report):
        yield "Scripts run on the stub here, which computes on the CPU."
    yield from _device_notes(report)


def _device_notes(report: "DeviceReport") -> Iterator[str]:
    """The notes about single devices; one that several of them have is said once."""
    same: Dict[Tuple[str, Optional[str]], List[str]] = {}
    for device in report:
        for note in device.notes:
            same.setdefault((note, device.name), []).append(place(device))
    for (note, name), places in same.items():
        yield f"{_with_name(', '.join(places), name)}: {note}"


def _named(device: "Device") -> str:
    return _with_name(place(device), device.name)


def _with_name(place: str, name: Optional[str]) -> str:
    return place if name is None else f"{place} ({name})"
