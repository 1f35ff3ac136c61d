"""Which devices of one server a job of the Atlas training series (910A) may have.

Source: the TensorFlow adapter's manual, distributed_training.md: 1, 2, 4 or 8 devices of a server;
0-3 and 4-7 are separate rings, so that 2 and 4 stay inside one of them. It has no device above 7
(HCOMM, GetSingleDevice in topoinfo_ranktableConcise.cc).
"""

from typing import Sequence

_COUNTS = (1, 2, 4, 8)
_RING, _SERVER = 4, 8  # devices


def find_count_fault(physical: Sequence[int]) -> str:
    """Say why there is no job of so many of these devices; empty if there is."""
    if len(physical) in _COUNTS or _is_other_product(physical):
        return ""
    return (
        f"A job on the Atlas training series has 1, 2, 4 or 8 devices of a server, not "
        f"{len(physical)} (physical {_list(physical)})."
    )


def find_ring_fault(physical: Sequence[int]) -> str:
    """Say why these devices, in a number that could be, are not next to each other; else empty."""
    count = len(physical)
    rings = {int(number) // _RING for number in physical}
    if count not in _COUNTS or count > _RING or len(rings) == 1 or _is_other_product(physical):
        return ""
    return (
        f"A job of {count} devices on the Atlas training series stays inside 0-3 or 4-7, "
        f"which are separate rings; asked for are physical {_list(physical)}."
    )


def suggest_devices(physical: Sequence[int]) -> str:
    """Say what to ask for instead of devices with a fault."""
    if len(physical) in _COUNTS:
        return "Name devices of one half; `ascend-session devices` shows both kinds of ids."
    fewer = max(count for count in _COUNTS if count < len(physical))
    return f"Ask for {fewer} devices."


def _is_other_product(physical: Sequence[int]) -> bool:
    return not physical or any(int(number) >= _SERVER for number in physical)


def _list(physical: Sequence[int]) -> str:
    return ", ".join(str(int(number)) for number in physical)
