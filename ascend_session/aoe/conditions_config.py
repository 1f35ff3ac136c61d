"""Conditions about the configuration and the variables: what may be on, and what must be off.

Source: seed 003, tuning precautions; options_notes a40, a41, a44 and b; the adapter's manual,
AOE.md (products, work_path).
"""

import os
import warnings
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.aoe.condition import FAILS, NOT_CHECKED, OK, Condition, judged
from ascend_session.aoe.folders import fault_of
from ascend_session.cluster.variables import size_given
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.tuning import MODES, mode_word
from ascend_session.errors import AscendConfigWarning, ConfigError
from ascend_session.option_files import AoeConfigFile

__all__ = ["Run", "configuration"]

_STATIC = "GE_USE_STATIC_MEMORY"
# What conditions of their own say, or what for_tuning has mended before.
_SAID_ELSEWHERE = (
    "TUNE_BANK_PATH",
    "aoe_config_file",
    "profiling_mode",
    "static_memory_policy",
    "work_path",
)


class Run(NamedTuple):
    """A tuning run, as it would be started.

    Attributes:
        mode: What is to be tuned: ``"1"``, ``"2"`` or ``"4"``.
        config: What the training script opens its session with; None if not known.
        environ: Its environment.
        static_operators: What the user says of the model's operators; None for nothing.
    """

    mode: str
    config: Optional[AscendConfig]
    environ: Mapping[str, str]
    static_operators: Optional[bool]


def configuration(run: Run) -> Iterator[Condition]:
    """The conditions about configuration and variables."""
    yield _mode(run)
    yield _static_memory(run)
    yield _profiling(run)
    yield _one_device(run)
    yield _static_operators(run)
    yield _work_path(run)
    yield from _operators_to_tune(run)
    yield from _rest(run)


def _mode(run: Run) -> Condition:
    """Which mode the adapter would tune in: the option before the variable."""
    needed, variable = run.mode, run.environ.get("AOE_MODE")
    option = None if run.config is None else run.config.aoe_mode
    measured = option or variable or None
    name, origin = ("aoe_mode", option) if option else ("AOE_MODE", variable)
    if measured is None:
        said = "Neither aoe_mode nor AOE_MODE says what to tune."
        asks: Tuple[str, ...] = ()
        if run.config is None:
            said = "AOE_MODE is not set; what the training script says of aoe_mode is not known."
            asks = ("config",)
        todo = f"`ascend-session aoe run` sets AOE_MODE={needed}; or use cfg.for_tuning()."
        return Condition("mode", NOT_CHECKED, None, needed, "", said, todo, asks)
    said = f"{name}={origin} counts."
    todo = f"Say {mode_word(needed)} ({needed}) there, or take it out."
    return judged("mode", measured == needed, measured, needed, "", said, todo)


def _static_memory(run: Run) -> Condition:
    name, needed = "static memory", "off"
    memory = None if run.config is None else run.config.memory_config
    policy = (None if memory is None else memory.static_memory_policy) or 0
    variable = run.environ.get(_STATIC, "0")
    wrong = [f"static_memory_policy={policy}"] * (policy != 0)
    wrong += [f"{_STATIC}={variable}"] * (variable not in ("", "0"))
    if wrong:
        said = f"{' and '.join(wrong)} would spoil the result."
        mend = ["set static_memory_policy to 0 for this run, as cfg.for_tuning() does"] * (
            policy != 0
        )
        mend += [f"unset {_STATIC}"] * (variable not in ("", "0"))
        todo = _sentence(mend)
        return Condition(name, FAILS, " and ".join(wrong), needed, "", said, todo)
    return _of_config(run, name, needed, "static_memory_policy is 0, and so is the variable.")


def _profiling(run: Run) -> Condition:
    name, needed = "profiling", "off"
    profiling = None if run.config is None else run.config.profiling_config
    wrong = ["enable_profiling=True"] * bool(profiling and profiling.enable_profiling)
    variable = run.environ.get("PROFILING_MODE") == "true"
    wrong += ["PROFILING_MODE=true"] * variable
    if wrong:
        said = f"{' and '.join(wrong)} would spoil the result."
        mend = ["leave profiling_config out of this run, as cfg.for_tuning() does"] * (
            len(wrong) > variable
        )
        mend += ["unset PROFILING_MODE"] * variable
        todo = _sentence(mend)
        return Condition(name, FAILS, " and ".join(wrong), needed, "", said, todo)
    return _of_config(run, name, needed, "No option and no variable turns it on.")


def _sentence(mend: Sequence[str]) -> str:
    said = "; ".join(mend)
    return f"{said[:1].upper()}{said[1:]}."


def _of_config(run: Run, name: str, needed: str, said: str) -> Condition:
    """Nothing is against it, as far as the configuration is known."""
    if run.config is not None:
        return Condition(name, OK, "off", needed, "", said)
    said = "No variable turns it on; what the training script says is not known."
    todo = "Give the configuration that the training script opens its session with."
    return Condition(name, NOT_CHECKED, None, needed, "", said, todo, ("config",))


def _one_device(run: Run) -> Condition:
    size = size_given(run.environ) or 1
    said = f"RANK_SIZE or CM_WORKER_SIZE say {size}." if size > 1 else "It is one process alone."
    if run.mode == MODES["gradient"]:
        todo = "Gradient splitting is tuned in a job of several ranks."
        return judged("devices", size > 1, size, "2 or more", "", said, todo)
    todo = "Run one process, without these variables."
    return judged("devices", size == 1, size, 1, "", said, todo)


def _static_operators(run: Run) -> Condition:
    name, needed = "operators", "static"
    dynamic = _dynamic_options(run.config)
    if dynamic or run.static_operators is False:
        said = f"{' and '.join(dynamic)} asks for dynamic shapes." if dynamic else "They are not."
        todo = "Tune with fixed shapes: AOE tunes static operators only."
        return Condition(name, FAILS, "dynamic", needed, "", said, todo)
    if run.static_operators:
        return Condition(name, OK, "static", needed, "", "They are static, as was said.")
    said = "Whether all operators of the model have static shapes cannot be seen from here."
    todo = "Look at the model's inputs, and give static_operators."
    return Condition(name, NOT_CHECKED, None, needed, "", said, todo, ("static_operators",))


def _dynamic_options(config: Optional[AscendConfig]) -> List[str]:
    if config is None:
        return []
    values = config.values()
    switches = [name for name in ("dynamic_input", "compile_dynamic_mode") if values.get(name)]
    return [f"{name}={values[name]!r}" for name in switches]


def _work_path(run: Run) -> Condition:
    """An absent folder, or one that may not be written to, aborts the process (a40)."""
    given = None if run.config is None else run.config.work_path
    path = os.fspath(given or ".")
    fault = fault_of(path, os.R_OK | os.W_OK)
    shown = f"work_path={given!r}" if given else "work_path is the working directory, which"
    needed = "existing, rw"
    if fault is None:
        return Condition("work_path", OK, path, needed, "", f"{shown} can be used.")
    said = f"{shown} {fault.said}; the adapter aborts the process."
    return Condition("work_path", FAILS, path, needed, "", said, fault.todo)


def _operators_to_tune(run: Run) -> Iterator[Condition]:
    """What aoe_config_file asks for goes with the mode (a41)."""
    given: Any = None if run.config is None else run.config.aoe_config_file
    if given is None:
        return
    name, needed = "aoe_config_file", f"one for mode {run.mode}"
    path = given if isinstance(given, str) else type(given).__name__
    try:
        file = given if isinstance(given, AoeConfigFile) else AoeConfigFile.read(given)
    except ConfigError as error:
        yield Condition(name, FAILS, path, needed, "", error.message, error.hint)
        return
    against = file.against(run.mode)
    said = " ".join(against) or "What it asks for goes with the mode."
    todo = "Take the feature out, or tune in its mode."
    yield judged(name, not against, path, needed, "", said, todo)


def _rest(run: Run) -> Iterator[Condition]:
    """What else stands in the way, by the rules of `AscendConfig`."""
    if run.config is None:
        return
    environ = {name: value for name, value in run.environ.items() if name != _STATIC}
    needed = "what the adapter takes"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AscendConfigWarning)
            run.config.for_tuning(run.mode).check_host(environ)
    except ConfigError as error:
        found = [one for one in error.problems if one.option not in _SAID_ELSEWHERE]
        if found:
            said = " ".join(one.message for one in found)
            todo = " ".join(one.hint for one in found if one.hint) or None
            yield Condition("options", FAILS, f"{len(found)} wrong", needed, "", said, todo)
            return
    said = "Nothing else in the configuration stands in the way on this host."
    yield Condition("options", OK, "fit", needed, "", said)
