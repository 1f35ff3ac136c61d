"""``npu_bridge.helper.helper``: the adapter's library of operators, here one that computes on CPUs.

``tf.load_op_library`` gives a module with one function for each operator that the library
registers, ``DynamicGruV2`` as ``dynamic_gru_v2``; TensorFlow 1.15 has each a second time under the
operator's own name, for keyword arguments only. Those with a meaning on the CPU compute, the rest
raise UnsupportedError when they are called.

Sources: helper.py; tf_adapter/ops/*.cc of the newest release and of the old ones;
npu_sys_ctl_ops.cc.
"""

from typing import Any, Callable, Dict

from ascend_session.compat import formulas
from ascend_session.compat.operators import function_name, operators_of
from ascend_session.compat.script_run import script_run
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.vendor_modules import absent_attribute, mirror

version = "v1.15.0"

_LIBRARY = "npu_bridge._tf_adapter"


def _npu_init(name: Any = None) -> Any:
    """Make the operation that initialises the system."""
    return _operation("NPUInit", lambda: script_run().bring_up(), name)


def _npu_shutdown(name: Any = None) -> Any:
    """Make the operation that shuts the system down; open sessions cannot run any more."""
    return _operation("NPUShutdown", lambda: script_run().shut_down(), name)


def _operation(kind: str, function: Callable[[], object], name: Any) -> Any:
    with tf.device("/device:CPU:0"):
        return tf.numpy_function(function, [], [], name=name or kind)


def _log_time_stamp(logid: str, notify: bool, name: Any = None) -> Any:
    return tf.no_op(name=name or "LogTimeStamp")


_IN = {"input": "tensor"}
# The operator's type -> the function of hccl_ops, and its names of the operator's arguments
_HCOM: Dict[str, Any] = {
    "HcomAllGather": ("allgather", _IN),
    "HcomAllReduce": ("allreduce", _IN),
    "HcomAllToAllV": ("all_to_all_v", {}),
    "HcomAllToAllVC": ("all_to_all_v_c", {}),
    "HcomBroadcast": ("broadcast", _IN),
    "HcomReceive": ("receive", {"T": "data_type"}),
    "HcomReduce": ("reduce", _IN),
    "HcomReduceScatter": ("reduce_scatter", _IN),
    "HcomSend": ("send", _IN),
}


def _hcom(operator: str) -> Callable[..., Any]:
    """Make a collective under the names that its operator's inputs and attributes have."""
    function, renamed = _HCOM[operator]

    def collective(**kwargs: Any) -> Any:
        from ascend_session.compat.npu_bridge.hccl import hccl_ops

        named = {renamed.get(key, key): value for key, value in kwargs.items() if key != "name"}
        return getattr(hccl_ops, function)(**named)

    collective.__name__ = function_name(operator)
    collective.__doc__ = f"Call hccl_ops.{function} by the operator's argument names."
    return collective


class _GeneratedOperators:
    """The library: an attribute for each operator, under both of its names."""

    def __init__(self) -> None:
        functions = {
            "LogTimeStamp": _log_time_stamp,
            "NPUInit": _npu_init,
            "NPUShutdown": _npu_shutdown,
            **operators_of(formulas),
            **{operator: _hcom(operator) for operator in _HCOM},
        }
        for operator, function in functions.items():
            setattr(self, function_name(operator), function)
            setattr(self, operator, function)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return absent_attribute(_LIBRARY, name)


npu_bridge_handle = _GeneratedOperators()


def get_gen_ops() -> _GeneratedOperators:
    """Return the operators of the adapter's library."""
    return npu_bridge_handle


__getattr__, __all__ = mirror(globals(), "npu_bridge_handle version")
