"""``0-3,6``: the devices that a launch is asked to use, as logical ids."""

import re
from collections import Counter
from typing import List, Sequence, Tuple, Union

from ascend_session.errors import DeviceError
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId

__all__ = ["parse_devices"]

_EXAMPLE = 'Write logical ids, from 0, as in "0-3,6".'
_PART = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def parse_devices(given: Union[str, Sequence[int]]) -> Tuple[LogicalDeviceId, ...]:
    """The logical ids, in the order given; blanks around commas do not matter.

    Raises:
        DeviceError: If there are none, if one is no id or is physical, or if one is given twice.
    """
    ids = _from_text(given) if isinstance(given, str) else _from_numbers(given)
    if not ids:
        raise DeviceError(f"devices={given!r} names no device.", hint=_EXAMPLE)
    twice = sorted(number for number, times in Counter(ids).items() if times > 1)
    if twice:
        named = ", ".join(map(str, twice))
        raise DeviceError(
            f"devices={given!r} names {named} more than once; a device takes one process.",
            hint="Name each device once.",
        )
    return tuple(LogicalDeviceId(number) for number in ids)


def _from_text(text: str) -> List[int]:
    found: List[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise DeviceError(
                f"devices={text!r}: {part.strip()!r} is neither a device id nor a range of them.",
                hint=_EXAMPLE,
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise DeviceError(
                f"devices={text!r}: the range {part.strip()} ends before it begins.",
                hint=f"Write {last}-{first}.",
            )
        found += range(first, last + 1)
    return found


def _from_numbers(given: Sequence[int]) -> List[int]:
    if not isinstance(given, (list, tuple, range)):
        raise DeviceError(f"devices is a text or a list of ids, not {given!r}.", hint=_EXAMPLE)
    for value in given:
        if isinstance(value, PhysicalDeviceId):
            raise DeviceError(
                f"{value!r} is physical; a launch takes logical ids.",
                hint="`ascend-session devices` shows both.",
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise DeviceError(f"{value!r} in devices is no device id.", hint=_EXAMPLE)
    return [int(value) for value in given]
