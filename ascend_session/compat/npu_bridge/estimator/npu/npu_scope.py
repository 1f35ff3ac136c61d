"""``npu_bridge.estimator.npu.npu_scope``: blocks whose operators are marked for the graph engine.

The marks are attributes on the nodes, the vendor's own; nothing reads them on a CPU, and none of
them is about what an operator computes. Source: npu_scope.py.
"""

import contextlib
from typing import Any, Iterator

from tensorflow.core.framework import attr_value_pb2

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.npu_bridge.estimator.npu import util
from ascend_session.compat.npu_bridge.estimator.npu.npu_config import NpuExecutePlacement

__all__ = [
    "NpuExecutePlacement",
    "disable_autofuse",
    "keep_dtype_scope",
    "limit_core_num_scope",
    "npu_graph_slice_scope",
    "npu_mem_type_scope",
    "npu_optimizer_scope",
    "npu_qos_label_scope",
    "npu_recompute_scope",
    "npu_stage_scope",
    "npu_variable_scope",
    "npu_weight_prefetch_scope",
    "op_specified_engine_scope",
    "subgraph_multi_dims_scope",
    "util",
    "without_npu_compile_scope",
]


@contextlib.contextmanager
def _marked(**values: Any) -> Iterator[None]:
    """Operators of the default graph that are made inside have these attributes."""
    attributes = {f"_{name}": _attribute(value) for name, value in values.items()}
    with tf1().get_default_graph()._attr_scope(attributes):
        yield


def _attribute(value: Any) -> Any:
    if isinstance(value, bool):
        return attr_value_pb2.AttrValue(b=value)
    if isinstance(value, str):
        return attr_value_pb2.AttrValue(s=value.encode())
    if isinstance(value, bytes):
        return attr_value_pb2.AttrValue(s=value)
    return attr_value_pb2.AttrValue(i=value)


@contextlib.contextmanager
def without_npu_compile_scope() -> Iterator[None]:
    """For the host, with ``mix_compile_mode``."""
    with _marked(without_npu_compile=True):
        yield


@contextlib.contextmanager
def npu_variable_scope(placement: Any = NpuExecutePlacement.ALL) -> Iterator[None]:
    """Where variables are kept; ValueError for what is no `NpuExecutePlacement`."""
    if not isinstance(placement, NpuExecutePlacement):
        raise ValueError(f"placement must be one of NpuExecutePlacement, this is {placement!r}.")
    with _marked(variable_placement=placement.value):
        yield


@contextlib.contextmanager
def keep_dtype_scope() -> Iterator[None]:
    """In the graph's own precision, as all operators are on a CPU."""
    with _marked(keep_dtype=1):
        yield


@contextlib.contextmanager
def npu_stage_scope(stage: Any) -> Iterator[None]:
    """One stage of a pipeline; here the stages are one graph."""
    with _marked(stage_level=stage):
        yield


@contextlib.contextmanager
def npu_mem_type_scope() -> Iterator[None]:
    """With outputs in memory that other devices can reach."""
    with _marked(output_memory_type=1):
        yield


@contextlib.contextmanager
def npu_weight_prefetch_scope(
    buffer_pool_id: Any = 0, buffer_pool_size: Any = 536870912
) -> Iterator[None]:
    """With weights fetched ahead into a pool of that many bytes."""
    with _marked(buffer_pool_id=buffer_pool_id, buffer_pool_size=buffer_pool_size):
        yield


@contextlib.contextmanager
def op_specified_engine_scope(engine_name: Any, kernel_lib_name: Any) -> Iterator[None]:
    """For that engine and library of kernels."""
    with _marked(specified_engine_name=engine_name, specified_kernel_lib_name=kernel_lib_name):
        yield


@contextlib.contextmanager
def npu_qos_label_scope(label: Any) -> Iterator[None]:
    """With that label for the quality of service."""
    with _marked(qos_service_label=label):
        yield


@contextlib.contextmanager
def subgraph_multi_dims_scope(index: Any) -> Iterator[None]:
    """In the part of the graph with that number, whose shapes have profiles of their own."""
    with _marked(subgraph_multi_dims_index=index):
        yield


@contextlib.contextmanager
def npu_optimizer_scope() -> Iterator[None]:
    """Of an optimizer."""
    with _marked(optimizer=True):
        yield


def npu_recompute_scope() -> Any:
    """Recomputed instead of kept, by their names."""
    return _names("NpuRecompute")


def npu_graph_slice_scope(slice_num: Any = None) -> Any:
    """In slices of the batch, by their names; TypeError or ValueError for what is no number."""
    if slice_num is not None:
        util.check_positive_integer(slice_num, "slice_num")
    return _names(f"SliceNum-{slice_num}-NpuGraphSlicing{slice_num}")


def _names(name: str) -> Any:
    from tensorflow.python.framework import ops

    return ops.name_scope_v2(name)


@contextlib.contextmanager
def disable_autofuse() -> Iterator[None]:
    """Not fused."""
    with _marked(disable_autofuse_scope=True):
        yield


@contextlib.contextmanager
def limit_core_num_scope(op_aicore_num: Any = "0", op_vectorore_num: Any = "0") -> Iterator[None]:
    """On so many vector cores; ValueError for what is no positive number as text."""
    if not isinstance(op_vectorore_num, str):
        raise ValueError("Param op_vectorore_num must be string.")
    try:
        number = int(op_vectorore_num)
    except ValueError:
        raise ValueError(
            "Param op_vectorore_num can not be converted into a valid int number."
        ) from None
    if number <= 0:
        raise ValueError("Param op_vectorore_num must be greater than zero.")
    with _marked(op_vectorcore_num=op_vectorore_num):
        yield
