"""``--bind``: which CPUs each rank gets.

Scripts bind ranks by ``taskset`` to an eighth of all CPUs that the machine has (launch_facts.md, C;
the vendor's common_operation/cpu_core_binding.md says so). That leaves the machine at rank 8, asks
for CPUs that a container or a batch job does not have, and crosses NUMA nodes. Here only CPUs count
that the launcher itself may use, and the rank's place on this server counts, not its number.
"""

import os
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.hardware.cpus import cores_of
from ascend_session.hardware.nodes import host_root
from ascend_session.ids import PhysicalDeviceId

__all__ = ["BINDINGS", "Binding", "bind", "not_bound"]

BINDINGS = ("auto", "even", "none")

_Cpus = Tuple[int, ...]


class Binding(NamedTuple):
    """What was decided.

    Attributes:
        cpus: Of each rank on this server, ascending; None for one that is not bound.
        said: How they were found, or why there are none, in a few words.
        notes: What the user should know, in sentences.
    """

    cpus: Tuple[Optional[_Cpus], ...]
    said: str
    notes: Tuple[str, ...] = ()


def bind(
    mode: str,
    devices: Sequence[Optional[PhysicalDeviceId]],
    environ: Mapping[str, str],
    allowed: Optional[Sequence[int]] = None,
) -> Binding:
    """Decide where the ranks on this server run.

    Args:
        mode: ``auto``: near the devices, if there are any; ``even``: each the same share;
            ``none``: wherever the kernel likes.
        devices: The device of each rank; None on the stub.
        environ: The launcher's environment, which names the host to look at. ``npu-smi`` runs,
            with a time limit, for ``auto`` on devices.
        allowed: The CPUs to share; None means those that this process may use.
    """
    there = [device for device in devices if device is not None]
    if mode == "none":
        return _unbound(len(devices), "not bound, as asked for")
    # What a cpuset, taskset or a batch system has taken away is not among them.
    cpus = tuple(sorted(os.sched_getaffinity(0) if allowed is None else allowed))
    if mode == "auto" and len(there) < len(devices):
        description = "not bound, for the ranks are on the stub (bind='even' binds them)"
        # A small machine is no news to its user; that a scheduler keeps most of it back may be.
        kept_back = len(cpus) < min(len(devices), os.cpu_count() or 1)
        few = _too_few(cpus, len(devices), environ).notes if kept_back else ()
        return _unbound(len(devices), description, *few)
    if len(cpus) < len(devices):
        return _too_few(cpus, len(devices), environ)
    if mode == "auto":
        return _near(there, cpus, environ)
    return _even(len(devices), cpus, environ, f"each an equal part of {_count(cpus)}")


def not_bound(rank: int, why: str) -> str:
    """Give the sentence for a rank that could not be bound; it runs all the same."""
    return (
        f"Rank {rank} could not be bound to its CPUs ({why}), and runs on all that the launcher "
        "may use."
    )


def _near(
    devices: Sequence[PhysicalDeviceId], allowed: _Cpus, environ: Mapping[str, str]
) -> Binding:
    """Bind near the devices if that can be for all; ranks with the same CPUs nearby share them."""
    from ascend_session.hardware.cpus import near_cpus

    near = near_cpus(environ)
    nearby = _nearby(devices, allowed, near.of)
    by_nodes = _overlap(nearby)
    if by_nodes:  # npu-smi and NUMA nodes each say something of some devices
        nearby = _nearby(devices, allowed, lambda device: near.by_node.get(device, ()))
        if _overlap(nearby) or not all(nearby):
            why = "some of them are near several devices that have others besides"
            return _even(len(devices), allowed, environ, _instead(allowed, why))
    for device, cpus in zip(devices, nearby):
        if not cpus:
            why = f"none of them is near device {device}"
            if not near.of(device):
                why = f"it is not known which are near device {device}"
            return _even(len(devices), allowed, environ, _instead(allowed, why))
    sharing: Dict[_Cpus, List[int]] = {}
    for rank, cpus in enumerate(nearby):
        sharing.setdefault(cpus, []).append(rank)
    cpus_of: Dict[int, _Cpus] = {}
    for cpus, ranks in sharing.items():
        if len(cpus) < len(ranks):
            why = f"only {_count(cpus)} of them for {len(ranks)} ranks are near their devices"
            return _even(len(devices), allowed, environ, _instead(allowed, why))
        cpus_of.update(zip(ranks, _shares(cpus, len(ranks), environ)))
    said_of = {} if by_nodes else near.by_npu_smi
    sources = {"npu-smi" if device in said_of else "NUMA nodes" for device in devices}
    description = f"near each device, by {' and '.join(sorted(sources, reverse=True))}"
    return Binding(tuple(cpus_of[rank] for rank in range(len(devices))), description)


def _nearby(
    devices: Sequence[PhysicalDeviceId],
    allowed: _Cpus,
    known: Callable[[PhysicalDeviceId], Sequence[int]],
) -> List[_Cpus]:
    """Give the CPUs near each device that may be used, ascending."""
    return [tuple(sorted(set(known(device)).intersection(allowed))) for device in devices]


def _overlap(nearby: Sequence[_Cpus]) -> bool:
    """Tell whether a CPU is near devices that do not have all of their CPUs in common."""
    different = set(nearby)
    return len(set().union(*different)) < sum(map(len, different))


def _even(ranks: int, allowed: _Cpus, environ: Mapping[str, str], description: str) -> Binding:
    return Binding(tuple(_shares(allowed, ranks, environ)), description)


def _shares(cpus: _Cpus, count: int, environ: Mapping[str, str]) -> List[_Cpus]:
    """Divide CPUs into parts that differ by one core at most.

    A core is torn only if there are more parts than cores.
    """
    cores = cores_of(cpus, host_root(environ))
    if len(cores) < count:
        cores = [(cpu,) for cpu in cpus]
    ends = [len(cores) * place // count for place in range(count + 1)]
    parts = (cores[begin:end] for begin, end in zip(ends, ends[1:]))
    return [tuple(sorted(cpu for core in part for cpu in core)) for part in parts]


def _unbound(ranks: int, description: str, *notes: str) -> Binding:
    return Binding((None,) * ranks, description, notes)


def _too_few(allowed: _Cpus, ranks: int, environ: Mapping[str, str]) -> Binding:
    note = (
        f"The launcher may use {_count(allowed)} and there are {ranks} ranks: they are not bound "
        "and share what there is."
    )
    if "OMPI_COMM_WORLD_RANK" in environ:
        note += " mpirun leaves a launcher all CPUs of its node with --bind-to none."
    if "SLURM_JOB_ID" in environ:
        note += " Slurm gives a task more with --cpus-per-task."
    return _unbound(ranks, f"not bound; {_count(allowed)} for {ranks} ranks", note)


def _instead(allowed: _Cpus, why: str) -> str:
    return f"each an equal part of {_count(allowed)}, for {why}"


def _count(cpus: _Cpus) -> str:
    return f"{len(cpus)} CPU{'' if len(cpus) == 1 else 's'}"
