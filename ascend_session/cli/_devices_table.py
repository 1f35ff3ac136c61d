"""How the devices of a machine are drawn: a row each, who holds them, and facts below."""

import time
from typing import TYPE_CHECKING, List, Optional

import typer

from ascend_session.cli._devices_facts import UNKNOWN, facts, or_unknown, place
from ascend_session.cli._output import facts_grid, show_facts, show_table, table
from ascend_session.text import blanked

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ascend_session.hardware.devices import Device, DeviceReport
    from ascend_session.hardware.processes import Holder

__all__ = ["drawn", "show_lines"]

_HEADERS = ("LOG", "PHYS", "NAME", "FAMILY", "HEALTH", "MEMORY GB", "TEMP", "ADDRESS")
_HEALTH = _HEADERS.index("HEALTH")
_STYLES = {"OK": "green", "WARNING": "yellow"}
_MB_PER_GB = 1024


def show_lines(report: "DeviceReport") -> None:
    """Prints the report for a pipe: one line a device, whole lines whatever their length."""
    if report.devices:
        rows = [[*_row(device), _first_holder(device)] for device in report]
        show_table((*_HEADERS, "HOLDER"), rows)
        typer.echo()
    show_facts(list(facts(report)))


def drawn(report: "DeviceReport") -> "List[RenderableType]":
    """The report for a terminal, as items below each other; readable within 80 columns."""
    items: List[RenderableType] = []
    if report.devices:
        items += [_device_table(report), ""]
    if any(device.holders for device in report):
        items += [_holder_table(report), ""]
    return [*items, facts_grid(list(facts(report)))]


def _device_table(report: "DeviceReport") -> "Table":
    from rich.text import Text

    made = table(_HEADERS, [])
    for header, column in zip(_HEADERS, made.columns):
        column.no_wrap = header not in ("FAMILY", "ADDRESS")
        if header in ("LOG", "PHYS", "MEMORY GB", "TEMP"):
            column.justify = "right"
    for device in report:
        cells: List[RenderableType] = [*_row(device)]
        if device.health is not None:
            style = _STYLES.get(device.health.upper(), "bold red")
            cells[_HEALTH] = Text(device.health, style=style)
        made.add_row(*cells, style="dim" if device.logical_id is None else None)
    return made


def _holder_table(report: "DeviceReport") -> "Table":
    """The first holder of each device, its command cut where the terminal ends."""
    made = table(("HOLDER OF", "PID", "RUNS FOR", "COMMAND"), [])
    made.expand = True
    for column in made.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    made.columns[-1].ratio = 1  # what is left of the line
    for device in report:
        for first in device.holders[:1]:
            pid = f"{first.pid}{_more(device)}"
            made.add_row(place(device), pid, _age(first) or UNKNOWN, _command(first))
    return made


def _row(device: "Device") -> List[str]:
    return [
        or_unknown(device.logical_id),
        or_unknown(device.physical_id),
        or_unknown(device.name),
        or_unknown(device.family),
        or_unknown(device.health),
        _memory(device),
        UNKNOWN if device.temperature_c is None else f"{device.temperature_c} C",
        or_unknown(device.address),
    ]


def _memory(device: "Device") -> str:
    parts = (device.memory_used_mb, device.memory_total_mb)
    if parts == (None, None):
        return UNKNOWN
    return "/".join(UNKNOWN if part is None else f"{part / _MB_PER_GB:.1f}" for part in parts)


def _first_holder(device: "Device") -> str:
    """The holder with the lowest pid, and how many there are besides it."""
    for first in device.holders[:1]:
        age = _age(first)
        said = f"{first.pid} {_command(first)}{f' ({age})' if age else ''}"
        return f"{said}{_more(device)}"
    return UNKNOWN


def _more(device: "Device") -> str:
    others = len(device.holders) - 1
    return f" +{others} more" if others > 0 else ""


def _command(holder: "Holder") -> str:
    """The command on one line: arguments may have line ends and codes for the terminal in them."""
    return " ".join(blanked(holder.command).split()) or UNKNOWN


def _age(holder: "Holder") -> Optional[str]:
    """How long the process has been running, as in ``3 h 12 min``; None if that is not known."""
    if holder.since is None:
        return None
    seconds = max(0, int(time.time() - holder.since))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"
