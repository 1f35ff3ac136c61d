"""What a product asks of the devices of a job.

Source: launch_facts.md, A5 (only the Atlas training series limits which devices a job has) and A6
(jobs without a rank table: Atlas training and A2 only).
"""

from typing import List, Mapping, Optional, Sequence

from ascend_session.cluster.rings import count_fault, inside_a_ring, ring_fault
from ascend_session.errors import DeviceError, JobError
from ascend_session.hardware.device import devices
from ascend_session.hardware.families import family
from ascend_session.ids import PhysicalDeviceId

__all__ = ["check_chief", "check_devices", "product_of"]

_TRAINING, _A2 = family("910A"), family("910B")


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
    fault = count_fault(physical) or ring_fault(physical)
    product = product_of(physical, environ) if fault else None
    if fault and product == _TRAINING:
        raise DeviceError(fault, hint=inside_a_ring(physical))
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
