"""``npu_bridge.estimator.npu.util``: loops of steps, marks on operators, and small checks.

A loop has variables, and a number of steps that may be set later. Marks are attributes that the
graph engine reads; here they stand on the same nodes and nobody reads them. Source: util.py
(``create_or_get_var``, ``IterationPerLoop``).
"""

import contextlib
import os
from typing import Any, Dict, List, Optional

from tensorflow.core.framework import variable_pb2
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops

from ascend_session.compat.loops import LateLoop, check_loop, find_loop, plain_session
from ascend_session.compat.npu_bridge.estimator.npu.npu_config import ExperimentalConfig
from ascend_session.compat.tensorflow_names import attribute_value
from ascend_session.compat.tensorflow_names import tf as tf1
from ascend_session.compat.vendor_modules import mirror

# The one dict, once global_dict_init has made it; a forked process keeps it, as the vendor's does.
_VALUES: List[Dict[str, Any]] = []


def check_not_none(value: Any, name: str) -> None:
    """Raise ValueError if ``value`` is None."""
    if value is None:
        raise ValueError(f"{name} must not be None")


def check_positive_integer(value: Any, name: str) -> None:
    """Raise TypeError if ``value`` is no int, ValueError if it is not above 0."""
    _check_integer(value, name)
    if value <= 0:
        raise ValueError(f"{name} must be positive, got {value}")


def check_nonnegative_integer(value: Any, name: str) -> None:
    """Raise TypeError if ``value`` is no int, ValueError if it is below 0."""
    _check_integer(value, name)
    if value < 0:
        raise ValueError(f"{name} must be nonnegative, got {value}")


def _check_integer(value: Any, name: str) -> None:
    if not isinstance(value, int):
        raise TypeError(f"{name} must be int, got {type(value)}")


def check_bool_type(value: Any, name: str) -> None:
    """Raise TypeError if ``value`` is no bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value}")


def convert_bool_to_int(value: Any) -> int:
    """Return 1 for True, 0 for False, -1 for anything else."""
    return int(value) if isinstance(value, bool) else -1


def format_string(value: Any, name: str) -> str:
    """Return a text, or an empty one for None; raise TypeError for anything else."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be string, got {type(value)}")
    return value or ""


def check_profiling_options(profiling_options: Any = ()) -> str:
    """Return the options joined by colons; raise ValueError for none, or unknown ones."""
    known = ("training_trace", "task_time", "op_trace")
    if not profiling_options or any(option not in known for option in profiling_options):
        raise ValueError("profiling options must be in `training_trace`, `task_time` or `op_trace`")
    return ":".join(profiling_options)


def check_path(path: Any) -> str:
    """Return the real path of a readable and writable folder; else raise ValueError."""
    if not os.path.exists(path):
        raise ValueError(f"path:{path} is not exists.")
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise ValueError(f"path:{path} is not directory.")
    if not os.access(real, os.R_OK | os.W_OK):
        raise ValueError(f"path:{path} is not read and write permissions.")
    return str(real)


def check_aoe_mode(aoe_mode: Any) -> None:
    """Raise ValueError unless the mode is ``1``, ``2`` or ``4``."""
    if aoe_mode not in ("1", "2", "4"):
        raise ValueError(f"aoe_mode:{aoe_mode} is invalid, should be in ['1', '2', '4']")


def get_ranksize() -> str:
    """Return RANK_SIZE or CM_WORKER_SIZE of the environment, else ``1``.

    Raises:
        ValueError: If RANK_SIZE and CM_WORKER_SIZE are both set.
    """
    of_table, of_workers = os.environ.get("RANK_SIZE"), os.environ.get("CM_WORKER_SIZE")
    if of_table is not None and of_workers is not None:
        raise ValueError("RANK_SIZE and CM_WORKER_SIZE cannot be configured at the same time")
    if of_table is not None:
        return of_table
    return "1" if of_workers is None else of_workers


_SCOPE = "npu_runconfig"

LOOP_VARIABLES = ("iterations_per_loop", "loop_cond", "zero", "one")


def register_func(var_name: str) -> None:
    """Register how the collection of a loop's variable is written into a meta graph."""
    to_proto = getattr(resource_variable_ops, "_to_proto_fn", None)
    if to_proto is None:
        return
    with contextlib.suppress(KeyError):  # it is registered already
        ops.register_proto_function(
            f"{_SCOPE}_{var_name}",
            proto_type=variable_pb2.VariableDef,
            to_proto=to_proto,
            from_proto=resource_variable_ops._from_proto_fn,
        )


def create_or_get_var(var_name: str) -> Any:
    """Return a variable of the device's loop in the default graph, which is created if missing.

    Raises:
        RuntimeError: If the graph has several.
    """
    collection = f"{_SCOPE}_{var_name}"
    variables = tf1.get_default_graph().get_collection(collection)
    if len(variables) > 1:
        raise RuntimeError(
            f"The graph has {len(variables)} variables in the collection {collection}."
        )
    if variables:
        return variables[0]
    with tf1.variable_scope(_SCOPE, reuse=tf1.AUTO_REUSE):
        return tf1.get_variable(
            var_name,
            initializer=tf1.zeros_initializer(),
            shape=[],
            dtype=tf1.int64,
            trainable=False,
            collections=[collection, tf1.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )


def set_iteration_per_loop(sess: Any, train_op: Any, iterations_per_loop: int = 1) -> Any:
    """Return an operation that makes this number of steps per run.

    Other fetches of the run have the values of the last step. Call this again for another operation
    or another session.

    Raises:
        ValueError: If ``train_op`` is no operation, or the number is not positive.
        TypeError: If the number is no int.
        LifecycleError: With a one-shot iterator, where the adapter aborts.
        UnsupportedError: For a step that cannot be repeated in a run.

    Warns:
        AscendConfigWarning: If the session's entry says another number.
    """
    _check_operation(train_op)
    check_positive_integer(iterations_per_loop, "iterations_per_loop")
    if iterations_per_loop == 1:
        return train_op
    check_loop(plain_session(sess), iterations_per_loop)
    loop = find_loop(train_op)
    loop.load(plain_session(sess), iterations_per_loop)
    return loop.operation


def _check_operation(train_op: Any) -> None:
    if not isinstance(train_op, tf1.Operation):
        raise ValueError(
            f"The incoming 'train_op' is {train_op!r}, and the need type is 'Operation': put "
            "tf.group(train_op) there."
        )


class IterationPerLoop:
    """Does as `set_iteration_per_loop` in two calls: first the operation, then the number."""

    def __init__(self) -> None:
        self._loop: Optional[LateLoop] = None

    def create_iteration_per_loop_var(self, train_op: Any) -> Any:
        """Return an operation that makes several steps per run.

        Raises:
            ValueError: If ``train_op`` is no operation.
        """
        _check_operation(train_op)
        self._loop = LateLoop(train_op)
        return self._loop.operation

    def load_iteration_per_loop_var(self, sess: Any, iterations_per_loop: int = 1) -> None:
        """Set the number of steps per run in a session.

        Raises:
            AttributeError: Before `create_iteration_per_loop_var`.
            TypeError, ValueError: If the number is no int, or not positive.
        """
        check_positive_integer(iterations_per_loop, "iterations_per_loop")
        if self._loop is None:
            raise AttributeError("create_iteration_per_loop_var(train_op) was not called before.")
        check_loop(plain_session(sess), iterations_per_loop)
        self._loop.load(plain_session(sess), iterations_per_loop)


def variable_initializer_in_host(var_list: Any) -> Any:
    """Return an operation that initialises these variables."""
    return tf1.initializers.variables(var_list, name="var_in_host")


def npu_compile(sess: Any, *fetches: Any) -> None:
    """Run ``fetches`` once, for which the device compiles them."""
    sess.run(fetches)


def global_dict_init() -> None:
    """Create an empty dict for `set_value`."""
    _VALUES[:] = [{}]


def set_value(key: Any, value: Any) -> None:
    """Store a value.

    Raises:
        NameError: Before `global_dict_init`.
    """
    _values()[key] = value


def get_value(key: Any, def_value: Any = None) -> Any:
    """Return the stored value, else ``def_value``.

    Raises:
        NameError: Before `global_dict_init`.
    """
    return _values().get(key, def_value)


def _values() -> Dict[str, Any]:
    if not _VALUES:
        raise NameError(
            "name '_global_dict' is not defined: call init_resource(), or "
            "util.global_dict_init(), before a rank is asked for."
        )
    return _VALUES[0]


_MODES = ("lazy_recompile", "dynamic_execute")


def _mark(target: Any, **values: Any) -> None:
    """Set attributes on an operation, or on that of a tensor."""
    operation = target if isinstance(target, tf1.Operation) else target.op
    for name, value in values.items():
        operation._set_attr(f"_{name}", attribute_value(value))


def set_graph_exec_config(
    fetch: Any,
    dynamic_input: bool = False,
    dynamic_graph_execute_mode: str = "dynamic_execute",
    dynamic_inputs_shape_range: Any = None,
    is_train_graph: bool = False,
    experimental_config: Any = None,
) -> Any:
    """Set how a device executes the graph of ``fetch``; without effect on a CPU.

    Args:
        fetch: An operation, a tensor, a tensor's name, or a list of those.
        dynamic_input: Whether shapes change.
        dynamic_graph_execute_mode: ``lazy_recompile`` or ``dynamic_execute``.
        dynamic_inputs_shape_range: The ranges as text.
        is_train_graph: Whether it trains.
        experimental_config: An ExperimentalConfig, of which only ``recompute`` is used.

    Returns:
        The fetch; for a name its tensor.

    Raises:
        ValueError: For an unknown mode, another kind of fetch or of configuration.
    """
    if dynamic_graph_execute_mode not in _MODES:
        raise ValueError("dynamic_graph_execute_mode should be lazy_recompile or dynamic_execute")
    marks: Dict[str, Any] = {
        "graph_dynamic_input": dynamic_input,
        "graph_dynamic_graph_execute_mode": dynamic_graph_execute_mode,
        "graph_dynamic_inputs_shape_range": dynamic_inputs_shape_range or "",
        "is_train_graph": is_train_graph,
    }
    recompute = _recompute(experimental_config)
    if recompute is not None:
        marks["recompute_mode"] = recompute
    return _mark_all(fetch, marks)


def _mark_all(fetch: Any, marks: Dict[str, Any]) -> Any:
    if isinstance(fetch, str):
        return _mark_all(tf1.get_default_graph().get_tensor_by_name(fetch), marks)
    if isinstance(fetch, (tuple, list)):
        for each in fetch:
            _mark_all(each, marks)
        return fetch
    if not isinstance(fetch, (tf1.Operation, tf1.Tensor)):
        raise ValueError("fetch is invalid, should be op, tensor, list, tuple or tensor name.")
    _mark(fetch, **marks)
    return fetch


def _recompute(experimental_config: Any) -> Any:
    if experimental_config is None:
        return None
    if not isinstance(experimental_config, ExperimentalConfig):
        raise ValueError("experimental_config type must be ExperimentalConfig")
    return getattr(experimental_config._graph_memory_optimize_config, "_recompute", None)


def keep_tensors_dtypes(graph: Any, input_tensors: Any) -> None:
    """Mark tensors, given by name, to keep their dtypes in any precision mode.

    Raises:
        ValueError: If ``graph`` is no graph, or ``input_tensors`` no list.
    """
    if not isinstance(graph, tf1.Graph):
        raise ValueError("graph param must be ops.Graph class.")
    if not isinstance(input_tensors, (tuple, list)):
        raise ValueError("input_tensors must be list or tuple.")
    for name in input_tensors:
        _mark(graph.get_tensor_by_name(name), keep_dtype=1)


def set_op_tensor_max_range(tensor: Any, max_shape: Any) -> None:
    """Set the largest shape of an operator's output."""
    _mark(tensor, op_max_shape=max_shape)


def set_op_input_tensor_multi_dims(tensor: Any, input_shape: Any, input_dims: Any) -> None:
    """Set the shapes that an operator's input can have."""
    _mark(
        tensor,
        subgraph_multi_dims_input_shape=input_shape,
        subgraph_multi_dims_input_dims=input_dims,
    )


def set_op_tensor_max_size(tensor: Any, max_size: int) -> None:
    """Set the most memory of an operator's output, in bytes."""
    _mark(tensor, op_max_size=max_size)


__getattr__, __all__ = mirror(
    globals(),
    "os six tf ops training_util variable_scope init_ops dtypes compat attr_value_pb2 "
    "variable_pb2 resource_variable_ops GraphMemoryOptimizeConfig ExperimentalConfig",
)
