"""Check that devices can be opened, are healthy, and are not held by another process.

Two jobs on one device fail with vague errors; the vendor advises to find the holder and to wait
(guides/facts/failures.md#devices-in-use). A holder is a process that has the node open, or that
``npu-smi`` lists. Memory in use is no sign of one: an idle device uses some
(guides/facts/devices.md#processes-on-a-device).

Sources: guides/facts/devices.md#device-nodes, guides/facts/devices.md#npu-smi-info (the words for
health), guides/facts/devices.md#failures-of-npu-smi (it can fail for all devices because of one).
"""

import logging
import time
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.errors import DeviceTimeoutError
from ascend_session.findings import ERROR, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.device_report import Device, DeviceReport, survey
from ascend_session.hardware.nodes import control_node_notes, host_root, node_note
from ascend_session.hardware.processes import Holder
from ascend_session.hardware.program import DEVICES_HELD, TIME_LIMIT
from ascend_session.ids import PhysicalDeviceId
from ascend_session.spelling import option
from ascend_session.text import format_ranges, one_line

_NODES, _HEALTH = "device nodes", "health"

HOLDERS = "holders"
"""The name of the check."""

_LONGEST_COMMAND = 100  # characters
_MOST_NAMED = 3  # processes that a message names
_WAIT = f"wait until it is free ({option('wait_for_devices', 600)})"
_LOOK_EVERY_S = 1.0
_SHORTEST_ANSWER_S = 1.0  # npu-smi may always take this long

_logger = logging.getLogger(__name__)


def check_nodes(root: str, physical: Sequence[PhysicalDeviceId]) -> Iterator[Finding]:
    """Check the three control nodes and the nodes of these devices, unless there are none."""
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
    """Check that ``npu-smi`` reports these devices as healthy."""
    devices = {
        int(device.physical_id): device for device in report if device.physical_id is not None
    }
    good: List[int] = []
    unknown: List[int] = []
    for number in (int(device) for device in physical if int(device) in devices):
        device = devices[number]
        health = (device.health or "").lower()
        if health == "ok":
            good.append(number)
        elif not health:
            unknown.append(number)
        else:
            severity = ERROR if health in ("alarm", "critical") else WARNING
            message = f"npu-smi reports the health of device {number} as {device.health}."
            hint = "Use other devices."
            if device.npu_id is not None:
                command = f"npu-smi info -t health -i {device.npu_id}"
                hint = f"Look with `{command}`, or use other devices."
            yield Finding(severity, message, hint, rule=_HEALTH)
    if unknown and any(device.health for device in report) and not report.unanswered:
        message = (
            f"npu-smi lists other devices, but not {format_ranges(unknown)}: it may have dropped "
            "off the bus, or another container holds it."
        )
        hint = "Use other devices, or look at the host's log."
        yield Finding(ERROR, message, hint, rule=_HEALTH)
    elif unknown:
        why = " ".join(report.unanswered) or "npu-smi does not report it."
        message = f"The health of device(s) {format_ranges(unknown)}: {why}"
        yield Finding(NOT_CHECKED, message, rule=_HEALTH)
    if good:
        yield Finding(OK, f"npu-smi reports OK for device(s) {format_ranges(good)}.", rule=_HEALTH)


# Holders


class Holders(NamedTuple):
    """The processes that hold devices at one moment, without this process.

    Attributes:
        held: The processes that hold each device, by the device's name.
        hidden: Whether another container holds a device, which hides all holders.
        notes: Sources that could not be read, in sentences.
        blind: The notes because of which a holder may have been missed.
    """

    held: Dict[str, List[Holder]]
    hidden: bool
    notes: Tuple[str, ...]
    blind: Tuple[str, ...] = ()

    @classmethod
    def from_report(cls, report: DeviceReport, ids: Optional[Sequence[int]] = None) -> "Holders":
        """Select the holders of the devices with these logical ids; None means all devices."""
        held = {}
        for device in report:
            others = [holder for holder in device.holders if not holder.own]
            if others and (ids is None or device.logical_id in ids):
                held[_name_device(device)] = others
        # One source is enough: a holder is missed only if both npu-smi and /proc fail.
        blind = [note for note in report.notes if note.startswith(("/proc ", "The open files "))]
        return cls(
            held=held,
            hidden=DEVICES_HELD in report.notes,
            notes=report.notes,
            blind=(*report.unanswered, *blind) if report.unanswered and blind else (),
        )

    @property
    def is_free(self) -> bool:
        """True if no holder was seen."""
        return not self.held and not self.hidden

    def __str__(self) -> str:
        """Describe the holders in one sentence without full stop; empty if there are none."""
        parts = [_describe(name, holders) for name, holders in self.held.items()]
        if self.hidden:
            parts.append("a device is held by another container, which hides the process")
        return "; ".join(parts)


def find_holders(
    ids: Sequence[int], environ: Mapping[str, str], timeout: float = TIME_LIMIT
) -> Holders:
    """Find the other processes that hold devices.

    Args:
        ids: The logical ids of the devices.
        environ: The environment in which these are the logical ids.
        timeout: Seconds that one answer of ``npu-smi`` may take.
    """
    return Holders.from_report(survey(environ, host_root(environ), timeout, addresses=False), ids)


def check_holders(seen: Holders) -> Iterator[Finding]:
    """Report the holders, with one finding for each device."""
    for name, holders in seen.held.items():
        here = [str(holder.pid) for holder in holders if holder.here]
        which = "it" if len(holders) == 1 else "them"
        end = f"Stop {which} (kill {' '.join(here)}), " if here else ""
        if len(here) > _MOST_NAMED:  # such a job ends with the process that started it
            end = f"Stop them (`fuser -v /dev/davinci*` lists all {len(holders)}), "
        hint = f"{end}{_WAIT}, or use another device."
        yield Finding(ERROR, f"{_upper(_describe(name, holders))}.", _upper(hint), rule=HOLDERS)
    if seen.hidden:
        yield Finding(ERROR, DEVICES_HELD, f"{_upper(_WAIT)}.", rule=HOLDERS)
    elif not seen.held and seen.blind:
        yield Finding(NOT_CHECKED, f"Who holds the devices: {' '.join(seen.blind)}", rule=HOLDERS)
    elif not seen.held:
        yield Finding(OK, "No other process that uses the devices was found.", rule=HOLDERS)


def _name_device(device: Device) -> str:
    if device.physical_id is None:
        return f"chip {device.chip_id} of card {device.npu_id}"
    node = f"/dev/davinci{device.physical_id}"
    return node if device.logical_id is None else f"device {device.logical_id} ({node})"


def _describe(name: str, holders: Sequence[Holder]) -> str:
    named = [name_holder(holder) for holder in holders[:_MOST_NAMED]]
    if len(holders) > _MOST_NAMED:
        named.append(f"{len(holders) - _MOST_NAMED} more")
    return f"{name} is held by {' and '.join(named)}"


def name_holder(holder: Holder) -> str:
    """Return pid, command and user of a process, as in ``process 7 (python3 a.py) of user me``."""
    command = f" ({one_line(holder.command, _LONGEST_COMMAND)})" if holder.command else ""
    user = "" if holder.user is None else f" of user {holder.user}"
    where = "" if holder.here else " on the host or in another container"
    return f"process {holder.pid}{command}{user}{where}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def await_free(
    ids: Sequence[int],
    seconds: float,
    environ: Mapping[str, str],
    say: Optional[Callable[[str], None]] = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until no other process holds the devices.

    Args:
        ids: The logical ids of the devices.
        seconds: How long to wait at most; 0 skips the check.
        environ: The environment in which these are the logical ids.
        say: Called with a sentence that names the holders, whenever they change; None logs it.
        sleep: Sleeps between two checks; an exception from it ends the wait.

    Raises:
        DeviceTimeoutError: If a device is still held at the end; names the holders.
    """
    if seconds == 0:
        return
    timeout = max(min(TIME_LIMIT, seconds), _SHORTEST_ANSWER_S)
    seen = Holders({}, False, ())

    def describe_holders() -> str:
        nonlocal seen
        seen = find_holders(ids, environ, timeout)
        return str(seen)

    await_gone(describe_holders, seconds, say, sleep)
    if not seen.is_free:
        others = [holder for holders in seen.held.values() for holder in holders]
        here = " ".join(map(str, sorted({other.pid for other in others if other.here})))
        end = f"stop it (kill {here}), " if here else ""
        raise DeviceTimeoutError(
            f"After {seconds:g} s {seen}.", hint=f"Wait longer, {end}or use another device."
        )
    if seen.notes:
        _logger.info("No process that uses the device was found. %s", " ".join(seen.notes))


def await_gone(
    describe: Callable[[], str],
    seconds: float,
    say: Optional[Callable[[str], None]] = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Check every second until there is no obstacle, or the time is over.

    Args:
        describe: Returns the obstacles in a sentence without full stop; empty if there are none.
        seconds: How long to wait at most.
        say: Called with a sentence that names the obstacles, whenever they change; None logs it.
        sleep: Sleeps between two checks; an exception from it ends the wait.
    """
    start = time.monotonic()
    announced = ""
    while True:
        obstacle = describe()
        remaining_s = seconds - (time.monotonic() - start)
        if not obstacle or remaining_s <= 0:
            return
        if obstacle != announced:
            announced = obstacle
            (say or _logger.warning)(f"Waiting for at most {remaining_s:.0f} s: {obstacle}.")
        sleep(min(_LOOK_EVERY_S, remaining_s))
