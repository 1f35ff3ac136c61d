"""AoePlan: every condition of a tuning run, measured before the run is started.

This file checks the configuration and the variables, `aoe.conditions` the machine.

Sources: the manual of AOE (tuning precautions); the adapter's npu_attrs.cc and geop_npu.cc, and its
manual AOE.md (products, work_path).
"""

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ascend_session.aoe.conditions import (
    FAILS,
    TuningCondition,
    TuningFacts,
    TuningRun,
    check_device,
    check_resources,
    check_software,
    find_folder_fault,
    judge,
)
from ascend_session.aoe.run import count_compilers, count_tuners
from ascend_session.cluster.variables import read_size
from ascend_session.config.tuning import MODES, mode_number, mode_word
from ascend_session.errors import AscendConfigWarning, ConfigError
from ascend_session.findings import NOT_CHECKED, OK, Finding
from ascend_session.hardware.device_report import survey
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.program import TIME_LIMIT
from ascend_session.option_files import AoeConfigFile
from ascend_session.spelling import option

if TYPE_CHECKING:
    from ascend_session.config.ascend_config import AscendConfig

ADVICE = (
    "Train on the device first, to see that the script runs there with the accuracy you expect.",
    "Use as few steps as possible: every operator has to run once, often in one step.",
    "Where both can be tuned, tune subgraphs before operators.",
)
"""Advice that cannot be checked (manual of AOE, tuning workflow)."""

_ORDER = (FAILS, NOT_CHECKED, OK)


@dataclass(frozen=True)
class AoePlan:
    """The conditions of a tuning run, measured on this machine; frozen.

    Example:
        >>> plan = AoePlan.measure(cfg, mode="operator")  # doctest: +SKIP
        >>> [condition.name for condition in plan.select_conditions("fails")]  # doctest: +SKIP
        ['CPUs']

    Attributes:
        mode: What is tuned: ``operator``, ``subgraph`` or ``gradient``.
        conditions: The conditions, in the order of the checks.
        has_device: Whether this machine has an Ascend device.
    """

    mode: str
    conditions: Tuple[TuningCondition, ...]
    has_device: bool = True

    @classmethod
    def measure(
        cls,
        config: "Optional[AscendConfig]" = None,
        mode: Optional[str] = None,
        environ: Optional[Mapping[str, str]] = None,
        root: Optional[str] = None,
        timeout: float = TIME_LIMIT,
        new_folders: Sequence[str] = (),
        **facts: Any,
    ) -> "AoePlan":
        """Measure this machine, this environment and the configuration; starts no training.

        Runs ``npu-smi``, where there are devices, and ``python3 --version``.

        Args:
            config: The configuration of the training script's session; None if not known.
            mode: ``"operator"``, ``"subgraph"``, ``"gradient"`` or the manual's number; None means
                the option ``aoe_mode``, else ``AOE_MODE``, else operators.
            environ: The environment of the tuning run; None means that of this process.
            root: Root of the host; None means ``ASCEND_SESSION_HOST_ROOT``, else ``/``.
            timeout: Seconds that one answer of ``npu-smi`` may take.
            new_folders: Absolute paths of folders that will be created before the run starts, so
                that they need not exist yet.
            **facts: Facts that cannot be measured, the fields of `TuningFacts`:
                ``training_memory=12 * 2**30``.

        Raises:
            ConfigError: If the mode is not one of AOE's, or as `TuningFacts` raises it.
            TypeError: For a name that is no field of `TuningFacts`.
        """
        given_facts = TuningFacts(**facts)
        given = dict(os.environ if environ is None else environ)
        number = mode_number(mode or choose_mode(config, given))
        top = root or host_root(given)
        run = TuningRun(
            mode=number,
            environ=given,
            root=top,
            report=survey(given, top, timeout, addresses=False),
            tuners=count_tuners(given_facts.tuning_parallel_num, given, top),
            compilers=count_compilers(given),
            facts=given_facts,
            config=config,
            new_folders=tuple(new_folders),
        )
        checks = (check_resources, _check_configuration, check_device, check_software)
        conditions = tuple(condition for check in checks for condition in check(run))
        return cls(mode_word(number), conditions, has_device=len(run.report) > 0)

    @property
    def ok(self) -> bool:
        """True if no condition fails, even if some could not be checked."""
        return not self.select_conditions(FAILS)

    def select_conditions(self, verdict: str) -> Tuple[TuningCondition, ...]:
        """Return the conditions with this verdict: ``ok``, ``fails`` or ``not checked``."""
        return tuple(condition for condition in self.conditions if condition.verdict == verdict)

    def as_dict(self) -> Dict[str, Any]:
        """Return the plan as plain values for JSON; sizes in bytes."""
        return {
            "ok": self.ok,
            "mode": self.mode,
            "aoe_mode": mode_number(self.mode),
            "counts": {verdict: len(self.select_conditions(verdict)) for verdict in _ORDER},
            "conditions": [condition.as_dict() for condition in self.conditions],
            "advice": list(ADVICE),
        }


def choose_mode(config: "Optional[AscendConfig]", environ: Mapping[str, str]) -> str:
    """Return the option ``aoe_mode``, else ``AOE_MODE``, else ``operator``."""
    return getattr(config, "aoe_mode", None) or environ.get("AOE_MODE") or "operator"


_STATIC = "GE_USE_STATIC_MEMORY"
# Options that have a condition of their own, or that for_tuning changes
_CHECKED_ELSEWHERE = (
    "TUNE_BANK_PATH",
    "aoe_config_file",
    "profiling_mode",
    "static_memory_policy",
    "work_path",
)


def _check_configuration(run: TuningRun) -> Iterator[TuningCondition]:
    """Check the configuration and the environment variables."""
    yield _check_mode(run)
    yield _check_static_memory(run)
    yield _check_profiling(run)
    yield _check_one_device(run)
    yield _check_static_operators(run)
    yield _check_work_path(run)
    yield from _check_aoe_config_file(run)
    yield from _check_rest(run)


def _check_mode(run: TuningRun) -> TuningCondition:
    """Check the mode in which the adapter would tune; the option counts before the variable."""
    variable = run.environ.get("AOE_MODE") or None
    setting = run.option("aoe_mode")
    if setting or variable:
        message = f"aoe_mode={setting} counts." if setting else f"AOE_MODE={variable} counts."
        hint = f"Set it to {mode_word(run.mode)} ({run.mode}), or remove it."
        measured = setting or variable
        return judge("mode", measured == run.mode, measured, run.mode, message, hint)
    message = "Neither aoe_mode nor AOE_MODE says what to tune."
    if run.config is None:
        message = "AOE_MODE is not set, and no configuration was given."
    hint = f"`ascend-session aoe run` sets AOE_MODE={run.mode}; or use cfg.for_tuning()."
    asks = ("config",) if run.config is None else ()
    return judge("mode", None, None, run.mode, message, hint, asks=asks)


def _check_static_memory(run: TuningRun) -> TuningCondition:
    policy = getattr(run.option("memory_config"), "static_memory_policy", None) or 0
    variable = run.environ.get(_STATIC, "0")
    against = {}
    if policy:
        advice = "set static_memory_policy to 0 for this run, as cfg.for_tuning() does"
        against[f"static_memory_policy={policy}"] = advice
    if variable not in ("", "0"):
        against[f"{_STATIC}={variable}"] = f"unset {_STATIC}"
    message = "static_memory_policy is 0, and so is the variable."
    return _check_off(run, "static memory", against, message)


def _check_profiling(run: TuningRun) -> TuningCondition:
    against = {}
    if getattr(run.option("profiling_config"), "enable_profiling", None):
        advice = "leave profiling_config out of this run, as cfg.for_tuning() does"
        against["enable_profiling=True"] = advice
    if run.environ.get("PROFILING_MODE") == "true":
        against["PROFILING_MODE=true"] = "unset PROFILING_MODE"
    return _check_off(run, "profiling", against, "No option and no variable turns it on.")


def _check_off(run: TuningRun, name: str, against: Dict[str, str], message: str) -> TuningCondition:
    """Check that a feature is off.

    Args:
        run: The run.
        name: The condition.
        against: ``{setting that turns it on: what to do}``.
        message: What to report if there is none.
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


def _check_one_device(run: TuningRun) -> TuningCondition:
    size = read_size(run.environ) or 1
    message = "The run is a single process."
    if size > 1:
        message = f"RANK_SIZE or CM_WORKER_SIZE is {size}."
    if run.mode == MODES["gradient"]:
        hint = "Gradient splitting is tuned in a job of several ranks."
        return judge("devices", size > 1, size, "2 or more", message, hint)
    return judge(
        "devices", size == 1, size, 1, message, "Run one process, without these variables."
    )


def _check_static_operators(run: TuningRun) -> TuningCondition:
    name, needed = "operators", "static"
    values = {name: run.option(name) for name in ("dynamic_input", "compile_dynamic_mode")}
    switches = [switch for switch, value in values.items() if value]
    if switches or run.facts.static_operators is False:
        dynamic = " and ".join(f"{switch}={values[switch]!r}" for switch in switches)
        message = (
            f"{dynamic} asks for dynamic shapes." if dynamic else "Not all operators are static."
        )
        hint = "Tune with fixed shapes: AOE tunes static operators only."
        return judge(name, False, "dynamic", needed, message, hint)
    if run.facts.static_operators:
        message = f"All operators are static, as {option('static_operators')} says."
        return judge(name, True, "static", needed, message)
    message = "Whether all operators of the model have static shapes cannot be measured."
    hint = f"If they have, give {option('static_operators')}."
    return judge(name, None, None, needed, message, hint, asks=("static_operators",))


def _check_work_path(run: TuningRun) -> TuningCondition:
    """Check work_path: the adapter aborts if it is missing or not writable (npu_attrs.cc)."""
    given = run.option("work_path")
    path = os.fspath(given or ".")
    fault = find_folder_fault(path, os.R_OK | os.W_OK)
    subject = f"work_path={given!r}" if given else "work_path is the working directory, which"
    message, hint = f"{subject} can be used.", None
    if fault is not None:
        predicate, hint = fault
        message = f"{subject} {predicate}; the adapter aborts the process."
    return judge("work_path", fault is None, path, "existing, rw", message, hint)


def _check_aoe_config_file(run: TuningRun) -> Iterator[TuningCondition]:
    """Check that the features in aoe_config_file fit the mode."""
    given = run.option("aoe_config_file")
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


def _check_rest(run: TuningRun) -> Iterator[TuningCondition]:
    """Check all other options by the rules of `AscendConfig`."""
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
