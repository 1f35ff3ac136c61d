"""What the vendor demands of graph and environment when a session opens.

Source: seed 000 (variable_placement, iterations_per_loop), seed 001 (accelerate_train_mode),
options_notes a15 and a18 (graphs that the adapter aborts on).
"""

from typing import Any, List, Mapping

from ascend_session.backends._tensorflow import tf1
from ascend_session.config.accelerate import accelerate_trigger
from ascend_session.config.checking import warn
from ascend_session.errors import LifecycleError

__all__ = ["LOOPS_APPLIED", "check_conditions"]

# Graph collection in which a training helper notes the loop count it has applied.
LOOPS_APPLIED = "ascend_session/iterations_per_loop"

# Operators of TensorFlow's version 1 control flow, which tf.cond and tf.while_loop leave behind.
_V1_CONTROL_FLOW = frozenset(["Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"])

_ACCELERATION_VARIABLES = {"step": ("STEP_NOW", "TOTAL_STEP"), "loss": ("LOSS_NOW", "TARGET_LOSS")}


def check_conditions(graph: Any, parameters: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Checks ``graph`` and ``environ`` against the options a session opens with.

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
        _check_loops(graph, loops)
    if "dynamic_dims" in parameters:
        _check_profiles(graph)


def _op_types(graph: Any) -> List[str]:
    return [op.type for op in graph.get_operations()]


def _check_loops(graph: Any, loops: int) -> None:
    if "OneShotIterator" in _op_types(graph):
        raise LifecycleError(
            f"iterations_per_loop={loops} does not work with a one-shot iterator; the adapter "
            "aborts the process.",
            hint="Use dataset.make_initializable_iterator() (tf.compat.v1.data).",
        )
    if loops not in graph.get_collection(LOOPS_APPLIED):
        warn(
            f"iterations_per_loop={loops} is set, but no training helper has applied it to the "
            "graph: each run makes a single step."
        )


def _check_profiles(graph: Any) -> None:
    count = _op_types(graph).count("IteratorGetNext")
    if count > 1:
        raise LifecycleError(
            f"dynamic_dims works with one dataset input, but the graph reads from {count} "
            "iterators; the adapter aborts the process."
        )


def _check_host_variables(graph: Any) -> None:
    old = sorted(set(_op_types(graph)) & _V1_CONTROL_FLOW)
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
    needed = _ACCELERATION_VARIABLES[accelerate_trigger(mode)]
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        warn(
            f"accelerate_train_mode={mode!r} is set, but {' and '.join(missing)} are not: "
            "TellMeStepOrLossHook sets them, and without it the first run fails on a device."
        )
