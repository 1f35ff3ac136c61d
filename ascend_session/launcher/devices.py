"""Where the ranks of this server run: the device of each, and with ``--bind`` its CPUs.

Only the Atlas training series limits which devices a job may have, and only it and A2 have jobs
without a rank table.

Scripts bind ranks by ``taskset`` to an eighth of all CPUs that the machine has. That leaves the
machine at rank 8, asks for CPUs that a container or a batch job does not have, and crosses NUMA
nodes. Here only CPUs count that the launcher itself may use, and the rank's place on this server
counts, not its number.

Source: guides/facts/launch.md#sizes-of-a-job, guides/facts/launch.md#jobs-without-a-rank-table,
guides/facts/launch.md#binding-to-cpus
"""

import os
import re
from collections import Counter
from typing import (
    TYPE_CHECKING,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
    Union,
)

from ascend_session.errors import DeviceError, JobError
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.text import format_count

if TYPE_CHECKING:
    from ascend_session.backends.base import Backend

_EXAMPLE = 'Write logical ids, from 0, as in "0-3,6".'


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
    given: Union[str, Sequence[int], None],
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
    missing = [str(number) for number in ids if int(number) >= count]
    if missing:
        available = f"The {backend.name} has {count} devices, 0 to {count - 1}"
        nodes = [str(number) for number in found.physical if number is not None]
        if nodes:
            available = (
                f"This server gives a process {count} device(s), 0 to {count - 1} (physical "
                f"{', '.join(nodes)})"
            )
        raise DeviceError(
            f"{available}; this launch needs {format_count(len(ids), 'device')}, but there is no "
            f"device {', '.join(missing)}.",
            hint="`ascend-session devices` lists the devices.",
        )
    devices = tuple(RankDevice(number, found.physical[int(number)]) for number in ids)
    physical = [device.physical for device in devices if device.physical is not None]
    checked = check_devices(physical, environ) if backend.holds_npus else []
    return devices, (*found.notes, *checked)


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


_Cpus = Tuple[int, ...]


class Binding(NamedTuple):
    """The CPUs of the ranks on this server.

    Attributes:
        cpus: Of each rank, ascending; None for one that is not bound.
        reason: Where they come from, or why there are none, in a few words.
        notes: What the user should know, in sentences.
    """

    cpus: Tuple[Optional[_Cpus], ...]
    reason: str
    notes: Tuple[str, ...] = ()


def bind(
    mode: str,
    backend: str,
    devices: Sequence[Optional[PhysicalDeviceId]],
    environ: Mapping[str, str],
    allowed: Optional[Sequence[int]] = None,
) -> Binding:
    """Decide where the ranks on this server run.

    Args:
        mode: ``auto``: near Ascend devices, if there are any; ``even``: the same share for each;
            ``none``: wherever the kernel likes.
        backend: Name of the ranks' backend.
        devices: The Ascend device of each rank; None on other backends.
        environ: The launcher's environment, which names the host to look at. ``npu-smi`` runs,
            with a time limit, for ``auto`` on devices.
        allowed: The CPUs to share; None means those that this process may use.
    """
    count = len(devices)
    if mode == "none":
        return _unbound(count, "not bound (bind='none')")
    # What a cpuset, taskset or a batch system has taken away is not among them.
    cpus = tuple(sorted(os.sched_getaffinity(0) if allowed is None else allowed))
    physical = [device for device in devices if device is not None]
    if mode == "auto" and len(physical) < count:
        reason = f"not bound, because the ranks are on the {backend} (bind='even' binds them)"
        # A small machine is no news to its user; that a scheduler keeps most of it back may be.
        kept_back = len(cpus) < min(count, os.cpu_count() or 1)
        return _unbound(count, reason, *([_too_few(cpus, count, environ)] if kept_back else ()))
    if len(cpus) < count:
        reason = f"not bound; {_count(cpus)} for {count} ranks"
        return _unbound(count, reason, _too_few(cpus, count, environ))
    if mode == "auto":
        return _bind_near(physical, cpus, environ)
    return Binding(tuple(_divide(cpus, count, environ)), f"each an equal part of {_count(cpus)}")


def not_bound(rank: int, why: str) -> str:
    """Word the note about a rank that could not be bound; it runs all the same."""
    return (
        f"Rank {rank} could not be bound to its CPUs ({why}), and runs on all that the launcher "
        "may use."
    )


def _bind_near(
    devices: Sequence[PhysicalDeviceId], allowed: _Cpus, environ: Mapping[str, str]
) -> Binding:
    """Bind all ranks near their devices, or all evenly; ranks near the same CPUs share them."""
    from ascend_session.hardware.cpus import near_cpus

    near = near_cpus(environ)
    by_npu_smi = near.by_npu_smi
    nearby = [_within(near.of(device), allowed) for device in devices]
    why = ""
    if _overlap(nearby):  # npu-smi knows some devices, NUMA nodes others: go by one source
        by_npu_smi = {}
        nearby = [_within(near.by_node.get(device, ()), allowed) for device in devices]
        if _overlap(nearby) or not all(nearby):
            why = "some of them are near several devices that have others besides"
    if not why and not all(nearby):
        device = devices[nearby.index(())]
        why = f"none of them is near device {device}"
        if not near.of(device):
            why = f"the CPUs near device {device} are unknown"
    ranks_near: Dict[_Cpus, List[int]] = {}
    for rank, cpus in enumerate(nearby):
        ranks_near.setdefault(cpus, []).append(rank)
    for cpus, ranks in ranks_near.items():
        if not why and len(cpus) < len(ranks):
            why = f"only {_count(cpus)} of them for {len(ranks)} ranks are near their devices"
    if why:
        reason = f"each an equal part of {_count(allowed)}, for {why}"
        return Binding(tuple(_divide(allowed, len(devices), environ)), reason)
    share: Dict[int, _Cpus] = {}
    for cpus, ranks in ranks_near.items():
        share.update(zip(ranks, _divide(cpus, len(ranks), environ)))
    sources = {"npu-smi" if device in by_npu_smi else "NUMA nodes" for device in devices}
    reason = f"near each device, by {' and '.join(sorted(sources, reverse=True))}"
    return Binding(tuple(share[rank] for rank in range(len(devices))), reason)


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
    from ascend_session.hardware.cpus import cores_of
    from ascend_session.hardware.nodes import host_root

    cores = cores_of(cpus, host_root(environ))
    if len(cores) < count:
        cores = [(cpu,) for cpu in cpus]
    ends = [len(cores) * place // count for place in range(count + 1)]
    parts = (cores[begin:end] for begin, end in zip(ends, ends[1:]))
    return [tuple(sorted(cpu for core in part for cpu in core)) for part in parts]


def _unbound(ranks: int, reason: str, *notes: str) -> Binding:
    return Binding((None,) * ranks, reason, notes)


def _too_few(allowed: _Cpus, ranks: int, environ: Mapping[str, str]) -> str:
    note = (
        f"The launcher may use {_count(allowed)} and there are {ranks} ranks: they are not bound "
        "and share what there is."
    )
    if "OMPI_COMM_WORLD_RANK" in environ:
        note += " mpirun leaves a launcher all CPUs of its node with --bind-to none."
    if "SLURM_JOB_ID" in environ:
        note += " Slurm gives a task more with --cpus-per-task."
    return note


def _count(cpus: _Cpus) -> str:
    return f"{len(cpus)} CPU{'' if len(cpus) == 1 else 's'}"
