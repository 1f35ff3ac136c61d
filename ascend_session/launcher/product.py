"""What a product asks of the devices of a job.

Source: launch_facts.md, A5 (Atlas training series: 1, 2, 4 or 8 devices of a server; 0-3 and 4-7
are separate rings, so that 2 and 4 stay inside one of them; A2: any number) and A6 (jobs without a
rank table: Atlas training and A2 only).
"""

from typing import List, Mapping, Optional, Sequence

from ascend_session.errors import DeviceError, JobError
from ascend_session.hardware.device import devices
from ascend_session.hardware.families import family
from ascend_session.ids import PhysicalDeviceId

__all__ = ["check_chief", "check_devices", "product_of"]

_TRAINING, _A2 = family("910A"), family("910B")
_COUNTS = (1, 2, 4, 8)
_RING, _LARGEST = 4, 8  # devices of a ring, and of a server


def product_of(physical: Sequence[PhysicalDeviceId], environ: Mapping[str, str]) -> Optional[str]:
    """The family of these devices; None if it is not known. Runs ``npu-smi``, with a time limit."""
    wanted = {int(number) for number in physical}
    found = {
        device.family
        for device in devices(environ)
        if device.physical_id is not None and int(device.physical_id) in wanted
    }
    return found.pop() if len(found) == 1 else None


def check_devices(physical: Sequence[PhysicalDeviceId], environ: Mapping[str, str]) -> List[str]:
    """Checks a choice of devices; the product is asked for only where it matters.

    Returns:
        What could not be checked, in sentences.

    Raises:
        DeviceError: If the Atlas training series has no job of these devices.
    """
    fault = _ring_fault(physical)
    product = product_of(physical, environ) if fault else None
    if fault and product == _TRAINING:
        raise DeviceError(fault, hint=_inside_a_ring(physical))
    if fault and product is None:
        return [f"The product is not known. {fault}"]
    return []


def check_chief(physical: Sequence[PhysicalDeviceId], environ: Mapping[str, str]) -> List[str]:
    """Checks that devices can be a job without a rank table.

    Returns:
        What could not be checked, in sentences.

    Raises:
        JobError: If their product cannot.
    """
    product = product_of(physical, environ)
    if product is None:
        return ["The product is not known; only Atlas training (910A) and A2 do without a table."]
    if product not in (_TRAINING, _A2):
        raise JobError(
            f"no_rank_table was asked for, but the devices are {product}: only {_TRAINING} and "
            f"{_A2} find each other without a rank table.",
            hint="Give rank_table.",
        )
    return []


def _ring_fault(physical: Sequence[PhysicalDeviceId]) -> str:
    """Why the Atlas training series has no job of these devices; empty if it has."""
    if any(int(number) >= _LARGEST for number in physical):
        return ""  # it has no such device (launch_facts.md, A2 rule 5)
    count, shown = len(physical), ", ".join(map(str, physical))
    if count not in _COUNTS:
        return (
            f"A job on the Atlas training series has 1, 2, 4 or 8 devices of a server, not {count} "
            f"(physical {shown})."
        )
    if count <= _RING and len({int(number) // _RING for number in physical}) > 1:
        return (
            f"A job of {count} devices on the Atlas training series stays inside 0-3 or 4-7, "
            f"which are separate rings; asked for are physical {shown}."
        )
    return ""


def _inside_a_ring(physical: Sequence[PhysicalDeviceId]) -> str:
    if len(physical) in _COUNTS:
        return "Name devices of one half; `ascend-session devices` shows both kinds of ids."
    fewer = max(count for count in _COUNTS if count < len(physical))
    return f"Ask for {fewer} devices."
