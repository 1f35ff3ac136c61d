"""Where the ranks of this server run: the device of each, and with ``--bind`` its CPUs.

Only the Atlas training series, and A2 without RoCE, limit which devices a job may have; only these
two have jobs without a rank table.

Scripts bind ranks by ``taskset`` to an eighth of all CPUs that the machine has. That leaves the
machine at rank 8, asks for CPUs that a container or a batch job does not have, and crosses NUMA
nodes. Here only CPUs count that the launcher itself may use, and the rank's place on this server
counts, not its number.

Source: guides/facts/launch.md#sizes-of-a-job, guides/facts/launch.md#jobs-without-a-rank-table,
guides/facts/launch.md#binding-to-cpus
"""

import os
import re
import shlex
from collections import Counter
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ascend_session.backends import STUB_DEVICES_VARIABLE
from ascend_session.backends.base import Backend
from ascend_session.cluster.schedulers import has_scheduler
from ascend_session.errors import DeviceError, JobError
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.decided import Decided, Request
from ascend_session.launcher.plan.nodes import Nodes
from ascend_session.spelling import Message, option
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


_Cpus = Tuple[int, ...]
_INTEROP_THREADS = "TF_NUM_INTEROP_THREADS"
_LEAST_INTEROP_THREADS = 4


class RankCpus(NamedTuple):
    """The CPUs of the ranks of this server.

    Attributes:
        of_ranks: Those of each rank, ascending; None for one that is not bound.
        bound: Where they come from, or why ranks have none of their own, in a few words.
        threads: The variable for inter-op threads, if it has to be set.
    """

    of_ranks: Sequence[Optional[_Cpus]]
    bound: str
    threads: Mapping[str, str]


def decide_cpus(
    request: Request, backend: Type[Backend], devices: Sequence[RankDevice]
) -> Decided[RankCpus]:
    """Decide which CPUs the ranks on this server may use, as `LaunchConfig.bind` says.

    ``npu-smi`` runs, with a time limit, for ``auto`` on devices.

    Ranks on devices also get enough inter-op threads, of which TensorFlow starts one for each CPU:
    the adapter blocks some of them, and with the last of them the run hangs for ever. What the user
    has set stays.

    Source: guides/facts/launch.md#inter-op-threads
    """
    config, environ, assumed = request
    if assumed is not None:
        return RankCpus([None] * len(devices), "those of that machine are not known", {}), ()
    # What a cpuset, taskset or a batch system has taken away is not among them.
    available = tuple(sorted(os.sched_getaffinity(0)))
    of_ranks, bound, notes = _bind_ranks(config.bind, environ, backend, devices, available)
    fewest = min(len(available if own is None else own) for own in of_ranks)
    threads = {}
    is_given = _INTEROP_THREADS in request.job_environ
    if backend.holds_npus and fewest < _LEAST_INTEROP_THREADS and not is_given:
        threads[_INTEROP_THREADS] = str(_LEAST_INTEROP_THREADS)
        bound += f"; each has {_LEAST_INTEROP_THREADS} inter-op threads ({_INTEROP_THREADS})"
    return RankCpus(of_ranks, bound, threads), notes


def _bind_ranks(
    mode: str,
    environ: Mapping[str, str],
    backend: Type[Backend],
    devices: Sequence[RankDevice],
    available: _Cpus,
) -> Tuple[Sequence[Optional[_Cpus]], str, Tuple[str, ...]]:
    """Bind ranks; give the CPUs of each, where these come from, and what the user should know."""
    physical, count = list_physical(devices), len(devices)
    unbound: List[Optional[_Cpus]] = [None] * count
    if mode == "none":
        return unbound, Message(f"not pinned ({option('bind', 'none')})"), ()
    few = (_note_few_cpus(available, count, environ),) if len(available) < count else ()
    if mode == "auto" and len(physical) < count:
        on_other = Message(
            f"not pinned, because the ranks are on the {backend.name} ({option('bind', 'even')} "
            "pins them)"
        )
        # A small machine is no news to its user; that a scheduler keeps most of it back may be.
        return unbound, on_other, few if len(available) < (os.cpu_count() or 1) else ()
    if few:
        return unbound, f"not pinned; {format_count(len(available), 'CPU')} for {count} ranks", few
    if mode == "even":
        bound = f"each an equal part of {format_count(len(available), 'CPU')}"
        return _divide(available, count, environ), bound, ()
    return (*_bind_near(physical, available, environ), ())


def not_bound(rank: int, why: str) -> str:
    """Word the note about a rank that could not be bound; it runs all the same."""
    return (
        f"Could not pin rank {rank} to its CPUs ({why}); it runs on all CPUs available to the "
        "launcher."
    )


def _bind_near(
    devices: Sequence[PhysicalDeviceId], allowed: _Cpus, environ: Mapping[str, str]
) -> Tuple[List[_Cpus], str]:
    """Bind all ranks near their devices, or all evenly; ranks near the same CPUs share them.

    Returns:
        The CPUs of each rank, and where they come from.
    """
    from ascend_session.hardware.cpus import find_near_cpus

    near = find_near_cpus(environ)
    by_npu_smi = near.by_npu_smi
    nearby = [_within(near.find(device), allowed) for device in devices]
    why = ""
    if _overlap(nearby):  # npu-smi knows some devices, NUMA nodes others: go by one source
        by_npu_smi = {}
        nearby = [_within(near.by_node.get(device, ()), allowed) for device in devices]
        if _overlap(nearby) or not all(nearby):
            why = "some of them are near several devices that have others besides"
    if not why and not all(nearby):
        device = devices[nearby.index(())]
        why = f"none of them is near device {device}"
        if not near.find(device):
            why = f"the CPUs near device {device} are unknown"
    ranks_near: Dict[_Cpus, List[int]] = {}
    for rank, cpus in enumerate(nearby):
        ranks_near.setdefault(cpus, []).append(rank)
    for cpus, ranks in ranks_near.items():
        if not why and len(cpus) < len(ranks):
            why = (
                f"only {format_count(len(cpus), 'CPU')} of them for {len(ranks)} ranks are near "
                "their devices"
            )
    if why:
        reason = f"each an equal part of {format_count(len(allowed), 'CPU')}, for {why}"
        return _divide(allowed, len(devices), environ), reason
    share: Dict[int, _Cpus] = {}
    for cpus, ranks in ranks_near.items():
        share.update(zip(ranks, _divide(cpus, len(ranks), environ)))
    sources = {"npu-smi" if device in by_npu_smi else "NUMA nodes" for device in devices}
    reason = f"near each device, by {' and '.join(sorted(sources, reverse=True))}"
    return [share[rank] for rank in range(len(devices))], reason


def _within(cpus: Sequence[int], allowed: _Cpus) -> _Cpus:
    return tuple(sorted(set(cpus).intersection(allowed)))


def _overlap(nearby: Sequence[_Cpus]) -> bool:
    """Tell whether a CPU is near devices that do not have all of their CPUs in common."""
    different = set(nearby)
    return len(set().union(*different)) < sum(map(len, different))


def _divide(cpus: _Cpus, count: int, environ: Mapping[str, str]) -> List[_Cpus]:
    """Divide CPUs into parts that differ by one core at most.

    A core is split only if there are more parts than cores.
    """
    from ascend_session.hardware.cpus import group_by_core
    from ascend_session.hardware.nodes import host_root

    cores = group_by_core(cpus, host_root(environ))
    if len(cores) < count:
        cores = [(cpu,) for cpu in cpus]
    ends = [len(cores) * place // count for place in range(count + 1)]
    parts = (cores[begin:end] for begin, end in zip(ends, ends[1:]))
    return [tuple(sorted(cpu for core in part for cpu in core)) for part in parts]


def _note_few_cpus(allowed: _Cpus, ranks: int, environ: Mapping[str, str]) -> str:
    note = (
        f"The launcher may use {format_count(len(allowed), 'CPU')} for {ranks} ranks, so they are "
        "not pinned and share all CPUs."
    )
    if "OMPI_COMM_WORLD_RANK" in environ:
        note += " mpirun leaves a launcher all CPUs of its node with --bind-to none."
    if "SLURM_JOB_ID" in environ:
        note += " Slurm gives a task more with --cpus-per-task."
    return note
