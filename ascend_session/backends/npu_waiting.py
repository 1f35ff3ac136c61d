"""Waiting until no other process holds a device.

Two jobs on one device fail in ways that say little (launch_facts.md, E: EJ0001, EL0005, TsdOpen);
the vendor's advice is to look who holds it and to wait. Memory in use is no sign: an idle device
uses some (B2). So what counts is who has the node open, and whom ``npu-smi`` lists.
"""

import logging
from typing import Dict, List, Mapping, Sequence

import tenacity

from ascend_session.errors import DeviceTimeoutError
from ascend_session.hardware.device import devices
from ascend_session.hardware.occupancy import Holder

__all__ = ["await_free", "holders_of"]

_logger = logging.getLogger(__name__)

_LOOK_EVERY = 1.0  # seconds

Held = Dict[str, List[Holder]]


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
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_delay(seconds),
        wait=tenacity.wait_fixed(min(_LOOK_EVERY, seconds)),
        retry=tenacity.retry_if_result(bool),
        before_sleep=_Herald(),
        retry_error_callback=lambda state: _refuse(_result(state), seconds),
    )
    retrying(lambda: holders_of(ids, environ))


def holders_of(ids: Sequence[int], environ: Mapping[str, str]) -> Held:
    """Who else holds the devices with these logical ids, by the device's name."""
    visible = devices(environ).visible
    held = {}
    for device in visible:
        others = [holder for holder in device.holders if not holder.own]
        if device.logical_id in ids and others:
            held[f"device {device.logical_id} (/dev/davinci{device.physical_id})"] = others
    return held


class _Herald:
    """Says who is waited for, and again when that changes."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, state: tenacity.RetryCallState) -> None:
        text = _described(_result(state))
        if text != self._said:
            self._said = text
            _logger.warning("Waiting: %s.", text)


def _result(state: tenacity.RetryCallState) -> Held:
    assert state.outcome is not None
    held: Held = state.outcome.result()
    return held


def _refuse(held: Held, seconds: float) -> None:
    pids = " ".join(str(holder.pid) for holders in held.values() for holder in holders)
    raise DeviceTimeoutError(
        f"After {seconds:g} s {_described(held)}.",
        hint=f"Wait longer, end it (kill {pids}), or use another device.",
    )


def _described(held: Held) -> str:
    return "; ".join(
        f"{name} is held by {' and '.join(_named(holder) for holder in holders)}"
        for name, holders in held.items()
    )


def _named(holder: Holder) -> str:
    command = f" ({holder.command})" if holder.command else ""
    return f"process {holder.pid}{command}"
