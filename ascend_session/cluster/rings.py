"""Which devices of one server a job of the Atlas training series (910A) may have.

Source: launch_facts.md, A5 (1, 2, 4 or 8 devices of a server; 0-3 and 4-7 are separate rings, so
that 2 and 4 stay inside one of them) and A2 rule 5 (it has no device above 7).
"""

from typing import Sequence

__all__ = ["count_fault", "inside_a_ring", "ring_fault"]

_COUNTS = (1, 2, 4, 8)
_RING, _LARGEST = 4, 8  # devices of a ring, and of a server


def count_fault(physical: Sequence[int]) -> str:
    """Why there is no job of so many of these devices; empty if there is."""
    if len(physical) in _COUNTS or _elsewhere(physical):
        return ""
    return (
        f"A job on the Atlas training series has 1, 2, 4 or 8 devices of a server, not "
        f"{len(physical)} (physical {_shown(physical)})."
    )


def ring_fault(physical: Sequence[int]) -> str:
    """Why these devices, in a number that could be, are not next to each other; empty if so."""
    count = len(physical)
    rings = {int(number) // _RING for number in physical}
    if count not in _COUNTS or count > _RING or len(rings) == 1 or _elsewhere(physical):
        return ""
    return (
        f"A job of {count} devices on the Atlas training series stays inside 0-3 or 4-7, "
        f"which are separate rings; asked for are physical {_shown(physical)}."
    )


def inside_a_ring(physical: Sequence[int]) -> str:
    """What to ask for instead."""
    if len(physical) in _COUNTS:
        return "Name devices of one half; `ascend-session devices` shows both kinds of ids."
    fewer = max(count for count in _COUNTS if count < len(physical))
    return f"Ask for {fewer} devices."


def _elsewhere(physical: Sequence[int]) -> bool:
    return not physical or any(int(number) >= _LARGEST for number in physical)


def _shown(physical: Sequence[int]) -> str:
    return ", ".join(str(int(number)) for number in physical)
