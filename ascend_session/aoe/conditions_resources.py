"""Conditions about this machine: disk, memory, CPUs.

Source: seed 003, "To perform tuning in the single-device scenario, ensure that the following
conditions are met"; options_notes d. A GB of the manual is taken as 2**30 bytes, as `df -h` does.
"""

import math
from typing import Iterator, NamedTuple, Optional, Tuple

from ascend_session.aoe.condition import FAILS, NOT_CHECKED, OK, Condition, judged, shown
from ascend_session.aoe.machine import Machine
from ascend_session.aoe.parallel import Parallel
from ascend_session.config.tuning import MODES

__all__ = ["HOME_BYTES", "Load", "cpus_needed", "resources"]

HOME_BYTES = 20 * 2**30
"""What has to be free in the home directory, bytes."""

_MOST_HALF = 8  # the formula counts half of the CPU cores, and not more than this
_RESERVE = 50


class Load(NamedTuple):
    """What a tuning run does to a machine.

    Attributes:
        mode: What is tuned: ``"1"``, ``"2"`` or ``"4"``.
        processes: Processes of the training script.
        training_memory: Host memory that the training needs, bytes; None if not known.
        tuners: TUNING_PARALLEL_NUM.
        compilers: TE_PARALLEL_COMPILER.
        devices: Devices of the host; 1 if there are none here.
    """

    mode: str
    processes: int
    training_memory: Optional[int]
    tuners: Parallel
    compilers: Parallel
    devices: int = 1


def resources(machine: Machine, load: Load) -> Iterator[Condition]:
    """The conditions about this machine."""
    yield _home(machine)
    yield _tuners(load.tuners)
    yield _memory(machine, load)
    yield _compilers(machine, load)
    yield _cpus(machine, load)
    yield _pinning(machine)


def cpus_needed(mode: str, processes: int, tuners: int, compilers: int, cores: int) -> int:
    """How many CPUs of the host the manual recommends; rounded up where half a core is counted.

    Args:
        mode: ``"2"`` for operators, ``"1"`` for subgraphs; there is no formula for another.
        processes: Processes of the training script.
        tuners: TUNING_PARALLEL_NUM.
        compilers: TE_PARALLEL_COMPILER.
        cores: CPU cores, as `nproc` counts them.
    """
    if mode == MODES["subgraph"]:
        return processes * (2 * tuners + compilers)
    each = compilers + tuners + min(cores / 2, _MOST_HALF) + _RESERVE
    return math.ceil(processes * each)


def _home(machine: Machine) -> Condition:
    free, home = machine.home_free, machine.home
    if free is None:
        said = f"The home directory {home} {machine.home_problem}."
        todo = "Set HOME to a directory of the user who tunes."
        return Condition("home disk", FAILS, None, HOME_BYTES, "bytes", said, todo)
    said = f"The home directory {home} has {shown(free, 'bytes')} free."
    todo = "Make room there, or set HOME to a directory on another disk."
    return judged("home disk", free >= HOME_BYTES, free, HOME_BYTES, "bytes", said, todo)


def _tuners(tuners: Parallel) -> Condition:
    name, needed = "TUNING_PARALLEL_NUM", "1 to 64"
    if not tuners.legal:
        todo = "Mend aoe.ini."
        return Condition(name, FAILS, tuners.number, needed, "", f"{tuners.origin}.", todo)
    if tuners.number is None:
        said = f"TUNING_PARALLEL_NUM is not known: {tuners.origin}."
        todo = "Give tuning_parallel_num; AOE's default is 8."
        asks = ("tuning_parallel_num",)
        return Condition(name, NOT_CHECKED, None, needed, "", said, todo, asks)
    return Condition(name, OK, tuners.number, needed, "", f"{_upper(tuners.origin)}.")


def _memory(machine: Machine, load: Load) -> Condition:
    have, each, tuners = machine.memory, load.training_memory, load.tuners.number
    known = load.tuners.legal and tuners is not None
    said = f"{shown(have, 'bytes')} of host memory are available."
    if machine.is_limited:
        said = (
            f"{shown(have, 'bytes')} of memory are left by the limit of the control group, as of a "
            "container or batch job."
        )
    if each is None or (not known and have >= each):
        asks = ["training_memory"] * (each is None) + ["tuning_parallel_num"] * (not known)
        said = f"{said} What is needed is training_memory times TUNING_PARALLEL_NUM."
        todo = f"Give {' and '.join(asks)}."
        return Condition("memory", NOT_CHECKED, have, None, "bytes", said, todo, tuple(asks))
    needed = each * (tuners if known and tuners is not None else 1)
    times = f"{tuners}" if known else "TUNING_PARALLEL_NUM, which is 1 or more"
    said = f"{said} Needed are {shown(each, 'bytes')} for the training, times {times}."
    todo = "End other programs, or lower TUNING_PARALLEL_NUM in aoe.ini."
    return judged("memory", have >= needed, have, needed, "bytes", said, todo)


def _compilers(machine: Machine, load: Load) -> Condition:
    """At most 80 % of the CPU cores for each device (options_notes b); the default is as it is."""
    name, compilers, needed = "TE_PARALLEL_COMPILER", load.compilers, "1 to 32"
    if not compilers.legal:
        todo = "Mend or unset TE_PARALLEL_COMPILER."
        return Condition(name, FAILS, compilers.number, needed, "", f"{compilers.origin}.", todo)
    most = max(1, machine.cpus * 4 // 5 // load.devices)
    if compilers.number is None or not compilers.is_set or compilers.number <= most:
        return Condition(name, OK, compilers.number, needed, "", f"{compilers.origin}.")
    said = f"{compilers.origin} is more than 80 % of the CPUs for each of {load.devices} device(s)."
    todo = f"export TE_PARALLEL_COMPILER={most}"
    return Condition(name, FAILS, compilers.number, f"1 to {most}", "", said, todo)


def _cpus(machine: Machine, load: Load) -> Condition:
    tuners, compilers = load.tuners, load.compilers
    have, said = _usable(machine)
    if load.mode not in (MODES["operator"], MODES["subgraph"]):
        said = f"{said} The manual has no formula for gradient tuning."
        return Condition("CPUs", NOT_CHECKED, have, None, "CPUs", said)
    known = tuners.legal and tuners.number is not None
    number = tuners.number if known and tuners.number is not None else 1
    count = compilers.number if compilers.legal and compilers.number is not None else 1
    needed = cpus_needed(load.mode, load.processes, number, count, machine.cpus)
    formula = _formula(load, str(number) if known else "TUNING_PARALLEL_NUM", machine.cpus)
    enough = have >= needed
    if enough and not (known and compilers.legal):
        asks = () if known else ("tuning_parallel_num",)
        todo = "Give tuning_parallel_num." if asks else "Mend TE_PARALLEL_COMPILER."
        said = f"{said} Recommended are {formula}."
        return Condition("CPUs", NOT_CHECKED, have, None, "CPUs", said, todo, asks)
    said = f"{said} Recommended are {formula} = {needed}{'' if known else ' or more'}."
    todo = "Tune on a host with more CPUs, or lower TUNING_PARALLEL_NUM and the processes."
    return judged("CPUs", enough, have, needed, "CPUs", said, todo)


def _usable(machine: Machine) -> Tuple[int, str]:
    """How many CPUs there are to tune with, and a sentence about them."""
    cpus, quota = machine.cpus, machine.quota
    said = f"This process may use {shown(cpus, 'CPUs')}"
    if quota is None or quota >= cpus:
        return cpus, f"{said}."
    said = f"{said}, but its control group lets it have the time of {quota:g} of them."
    return math.floor(quota), said


def _formula(load: Load, tuners: str, cores: int) -> str:
    compilers = load.compilers.number if load.compilers.legal else "TE_PARALLEL_COMPILER"
    if load.mode == MODES["subgraph"]:
        return f"{load.processes} x (2 x {tuners} + {compilers})"
    half = f"min({cores}/2, {_MOST_HALF})"
    return f"{load.processes} x ({compilers} + {tuners} + {half} + {_RESERVE})"


def _pinning(machine: Machine) -> Condition:
    own, every = machine.cpus, machine.all_cpus
    said = f"This process may use {own} of the {every} CPUs that are online."
    todo = (
        "Start it without taskset or numactl; in a container, without --cpuset-cpus: the manual "
        "advises against binding, for it may spoil the result."
    )
    return judged("CPU pinning", own >= every, own, every, "CPUs", said, todo)


def _upper(text: str) -> str:
    return text if text.startswith(("tuning_", "/")) else text[:1].upper() + text[1:]
