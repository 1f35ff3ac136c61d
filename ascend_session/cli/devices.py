"""``ascend-session devices``: what is on this machine, once or again and again."""

import contextlib
import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._ending import programs_ended_with_this
from ascend_session.cli._output import console, draw, is_terminal, show_json, show_json_line

if TYPE_CHECKING:
    from ascend_session.hardware.devices import DeviceReport

__all__ = ["devices"]

_INTERVAL, _SHORTEST_INTERVAL = 2.0, 0.5
_SHORTEST_TIMEOUT = 0.1
_LONGEST = 86400.0


def _seconds(least: float) -> Callable[[Optional[float]], Optional[float]]:
    """A check that a number of seconds is at least ``least`` and at most a day."""

    def check(value: Optional[float]) -> Optional[float]:
        # Written so that "nan", which is a number to the parser, is none here.
        if value is not None and not least <= value <= _LONGEST:
            raise typer.BadParameter(f"{value:g} is not from {least:g} to {_LONGEST:g} seconds.")
        return value

    return check


def devices(
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object; with --watch, one on each line."),
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again until Ctrl-C.")] = False,
    interval: Annotated[
        Optional[float],
        typer.Option(
            metavar="SECONDS",
            callback=_seconds(_SHORTEST_INTERVAL),
            help=f"Pause between two looks of --watch; {_INTERVAL:g} if not given.",
        ),
    ] = None,
    timeout: Annotated[
        Optional[float],
        typer.Option(
            metavar="SECONDS",
            callback=_seconds(_SHORTEST_TIMEOUT),
            help="How long one answer of npu-smi or hccn_tool may take; 10 if not given.",
        ),
    ] = None,
) -> None:
    """Print the devices of this machine, who holds them, and what is odd.

    LOG is the logical id in this process, PHYS the N of /dev/davinciN; - is not known.

    Exit code 1 if this process gets no device, cannot open any, or gets one whose health is other
    than OK; 0 otherwise, and when --watch is ended by Ctrl-C.
    """
    if interval is not None and not watch:
        raise typer.BadParameter(
            "it is the pause of --watch, which is not given.", param_hint="--interval"
        )
    with programs_ended_with_this():
        if watch:
            with contextlib.suppress(KeyboardInterrupt):
                _watch(_INTERVAL if interval is None else interval, timeout, as_json)
            raise typer.Exit(0)
        report = _look(timeout)
        _show(report, as_json)
    raise typer.Exit(0 if _in_order(report) else 1)


def _look(timeout: Optional[float]) -> "DeviceReport":
    from ascend_session.hardware.devices import devices as look
    from ascend_session.hardware.program import TIME_LIMIT

    return look(timeout=TIME_LIMIT if timeout is None else timeout)


def _show(report: "DeviceReport", as_json: bool) -> None:
    from ascend_session.cli._devices_table import drawn, show_lines

    if as_json:
        show_json(_to_dict(report))
    elif is_terminal():
        draw(*drawn(report))
    else:
        show_lines(report)


def _to_dict(report: "DeviceReport") -> Dict[str, Any]:
    visible = [device.logical_id for device in report.visible]
    return {**dataclasses.asdict(report), "visible": visible}


def _in_order(report: "DeviceReport") -> bool:
    from ascend_session.cli._devices_facts import is_healthy
    from ascend_session.hardware.nodes import control_node_notes, host_root

    openable = not control_node_notes(host_root(os.environ))
    return bool(report.visible) and openable and all(map(is_healthy, report.visible))


def _watch(interval: float, timeout: Optional[float], as_json: bool) -> None:
    """Looks again and again; ends only by an exception."""
    if not as_json and is_terminal() and not console().is_dumb_terminal:
        _redraw(interval, timeout)
    while True:
        report = _look(timeout)
        if as_json:
            show_json_line(_to_dict(report))
        else:
            typer.echo(_now())
            _show(report, as_json)
            typer.echo()
        time.sleep(interval)


def _redraw(interval: float, timeout: Optional[float]) -> None:
    from rich.console import Group
    from rich.live import Live

    from ascend_session.cli._devices_table import drawn

    # What does not fit below each other is cut while it runs; the last report stays whole.
    with Live(
        console=console(), auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    ) as live:
        while True:
            report = _look(timeout)
            when = f"{_now()}, again in {interval:g} s; Ctrl-C ends"
            live.update(Group(when, "", *drawn(report)), refresh=True)
            time.sleep(interval)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
