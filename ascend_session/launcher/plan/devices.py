"""The device of each rank of this server.

Only the Atlas training series, and A2 without RoCE, limit which devices a job may have; only these
two have jobs without a rank table.

Source: guides/facts/launch.md#sizes-of-a-job, guides/facts/launch.md#jobs-without-a-rank-table
"""

import re
import shlex
from collections import Counter
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ascend_session.backends import STUB_DEVICES_VARIABLE
from ascend_session.backends.base import Backend
from ascend_session.cluster.schedulers import has_scheduler
from ascend_session.errors import DeviceError, JobError
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.decided import Decided, Request
from ascend_session.launcher.plan.nodes import Nodes
from ascend_session.spelling import option
from ascend_session.text import format_count, shorten
from ascend_session.vendor import A2, TRAINING

_LONGEST_COMMAND = 200
_EXAMPLE = 'Write logical ids, from 0, as in "0-3,6".'


class RankDevice(NamedTuple):
    """The device of one rank.

    Attributes:
        logical: Its id among the devices that the ranks can see.
        physical: The N of its ``/dev/davinci<N>``; None for a device of another kind.
    """

    logical: LogicalDeviceId
    physical: Optional[PhysicalDeviceId]


def list_physical(devices: Sequence[RankDevice]) -> Tuple[PhysicalDeviceId, ...]:
    """List the physical ids of devices, without devices of another kind."""
    return tuple(device.physical for device in devices if device.physical is not None)


def _refuse_uncounted_program(config: LaunchConfig, environ: Mapping[str, str]) -> None:
    """Refuse a program if nothing says how many ranks are to run it (JobError).

    Most shell scripts start a rank for each device themselves, and would do so once for each.
    """
    is_counted = config.rank_table or environ.get(STUB_DEVICES_VARIABLE) or has_scheduler(environ)
    if config.program is None or is_counted:
        return
    words = " ".join(map(shlex.quote, (config.program, *config.args)))
    raise JobError(
        f"Nothing says how many ranks are to run {shorten(words, _LONGEST_COMMAND)}.",
        hint=f"Give {option('processes', 1)} (-n 1) if it is a script that starts the ranks "
        "itself; else as many as are to run it.",
    )


def decide_devices(
    request: Request, backend: Type[Backend], nodes: Nodes
) -> Decided[Tuple[RankDevice, ...]]:
    """Decide on the devices of this node's ranks, one each, rank 0 first.

    Those of the rank table, if that counts; else those that the options name, or the first. It is
    refused if there are no such devices, or the product has no job of these (DeviceError); if the
    table says something else than the options, or names devices that this process does not get
    (JobError); or as `Backend.find_devices` refuses it.
    """
    config, environ, assumed = request
    own = nodes.table_node
    table = [] if own is None else [device.device_id for device in own.devices]
    given, count = config.devices, config.processes
    ids = () if given is None else parse_devices(given)
    if given is not None and count not in (None, len(ids)):
        raise DeviceError(
            f"{option('processes', count)}, but {option('devices', given)} names {len(ids)}.",
            hint="Leave out one of them, or make them agree.",
        )
    if count is None and given is None and not table:
        _refuse_uncounted_program(config, environ)
    count = count or len(ids) or len(table)  # 0 for all that there are
    if own is not None and count != len(table):
        raise JobError(
            f"{count} ranks would run on this node, but the rank table gives {own.name} "
            f"{len(table)}.",
            hint=f"Leave {option('processes')} and {option('devices')} out to follow the table.",
        )
    if assumed is None:
        visible = backend.find_devices(environ, count)
    else:
        from ascend_session.backends.base import HostDevices

        visible = HostDevices(tuple(map(PhysicalDeviceId, range(assumed.size))))
    available = len(visible.physical)
    if own is not None and given is None and backend.needs_rank_table:
        absent = [str(device) for device in table if device not in visible.physical]
        if absent:
            whose = "this process does not get" if assumed is None else f"{assumed} do not include"
            raise JobError(
                f"The rank table gives {own.name} the devices {', '.join(absent)}, which {whose}.",
                hint="`ascend-session devices` shows what it gets; compare server_id in the table.",
            )
        ids = tuple(LogicalDeviceId(visible.physical.index(device)) for device in table)
    ids = ids or tuple(map(LogicalDeviceId, range(count or available)))
    missing = [str(number) for number in ids if int(number) >= available]
    if missing:
        what = f"The {backend.name} has {available} devices, 0 to {available - 1}"
        numbers = [str(number) for number in visible.physical if number is not None]
        if numbers:
            server = "This server" if assumed is None else "The server that is assumed"
            what = (
                f"{server} gives a process {available} device(s), 0 to {available - 1} "
                f"(physical {', '.join(numbers)})"
            )
        raise DeviceError(
            f"{what}; this launch needs {format_count(len(ids), 'device')}, but there is no "
            f"device {', '.join(missing)}.",
            hint="`ascend-session devices` lists the devices.",
        )
    devices = tuple(RankDevice(number, visible.physical[int(number)]) for number in ids)
    physical = list_physical(devices)
    checked: List[str] = []
    if backend.holds_npus:
        checked = _check_devices(physical, request, nodes.count == 1)
    if own is not None and physical and list(physical) != table:
        raise JobError(
            "The ranks of this node would run on the physical devices "
            f"{list(map(int, physical))}, but the rank table gives {own.name} "
            f"{list(map(int, table))}; HCCL would abort them.",
            hint=f"Leave {option('devices')} out to follow the table.",
        )
    return devices, (*visible.notes, *checked)


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
            message = f"{option('devices', given)}: {fault}."
            raise DeviceError(message, hint=hint or _EXAMPLE) from None
        ids = [number for first, last in spans for number in range(first, last + 1)]
    else:
        ids = _check_numbers(given)
    if not ids:
        raise DeviceError(f"{option('devices', given)} names no device.", hint=_EXAMPLE)
    twice = sorted(number for number, times in Counter(ids).items() if times > 1)
    if twice:
        named = ", ".join(map(str, twice))
        raise DeviceError(
            f"{option('devices', given)} names {named} more than once; a device takes one process.",
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
        message = f"{option('devices')} must be a text or a list of ids, not {given!r}."
        raise DeviceError(message, hint=_EXAMPLE)
    for value in given:
        if isinstance(value, PhysicalDeviceId):
            raise DeviceError(
                f"{value!r} is physical; a launch takes logical ids.",
                hint="`ascend-session devices` shows both.",
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            message = f"{value!r} in {option('devices')} is not a device id."
            raise DeviceError(message, hint=_EXAMPLE)
    return [int(value) for value in given]


def find_product(physical: Sequence[PhysicalDeviceId], request: Request) -> Optional[str]:
    """Find the family of these devices, as assumed or by ``npu-smi`` with a time limit.

    Returns:
        None if it is not known.
    """
    if request.assumed is not None:
        return request.assumed.product
    from ascend_session.hardware.device_report import common_family, devices

    report = devices(request.job_environ)
    return common_family(device for device in report if device.physical_id in physical)


def _check_devices(
    physical: Sequence[PhysicalDeviceId], request: Request, is_alone: bool
) -> List[str]:
    """Check a choice of devices; ``npu-smi`` is asked for the product only where it matters.

    Args:
        physical: The devices.
        request: What is asked for.
        is_alone: Whether the job stays on this server.

    Returns:
        What could not be checked, in sentences.

    Raises:
        DeviceError: If the Atlas training series, or A2, has no job of these devices.
    """
    from ascend_session.cluster.rank_table.rules import uses_roce
    from ascend_session.hardware.families import (
        find_count_fault,
        find_half_fault,
        find_ring_fault,
        suggest_devices,
    )

    only_on, fault = TRAINING, find_count_fault(physical) or find_ring_fault(physical)
    hint = suggest_devices(physical) if fault else ""
    if not fault and is_alone and not uses_roce(request.job_environ):
        only_on, fault = A2, find_half_fault(physical)
        hint = "Name n and n + 8, or devices of one half; HCCL_INTRA_ROCE_ENABLE=1 takes them all."
    product = find_product(physical, request) if fault else None
    if not fault or product not in (None, only_on):
        return []
    if product is None:
        return [f"The product is not known. {fault}"]
    if product == A2 and len(physical) == 2:  # which HCCL takes for standard cards
        return [fault]
    raise DeviceError(fault, hint=hint)
