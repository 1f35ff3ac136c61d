"""The conditions of a tuning run, and those about its configuration and variables.

Sources: the manual of AOE (tuning precautions); the adapter's npu_attrs.cc and geop_npu.cc, and its
manual AOE.md (products, work_path).
"""

import math
import os
import shlex
import warnings
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from ascend_session.cluster.variables import read_size
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.tuning import MODES, mode_word
from ascend_session.errors import AscendConfigWarning, ConfigError
from ascend_session.findings import ERROR, NOT_CHECKED, OK, Finding
from ascend_session.option_files import AoeConfigFile

FAILS = "fails"
"""Measured, and not as tuning needs it; the other verdicts are `findings.OK` and `NOT_CHECKED`."""

MOST_PARALLEL = 64
"""The highest TUNING_PARALLEL_NUM (the vendor's manual of AOE, configuration file aoe.ini)."""

Value = Union[int, float, str, None]

_GIB = 2**30
_STATIC = "GE_USE_STATIC_MEMORY"
# What has a condition of its own, or what for_tuning has changed before.
_CHECKED_ELSEWHERE = (
    "TUNE_BANK_PATH",
    "aoe_config_file",
    "profiling_mode",
    "static_memory_policy",
    "work_path",
)


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
        asks: The members of `KnownFacts` that are missing, or ``config`` for the configuration.
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
        """Return the condition as plain values, which JSON can hold."""
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
    """Make a condition that is fulfilled, is not, or (None) could not be checked.

    The other arguments are those of `TuningCondition`; a fulfilled one has no hint.
    """
    if fulfilled:
        return TuningCondition(name, OK, measured, needed, message, None, unit)
    verdict = NOT_CHECKED if fulfilled is None else FAILS
    return TuningCondition(name, verdict, measured, needed, message, hint, unit, asks)


def format_value(value: Value, unit: str = "") -> str:
    """Format a value for a person: ``18.6 GiB``, ``74 CPUs``, ``off``; ``-`` for an unknown one.

    Sizes are rounded down to a tenth, so that one that is too small never looks large enough.
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if unit == "bytes":
        return f"{math.floor(value / _GIB * 10) / 10:g} GiB"
    return f"{value:g} {unit[:-1] if value == 1 else unit}".rstrip()


@dataclass(frozen=True)
class KnownFacts:
    """Facts of a tuning run that only the user knows; None for an unknown one.

    Attributes:
        processes: Processes of the training script, which are the P of the CPU formulas.
        training_memory: Host memory that the training needs, bytes.
        tuning_parallel_num: AOE's TUNING_PARALLEL_NUM, 1 to 64; None means that of aoe.ini.
        device_cores: AI cores of the device.
        operator_cores: The most cores that an operator of the model uses.
        device_memory: Memory of the device that the training needs, bytes.
        static_operators: Whether every operator of the model has a static shape.

    Raises:
        ConfigError: For numbers that cannot be.
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
                message = f"{name}={value!r} is not a whole number of 1 or more{unit}."
                problems.append(Finding(ERROR, message, option=name))
        parallel = self.tuning_parallel_num
        if type(parallel) is int and parallel > MOST_PARALLEL:
            message = f"tuning_parallel_num={parallel} is more than {MOST_PARALLEL}, AOE's limit."
            problems.append(Finding(ERROR, message, option="tuning_parallel_num"))
        if self.static_operators not in (None, True, False):
            message = f"static_operators={self.static_operators!r} is neither True nor False."
            problems.append(Finding(ERROR, message, option="static_operators"))
        if problems:
            raise ConfigError.of(problems, "what was asked")


class FolderFault(NamedTuple):
    """What is wrong with a folder.

    Attributes:
        predicate: The end of a sentence that begins with its name.
        hint: What to do, as a sentence.
    """

    predicate: str
    hint: str


def find_folder_fault(
    path: str, rights: int = os.R_OK | os.W_OK | os.X_OK
) -> Optional[FolderFault]:
    """Find what is wrong with a folder; None if it can be used.

    Args:
        path: The folder.
        rights: What this user must be allowed to do there, as for `os.access`.
    """
    if not os.path.exists(path):
        return FolderFault("does not exist", f"mkdir -p {shlex.quote(path)}")
    if not os.path.isdir(path):
        return FolderFault("is not a folder", "Give a folder.")
    if not os.access(path, rights):
        needed = (
            "readable, writable and executable" if rights & os.X_OK else "readable and writable"
        )
        return FolderFault(
            f"is not {needed} for this user", "Give another one, or change its rights."
        )
    return None


class PlannedRun(NamedTuple):
    """A tuning run, as it would be started.

    Attributes:
        mode: What is to be tuned: ``"1"``, ``"2"`` or ``"4"``.
        config: What the training script opens its session with; None if not known.
        environ: The environment of the run.
        static_operators: What the user says of the model's operators; None for nothing.
    """

    mode: str
    config: Optional[AscendConfig]
    environ: Mapping[str, str]
    static_operators: Optional[bool]


def check_configuration(run: PlannedRun) -> Iterator[TuningCondition]:
    """Check the configuration and the variables."""
    yield _check_mode(run)
    yield _check_static_memory(run)
    yield _check_profiling(run)
    yield _check_one_device(run)
    yield _check_static_operators(run)
    yield _check_work_path(run)
    yield from _check_aoe_config_file(run)
    yield from _check_rest(run)


def _check_mode(run: PlannedRun) -> TuningCondition:
    """Check in which mode the adapter would tune: the option comes before the variable."""
    variable = run.environ.get("AOE_MODE") or None
    option = None if run.config is None else run.config.aoe_mode
    if option or variable:
        message = f"aoe_mode={option} counts." if option else f"AOE_MODE={variable} counts."
        hint = f"Say {mode_word(run.mode)} ({run.mode}) there, or remove it."
        measured = option or variable
        return judge("mode", measured == run.mode, measured, run.mode, message, hint)
    message = "Neither aoe_mode nor AOE_MODE says what to tune."
    if run.config is None:
        message = "AOE_MODE is not set, and no configuration was given."
    hint = f"`ascend-session aoe run` sets AOE_MODE={run.mode}; or use cfg.for_tuning()."
    asks = ("config",) if run.config is None else ()
    return judge("mode", None, None, run.mode, message, hint, asks=asks)


def _check_static_memory(run: PlannedRun) -> TuningCondition:
    memory = None if run.config is None else run.config.memory_config
    policy = (None if memory is None else memory.static_memory_policy) or 0
    variable = run.environ.get(_STATIC, "0")
    against = {}
    if policy:
        against[f"static_memory_policy={policy}"] = (
            "set static_memory_policy to 0 for this run, as cfg.for_tuning() does"
        )
    if variable not in ("", "0"):
        against[f"{_STATIC}={variable}"] = f"unset {_STATIC}"
    message = "static_memory_policy is 0, and so is the variable."
    return _check_off(run, "static memory", against, message)


def _check_profiling(run: PlannedRun) -> TuningCondition:
    profiling = None if run.config is None else run.config.profiling_config
    against = {}
    if profiling and profiling.enable_profiling:
        against["enable_profiling=True"] = (
            "leave profiling_config out of this run, as cfg.for_tuning() does"
        )
    if run.environ.get("PROFILING_MODE") == "true":
        against["PROFILING_MODE=true"] = "unset PROFILING_MODE"
    return _check_off(run, "profiling", against, "No option and no variable turns it on.")


def _check_off(
    run: PlannedRun, name: str, against: Dict[str, str], message: str
) -> TuningCondition:
    """Check that something is off.

    Args:
        run: The run.
        name: Of the condition.
        against: What turns it on, and what to do about that.
        message: For a configuration in which nothing does.
    """
    if against:
        measured, hint = " and ".join(against), "; ".join(against.values())
        message = f"{measured} would spoil the result."
        return judge(name, False, measured, "off", message, f"{hint[:1].upper()}{hint[1:]}.")
    if run.config is not None:
        return judge(name, True, "off", "off", message)
    message = "No variable turns it on, and no configuration was given."
    hint = "Give the configuration with which the training script opens its session."
    return judge(name, None, None, "off", message, hint, asks=("config",))


def _check_one_device(run: PlannedRun) -> TuningCondition:
    size = read_size(run.environ) or 1
    message = f"RANK_SIZE or CM_WORKER_SIZE say {size}." if size > 1 else "It is one process alone."
    if run.mode == MODES["gradient"]:
        hint = "Gradient splitting is tuned in a job of several ranks."
        return judge("devices", size > 1, size, "2 or more", message, hint)
    return judge(
        "devices", size == 1, size, 1, message, "Run one process, without these variables."
    )


def _check_static_operators(run: PlannedRun) -> TuningCondition:
    name, needed = "operators", "static"
    values = {} if run.config is None else run.config.values()
    switches = [name for name in ("dynamic_input", "compile_dynamic_mode") if values.get(name)]
    if switches or run.static_operators is False:
        dynamic = " and ".join(f"{switch}={values[switch]!r}" for switch in switches)
        message = f"{dynamic} asks for dynamic shapes." if dynamic else "They are not."
        hint = "Tune with fixed shapes: AOE tunes static operators only."
        return judge(name, False, "dynamic", needed, message, hint)
    if run.static_operators:
        return judge(name, True, "static", needed, "They are static, as static_operators says.")
    message = "Whether all operators of the model have static shapes cannot be measured."
    hint = "If they have, give static_operators."
    return judge(name, None, None, needed, message, hint, asks=("static_operators",))


def _check_work_path(run: PlannedRun) -> TuningCondition:
    """An absent folder, or one that may not be written to, aborts the process (npu_attrs.cc)."""
    given = None if run.config is None else run.config.work_path
    path = os.fspath(given or ".")
    fault = find_folder_fault(path, os.R_OK | os.W_OK)
    subject = f"work_path={given!r}" if given else "work_path is the working directory, which"
    message, hint = f"{subject} can be used.", None
    if fault is not None:
        message = f"{subject} {fault.predicate}; the adapter aborts the process."
        hint = fault.hint
    return judge("work_path", fault is None, path, "existing, rw", message, hint)


def _check_aoe_config_file(run: PlannedRun) -> Iterator[TuningCondition]:
    """What aoe_config_file asks for has to go with the mode."""
    given: Any = None if run.config is None else run.config.aoe_config_file
    if given is None:
        return
    name, needed = "aoe_config_file", f"one for mode {run.mode}"
    path = given if isinstance(given, str) else type(given).__name__
    try:
        file = given if isinstance(given, AoeConfigFile) else AoeConfigFile.read(given)
    except ConfigError as error:
        yield judge(name, False, path, needed, error.message, error.hint)
        return
    against = file.against(run.mode)
    message = " ".join(against) or "Its features fit the mode."
    hint = "Remove the feature, or tune in its mode."
    yield judge(name, not against, path, needed, message, hint)


def _check_rest(run: PlannedRun) -> Iterator[TuningCondition]:
    """Check what else stands in the way, by the rules of `AscendConfig`."""
    if run.config is None:
        return
    environ = {name: value for name, value in run.environ.items() if name != _STATIC}
    problems: List[Finding] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AscendConfigWarning)
            run.config.for_tuning(run.mode).check_host(environ)
    except ConfigError as error:
        problems = [each for each in error.problems if each.option not in _CHECKED_ELSEWHERE]
    measured = f"{len(problems)} wrong" if problems else "fit"
    message = " ".join(problem.message for problem in problems)
    hint = " ".join(problem.hint for problem in problems if problem.hint) or None
    message = message or "Nothing else in the configuration prevents tuning on this host."
    yield judge("options", not problems, measured, "what the adapter takes", message, hint)
