"""Attributes that a script sets on operators for the graph engine; here nobody reads them.

Source: npu/util.py.
"""

from typing import Any, Dict

from tensorflow.core.framework import attr_value_pb2

from ascend_session.compat.tensorflow_names import tf

__all__ = [
    "keep_tensors_dtypes",
    "set_graph_exec_config",
    "set_op_input_tensor_multi_dims",
    "set_op_tensor_max_range",
    "set_op_tensor_max_size",
]

_MODES = ("lazy_recompile", "dynamic_execute")


def _mark(target: Any, **values: Any) -> None:
    """Sets attributes on an operation, or on that of a tensor."""
    operation = target if isinstance(target, tf.Operation) else target.op
    for name, value in values.items():
        operation._set_attr(f"_{name}", _attribute(value))


def _attribute(value: Any) -> Any:
    if isinstance(value, bool):
        return attr_value_pb2.AttrValue(b=value)
    if isinstance(value, int):
        return attr_value_pb2.AttrValue(i=value)
    return attr_value_pb2.AttrValue(s=tf.compat.as_bytes(value))


def set_graph_exec_config(
    fetch: Any,
    dynamic_input: bool = False,
    dynamic_graph_execute_mode: str = "dynamic_execute",
    dynamic_inputs_shape_range: Any = None,
    is_train_graph: bool = False,
    experimental_config: Any = None,
) -> Any:
    """Says how the graph of ``fetch`` is to be executed; on a CPU that changes nothing.

    Args:
        fetch: An operation, a tensor, a tensor's name, or a list of those.
        dynamic_input: Whether shapes change.
        dynamic_graph_execute_mode: ``lazy_recompile`` or ``dynamic_execute``.
        dynamic_inputs_shape_range: The ranges as text.
        is_train_graph: Whether it trains.
        experimental_config: An ExperimentalConfig, of which ``recompute`` is taken.

    Returns:
        What was given; for a name the tensor.

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
        return _mark_all(tf.get_default_graph().get_tensor_by_name(fetch), marks)
    if isinstance(fetch, (tuple, list)):
        for one in fetch:
            _mark_all(one, marks)
        return fetch
    if not isinstance(fetch, (tf.Operation, tf.Tensor)):
        raise ValueError("fetch is invalid, should be op, tensor, list, tuple or tensor name.")
    _mark(fetch, **marks)
    return fetch


def _recompute(experimental_config: Any) -> Any:
    from ascend_session.compat.npu_bridge.estimator.npu.npu_config import ExperimentalConfig

    if experimental_config is None:
        return None
    if not isinstance(experimental_config, ExperimentalConfig):
        raise ValueError("experimental_config type must be ExperimentalConfig")
    return getattr(experimental_config._graph_memory_optimize_config, "_recompute", None)


def keep_tensors_dtypes(graph: Any, input_tensors: Any) -> None:
    """Says that tensors, by their names, keep their dtypes whatever the precision mode is.

    Raises:
        ValueError: If it is no graph, or no list of names.
    """
    if not isinstance(graph, tf.Graph):
        raise ValueError("graph param must be ops.Graph class.")
    if not isinstance(input_tensors, (tuple, list)):
        raise ValueError("input_tensors must be list or tuple.")
    for name in input_tensors:
        _mark(graph.get_tensor_by_name(name), keep_dtype=1)


def set_op_tensor_max_range(tensor: Any, max_shape: Any) -> None:
    """Says how large an operator's output can become."""
    _mark(tensor, op_max_shape=max_shape)


def set_op_input_tensor_multi_dims(tensor: Any, input_shape: Any, input_dims: Any) -> None:
    """Says which shapes an operator's input can have."""
    _mark(
        tensor,
        subgraph_multi_dims_input_shape=input_shape,
        subgraph_multi_dims_input_dims=input_dims,
    )


def set_op_tensor_max_size(tensor: Any, max_size: int) -> None:
    """Says how much memory an operator's output can take, in bytes."""
    _mark(tensor, op_max_size=max_size)
