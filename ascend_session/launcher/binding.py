"""``--bind``: which CPUs each rank gets.

Scripts bind ranks by ``taskset`` to an eighth of all CPUs that the machine has
(guides/facts/launch.md#binding-to-cpus). That leaves the machine at rank 8, asks for CPUs that a
container or a batch job does not have, and crosses NUMA nodes. Here only CPUs count that the
launcher itself may use, and the rank's place on this server counts, not its number.
"""

import os
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.ids import PhysicalDeviceId

BINDINGS = ("auto", "even", "none")

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
