"""``npu_bridge.estimator.npu.npu_scope``: blocks whose operators are marked for the graph engine.

The marks are attributes on the nodes, the vendor's own; nothing reads them on a CPU, and none of
them is about what an operator computes. Source: npu_scope.py.
"""

import contextlib
from typing import Any, ContextManager, Iterator

from tensorflow.python.framework import ops

from ascend_session.compat.npu_bridge.estimator.npu import util
from ascend_session.compat.npu_bridge.estimator.npu.npu_config import NpuExecutePlacement
from ascend_session.compat.tensorflow_names import attribute_value, tf
from ascend_session.compat.vendor_modules import mirror


@contextlib.contextmanager
def _marked(**values: Any) -> Iterator[None]:
    """Operators of the default graph that are made inside have these attributes."""
    attributes = {f"_{name}": attribute_value(value) for name, value in values.items()}
    with tf.get_default_graph()._attr_scope(attributes):
        yield


def without_npu_compile_scope() -> ContextManager[None]:
    """For the host, with ``mix_compile_mode``."""
    return _marked(without_npu_compile=True)


@contextlib.contextmanager
def npu_variable_scope(placement: Any = NpuExecutePlacement.ALL) -> Iterator[None]:
    """Where variables are kept; ValueError for what is no `NpuExecutePlacement`."""
    if not isinstance(placement, NpuExecutePlacement):
        raise ValueError(f"placement must be one of NpuExecutePlacement, this is {placement!r}.")
    with _marked(variable_placement=placement.value):
        yield


def keep_dtype_scope() -> ContextManager[None]:
    """In the graph's own precision, as all operators are on a CPU."""
    return _marked(keep_dtype=1)


def npu_stage_scope(stage: Any) -> ContextManager[None]:
    """One stage of a pipeline; here the stages are one graph."""
    return _marked(stage_level=stage)


def npu_mem_type_scope() -> ContextManager[None]:
    """With outputs in memory that other devices can reach."""
    return _marked(output_memory_type=1)


def npu_weight_prefetch_scope(
    buffer_pool_id: Any = 0, buffer_pool_size: Any = 536870912
) -> ContextManager[None]:
    """With weights fetched ahead into a pool of that many bytes."""
    return _marked(buffer_pool_id=buffer_pool_id, buffer_pool_size=buffer_pool_size)


def op_specified_engine_scope(engine_name: Any, kernel_lib_name: Any) -> ContextManager[None]:
    """For that engine and library of kernels."""
    return _marked(specified_engine_name=engine_name, specified_kernel_lib_name=kernel_lib_name)


def npu_qos_label_scope(label: Any) -> ContextManager[None]:
    """With that label for the quality of service."""
    return _marked(qos_service_label=label)


def subgraph_multi_dims_scope(index: Any) -> ContextManager[None]:
    """In the part of the graph with that number, whose shapes have profiles of their own."""
    return _marked(subgraph_multi_dims_index=index)


def npu_optimizer_scope() -> ContextManager[None]:
    """Of an optimizer."""
    return _marked(optimizer=True)


def npu_recompute_scope() -> Any:
    """Recomputed instead of kept, by their names."""
    return ops.name_scope_v2("NpuRecompute")


def npu_graph_slice_scope(slice_num: Any = None) -> Any:
    """In slices of the batch, by their names; TypeError or ValueError for what is no number."""
    if slice_num is not None:
        util.check_positive_integer(slice_num, "slice_num")
    return ops.name_scope_v2(f"SliceNum-{slice_num}-NpuGraphSlicing{slice_num}")


def disable_autofuse() -> ContextManager[None]:
    """Not fused."""
    return _marked(disable_autofuse_scope=True)


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


__getattr__, __all__ = mirror(globals(), "NpuExecutePlacement util")
