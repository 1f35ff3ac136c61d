"""Which device each rank gets."""

import re
from typing import TYPE_CHECKING, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ascend_session.errors import DeviceError
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.launcher.device_list import parse_devices

if TYPE_CHECKING:
    from ascend_session.backends.npu_devices import Devices

__all__ = ["STUB_DEVICES_VARIABLE", "Chosen", "RankDevice", "on_npu", "on_stub"]

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


class Chosen(NamedTuple):
    """The devices of a job.

    Attributes:
        devices: One per rank, rank 0 first.
        notes: What the user should know, in sentences.
        stub_devices: How many devices the stub has to have; None on devices.
    """

    devices: Tuple[RankDevice, ...]
    notes: Tuple[str, ...] = ()
    stub_devices: Optional[int] = None


def on_npu(
    asked: Union[str, Sequence[int], None], processes: Optional[int], environ: Mapping[str, str]
) -> Chosen:
    """Chooses among the devices that a process in ``environ`` gets.

    Args:
        asked: The devices asked for; None means the first, or all.
        processes: How many; None means all that were asked for, or all there are.
        environ: The environment, for ``ASCEND_RT_VISIBLE_DEVICES`` and the host's root.

    Raises:
        DeviceError: If there are not so many, or the product has no job of these.
    """
    # The way to a job on the stub does without what looks at devices.
    from ascend_session.backends.npu_devices import Devices
    from ascend_session.launcher.product import check_devices

    found = Devices.of(environ)
    if not found.physical:
        raise _no_device(found)
    ids = _asked(asked, processes)
    if ids is None:
        ids = _first(len(found.physical) if processes is None else processes)
    _check_there(ids, len(found.physical), f"This server gives a process {_count(found)}")
    physical = [found.physical[int(number)] for number in ids]
    notes = [*found.traps, *found.notes, *check_devices(physical, environ)]
    pairs = tuple(RankDevice(number, node) for number, node in zip(ids, physical))
    return Chosen(pairs, tuple(notes))


def on_stub(
    asked: Union[str, Sequence[int], None], processes: Optional[int], environ: Mapping[str, str]
) -> Chosen:
    """Chooses devices of the stub; it is given as many as there are processes to run.

    Raises:
        DeviceError: If devices are named that the stub does not have, or their number is wrong.
    """
    count = _stub_count(environ)
    ids, notes = _asked(asked, processes), []
    if ids is None:
        ids = _first(count if processes is None else processes)
        if len(ids) > count and environ.get(STUB_DEVICES_VARIABLE):
            notes.append(f"{STUB_DEVICES_VARIABLE}={count} is raised to {len(ids)}, one per rank.")
        count = max(count, len(ids))
    _check_there(ids, count, f"The stub has {count} devices, 0 to {count - 1}")
    chosen = tuple(RankDevice(number, None) for number in ids)
    return Chosen(chosen, tuple(notes), stub_devices=count)


def _no_device(found: "Devices") -> DeviceError:
    if found.traps:
        from ascend_session.hardware.visible import VISIBLE_VARIABLE

        return DeviceError(found.traps[0], hint=f"Mend or unset {VISIBLE_VARIABLE}.")
    return DeviceError(
        "Ranks on devices were asked for, but there is no /dev/davinci<N> here.",
        hint='Pass the nodes into the container, or give backend="stub" to run on the CPU.',
    )


def _asked(
    asked: Union[str, Sequence[int], None], processes: Optional[int]
) -> Optional[Tuple[LogicalDeviceId, ...]]:
    if asked is None:
        return None
    ids = parse_devices(asked)
    if processes is not None and processes != len(ids):
        raise DeviceError(
            f"{processes} processes were asked for, but devices={asked!r} names {len(ids)}.",
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


def _count(found: "Devices") -> str:
    count = len(found.physical)
    nodes = ", ".join(str(node) for node in found.physical)
    return f"{count} device(s), 0 to {count - 1} (physical {nodes})"


def _stub_count(environ: Mapping[str, str]) -> int:
    text = environ.get(STUB_DEVICES_VARIABLE) or str(_STUB_DEFAULT)
    if not re.fullmatch("[0-9]{1,4}", text) or int(text) < 1:
        raise DeviceError(
            f"{STUB_DEVICES_VARIABLE}={text!r} is not a number of devices.",
            hint=f"export {STUB_DEVICES_VARIABLE}={_STUB_DEFAULT}",
        )
    return int(text)
