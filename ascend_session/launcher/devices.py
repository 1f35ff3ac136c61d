"""Which device each rank gets, and what a product asks of the devices of a job.

Source: launch_facts.md, A5 (only the Atlas training series limits which devices a job has) and A6
(jobs without a rank table: Atlas training and A2 only).
"""

import re
from collections import Counter
from typing import TYPE_CHECKING, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ascend_session.errors import DeviceError, JobError
from ascend_session.hardware.families import (
    family,
    find_count_fault,
    find_ring_fault,
    suggest_devices,
)
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId

if TYPE_CHECKING:
    from ascend_session.backends.npu_devices import Devices

# As in backends/stub.py, whose import costs that of TensorFlow's neighbours.
STUB_DEVICES_VARIABLE = "ASCEND_SESSION_STUB_DEVICES"

_STUB_DEFAULT = 8
_SHOW = "`ascend-session devices` shows them."


class RankDevice(NamedTuple):
    """The device of one rank.

    Attributes:
        logical: Its id among the devices that the ranks can see.
        physical: The N of its node; None on the stub.
    """

    logical: LogicalDeviceId
    physical: Optional[PhysicalDeviceId]


def choose_npu_devices(
    devices: Union[str, Sequence[int], None],
    processes: Optional[int],
    environ: Mapping[str, str],
    notes: List[str],
) -> Tuple[RankDevice, ...]:
    """Choose among the devices that a process in ``environ`` gets, one per rank, rank 0 first.

    Args:
        devices: Those that the launch names; None means the first, or all.
        processes: How many; None means all that are named, or all there are.
        environ: The environment, for ``ASCEND_RT_VISIBLE_DEVICES`` and the host's root.
        notes: Gets what the user should know, in sentences.

    Raises:
        DeviceError: If there are not so many, or the product has no job of these.
    """
    # The way to a job on the stub does without what looks at devices.
    from ascend_session.backends.npu_devices import Devices

    here = Devices.of(environ)
    if not here.physical:
        raise _no_device(here)
    ids = _ids_of(devices, processes)
    if ids is None:
        ids = _first(len(here.physical) if processes is None else processes)
    _check_there(ids, len(here.physical), f"This server gives a process {_count(here)}")
    physical = [here.physical[int(number)] for number in ids]
    notes += [*here.traps, *here.notes, *check_devices(physical, environ)]
    return tuple(RankDevice(number, node) for number, node in zip(ids, physical))


def choose_stub_devices(
    devices: Union[str, Sequence[int], None],
    processes: Optional[int],
    environ: Mapping[str, str],
    notes: List[str],
) -> Tuple[RankDevice, ...]:
    """Choose devices of the stub; it is given as many as there are processes to run.

    The arguments are those of `choose_npu_devices`.

    Raises:
        DeviceError: If devices are named that the stub does not have, or their number is wrong.
    """
    count = stub_device_count(environ)
    ids = _ids_of(devices, processes)
    if ids is None:
        ids = _first(count if processes is None else processes)
        if len(ids) > count and environ.get(STUB_DEVICES_VARIABLE):
            notes.append(f"{STUB_DEVICES_VARIABLE}={count} is raised to {len(ids)}, one per rank.")
        count = max(count, len(ids))
    _check_there(ids, count, f"The stub has {count} devices, 0 to {count - 1}")
    return tuple(RankDevice(number, None) for number in ids)


def _no_device(here: "Devices") -> DeviceError:
    if here.traps:
        from ascend_session.hardware.nodes import VISIBLE_VARIABLE

        return DeviceError(here.traps[0], hint=f"Mend or unset {VISIBLE_VARIABLE}.")
    return DeviceError(
        "Ranks on devices were asked for, but there is no /dev/davinci<N> here.",
        hint='Pass the nodes into the container, or give backend="stub" to run on the CPU.',
    )


def _ids_of(
    devices: Union[str, Sequence[int], None], processes: Optional[int]
) -> Optional[Tuple[LogicalDeviceId, ...]]:
    if devices is None:
        return None
    ids = parse_devices(devices)
    if processes is not None and processes != len(ids):
        raise DeviceError(
            f"{processes} processes were asked for, but devices={devices!r} names {len(ids)}.",
            hint="Leave one of the two out.",
        )
    return ids


def _first(count: int) -> Tuple[LogicalDeviceId, ...]:
    return tuple(LogicalDeviceId(number) for number in range(count))


def _check_there(ids: Sequence[LogicalDeviceId], count: int, there: str) -> None:
    missing: List[str] = [str(number) for number in ids if int(number) >= count]
    if missing:
        raise DeviceError(
            f"{there}; {len(ids)} were asked for, among them {', '.join(missing)}.", hint=_SHOW
        )


def _count(here: "Devices") -> str:
    count = len(here.physical)
    nodes = ", ".join(str(node) for node in here.physical)
    return f"{count} device(s), 0 to {count - 1} (physical {nodes})"


def stub_device_count(environ: Mapping[str, str], ranks: int = 1) -> int:
    """Give the number of devices that the stub has, at least one per rank.

    Raises:
        DeviceError: If the variable for it is no number of devices.
    """
    text = environ.get(STUB_DEVICES_VARIABLE) or str(_STUB_DEFAULT)
    if not re.fullmatch("[0-9]{1,4}", text) or int(text) < 1:
        raise DeviceError(
            f"{STUB_DEVICES_VARIABLE}={text!r} is not a number of devices.",
            hint=f"export {STUB_DEVICES_VARIABLE}={_STUB_DEFAULT}",
        )
    return max(int(text), ranks)


_EXAMPLE = 'Write logical ids, from 0, as in "0-3,6".'
_PART = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def parse_devices(given: Union[str, Sequence[int]]) -> Tuple[LogicalDeviceId, ...]:
    """Give the logical ids, in the order given; blanks around commas do not matter.

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
    ids: List[int] = []
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
        ids += range(first, last + 1)
    return ids


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


_TRAINING, _A2 = family("910A"), family("910B")


def product_of(physical: Sequence[PhysicalDeviceId], environ: Mapping[str, str]) -> Optional[str]:
    """Give the family of these devices; None if it is not known.

    Runs ``npu-smi``, with a time limit.
    """
    from ascend_session.hardware.devices import devices

    ids = {int(number) for number in physical}
    families = {
        device.family
        for device in devices(environ)
        if device.physical_id is not None and int(device.physical_id) in ids
    }
    return families.pop() if len(families) == 1 else None


def check_devices(physical: Sequence[PhysicalDeviceId], environ: Mapping[str, str]) -> List[str]:
    """Check a choice of devices; the product is asked for only where it matters.

    Returns:
        What could not be checked, in sentences.

    Raises:
        DeviceError: If the Atlas training series has no job of these devices.
    """
    fault = find_count_fault(physical) or find_ring_fault(physical)
    product = product_of(physical, environ) if fault else None
    if fault and product == _TRAINING:
        raise DeviceError(fault, hint=suggest_devices(physical))
    if fault and product is None:
        return [f"The product is not known. {fault}"]
    return []


def check_chief(physical: Sequence[PhysicalDeviceId], environ: Mapping[str, str]) -> List[str]:
    """Check that devices can be a job without a rank table.

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
