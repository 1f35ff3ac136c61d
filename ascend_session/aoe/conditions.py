"""Check the conditions of a tuning run: machine, device, folders and software.

Sources: the manual of AOE, "To perform tuning in the single-device scenario, ensure that the
following conditions are met", tuning precautions and environment variables; the adapter's manual,
AOE.md: subgraphs are not tuned on A2 and A3. A GB of the manual counts as 2**30 bytes, as in
`df -h`.
"""

import math
import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple, Union

import psutil

from ascend_session.aoe.run import BANK, MOST_PARALLEL, Parallel, find_home, find_repository
from ascend_session.checks.availability import Holders, name_holder
from ascend_session.checks.toolkit import check_sourced
from ascend_session.cluster.variables import read_number
from ascend_session.config.tuning import MODES
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, NOT_CHECKED, OK, Finding
from ascend_session.hardware.device_report import Device, DeviceReport
from ascend_session.hardware.families import family
from ascend_session.hardware.program import find_program, run_program
from ascend_session.spelling import as_message, option, template_of

if TYPE_CHECKING:
    from ascend_session.config.ascend_config import AscendConfig

FAILS = "fails"
"""Verdict: the condition is not met. The others are `findings.OK` and `NOT_CHECKED`."""

Value = Union[int, float, str, None]

_GIB = 2**30

HOME_BYTES = 20 * 2**30
"""Free space needed in the home directory, bytes."""

ONE_USER, DEVICE_MEMORY = "one user", "device memory"
"""The conditions that fail only while another process holds the device."""

# The manual's formula for tuning operators: half of the CPU cores, at most 8, and 50 in reserve
_MOST_HALF, _RESERVE = 8, 50
_VERSION = re.compile(r"Python ([0-9]+)\.([0-9]+)[.0-9]*")
_OLDEST = (3, 7)
# Products on which AOE tunes training; subgraphs only on the first
_ABLE = tuple(str(family(chip)) for chip in ("910A", "910B", "910C"))
_MB = 2**20
ELSEWHERE = "Run this on the machine that will tune."
_NO_DEVICE = "This machine has no Ascend processor."


class TuningCondition(NamedTuple):
    """One condition of a tuning run.

    Attributes:
        name: The subject in a few words that stay the same: ``home disk``.
        verdict: ``ok``, ``fails`` or ``not checked``.
        measured: The value that was measured, in ``unit`` or as text; None if it is unknown.
        needed: The value that is needed, in the same form.
        message: The result of the check, in full sentences.
        hint: What to do; None if there is nothing to do.
        unit: ``bytes``, ``CPUs`` or another noun in the plural; empty for text.
        asks: The fields of `TuningFacts` without which it could not be checked, or ``config``.
    """

    name: str
    verdict: str
    measured: Value
    needed: Value
    message: str
    hint: Optional[str] = None
    unit: str = ""
    asks: Tuple[str, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        """Return the condition as plain values for JSON."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "measured": self.measured,
            "needed": self.needed,
            "unit": self.unit,
            "said": self.message,
            "todo": self.hint,
            "asks": list(self.asks),
        }


def judge(
    name: str,
    fulfilled: Optional[bool],
    measured: Value,
    needed: Value,
    message: str,
    hint: Optional[str] = None,
    unit: str = "",
    asks: Tuple[str, ...] = (),
) -> TuningCondition:
    """Make a condition from its result: True (met), False (fails) or None (not checked).

    The other arguments are fields of `TuningCondition`; a condition that is met gets no hint.
    """
    message, hint = as_message(message), None if hint is None else as_message(hint)
    if fulfilled:
        return TuningCondition(name, OK, measured, needed, message, None, unit)
    verdict = NOT_CHECKED if fulfilled is None else FAILS
    return TuningCondition(name, verdict, measured, needed, message, hint, unit, asks)


def _ask(
    name: str, measured: Value, needed: Value, message: str, unit: str, **facts: Optional[int]
) -> TuningCondition:
    """Make a condition that could not be checked because some ``facts`` are None."""
    asks = tuple(fact for fact, value in facts.items() if value is None)
    hint = f"Give {' and '.join(map(option, asks))}."
    return judge(name, None, measured, needed, message, hint, unit, asks)


def format_value(value: Value, unit: str = "") -> str:
    """Format a value: ``18.6 GiB``, ``74 CPUs``, ``off``; ``-`` for None.

    Sizes are rounded down to a tenth, so that a size below a limit never looks like the limit.
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if unit == "bytes":
        return f"{math.floor(value / _GIB * 10) / 10:g} GiB"
    return f"{value:g} {unit[:-1] if value == 1 else unit}".rstrip()


@dataclass(frozen=True)
class TuningFacts:
    """Facts about a tuning run that cannot be measured; None if the user does not know one.

    Attributes:
        processes: Processes of the training script (P in the manual's CPU formulas).
        training_memory: Host memory that the training needs, bytes.
        tuning_parallel_num: AOE's TUNING_PARALLEL_NUM, 1 to 64; None means that of aoe.ini.
        device_cores: AI cores of the device.
        operator_cores: The most AI cores that an operator of the model uses.
        device_memory: Device memory that the training needs, bytes.
        static_operators: Whether every operator of the model has a static shape.

    Raises:
        ConfigError: If a number is not a whole number of 1 or more, if TUNING_PARALLEL_NUM is
            above 64, or if ``static_operators`` is not True, False or None.
    """

    processes: int = 1
    training_memory: Optional[int] = None
    tuning_parallel_num: Optional[int] = None
    device_cores: Optional[int] = None
    operator_cores: Optional[int] = None
    device_memory: Optional[int] = None
    static_operators: Optional[bool] = None

    def __post_init__(self) -> None:
        problems = []
        for name, value in vars(self).items():
            unit = " bytes" if name.endswith("_memory") else ""
            if name == "static_operators" or (value is None and name != "processes"):
                continue
            if type(value) is not int or value < 1:
                message = f"{option(name, value)} is not a whole number of 1 or more{unit}."
                problems.append(Finding(ERROR, message, option=name))
        parallel = self.tuning_parallel_num
        if type(parallel) is int and parallel > MOST_PARALLEL:
            given = option("tuning_parallel_num", parallel)
            message = f"{given} is more than {MOST_PARALLEL}, AOE's limit."
            problems.append(Finding(ERROR, message, option="tuning_parallel_num"))
        if self.static_operators not in (None, True, False):
            given = option("static_operators", self.static_operators)
            message = f"{given} is neither True nor False."
            problems.append(Finding(ERROR, message, option="static_operators"))
        if problems:
            raise ConfigError.from_problems(problems, "the facts given")


def find_folder_fault(
    path: str, rights: int = os.R_OK | os.W_OK | os.X_OK
) -> Optional[Tuple[str, str]]:
    """Find why a folder cannot be used; None if it can.

    Args:
        path: The folder.
        rights: The rights that this user needs there, as for `os.access`.

    Returns:
        The end of a sentence that begins with the folder's path, and a hint.
    """
    if not os.path.exists(path):
        return "does not exist", f"mkdir -p {shlex.quote(path)}"
    if not os.path.isdir(path):
        return "is not a folder", "Give a folder."
    if not os.access(path, rights):
        needed = "readable and writable"
        if rights & os.X_OK:
            needed = "readable, writable and executable"
        return f"is not {needed} for this user", "Give another one, or change its rights."
    return None


class TuningRun(NamedTuple):
    """The facts about a tuning run and its machine from which the conditions are checked.

    Attributes:
        mode: What is tuned: ``"1"`` (subgraphs), ``"2"`` (operators) or ``"4"`` (gradients).
        environ: The environment of the run.
        root: Root of the host.
        report: The devices of the host.
        tuners: TUNING_PARALLEL_NUM.
        compilers: TE_PARALLEL_COMPILER.
        facts: The facts that the user gave.
        config: The configuration of the training script's session; None if not known.
        new_folders: Absolute paths of folders that are created before the run starts.
    """

    mode: str
    environ: Mapping[str, str]
    root: str
    report: DeviceReport
    tuners: Parallel
    compilers: Parallel
    facts: TuningFacts
    config: "Optional[AscendConfig]"
    new_folders: Tuple[str, ...] = ()

    def option(self, name: str) -> Any:
        """Return an option of the configuration; None if it is not set, or there is none."""
        return getattr(self.config, name, None)


def check_resources(run: TuningRun) -> Iterator[TuningCondition]:
    """Check disk, memory and CPUs of this machine."""
    yield _check_home(run.environ)
    tuners, message = run.tuners, f"{template_of(run.tuners.origin)}."
    yield judge(
        "TUNING_PARALLEL_NUM", tuners.legal, tuners.number, "1 to 64", message, "Correct aoe.ini."
    )
    yield _check_memory(run)
    yield _check_compilers(run)
    yield _check_cpus(run)
    yield _check_pinning()


def _check_home(environ: Mapping[str, str]) -> TuningCondition:
    home, free = find_home(environ), None
    hint = "Set HOME to a folder of the user who tunes."
    try:
        free_bytes = int(psutil.disk_usage(home).free)
    except OSError as error:
        state = f"cannot be looked at: {error.strerror}"
    else:
        state = "cannot be written to by this user"
        if os.access(home, os.W_OK | os.X_OK):
            free, state = free_bytes, f"has {format_value(free_bytes, 'bytes')} free"
            hint = "Free space there, or set HOME to a folder on another disk."
    fulfilled = free is not None and free >= HOME_BYTES
    message = f"The home directory {home} {state}."
    return judge("home disk", fulfilled, free, HOME_BYTES, message, hint, "bytes")


def _check_memory(run: TuningRun) -> TuningCondition:
    have = int(psutil.virtual_memory().available)
    each, tuners = run.facts.training_memory, run.tuners.legal_number
    message = f"{format_value(have, 'bytes')} of host memory are available."
    if each is None or (tuners is None and have >= each):
        message += f" The tuning needs {option('training_memory')} times TUNING_PARALLEL_NUM."
        return _ask(
            "memory", have, None, message, "bytes", training_memory=each, tuning_parallel_num=tuners
        )
    needed = each * (tuners or 1)
    times = tuners or "TUNING_PARALLEL_NUM, which is 1 or more"
    message += f" The training needs {format_value(each, 'bytes')}, times {times}."
    hint = "Stop other programs, or lower TUNING_PARALLEL_NUM in aoe.ini."
    return judge("memory", have >= needed, have, needed, message, hint, "bytes")


def _check_compilers(run: TuningRun) -> TuningCondition:
    """Check that it is at most 80 % of the CPUs for each device; the default never fails."""
    name, compilers, devices = "TE_PARALLEL_COMPILER", run.compilers, max(1, len(run.report))
    most = max(1, _count_cpus() * 4 // 5 // devices)
    if compilers.legal and compilers.is_set and (compilers.number or 0) > most:
        message = (
            f"{compilers.origin} is more than 80 % of the CPUs for each of {devices} device(s)."
        )
        hint = f"export TE_PARALLEL_COMPILER={most}"
        return judge(name, False, compilers.number, f"1 to {most}", message, hint)
    hint = "Correct or unset TE_PARALLEL_COMPILER."
    return judge(name, compilers.legal, compilers.number, "1 to 32", f"{compilers.origin}.", hint)


def _check_cpus(run: TuningRun) -> TuningCondition:
    """Compare with the manual's formula; an unknown number counts as 1."""
    have, processes = _count_cpus(), run.facts.processes
    message = f"This process may use {format_value(have, 'CPUs')}"
    if run.mode not in (MODES["operator"], MODES["subgraph"]):
        message += ". The manual has no formula for gradient tuning."
        return judge("CPUs", None, have, None, message, unit="CPUs")
    tuners, compilers = run.tuners.legal_number, run.compilers.legal_number
    threads, programs = tuners or "TUNING_PARALLEL_NUM", compilers or "TE_PARALLEL_COMPILER"
    if run.mode == MODES["subgraph"]:
        needed = processes * (2 * (tuners or 1) + (compilers or 1))
        formula = f"{processes} x (2 x {threads} + {programs})"
    else:
        each = (compilers or 1) + (tuners or 1) + min(have / 2, _MOST_HALF) + _RESERVE
        needed = math.ceil(processes * each)
        half = f"min({have}/2, {_MOST_HALF})"
        formula = f"{processes} x ({programs} + {threads} + {half} + {_RESERVE})"
    if have >= needed and (tuners is None or compilers is None):
        asks = ("tuning_parallel_num",) if tuners is None else ()
        hint = f"Give {option('tuning_parallel_num')}." if asks else "Correct TE_PARALLEL_COMPILER."
        message += f". Recommended: {formula}."
        return judge("CPUs", None, have, None, message, hint, "CPUs", asks)
    message += f". Recommended: {formula} = {needed}{' or more' if tuners is None else ''}."
    hint = "Tune on a host with more CPUs, or lower TUNING_PARALLEL_NUM and the processes."
    return judge("CPUs", have >= needed, have, needed, message, hint, "CPUs")


def _count_cpus() -> int:
    """Count the CPUs that this process may use, as `nproc` does."""
    return len(os.sched_getaffinity(0))


def _check_pinning() -> TuningCondition:
    usable = _count_cpus()
    every = max(usable, psutil.cpu_count() or usable)
    message = f"This process may use {usable} of the {every} CPUs that are online."
    hint = (
        "Start it without taskset or numactl; in a container, without --cpuset-cpus: the manual "
        "advises against pinning, which may spoil the result."
    )
    return judge("CPU pinning", usable >= every, usable, every, message, hint, "CPUs")


def check_device(run: TuningRun) -> Iterator[TuningCondition]:
    """Check the device on which the run tunes."""
    device = _find_device(run)
    yield _check_product(device, run.mode)
    yield _check_one_user(run.report, device)
    yield _check_cores(run.facts)
    yield _check_device_memory(device, run.facts)


def _find_device(run: TuningRun) -> Optional[Device]:
    """Find the device that the environment selects for the adapter; None if it is not here."""
    name = "ASCEND_DEVICE_ID" if run.environ.get("ASCEND_DEVICE_ID") else "DEVICE_ID"
    number = read_number(run.environ, name) or 0
    for device in run.report:
        device_number = device.logical_id if name == "ASCEND_DEVICE_ID" else device.physical_id
        if device_number is not None and (device_number == number or not run.environ.get(name)):
            return device
    return None


def _check_product(device: Optional[Device], mode: str) -> TuningCondition:
    able = _ABLE[:1] if mode == MODES["subgraph"] else _ABLE
    name, needed = "product", ", ".join(able)
    if device is None:
        return judge(name, None, None, needed, _NO_DEVICE, ELSEWHERE)
    if device.family is None:
        message = "npu-smi does not report which product the device is."
        return judge(name, None, None, needed, message, "Compare with `npu-smi info`.")
    hint = f"Tune on {' or '.join(able)}."
    if device.family in _ABLE:
        hint = "Tune operators: subgraphs cannot be tuned on A2 and A3."
    message = f"The device is {device.family}."
    return judge(name, device.family in able, device.family, needed, message, hint)


def _check_one_user(report: DeviceReport, device: Optional[Device]) -> TuningCondition:
    needed = "nobody else on the device"
    if device is None:
        return judge(ONE_USER, None, None, needed, _NO_DEVICE, ELSEWHERE)
    others = [name_holder(holder) for holder in device.holders if not holder.own]
    if others:
        message = f"The device is held by {' and '.join(others)}."
        hint = "Wait until it is free, or choose another device with ASCEND_DEVICE_ID."
        return judge(ONE_USER, False, f"{len(others)} on it", needed, message, hint)
    seen = Holders.from_report(report)
    if seen.hidden or seen.blind:
        message = " ".join(["Not every process that may hold the device is visible.", *seen.blind])
        return judge(ONE_USER, None, None, needed, message, "Check as root.")
    return judge(
        ONE_USER, True, "nobody", needed, "No other process that uses the device was found."
    )


def _check_cores(facts: TuningFacts) -> TuningCondition:
    name, have, needed = "device cores", facts.device_cores, facts.operator_cores
    if have is None or needed is None:
        message = "The cores of the device, and how many the operators use, cannot be measured."
        return _ask(name, have, needed, message, "cores", device_cores=have, operator_cores=needed)
    message = f"The device has {have} cores, and an operator uses up to {needed}."
    hint = "Tune on a device with as many cores as the operators use."
    return judge(name, have >= needed, have, needed, message, hint, "cores")


def _check_device_memory(device: Optional[Device], facts: TuningFacts) -> TuningCondition:
    free, needed = None, facts.device_memory
    if device is not None and device.memory_total_mb is not None:
        free = (device.memory_total_mb - (device.memory_used_mb or 0)) * _MB
    if free is None or needed is None:
        asks = ("device_memory",) if needed is None else ()
        message = "Device memory depends on the model and how far it is overcommitted."
        if free is not None:
            message += f" {format_value(free, 'bytes')} of it are free."
        hint = f"Give {option('device_memory')}." if asks else ELSEWHERE
        return judge(DEVICE_MEMORY, None, free, needed, message, hint, "bytes", asks)
    message = f"{format_value(free, 'bytes')} of the device's memory are free."
    hint = "Tune with a smaller batch, or on a device with more memory."
    return judge(DEVICE_MEMORY, free >= needed, free, needed, message, hint, "bytes")


def check_software(run: TuningRun) -> Iterator[TuningCondition]:
    """Check folders, Python and toolkit."""
    if run.mode != MODES["gradient"]:
        yield _check_repository(run)
    yield _check_repeating(run.environ)
    yield _check_result_folder(run)
    yield _check_python(run.environ)
    yield _check_sourced(run)


def _check_repository(run: TuningRun) -> TuningCondition:
    """Check that TUNE_BANK_PATH is readable, writable and executable, as the manual requires."""
    repository = find_repository(run.mode, run.environ)
    needed = "existing, rwx" if repository.variable == BANK else "rwx, or can be created"
    place = repository.base
    if repository.variable != BANK or place in run.new_folders:
        place = _find_existing(place)
    fault = find_folder_fault(place)
    message = f"The tuned repository will be {repository.path}."
    if fault is None:
        return judge("repository", True, repository.path, needed, message)
    predicate, hint = fault
    origin = f"which {repository.variable} names" if repository.variable else "where HOME points"
    message = f"{place}, {origin}, {predicate}; AOE exits with an error. {message}"
    return judge("repository", False, place, needed, message, hint)


def _check_repeating(environ: Mapping[str, str]) -> TuningCondition:
    """Say whether AOE tunes again what the repository already has.

    Source: the manual's Environment Variables, page "REPEAT_TUNE" (hiascend.com, canncommercial
    8.5.0, envref_07_0105).
    """
    name, needed = "REPEAT_TUNE", "True or False"
    word = environ.get(name) or "False"
    if word not in ("True", "False"):
        message = f"{name}={word!r} is neither of the manual's two values."
        return judge(name, None, word, needed, message, f"export {name}=True, or unset it.")
    message = (
        "AOE tunes again what the repository already has."
        if word == "True"
        else f"AOE skips what the repository already has; {name}=True tunes it again."
    )
    return judge(name, True, word, needed, message)


def _find_existing(path: str) -> str:
    """Return a path, or the nearest folder above it that exists."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _check_result_folder(run: TuningRun) -> TuningCondition:
    """Check the folder of result files: ASCEND_WORK_PATH, else the working directory."""
    given = run.environ.get("ASCEND_WORK_PATH")
    path = os.path.abspath(given or ".")
    origin = "ASCEND_WORK_PATH" if given else "the working directory"
    message, hint = f"Result files will be in {path}, {origin}.", None
    place = _find_existing(path) if path in run.new_folders else path
    fault = find_folder_fault(place)
    if fault is not None:
        predicate, hint = fault
        message = f"{message} {'It' if place == path else place} {predicate}."
    return judge("result folder", fault is None, path, "existing, rwx", message, hint)


def _check_python(environ: Mapping[str, str]) -> TuningCondition:
    """Check the first python3 on PATH, which AOE starts; the manual's example is 3.7.5."""
    name, needed = "Python", "3.7 or later"
    path = find_program("python3", environ, "/", ())
    if path is None:
        message = "AOE needs a python3 on PATH, and there is none."
        hint = "Put the folder of Python, as in /usr/local/python3.7.5/bin, first on PATH."
        return judge(name, False, None, needed, message, hint)
    answer = run_program([path, "--version"], environ)
    match = _VERSION.search(f"{answer.text}\n{answer.errors}")
    if match is None:
        message = answer.problem or f"{path} does not report its version."
        return judge(name, None, None, needed, message, "Check that Python.")
    enough = (int(match[1]), int(match[2])) >= _OLDEST
    version = match.group()[len("Python ") :]
    message = f"The first python3 on PATH is {path}, Python {version}."
    hint = "Put a newer Python first on PATH and LD_LIBRARY_PATH."
    return judge(name, enough, version, needed, message, hint)


def _check_sourced(run: TuningRun) -> TuningCondition:
    findings = list(check_sourced(run.environ, run.root))
    wrong = [finding for finding in findings if finding.severity != OK]
    measured = "sourced"
    if wrong:
        measured = "not" if any(finding.severity == ERROR for finding in wrong) else "in part"
    message = " ".join(finding.message for finding in findings)
    hint = " ".join(finding.hint for finding in wrong if finding.hint)
    return judge("set_env.sh", not wrong, measured, "sourced", message, hint)
