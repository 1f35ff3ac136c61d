"""Which device each rank gets, and what a product asks of the devices of a job.

Only the Atlas training series limits which devices a job may have, and only it and A2 have jobs
without a rank table.

Source: guides/facts/launch.md#sizes-of-a-job, guides/facts/launch.md#jobs-without-a-rank-table
"""

import re
from collections import Counter
from typing import TYPE_CHECKING, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ascend_session.errors import DeviceError, JobError
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.text import format_count

if TYPE_CHECKING:
    from ascend_session.backends.base import Backend

_EXAMPLE = 'Write logical ids, from 0, as in "0-3,6".'

GivenDevices = Union[str, Sequence[int], None]


class RankDevice(NamedTuple):
    """The device of one rank.

    Attributes:
        logical: Its id among the devices that the ranks can see.
        physical: The N of its ``/dev/davinci<N>``; None for a device of another kind.
    """

    logical: LogicalDeviceId
    physical: Optional[PhysicalDeviceId]


def choose_devices(
    backend: "Type[Backend]",
    given: GivenDevices,
    processes: Optional[int],
    environ: Mapping[str, str],
) -> Tuple[Tuple[RankDevice, ...], Tuple[str, ...]]:
    """Choose among the devices that a backend finds for a launch, one per rank, rank 0 first.

    Args:
        backend: The backend.
        given: Those that the launch names; None means the first, or all.
        processes: How many; None means all that are named, or all there are.
        environ: The launcher's environment.

    Returns:
        The devices, and what the user should know, in sentences.

    Raises:
        BackendError: As from `Backend.find_devices`.
        DeviceError: If there are not so many, or the product has no job of these.
    """
    ids = () if given is None else parse_devices(given)
    if given is not None and processes not in (None, len(ids)):
        raise DeviceError(
            f"processes={processes}, but devices={given!r} names {len(ids)}.",
            hint="Leave out one of them, or make them agree.",
        )
    found = backend.find_devices(environ, processes or len(ids))
    count = len(found.physical)
    ids = ids or tuple(map(LogicalDeviceId, range(processes or count)))
    nodes = [number for number in found.physical if number is not None]
    available = f"The {backend.name} has {count} devices, 0 to {count - 1}"
    if nodes:
        available = (
            f"This server gives a process {count} device(s), 0 to {count - 1} (physical "
            f"{', '.join(map(str, nodes))})"
        )
    _check_range(ids, count, available)
    devices = tuple(RankDevice(number, found.physical[int(number)]) for number in ids)
    physical = [device.physical for device in devices if device.physical is not None]
    checked = check_devices(physical, environ) if backend.holds_npus else []
    return devices, (*found.notes, *checked)


def _check_range(ids: Sequence[LogicalDeviceId], count: int, available: str) -> None:
    missing: List[str] = [str(number) for number in ids if int(number) >= count]
    if missing:
        raise DeviceError(
            f"{available}; this launch needs {format_count(len(ids), 'device')}, but there is no "
            f"device {', '.join(missing)}.",
            hint="`ascend-session devices` lists the devices.",
        )


def parse_devices(given: Union[str, Sequence[int]]) -> Tuple[LogicalDeviceId, ...]:
    """Parse logical ids, and keep their order; blanks around commas do not matter.

    Raises:
        DeviceError: If there are none, if one is no id or is physical, or if one is given twice.
    """
    if isinstance(given, str):
        try:
            spans = parse_spans(given, "a device id", digits=4)
        except ValueError as error:
            fault, hint = error.args
            raise DeviceError(f"devices={given!r}: {fault}.", hint=hint or _EXAMPLE) from None
        ids = [number for first, last in spans for number in range(first, last + 1)]
    else:
        ids = _check_numbers(given)
    if not ids:
        raise DeviceError(f"devices={given!r} names no device.", hint=_EXAMPLE)
    twice = sorted(number for number, times in Counter(ids).items() if times > 1)
    if twice:
        named = ", ".join(map(str, twice))
        raise DeviceError(
            f"devices={given!r} names {named} more than once; a device takes one process.",
            hint="Name each device once.",
        )
    return tuple(map(LogicalDeviceId, ids))


def parse_spans(text: str, kind: str, digits: int) -> List[Tuple[int, int]]:
    """Parse ``0,4-7`` into first and last numbers: ``[(0, 0), (4, 7)]``.

    Args:
        text: Numbers and ranges with commas between them.
        kind: What one number is, with its article.
        digits: How many a number has at most.

    Raises:
        ValueError: If it is something else, with the fault as a part of a sentence and a hint or
            None.
    """
    spans = []
    for part in map(str.strip, text.split(",")):
        match = re.fullmatch(f"([0-9]{{1,{digits}}})(?:-([0-9]{{1,{digits}}}))?", part)
        if match is None:
            raise ValueError(f"{part!r} is neither {kind} nor a range of them", None)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"the range {part} ends before it begins", f"Write {last}-{first}.")
        spans.append((first, last))
    return spans


def _check_numbers(given: Sequence[int]) -> List[int]:
    if not isinstance(given, (list, tuple, range)):
        raise DeviceError(f"devices must be a text or a list of ids, not {given!r}.", hint=_EXAMPLE)
    for value in given:
        if isinstance(value, PhysicalDeviceId):
            raise DeviceError(
                f"{value!r} is physical; a launch takes logical ids.",
                hint="`ascend-session devices` shows both.",
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise DeviceError(f"{value!r} in devices is not a device id.", hint=_EXAMPLE)
    return [int(value) for value in given]


def product_of(physical: Sequence[PhysicalDeviceId], environ: Mapping[str, str]) -> Optional[str]:
    """Find the family of these devices by ``npu-smi``, with a time limit; None if not known."""
    from ascend_session.hardware.devices import common_family, devices

    return common_family(device for device in devices(environ) if device.physical_id in physical)


def check_devices(physical: Sequence[PhysicalDeviceId], environ: Mapping[str, str]) -> List[str]:
    """Check a choice of devices; ``npu-smi`` is asked for the product only where it matters.

    Returns:
        What could not be checked, in sentences.

    Raises:
        DeviceError: If the Atlas training series has no job of these devices.
    """
    from ascend_session.hardware.families import (
        family,
        find_count_fault,
        find_ring_fault,
        suggest_devices,
    )

    fault = find_count_fault(physical) or find_ring_fault(physical)
    product = product_of(physical, environ) if fault else None
    if fault and product == family("910A"):
        raise DeviceError(fault, hint=suggest_devices(physical))
    return [f"The product is not known. {fault}"] if fault and product is None else []


def check_chief(physical: Sequence[PhysicalDeviceId], environ: Mapping[str, str]) -> List[str]:
    """Check that devices can be a job without a rank table.

    Returns:
        What could not be checked, in sentences.

    Raises:
        JobError: If their product cannot.
    """
    from ascend_session.hardware.families import family

    product = product_of(physical, environ)
    if product is None:
        return ["The product is not known; only Atlas training (910A) and A2 do without a table."]
    able = family("910A"), family("910B")
    if product not in able:
        raise JobError(
            f"no_rank_table is set, but the devices are {product}: only {able[0]} and "
            f"{able[1]} find each other without a rank table.",
            hint="Give rank_table.",
        )
    return []
