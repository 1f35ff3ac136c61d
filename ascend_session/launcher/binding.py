"""``--bind``: which CPUs each rank gets.

Scripts bind ranks by ``taskset`` to an eighth of all CPUs that the machine has (launch_facts.md, C;
the vendor's common_operation/cpu_core_binding.md says so). That leaves the machine at rank 8, asks
for CPUs that a container or a batch job does not have, and crosses NUMA nodes. Here only CPUs count
that the launcher itself may use, and the rank's place on this server counts, not its number.
"""

import os
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

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
    asked: str,
    devices: Sequence[Optional[PhysicalDeviceId]],
    environ: Mapping[str, str],
    allowed: Optional[Sequence[int]] = None,
) -> Binding:
    """Decides where the ranks on this server run.

    Args:
        asked: ``auto``: near the devices, if there are any; ``even``: each the same share;
            ``none``: wherever the kernel likes.
        devices: The device of each rank; None on the stub.
        environ: The launcher's environment, which names the host to look at. ``npu-smi`` runs,
            with a time limit, for ``auto`` on devices.
        allowed: The CPUs to share; None means those that this process may use.
    """
    there = [device for device in devices if device is not None]
    if asked == "none":
        return _unbound(len(devices), "not bound, as asked for")
    if asked == "auto" and len(there) < len(devices):
        return _unbound(
            len(devices), "not bound, for the ranks are on the stub (bind='even' binds them)"
        )
    # What a cpuset, taskset or a batch system has taken away is not among them.
    cpus = tuple(sorted(os.sched_getaffinity(0) if allowed is None else allowed))
    if len(cpus) < len(devices):
        return _too_few(cpus, len(devices), environ)
    if asked == "auto":
        return _near(there, cpus, environ)
    return _even(len(devices), cpus, environ, f"each an equal part of {_count(cpus)}")


def not_bound(rank: int, why: str) -> str:
    """The sentence for a rank that could not be bound; it runs all the same."""
    return (
        f"Rank {rank} could not be bound to its CPUs ({why}), and runs on all that the launcher "
        "may use."
    )


def _near(
    devices: Sequence[PhysicalDeviceId], allowed: _Cpus, environ: Mapping[str, str]
) -> Binding:
    """Near the devices if that can be for all; ranks with the same CPUs nearby share them."""
    from ascend_session.hardware.nearness import near_cpus

    near = near_cpus(environ)
    sharing: Dict[_Cpus, List[int]] = {}
    for rank, device in enumerate(devices):
        nearby = tuple(sorted(set(near.of(device)).intersection(allowed)))
        if not nearby:
            why = f"none of them is near device {device}"
            if not near.of(device):
                why = f"it is not known which are near device {device}"
            return _even(len(devices), allowed, environ, _instead(allowed, why))
        sharing.setdefault(nearby, []).append(rank)
    found: Dict[int, _Cpus] = {}
    for nearby, ranks in sharing.items():
        if len(nearby) < len(ranks):
            why = f"only {_count(nearby)} of them for {len(ranks)} ranks are near their devices"
            return _even(len(devices), allowed, environ, _instead(allowed, why))
        found.update(zip(ranks, _shares(nearby, len(ranks), environ)))
    sources = {"npu-smi" if device in near.said else "NUMA nodes" for device in devices}
    said = f"near each device, by {' and '.join(sorted(sources, reverse=True))}"
    return Binding(tuple(found[rank] for rank in range(len(devices))), said)


def _even(ranks: int, allowed: _Cpus, environ: Mapping[str, str], said: str) -> Binding:
    return Binding(tuple(_shares(allowed, ranks, environ)), said)


def _shares(cpus: _Cpus, count: int, environ: Mapping[str, str]) -> List[_Cpus]:
    """Parts that differ by one core at most; a core is torn only if there are more parts."""
    cores = cores_of(cpus, host_root(environ))
    if len(cores) < count:
        cores = [(cpu,) for cpu in cpus]
    ends = [len(cores) * place // count for place in range(count + 1)]
    parts = (cores[begin:end] for begin, end in zip(ends, ends[1:]))
    return [tuple(sorted(cpu for core in part for cpu in core)) for part in parts]


def _unbound(ranks: int, said: str, *notes: str) -> Binding:
    return Binding((None,) * ranks, said, notes)


def _too_few(allowed: _Cpus, ranks: int, environ: Mapping[str, str]) -> Binding:
    note = (
        f"The launcher may use {_count(allowed)} and there are {ranks} ranks: they are not bound "
        "and share what there is."
    )
    if "SLURM_JOB_ID" in environ:
        note += " Slurm gives a task more with --cpus-per-task."
    return _unbound(ranks, f"not bound; {_count(allowed)} for {ranks} ranks", note)


def _instead(allowed: _Cpus, why: str) -> str:
    return f"each an equal part of {_count(allowed)}, for {why}"


def _count(cpus: _Cpus) -> str:
    return f"{len(cpus)} CPU{'' if len(cpus) == 1 else 's'}"
