"""What has to fit when a session opens: its options, its graph, the environment, the past.

Some options are read only by the first initialisation in a process and silently ignored afterwards
(scope ``init``); some of those stay in the process after their session has gone (``sticky``).

Sources: guides/facts/options.md#iterations-per-loop, guides/facts/options.md#tailing-optimization,
guides/facts/precision.md#accelerated-training, guides/facts/dynamic.md#dynamic-profiles (graphs
that the adapter aborts on), guides/facts/process.md#life-of-ge-in-a-process and
guides/facts/process.md#values-that-stay-in-the-process; variable_placement: the manual's
NPURunConfig Options.
"""

from typing import Any, Dict, Mapping, Optional

from ascend_session.backends._tensorflow import operators_of_user, tf1
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.grammars import accelerate
from ascend_session.config.hints import SIBLINGS
from ascend_session.config.option import options_by_key
from ascend_session.errors import ConfigError, LifecycleError, UnsupportedError, warn
from ascend_session.findings import ERROR, Finding

# Graph collections in which training helpers note what they have put into the graph: the loop
# count they have applied, for how many ranks gradients are averaged, and whether an optimizer's
# is_tailing_optimization is on (1) or off (0).
LOOPS_APPLIED = "ascend_session/iterations_per_loop"
RANKS_OF_GRAPH = "ascend_session/ranks"
TAILING = "ascend_session/is_tailing_optimization"

# Operators of TensorFlow's version 1 control flow, which tf.cond and tf.while_loop leave behind.
_V1_CONTROL_FLOW = frozenset(["Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"])


def checked(config: Any) -> Optional[AscendConfig]:
    """Return ``config`` if it is an AscendConfig or None.

    Raises:
        ConfigError: If it is something else, with what to write instead.
        UnsupportedError: If it asks for parameter servers, which only NPURunConfig reads.
    """
    if isinstance(config, AscendConfig):
        if config.distribute is not None:
            raise UnsupportedError(
                "distribute needs parameter servers, which only the vendor's NPUEstimator "
                "supports: here each session would train alone.",
                hint="Give it to NPUEstimator: NPURunConfig(**config.to_run_config_kwargs()).",
            )
        return config
    if config is None:
        return None
    kind = type(config).__name__
    hint = "Write AscendConfig(**options)." if isinstance(config, dict) else None
    if kind == "ConfigProto":
        hint = "Give it as session_config=, or read it with AscendConfig.from_config_proto()."
    raise ConfigError(f"config must be an AscendConfig, this is {kind}.", hint=hint)


def check_conditions(
    graph: Any,
    parameters: Mapping[str, Any],
    environ: Mapping[str, str],
    size: Optional[int] = None,
) -> None:
    """Check ``graph``, ``environ`` and the job's size against the options a session opens with.

    Raises:
        LifecycleError: For a graph that cannot work with them.

    Warns:
        AscendConfigWarning: For options that something else has to put into effect.
    """
    if parameters.get("variable_placement") == "Host":
        _check_host_variables(graph)
    if "experimental_accelerate_train_mode" in parameters:
        _check_acceleration(parameters["experimental_accelerate_train_mode"], environ)
    loops = parameters.get("iterations_per_loop", 1)
    if loops > 1:
        refuse_one_shot(graph, loops)
    if "dynamic_dims" in parameters:
        _check_profiles(graph)
    for tailing in graph.get_collection(TAILING):
        check_tailing(bool(tailing), parameters, "this session's configuration")
    for built_for in [] if size is None else graph.get_collection(RANKS_OF_GRAPH):
        if built_for != size:
            raise LifecycleError(
                f"The gradients in this graph are averaged over {built_for} rank(s), but the job "
                f"has {size}: it was built in another environment.",
                hint="Build the graph inside the block of ascend_system(...).",
            )


def refuse_one_shot(graph: Any, loops: int) -> None:
    """Raise LifecycleError if the graph reads from a one-shot iterator."""
    if operators_of_user(graph, ["OneShotIterator"]):
        raise LifecycleError(
            f"iterations_per_loop={loops} does not work with a one-shot iterator; the adapter "
            "aborts the process.",
            hint="Use dataset.make_initializable_iterator() (tf.compat.v1.data).",
        )


def warn_of_unused_loops(graph: Any, parameters: Mapping[str, Any]) -> None:
    """Warn of a loop count that was never put into the graph, when the session has closed.

    Not when it opens: the helper needs the open session (util.py, ``set_iteration_per_loop``).
    """
    loops = parameters.get("iterations_per_loop", 1)
    if loops > 1 and loops not in graph.get_collection(LOOPS_APPLIED):
        warn(
            f"iterations_per_loop={loops} was set, but training.iterations_per_loop has not "
            "applied it to the graph: each run made a single step."
        )


def check_tailing(tailing: bool, parameters: Mapping[str, Any], where: str) -> None:
    """Compare an optimizer's ``is_tailing_optimization`` with the options.

    Raises:
        LifecycleError: If they differ; the vendor demands that they do not, and checks nothing.
    """
    configured = bool(parameters.get("is_tailing_optimization", False))
    if configured != tailing:
        raise LifecycleError(
            f"is_tailing_optimization is {configured} in {where}, but {tailing} in the "
            "DistributedOptimizer of the graph; both must be the same.",
            hint="Give AscendConfig(is_tailing_optimization=True) and "
            "DistributedOptimizer(..., is_tailing_optimization=True), or leave out both.",
        )


def _check_profiles(graph: Any) -> None:
    count = len(operators_of_user(graph, ["IteratorGetNext"]))
    if count > 1:
        raise LifecycleError(
            f"dynamic_dims works with one dataset input, but the graph reads from {count} "
            "iterators; the adapter aborts the process."
        )


def _check_host_variables(graph: Any) -> None:
    old = sorted({op.type for op in operators_of_user(graph, _V1_CONTROL_FLOW)})
    remedy = "Call tf.enable_control_flow_v2() and tf.enable_resource_variables() before building."
    if old:
        raise LifecycleError(
            'variable_placement="Host" needs control flow version 2, but the graph has version 1 '
            f"operators ({', '.join(old)}).",
            hint=remedy,
        )
    tf = tf1()
    if not (tf.control_flow_v2_enabled() and tf.resource_variables_enabled()):
        warn(f'variable_placement="Host" needs control flow v2 and resource variables. {remedy}')


def _check_acceleration(mode: str, environ: Mapping[str, str]) -> None:
    needed = accelerate.VARIABLES[accelerate.accelerate_trigger(mode)]
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        warn(
            f"accelerate_train_mode={mode!r} is set, but {' and '.join(missing)} are not: "
            "TellMeStepOrLossHook sets them, and without it the first run fails on a device."
        )


def init_options(parameters: Mapping[str, Any]) -> Dict[str, Any]:
    """The part of ``parameters`` that only the first initialisation of a process reads."""
    known = options_by_key(AscendConfig)
    return {key: value for key, value in parameters.items() if known[key].scope == "init"}


def check_init_options(of_system: Mapping[str, Any], of_session: Mapping[str, Any]) -> None:
    """Refuse options that the open system can no longer take on.

    Raises:
        ConfigError: With each option that differs from what the system was opened with.
    """
    known = options_by_key(AscendConfig)
    problems = [
        Finding(
            ERROR,
            f"{key}={value!r} comes too late: the device was initialised with "
            f"{_initial_value(of_system, key, known[key].adapter)}.",
            option=known[key].path,
        )
        for key, value in init_options(of_session).items()
        if of_system.get(key, known[key].adapter) != value
    ]
    if problems:
        error = ConfigError.from_problems(problems, "options that the open system does not have")
        error.hint = "Give these options to ascend_system(...), which initialises the device."
        raise error


def _initial_value(of_system: Mapping[str, Any], key: str, default: Any) -> str:
    if key in of_system:
        return repr(of_system[key])
    return f"no {key}" if default is None else f"the default {default!r}"


def on_device(config: AscendConfig, device_id: int) -> AscendConfig:
    """Return ``config`` with this ``session_device_id``.

    Raises:
        ConfigError: If it has another one, or for what is no device id.
    """
    configured = config.session_device_id
    if configured is not None and configured != device_id:
        raise ConfigError(
            f"The device was given twice: device_id={device_id} here, "
            f"session_device_id={configured} in the AscendConfig.",
            hint="Set it in one place only.",
        )
    AscendConfig(session_device_id=device_id)  # the same checks as in the configuration
    return config.copy_with(session_device_id=device_id)


class Leftovers:
    """What earlier systems of this process left behind in the adapter."""

    def __init__(self) -> None:
        self._stuck: Dict[str, Any] = {}

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Say what an earlier system leaves behind for one that opens with ``parameters``.

        Raises:
            ConfigError: If both precision modes would meet in the adapter.

        Warns:
            AscendConfigWarning: For each option that stays although it is not set again.
        """
        for stuck, wanted in SIBLINGS.items():
            if stuck in self._stuck and wanted in parameters:
                raise ConfigError(
                    f"{wanted}={parameters[wanted]!r} cannot follow {stuck}={self._stuck[stuck]!r} "
                    "of an earlier system: the adapter keeps that option, and both together fail.",
                    hint=f"Set {stuck} again, or start a new process.",
                )
        for key, value in self._stuck.items():
            if key not in parameters:
                warn(
                    f"{key}={value!r} of an earlier system stays in force on a device: the adapter "
                    "keeps it until the process ends. Set it again, or start a new process."
                )

    def remember(self, parameters: Mapping[str, Any]) -> None:
        """Note what a system that was opened with ``parameters`` leaves behind."""
        known = options_by_key(AscendConfig)
        self._stuck.update({k: v for k, v in parameters.items() if known[k].sticky})
