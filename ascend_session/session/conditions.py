"""What has to fit the options of a session when it opens: its graph, the environment, the job.

Sources: guides/facts/options.md#iterations-per-loop, guides/facts/options.md#tailing-optimization,
guides/facts/precision.md#accelerated-training, guides/facts/dynamic.md#dynamic-profiles (graphs
that the adapter aborts on); variable_placement: the manual's NPURunConfig Options.
"""

import os
from typing import Any, Collection, Iterable, Iterator, Mapping, Optional, Set

from ascend_session.backends._tensorflow import is_marked, operators_of_user, tf1, walk_inputs
from ascend_session.backends.averaging import UPDATES, plan_run
from ascend_session.cluster.variables import is_independent
from ascend_session.config.grammars import accelerate
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.errors import LifecycleError, warn
from ascend_session.findings import ERROR, WARNING, Finding
from ascend_session.vendor import WORLD_GROUP

# Graph collections in which training helpers note what they have put into the graph: the loop
# count they have applied, for how many ranks gradients are averaged, whether an optimizer's
# is_tailing_optimization is on (1) or off (0), and the names of the variables that a broadcast has.
LOOPS_APPLIED = "ascend_session/iterations_per_loop"
RANKS_OF_GRAPH = "ascend_session/ranks"
TAILING = "ascend_session/is_tailing_optimization"
BROADCAST = "ascend_session/broadcast"

# Operators of TensorFlow's version 1 control flow, which tf.cond and tf.while_loop leave behind.
_V1_CONTROL_FLOW = frozenset(["Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"])


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


def find_unsupported(
    operations: Iterable[Any], parameters: Mapping[str, Any], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Find operators that do not go with these options on a device; one finding of each kind.

    Args:
        operations: Operators of the session's graph.
        parameters: The session's options, by the vendor's keys.
        environ: The environment.
    """
    users = [each for each in operations if not is_marked(each)]
    if parameters.get("mix_compile_mode") is not True:
        yield from _find_host_resources(users)
    if parameters.get("graph_compiler_cache_dir"):
        yield from _find_cached_resources(users)
    if _is_dynamic(parameters) and environ.get("ENABLE_FORCE_V2_CONTROL") != "1":
        yield from _find_old_control_flow(users)
    yield from _find_inference_options(users, parameters)


# Operators with resources that stay on the host, or that are no variable, table or the like.
_INPUT_RESOURCES = ("Iterator", "OneShotIterator", "MultiDeviceIterator", "AnonymousIterator")
_TABLES = ("HashTable", "MutableHashTable", "MutableDenseHashTable", "AnonymousHashTable")


def _find_host_resources(operations: Iterable[Any]) -> Iterator[Finding]:
    """Report tables and variables that the functions of a ``tf.data.Dataset`` use.

    Source: the migration manual's FAQ, "How Do I Fix the Data Preprocessing Error Caused by
    Resource Operators?" (hiascend.com, TensorFlowCommercial 8.0.0, tfmigr1_000125).
    """
    for operation in operations:
        if "Dataset" not in operation.type:
            continue
        for dtype, tensor in zip(operation._input_types, operation.inputs):
            kind = tensor.op.type
            is_table = kind.startswith(_TABLES)
            if dtype.name != "resource" or not (is_table or kind == "VarHandleOp"):
                continue
            what, error = (
                ("table", "Table not initialized")
                if is_table
                else ("variable", "FailedPreconditionError: Error while reading resource variable")
            )
            yield Finding(
                ERROR,
                f"A function of tf.data ({operation.name!r}) uses the {what} {tensor.op.name!r}: "
                f"the device initialises it, but the host runs the function, and fails "
                f"({error}).",
                "Set mix_compile_mode=True, which leaves such operators on the host, or compute "
                "this part outside of the dataset.",
                option="mix_compile_mode",
            )
            return


def _find_cached_resources(operations: Iterable[Any]) -> Iterator[Finding]:
    """Report resources in a graph that is to be cached.

    Source: guides/facts/options.md#graph-cache.
    """
    for operation in operations:
        types = [output.dtype.name for output in operation.outputs]
        if "resource" in types and not operation.type.startswith(_INPUT_RESOURCES):
            yield Finding(
                WARNING,
                "graph_compiler_cache_dir does not support models with resource operators, such as "
                f"{operation.name!r} ({operation.type}).",
                "Leave graph_compiler_cache_dir out, or build the variables with use_resource="
                "False (tf.disable_resource_variables()).",
                option="graph_compiler_cache_dir",
            )
            return


def _is_dynamic(parameters: Mapping[str, Any]) -> bool:
    """Return whether graphs are compiled for dynamic shapes, and not again for each shape."""
    mode = parameters.get("dynamic_graph_execute_mode")
    is_dynamic = parameters.get("dynamic_input") is True and mode != "lazy_recompile"
    return is_dynamic or parameters.get("compile_dynamic_mode") is True


def _find_old_control_flow(operations: Iterable[Any]) -> Iterator[Finding]:
    """Report version 1 control flow in a graph with dynamic shapes.

    Source: the manual's Environment Variables, page "ENABLE_FORCE_V2_CONTROL" (hiascend.com,
    canncommercial 8.0.0, envref_07_0037).
    """
    old = [each for each in operations if each.type in _V1_CONTROL_FLOW]
    if old:
        types = ", ".join(sorted({each.type for each in old}))
        yield Finding(
            WARNING,
            f"Dynamic shapes need control flow version 2, but the graph has operators of version 1 "
            f"({types}; the first is {old[0].name!r}).",
            "Call tf.enable_control_flow_v2() and tf.enable_resource_variables() after the import "
            "of TensorFlow, or set ENABLE_FORCE_V2_CONTROL=1.",
            option="dynamic_input",
        )


_INFERENCE = "online inference"
# Off for accuracy, and on for subgraphs that AOE has tuned, in a training too
# (guides/facts/aoe.md#aoe-tuning).
_ALSO_FOR_TRAINING = ("buffer_optimize",)


def _find_inference_options(
    operations: Iterable[Any], parameters: Mapping[str, Any]
) -> Iterator[Finding]:
    """Report options in a training that the manual describes for online inference only.

    Source: the manual's NPURunConfig Options, "applies only to online inference scenarios".
    """
    options = options_by_key(AdapterOptions)
    given = [
        key
        for key, value in parameters.items()
        if key in options
        and options[key].applies == _INFERENCE
        and key not in _ALSO_FOR_TRAINING
        and value not in (options[key].adapter, options[key].product, options[key].run_config, "")
    ]
    if given and any(each.type.startswith(UPDATES) for each in operations):
        for key in given:
            yield Finding(
                WARNING,
                f"{key}={parameters[key]!r} is for online inference, and this graph trains.",
                "Leave it out of the training, or predict in a script of its own with "
                "graph_run_mode=0.",
                option=key,
            )


def warn_of_unsupported(
    graph: Any,
    parameters: Mapping[str, Any],
    environ: Mapping[str, str],
    earlier: Collection[str] = (),
) -> Set[str]:
    """Warn of operators that a device does not run with these options.

    Args:
        graph: The graph, as far as it is built.
        parameters: The session's options, by the vendor's keys.
        environ: The environment.
        earlier: Texts that were warned of before.

    Returns:
        The texts of all.
    """
    texts = {str(each) for each in find_unsupported(graph.get_operations(), parameters, environ)}
    for text in sorted(texts - set(earlier)):
        warn(text)
    return texts


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


def warn_of_missed_variables(graph: Any) -> None:
    """Warn of trainable variables of which each rank keeps its own values.

    They were built after the only broadcast of the graph. Call it when the graph is complete:
    finalized, or when its session has closed. A variable that is updated by anything but means of
    all ranks is a rank's own on purpose, such as its part of a table; so are all variables of
    independent ranks.
    """
    tf = tf1()
    covered = {tf.compat.as_str(name) for name in graph.get_collection(BROADCAST)}
    if not covered or is_independent(os.environ):
        return
    plan = plan_run(graph, graph.get_operations())
    averaged = {each.name for each in plan.averaged if each.group == WORLD_GROUP}
    missed = [
        variable.op.name
        for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
        if variable.name not in covered
        and (variable.op.name in averaged or not _is_updated(variable))
    ]
    if missed:
        warn(
            "The broadcast of this graph was built before "
            f"{missed[0]!r}{f' and {len(missed) - 1} more variables' if len(missed) > 1 else ''}: "
            "each rank keeps its own initial values of these. Build it when the model is "
            "complete: training.broadcast_global_variables(0), or training.initialize(sess)."
        )


def _is_updated(variable: Any) -> bool:
    """Return whether something may change a variable besides its initialiser and a restore."""
    return any(
        "Apply" in user.type
        or "Scatter" in user.type
        or user.type == "Switch"
        or any(attr.type in ("func", "list(func)") for attr in user.op_def.attr)
        or (
            user.type.startswith("Assign")
            and user is not variable.initializer
            and not any(each.type.startswith("Restore") for each in walk_inputs(user))
        )
        for user in variable.op.outputs[0].consumers()
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
    """Warn of missing variables; when a system opens, the hook may not be there yet."""
    needed = accelerate.VARIABLES[accelerate.accelerate_trigger(mode)]
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        warn(
            f"accelerate_train_mode={mode!r} is set, but {' and '.join(missing)} are not: "
            "TellMeStepOrLossHook sets them, and without it the first run fails on a device."
        )
