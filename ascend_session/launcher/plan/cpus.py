"""The CPUs that each rank of this server may use, as `LaunchConfig.bind` says.

Scripts bind ranks by ``taskset`` to an eighth of all CPUs that the machine has. That leaves the
machine at rank 8, asks for CPUs that a container or a batch job does not have, and crosses NUMA
nodes. Here only CPUs count that the launcher itself may use, and the rank's place on this server
counts, not its number.

Source: guides/facts/launch.md#binding-to-cpus
"""

import os
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from ascend_session.backends.base import Backend
from ascend_session.ids import PhysicalDeviceId
from ascend_session.launcher.plan.decided import Decided, Request
from ascend_session.launcher.plan.devices import RankDevice, list_physical
from ascend_session.spelling import Message, option
from ascend_session.text import format_count

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
