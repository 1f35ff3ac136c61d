"""``npu_bridge.helper.helper``: the adapter's library of operators, here one that computes on CPUs.

``tf.load_op_library`` gives a module with one function for each operator that the library
registers, ``DynamicGruV2`` as ``dynamic_gru_v2``; TensorFlow 1.15 has each a second time under the
operator's own name, for keyword arguments only. Those with a meaning on the CPU compute, the rest
raise UnsupportedError when they are called.

Sources: helper.py; tf_adapter/ops/*.cc of the newest release and of the old ones;
npu_sys_ctl_ops.cc.
"""

import re
from typing import Any, Callable, Dict

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat import formulas, recurrent, sessions
from ascend_session.compat.unavailable import refusal, unavailable_operators

__all__ = ["get_gen_ops", "npu_bridge_handle", "version"]

version = "v1.15.0"

_LIBRARY = "npu_bridge._tf_adapter"


def _npu_init(name: Any = None) -> Any:
    """Make the operation that initialises the system."""
    return _operation("NPUInit", sessions.bring_up, name)


def _npu_shutdown(name: Any = None) -> Any:
    """Make the operation that ends the system: sessions that are open then run no more."""
    return _operation("NPUShutdown", sessions.shut_down, name)


def _operation(kind: str, function: Callable[[], object], name: Any) -> Any:
    tf = tf1()
    with tf.device("/device:CPU:0"):
        return tf.numpy_function(function, [], [], name=name or kind)


def _get_shape(x: Any, name: Any = None) -> Any:
    return tf1().shape(x, name=name)


def _log_time_stamp(logid: str, notify: bool, name: Any = None) -> Any:
    return tf1().no_op(name=name or "LogTimeStamp")


def _hcom(operator: str) -> Callable[..., Any]:
    """Make a collective under the names that its operator's inputs and attributes have."""

    def collective(**kwargs: Any) -> Any:
        from ascend_session.compat.npu_bridge.hccl import hccl_ops

        function, renamed = _HCOM[operator]
        named = {renamed.get(key, key): value for key, value in kwargs.items() if key != "name"}
        return getattr(hccl_ops, function)(**named)

    collective.__name__ = _function_name(operator)
    collective.__doc__ = f"Call hccl_ops.{_HCOM[operator][0]} by the operator's argument names."
    return collective


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

# The operator's type -> what computes it
_COMPUTED: Dict[str, Callable[..., Any]] = {
    "BasicLSTMCell": recurrent.basic_lstm_cell,
    "Centralization": formulas.centralization,
    "DenseImageWarp": formulas.dense_image_warp,
    "DropOutDoMask": formulas.drop_out_do_mask,
    "DropOutGenMask": formulas.drop_out_gen_mask,
    "DynamicAUGRU": recurrent.dynamic_augru,
    "DynamicGruV2": recurrent.dynamic_gru_v2,
    "DynamicRnn": recurrent.dynamic_rnn,
    "DynamicRnnV2": recurrent.dynamic_rnn_v2,
    "FastGelu": formulas.fast_gelu,
    "FastGeluGrad": formulas.fast_gelu_grad,
    "FastGeluV2": formulas.fast_gelu_v2,
    "FusedLayerNorm": formulas.fused_layer_norm,
    "FusedLayerNormGrad": formulas.fused_layer_norm_grad,
    "Gelu": formulas.gelu,
    "GeluGrad": formulas.gelu_grad,
    "GetShape": _get_shape,
    "LARS": formulas.lars,
    "LarsV2": formulas.lars_v2,
    "LogTimeStamp": _log_time_stamp,
    "NPUInit": _npu_init,
    "NPUShutdown": _npu_shutdown,
    "NonZero": formulas.non_zero,
    "RandomChoiceWithMask": formulas.random_choice_with_mask,
}

# Where the rule that TensorFlow goes by is not the usual one
_SPELLED = {"LARS": "lars", "DPOP": "dpop", "NPUInit": "npu_init", "NPUShutdown": "npu_shutdown"}


def _function_name(operator: str) -> str:
    """Give the name that TensorFlow gives an operator's function (python_op_gen_internal.cc).

    An underscore stands before each capital that follows a small letter or a digit, and before the
    last of several capitals if a small letter follows it.
    """
    words = re.sub(r"(?<=[^A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", operator)
    return _SPELLED.get(operator, words.lower())


class GeneratedOperators:
    """The library: an attribute for each operator, under both of its names."""

    def __init__(self) -> None:
        functions = {**_COMPUTED, **{operator: _hcom(operator) for operator in _HCOM}}
        for operator, why in unavailable_operators():
            functions[operator] = refusal(f"{_LIBRARY}.{_function_name(operator)}", why)
        for operator, function in functions.items():
            setattr(self, _function_name(operator), function)
            setattr(self, operator, function)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"module '{_LIBRARY}' has no attribute {name!r}")


npu_bridge_handle = GeneratedOperators()


def get_gen_ops() -> GeneratedOperators:
    """The operators of the adapter's library."""
    return npu_bridge_handle
