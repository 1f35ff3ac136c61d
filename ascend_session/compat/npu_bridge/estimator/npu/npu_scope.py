"""``npu_bridge.estimator.npu.npu_scope``: blocks whose operators are marked for the graph engine.

The marks are attributes on the nodes, the vendor's own; nothing reads them on a CPU, and none of
them is about what an operator computes. Source: npu_scope.py.
"""

import contextlib
from typing import Any, ContextManager, Iterator

from ascend_session.compat.npu_bridge.estimator.npu.npu_config import NpuExecutePlacement
from ascend_session.compat.tensorflow_names import attribute_value, tf
from ascend_session.compat.vendor_modules import mirror


@contextlib.contextmanager
def _marked(**values: Any) -> Iterator[None]:
    """Set attributes on the operators that are added to the default graph in the block."""
    attributes = {f"_{name}": attribute_value(value) for name, value in values.items()}
    with tf.get_default_graph()._attr_scope(attributes):
        yield


def without_npu_compile_scope() -> ContextManager[None]:
    """Return a context manager whose operators stay on the host if ``mix_compile_mode`` is on."""
    return _marked(without_npu_compile=True)


@contextlib.contextmanager
def npu_variable_scope(placement: Any = NpuExecutePlacement.ALL) -> Iterator[None]:
    """Place the block's variables; raise ValueError if it is no `NpuExecutePlacement`."""
    if not isinstance(placement, NpuExecutePlacement):
        raise ValueError(f"placement must be one of NpuExecutePlacement, this is {placement!r}.")
    with _marked(variable_placement=placement.value):
        yield


def keep_dtype_scope() -> ContextManager[None]:
    """Return a context whose operators keep their types, as all do on a CPU."""
    return _marked(keep_dtype=1)


def npu_mem_type_scope() -> ContextManager[None]:
    """Return a context whose outputs are in memory that other devices can reach."""
    return _marked(output_memory_type=1)


__getattr__, __all__ = mirror(globals(), "NpuExecutePlacement util")
