"""Waiting until no other process holds a device.

Two jobs on one device fail in ways that say little (launch_facts.md, E: EJ0001, EL0005, TsdOpen);
the vendor's advice is to look who holds it and to wait. Memory in use is no sign: an idle device
uses some (B2). So what counts is who has the node open, and whom ``npu-smi`` lists.
"""

import logging
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

import tenacity

from ascend_session.errors import DeviceTimeoutError
from ascend_session.hardware.command import TIME_LIMIT
from ascend_session.hardware.failure_texts import DEVICES_HELD
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.occupancy import Holder
from ascend_session.hardware.survey import survey

__all__ = ["Seen", "await_free", "look"]

_logger = logging.getLogger(__name__)

_LOOK_EVERY = 1.0  # seconds
_SHORTEST_ANSWER = 1.0  # seconds that npu-smi is given in any case


class Seen(NamedTuple):
    """What one look at the devices shows.

    Attributes:
        held: Who else holds the devices that are asked for, by the device's name.
        hidden: That somebody in another container holds a device, and hides all of them.
        notes: What could not be seen, in sentences.
    """

    held: Dict[str, List[Holder]]
    hidden: bool
    notes: Tuple[str, ...]

    @property
    def is_free(self) -> bool:
        """Whether nobody is seen to hold them."""
        return not self.held and not self.hidden

    def __str__(self) -> str:
        said = [
            f"{name} is held by {' and '.join(map(_named, holders))}"
            for name, holders in self.held.items()
        ]
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
    report = survey(environ, host_root(environ), timeout, addresses=False)
    held = {}
    for device in report.visible:
        others = [holder for holder in device.holders if not holder.own]
        if device.logical_id in ids and others:
            held[f"device {device.logical_id} (/dev/davinci{device.physical_id})"] = others
    return Seen(held, DEVICES_HELD in report.notes, report.notes)


def await_free(ids: Sequence[int], seconds: float, environ: Mapping[str, str]) -> None:
    """Waits until nobody but this process holds the devices.

    Args:
        ids: Their logical ids.
        seconds: How long to wait at most; with 0 one look decides nothing and none is taken.
        environ: The environment to go by.

    Raises:
        DeviceTimeoutError: Naming who holds which device, if that has not changed in time.
    """
    if seconds == 0:
        return
    timeout = max(min(TIME_LIMIT, seconds), _SHORTEST_ANSWER)
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_delay(seconds),
        wait=lambda state: min(_LOOK_EVERY, max(seconds - (state.seconds_since_start or 0), 0)),
        retry=tenacity.retry_if_result(lambda seen: not seen.is_free),
        before_sleep=_Herald(),
        retry_error_callback=lambda state: _refuse(_seen(state), seconds),
    )
    found = retrying(look, ids, environ, timeout)
    if found.notes:
        _logger.info("Nobody is seen to hold the device. %s", " ".join(found.notes))


class _Herald:
    """Says who is waited for, and again when that changes."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, state: tenacity.RetryCallState) -> None:
        text = str(_seen(state))
        if text != self._said:
            self._said = text
            _logger.warning("Waiting: %s.", text)


def _seen(state: tenacity.RetryCallState) -> Seen:
    assert state.outcome is not None
    seen: Seen = state.outcome.result()
    return seen


def _refuse(seen: Seen, seconds: float) -> None:
    here = {str(holder.pid) for holders in seen.held.values() for holder in holders if holder.here}
    end = f"end it (kill {' '.join(sorted(here))}), " if here else ""
    raise DeviceTimeoutError(
        f"After {seconds:g} s {seen}.", hint=f"Wait longer, {end}or use another device."
    )


def _named(holder: Holder) -> str:
    command = f" ({holder.command})" if holder.command else ""
    where = "" if holder.here else " on the host or in another container"
    return f"process {holder.pid}{command}{where}"
