"""Collectives (tf_adapter/python/npu_bridge/hccl/hccl_ops.py; the operators: hccl_ops.cc).

Each is one TensorFlow operator that stands for the vendor's; between processes nothing is sent. A
job of one rank gets what the device would give; the result has the right shape for any size. Where
the vendor's has no static shape (remote_read, all_to_all_v, gather_all_to_all_v), this has one.
Groups, roots, tags and fusion are taken and not looked at: HCCL does that on the device.
"""

from typing import Any

import tensorflow.compat.v1 as tf
from fake_ge import abort, mark

from npu_bridge.helper import helper

gen_hccl_ops = helper.get_gen_ops()

_WORLD = "hccl_world_group"
_SOURCE = "tf_adapter/ops/hccl/hccl_ops.cc"

# hccl_ops.cc, attribute T of HcomAllReduce, HcomReduce and HcomReduceScatter
_REDUCED = ("int8", "int16", "int32", "int64", "float16", "float32", "bfloat16")


def allreduce(
    tensor: Any, reduction: Any, fusion: Any = 1, fusion_id: Any = -1, group: Any = _WORLD
) -> Any:
    """The reduction of all ranks' tensors, on each of them."""
    return _stand_in("HcomAllReduce", _reducible(tensor, reduction))


def allgather(
    tensor: Any, rank_size: Any, group: Any = _WORLD, fusion: Any = 0, fusion_id: Any = -1
) -> Any:
    """All ranks' tensors, one behind the other."""
    _positive(rank_size)
    return _stand_in("HcomAllGather", tf.concat([tf.convert_to_tensor(tensor)] * rank_size, 0))


def broadcast(
    tensor: Any, root_rank: Any, fusion: Any = 2, fusion_id: Any = 0, group: Any = _WORLD
) -> Any:
    """The root's tensors; the argument and the result are lists."""
    # hccl_ops.cc, HcomBroadcast: "T: list(type)"; TensorFlow's wrapper of such an input says this
    if not isinstance(tensor, (list, tuple)):
        raise TypeError(f"Expected list for 'input' argument to 'hcom_broadcast' Op, not {tensor}.")
    return [_stand_in("HcomBroadcast", one) for one in tensor]


def reduce(
    tensor: Any,
    reduction: Any,
    root_rank: Any,
    fusion: Any = 0,
    fusion_id: Any = -1,
    group: Any = _WORLD,
) -> Any:
    """The reduction of all ranks' tensors, on the root."""
    return _stand_in("HcomReduce", _reducible(tensor, reduction))


def reduce_scatter(
    tensor: Any,
    reduction: Any,
    rank_size: Any,
    group: Any = _WORLD,
    fusion: Any = 0,
    fusion_id: Any = -1,
) -> Any:
    """This rank's part of the reduction."""
    tensor = _reducible(tensor, reduction)
    _positive(rank_size)
    first = tensor.shape.as_list()[0] if tensor.shape.rank else None
    if first is not None and first % rank_size:
        # hccl_ops.cc, HcomReduceScatter: TF_CHECK_OK in the shape function, so the process ends
        reason = "Invalid argument: input first dim should be N * rank_size."
        abort(f"Non-OK-status: outputFirstDimStatus status: {reason}", _SOURCE, sleep=False)
    return _stand_in("HcomReduceScatter", tf.split(tensor, rank_size)[0])


def send(tensor: Any, sr_tag: Any, dest_rank: Any, group: Any = _WORLD) -> Any:
    """Sends; the result is the operator."""
    return _stand_in("HcomSend", tensor).op


def receive(shape: Any, data_type: Any, sr_tag: Any, src_rank: Any, group: Any = _WORLD) -> Any:
    """Receives; here zeros."""
    return _stand_in("HcomReceive", tf.zeros(shape, data_type))


def remote_read(tensorRemote: Any, data_type: Any) -> Any:  # noqa: N803
    """Reads remote memory; here zeros."""
    return _stand_in("HcomRemoteRead", tf.zeros([1, 1], data_type))


def remote_ref_read(tensorRemote: Any, cache: Any, offset: Any) -> Any:  # noqa: N803
    """Reads remote memory into ``cache``."""
    return _stand_in("HcomRemoteRefRead", cache)


def remote_write(tensorRemote: Any, tensorLocal: Any, data_type: Any) -> Any:  # noqa: N803
    """Writes remote memory; the result is the operator."""
    return _stand_in("HcomRemoteWrite", tensorLocal).op


def remote_scatter_write(tensorRemote: Any, tensorLocal: Any, offset: Any) -> Any:  # noqa: N803
    """Writes remote memory in steps; the result is the operator."""
    return _stand_in("HcomRemoteScatterWrite", tensorLocal).op


def gather_all_to_all_v(
    addrinfo: Any,
    addrinfo_count_per_rank: Any,
    recv_counts: Any,
    recv_displacements: Any,
    dtype: Any,
    addr_length: Any,
    group: Any = _WORLD,
) -> Any:
    """Gathers from addresses and exchanges; here zeros."""
    received = _stand_in("HcomGatherAllToAllV", tf.zeros([1], dtype))
    return received, _stand_in("HcomGatherAllToAllV", tf.zeros([1], dtype))


def all_to_all_v(
    send_data: Any,
    send_counts: Any,
    send_displacements: Any,
    recv_counts: Any,
    recv_displacements: Any,
    group: Any = _WORLD,
) -> Any:
    """Exchanges parts of ``send_data``."""
    return _stand_in("HcomAllToAllV", send_data)


def all_to_all_v_c(
    send_data: Any,
    send_count_matrix: Any,
    rank: Any,
    fusion: Any = 0,
    fusion_id: Any = -1,
    group: Any = _WORLD,
) -> Any:
    """Exchanges parts of ``send_data``."""
    return _stand_in("HcomAllToAllVC", send_data)


def _stand_in(kind: str, tensor: Any) -> Any:
    result = tf.identity(tensor, name=kind)
    mark(result.op, kind)
    return result


def _reducible(tensor: Any, reduction: str) -> Any:
    """The tensor; ValueError or TypeError if it cannot be reduced in this way."""
    # hccl_ops.cc: "reduction: {'min', 'max', 'prod', 'sum'}"; what TensorFlow raises for attributes
    if reduction not in ("max", "min", "prod", "sum"):
        raise ValueError(f"Value for attr 'reduction' of \"{reduction}\" is not in the list")
    converted = tf.convert_to_tensor(tensor)
    if converted.dtype.base_dtype.name not in _REDUCED:
        raise TypeError(f"DataType {converted.dtype.name} for attr 'T' not in list: {_REDUCED}")
    return converted


def _positive(rank_size: int) -> None:
    # hccl_ops.cc, the shape functions of HcomAllGather and HcomReduceScatter
    if rank_size <= 0:
        raise ValueError("rank_size should be greater than 0.")
