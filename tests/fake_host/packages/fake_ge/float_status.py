"""The device's mode and status of overflow, and the operators for it.

Source: npu_mixed_precesion_ops.cc (NpuGetFloatStatusV2: int32 [8]; NpuClearFloatStatusV2: no
output); ge_plugin.cc, GetDeviceSatMode (-1 if the query fails). That it fails before the device is
up is ASSUMED, as is that eight numbers are zero without overflow and the first is one with it
(npu_optimizer.py compares all with 0).
"""

from typing import Any, List

from fake_ge.engine import ENGINE
from fake_ge.faults import fault
from fake_ge.graphs import mark
from fake_ge.journal import note

__all__ = ["GenOps", "device_sat_mode"]

_status: List[int] = [0]


class GenOps:
    """What ``tf.load_op_library`` gives: the operators for training that the product asks for."""

    def npu_get_float_status_v2(self, name: Any = None) -> Any:
        """The status."""
        import tensorflow.compat.v1 as tf

        result = tf.py_func(_read, [], tf.int32)
        result.set_shape([8])
        status = tf.identity(result, name=name or "NpuGetFloatStatusV2")
        mark(status.op, "NpuGetFloatStatusV2")
        return status

    def npu_clear_float_status_v2(self, name: Any = None) -> Any:
        """Sets it to zero."""
        import tensorflow.compat.v1 as tf

        with tf.control_dependencies([tf.py_func(_clear, [], tf.int32)]):
            operation = tf.no_op(name=name or "NpuClearFloatStatusV2")
        mark(operation, "NpuClearFloatStatusV2")
        return operation

    def gelu(self, features: Any, name: Any = None) -> Any:
        """The operator; TensorFlow's own computes it (ops/aicore/npu_unary_ops.cc)."""
        import tensorflow.compat.v1 as tf

        with tf.name_scope(name or "Gelu"):
            x = tf.convert_to_tensor(features)
            inner = 0.7978845608 * (x + 0.044715 * x**3)
            result = tf.identity(0.5 * x * (1 + tf.tanh(inner)))
        mark(result.op, "Gelu")
        return result


def device_sat_mode() -> int:
    """0: saturation; 1: Inf and NaN, with the fault inf-nan; -1: not known yet."""
    if not ENGINE.up:
        return -1
    return 1 if fault("inf-nan") is not None else 0


def _read() -> Any:
    import numpy as np

    if fault("overflow") is not None:
        _status[0] = 1
    note("NpuGetFloatStatusV2", status=_status[0])
    return np.array([_status[0]] + [0] * 7, np.int32)


def _clear() -> Any:
    import numpy as np

    note("NpuClearFloatStatusV2")
    _status[0] = 0
    return np.int32(0)
