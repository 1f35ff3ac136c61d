"""``ascend-session devices``: what is on this machine.

A terminal gets a table that fits into 80 columns, who holds what below it, and colours; a pipe
gets one line a device, whole whatever its length.
"""

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._output import (
    Cell,
    draw,
    is_terminal,
    make_grid,
    make_table,
    show_facts,
    show_json,
    show_table,
)
from ascend_session.cli._parameters import JSON, OPTIONS, command, exit_on_signals
from ascend_session.text import blank_unprintable, format_duration, label_first

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ascend_session.hardware.device_report import Device, DeviceReport
    from ascend_session.hardware.installation import Component
    from ascend_session.hardware.processes import Holder

_SHORTEST_TIMEOUT_S, _LONGEST_S = 0.1, 86400.0

_UNKNOWN = "-"
_HEADERS = ("LOG", "PHYS", "NAME", "FAMILY", "HEALTH", "MEMORY GB", "TEMP", "ADDRESS")
_HEALTH_STYLES = {"OK": "green", "WARNING": "yellow", _UNKNOWN: ""}


def _check_timeout(context: Any, parameter: Any, value: Optional[float]) -> Optional[float]:
    # Written so that "nan", which is a number to the parser, is none here.
    if value is not None and not _SHORTEST_TIMEOUT_S <= value <= _LONGEST_S:
        limits = f"from {_SHORTEST_TIMEOUT_S:g} to {_LONGEST_S:g} seconds"
        raise click.BadParameter(f"{value:g} is not {limits}.")
    return value


@command("devices")
@JSON
@OPTIONS.value(
    "--timeout",
    "SECONDS",
    "Time limit for each call of npu-smi or hccn_tool.  [default: 10]",
    type=float,
    callback=_check_timeout,
)
def devices(as_json: bool, timeout: Optional[float]) -> None:
    """Show the devices, their health, and the processes that use them.

    LOG is the logical id in this process, PHYS the N of /dev/davinciN, and - means unknown.

    Exit code: 0 if this process can open a device and the health of all its devices is OK,
    otherwise 1.

    Examples:
        ascend-session devices
        ascend-session devices --json
    """
    from ascend_session.hardware.device_report import devices as list_devices
    from ascend_session.hardware.nodes import control_node_notes, host_root
    from ascend_session.hardware.program import TIME_LIMIT

    with exit_on_signals():
        report = list_devices(timeout=TIME_LIMIT if timeout is None else timeout)
        _show(report, as_json)
    can_open = not control_node_notes(host_root(os.environ))
    is_usable = report.visible and can_open and all(map(_is_healthy, report.visible))
    raise Exit(0 if is_usable else 1)


def _show(report: "DeviceReport", as_json: bool) -> None:
    if as_json:
        visible = [device.logical_id for device in report.visible]
        show_json({**dataclasses.asdict(report), "visible": visible})
    elif is_terminal():
        draw(*_draw_report(report))
    else:
        if report.devices:
            rows = [[*_row(device), _describe_holders(device)] for device in report]
            show_table((*_HEADERS, "HOLDER"), rows)
            click.echo()
        show_facts(list(_list_facts(report)))


def _draw_report(report: "DeviceReport") -> "List[RenderableType]":
    """Draw the report for a terminal, as items below each other; readable within 80 columns."""
    items: List[RenderableType] = []
    if report.devices:
        items += [_draw_devices(report), ""]
    if any(device.holders for device in report):
        items += [_draw_holders(report), ""]
    return [*items, make_grid(list(_list_facts(report)))]


def _draw_devices(report: "DeviceReport") -> "Table":
    table = make_table(_HEADERS, list(map(_row, report)))
    for header, column in zip(_HEADERS, table.columns):
        column.no_wrap = header not in ("FAMILY", "ADDRESS")
        if header in ("LOG", "PHYS", "MEMORY GB", "TEMP"):
            column.justify = "right"
    for device, row in zip(report, table.rows):
        row.style = "dim" if device.logical_id is None else None
    return table


def _draw_holders(report: "DeviceReport") -> "Table":
    """Draw the first holder of each device, its command cut where the terminal ends."""
    table = make_table(("HOLDER OF", "PID", "RUNS FOR", "COMMAND"), [])
    table.expand = True
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    table.columns[-1].ratio = 1  # what is left of the line
    for device in report:
        for first in device.holders[:1]:
            pid = f"{first.pid}{_count_others(device)}"
            age = _format_age(first) or _UNKNOWN
            table.add_row(_name_place(device), pid, age, _format_command(first))
    return table


def _row(device: "Device") -> List[Cell]:
    memory = (device.memory_used_mb, device.memory_total_mb)
    parts = [_UNKNOWN if part is None else f"{part / 1024:.1f}" for part in memory]
    health = device.health or _UNKNOWN
    return [
        *map(_or_unknown, (device.logical_id, device.physical_id, device.name, device.family)),
        [(health, _HEALTH_STYLES.get(health.upper(), "bold red"))],
        _UNKNOWN if memory == (None, None) else "/".join(parts),
        _UNKNOWN if device.temperature_c is None else f"{device.temperature_c} C",
        _or_unknown(device.address),
    ]


def _or_unknown(fact: Optional[object]) -> str:
    return _UNKNOWN if fact is None else str(fact)


def _describe_holders(device: "Device") -> str:
    """Name the holder with the lowest pid, and say how many there are besides it."""
    if not device.holders:
        return _UNKNOWN
    first = device.holders[0]
    age = _format_age(first)
    since = f" ({age})" if age else ""
    return f"{first.pid} {_format_command(first)}{since}{_count_others(device)}"


def _count_others(device: "Device") -> str:
    others = len(device.holders) - 1
    return f" +{others} more" if others > 0 else ""


def _format_command(holder: "Holder") -> str:
    """Put the command on one line: arguments may have line ends and codes for the terminal."""
    return " ".join(blank_unprintable(holder.command).split()) or _UNKNOWN


def _format_age(holder: "Holder") -> Optional[str]:
    """Return how long the process has been running, as in ``3 h 12 min``; None if unknown."""
    if holder.since is None:
        return None
    return format_duration(time.time() - holder.since)


def _list_facts(report: "DeviceReport") -> Iterator[Tuple[str, str]]:
    """List labels and texts: the versions, then the notes in full sentences."""
    for label, component in (("Driver", report.driver), ("Firmware", report.firmware)):
        yield label, _UNKNOWN if component is None else component.version
    yield from label_first("Toolkit", list(map(_describe_toolkit, report.toolkits)) or [_UNKNOWN])
    yield from label_first("Notes", _list_notes(report))


def _describe_toolkit(component: "Component") -> str:
    """Return its version and the folder that it is in, for there may be several."""
    if component.path is None:
        return component.version
    folder = os.path.dirname(component.path)
    if folder.endswith("-linux"):
        folder = os.path.dirname(folder)
    return f"{component.version} in {folder}"


def _list_notes(report: "DeviceReport") -> Iterator[str]:
    """List what decides about the exit code first, then notes about all devices, then some."""
    if report.devices and not report.visible:
        yield "This process has no device."
    for device in report.visible:
        if not _is_healthy(device):
            name = _add_name(_name_place(device), device.name)
            yield f"{name} is not healthy: npu-smi reports {device.health}."
    yield from report.notes
    if all(device.driver_id is None for device in report):
        yield "Scripts run on the stub here, with TensorFlow on the CPU."
    # A note about several devices is printed once.
    places: Dict[Tuple[str, Optional[str]], List[str]] = {}
    for device in report:
        for note in device.notes:
            places.setdefault((note, device.name), []).append(_name_place(device))
    for (note, device_name), named in places.items():
        yield f"{_add_name(', '.join(named), device_name)}: {note}"


def _is_healthy(device: "Device") -> bool:
    """Return whether the device is healthy, as far as npu-smi reports its health."""
    return device.health is None or device.health.upper() == "OK"


def _name_place(device: "Device") -> str:
    """Name the device's node, or its place in ``npu-smi`` if the node is not known."""
    if device.physical_id is not None:
        return f"davinci{device.physical_id}"
    return f"NPU {_or_unknown(device.npu_id)} chip {_or_unknown(device.chip_id)}"


def _add_name(place: str, name: Optional[str]) -> str:
    return place if name is None else f"{place} ({name})"
