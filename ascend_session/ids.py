"""Types for the two kinds of device numbers.

A *logical* id counts the devices that this process can see (``session_device_id``,
``ASCEND_DEVICE_ID``); a *physical* id is the N of ``/dev/davinciN`` (rank tables, ``DEVICE_ID``).
Source: guides/facts/devices.md#numbers-of-a-device.
"""

from typing import Any


class _DeviceId(int):
    """A device number >= 0 that equals only numbers of its own kind or plain ints."""

    def __new__(cls, value: int) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"A device id is an int, not {type(value).__name__} {value!r}.")
        if isinstance(value, _DeviceId) and not isinstance(value, cls):
            raise TypeError(f"{value!r} is not a {cls.__name__}: translate it, do not cast it.")
        if value < 0:
            raise ValueError(f"A device id is 0 or more, not {value}.")
        return super().__new__(cls, value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _DeviceId) and type(other) is not type(self):
            return False
        return int.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __str__(self) -> str:
        return int.__repr__(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"


class LogicalDeviceId(_DeviceId):
    """Index of a device among those that this process can see."""


class PhysicalDeviceId(_DeviceId):
    """Number of a device on the host: the N of ``/dev/davinciN``."""
