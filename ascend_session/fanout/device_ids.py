"""Which devices a process asks for: ids that can be, each once, and of devices that it gets."""

import numbers
from typing import Any, Dict, Optional, Tuple

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import ConfigError, DeviceError
from ascend_session.fanout.wording import together
from ascend_session.ids import PhysicalDeviceId
from ascend_session.session.api import device_check

__all__ = ["check_present", "checked_ids", "refuse_second_device"]


def checked_ids(device_ids: Any) -> Tuple[int, ...]:
    """``device_ids`` as plain ints.

    Raises:
        DeviceError: With everything that is wrong with them.
    """
    try:
        given = list(device_ids)
    except TypeError:
        raise DeviceError(
            f"device_ids must be several device ids, this is {device_ids!r}.",
            hint="Write [0, 1] for devices 0 and 1, or range(8) for all of 8.",
        ) from None
    wrong = [] if given else ["device_ids is empty: fan_out needs at least one device."]
    wrong += [said for said in map(_wrong, given) if said]
    ids = [int(value) for value in given if not _wrong(value)]
    for number in sorted(set(ids)):
        if ids.count(number) > 1:
            wrong.append(f"Device {number} is given {ids.count(number)} times.")
    if wrong:
        raise DeviceError(together(wrong, f"{len(wrong)} problems in device_ids:"))
    return tuple(ids)


def _wrong(value: Any) -> str:
    """Why ``value`` is no logical device id; empty if it is one."""
    if isinstance(value, PhysicalDeviceId):
        return f"{value!r} is physical; a session takes logical ids, which devices() shows."
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return f"A device id is an int, not {type(value).__name__} {value!r}."
    return "" if int(value) >= 0 else f"A device id is 0 or more, not {int(value)}."


def check_present(backend: str, device_ids: Tuple[int, ...]) -> None:
    """Checks that this process gets all of these devices, before anything is started.

    Raises:
        DeviceError: With all that it does not get.
    """
    check = device_check(backend)
    refused: Dict[int, DeviceError] = {}
    for device_id in device_ids:
        try:
            check(device_id)
        except DeviceError as error:
            refused[device_id] = error
    if refused:
        said = list(dict.fromkeys(error.message for error in refused.values()))
        message = together(said, f"{len(said)} devices cannot be had:")
        raise DeviceError(message, hint=refused[max(refused)].hint)


def refuse_second_device(config: Optional[AscendConfig]) -> None:
    """Raises ConfigError if ``config`` names a device itself."""
    if config is not None and config.session_device_id is not None:
        raise ConfigError(
            f"The device was given twice: session_device_id={config.session_device_id} in the "
            "AscendConfig, and device_ids for fan_out.",
            hint="Give fan_out an AscendConfig without session_device_id.",
        )
