"""Who else holds the devices that a job is to use.

Two jobs on one device fail in ways that say little (launch_facts.md, E: EJ0001, EL0005, TsdOpen).
Memory in use is no sign: an idle device uses some (B2). So what counts is who has the node open,
and whom ``npu-smi`` lists.
"""

from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.checks.finding import ERROR, NOT_CHECKED, OK, Finding, one_line
from ascend_session.hardware.command import TIME_LIMIT
from ascend_session.hardware.device import Device, DeviceReport
from ascend_session.hardware.failure_texts import DEVICES_HELD
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.occupancy import Holder
from ascend_session.hardware.survey import survey

__all__ = ["HOLDERS", "Seen", "check_holders", "look"]

HOLDERS = "holders"
"""The name of the check."""

_LONGEST = 100  # characters of a command line
_NAMED = 3  # of the processes that hold a device
_WAIT = "wait until it is free (wait_for_devices=600)"


class Seen(NamedTuple):
    """What one look at the devices shows.

    Attributes:
        held: Who else holds the devices that are asked for, by the device's name.
        hidden: That somebody in another container holds a device, and hides all of them.
        notes: What could not be seen, in sentences.
        blind: Those of the notes because of which a holder may not be seen.
    """

    held: Dict[str, List[Holder]]
    hidden: bool
    notes: Tuple[str, ...]
    blind: Tuple[str, ...] = ()

    @classmethod
    def of(cls, report: DeviceReport, ids: Optional[Sequence[int]] = None) -> "Seen":
        """What a report shows of the devices with these logical ids; of all if None."""
        held = {}
        for device in report:
            others = [holder for holder in device.holders if not holder.own]
            if others and (ids is None or device.logical_id in ids):
                held[_name(device)] = others
        # Who npu-smi lists is known whatever /proc shows, and the other way round.
        blind = [note for note in report.notes if note.startswith(("/proc ", "The open files "))]
        return cls(
            held=held,
            hidden=DEVICES_HELD in report.notes,
            notes=report.notes,
            blind=(*report.unanswered, *blind) if report.unanswered and blind else (),
        )

    @property
    def is_free(self) -> bool:
        """Whether nobody is seen to hold them."""
        return not self.held and not self.hidden

    @property
    def pids(self) -> List[int]:
        """The processes that hold them and that run here, ascending."""
        return sorted(
            {holder.pid for holders in self.held.values() for holder in holders if holder.here}
        )

    def __str__(self) -> str:
        said = [_held(name, holders) for name, holders in self.held.items()]
        if self.hidden:
            said.append("a device is held by another container, which hides who")
        return "; ".join(said)


def look(ids: Sequence[int], environ: Mapping[str, str], timeout: float = TIME_LIMIT) -> Seen:
    """Looks who else holds the devices with these logical ids.

    Args:
        ids: Their logical ids.
        environ: The environment to go by.
        timeout: Seconds that one answer of ``npu-smi`` may take.
    """
    return Seen.of(survey(environ, host_root(environ), timeout, addresses=False), ids)


def check_holders(seen: Seen) -> Iterator[Finding]:
    """Says who holds devices, a finding for each device."""
    for name, holders in seen.held.items():
        here = [str(holder.pid) for holder in holders if holder.here]
        one = "it" if len(holders) == 1 else "them"
        end = f"End {one} (kill {' '.join(here)}), " if here else ""
        if len(here) > _NAMED:  # a job of many processes ends with the one that started it
            end = f"End them (`fuser -v /dev/davinci*` lists all {len(holders)}), "
        hint = f"{end}{_WAIT}, or use another device."
        yield Finding(HOLDERS, ERROR, f"{_upper(_held(name, holders))}.", _upper(hint))
    if seen.hidden:
        yield Finding(HOLDERS, ERROR, DEVICES_HELD, f"{_upper(_WAIT)}.")
    elif not seen.held and seen.blind:
        yield Finding(HOLDERS, NOT_CHECKED, f"Who holds the devices: {' '.join(seen.blind)}")
    elif not seen.held:
        yield Finding(HOLDERS, OK, "No other process is seen to hold the devices.")


def _name(device: Device) -> str:
    if device.physical_id is None:
        return f"chip {device.chip_id} of card {device.npu_id}"
    node = f"/dev/davinci{device.physical_id}"
    return node if device.logical_id is None else f"device {device.logical_id} ({node})"


def _held(name: str, holders: Sequence[Holder]) -> str:
    named = [_named(holder) for holder in holders[:_NAMED]]
    if len(holders) > _NAMED:
        named.append(f"{len(holders) - _NAMED} more")
    return f"{name} is held by {' and '.join(named)}"


def _named(holder: Holder) -> str:
    command = f" ({one_line(holder.command, _LONGEST)})" if holder.command else ""
    user = "" if holder.user is None else f" of user {holder.user}"
    where = "" if holder.here else " on the host or in another container"
    return f"process {holder.pid}{command}{user}{where}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
