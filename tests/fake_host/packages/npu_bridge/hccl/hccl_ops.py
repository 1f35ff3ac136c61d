"""Collectives (tf_adapter/python/npu_bridge/hccl/hccl_ops.py; the operators: hccl_ops.cc).

Each is one TensorFlow operator that stands for the vendor's, and exchanges real values with the
other ranks of the job (fake_ge/collectives.py). Where the vendor's has no static shape
(remote_read, gather_all_to_all_v), this has one. Fusion is taken and not looked at: it does not
change a result. Remote memory is not modelled: what is read are zeros.
"""

from typing import Any, Sequence

import tensorflow.compat.v1 as tf
from fake_ge import abort, collectives, mark
from fake_ge.faults import fault
from tensorflow.python.framework import ops

from npu_bridge.helper import helper

gen_hccl_ops = helper.get_gen_ops()

_WORLD = "hccl_world_group"
_SOURCE = "tf_adapter/ops/hccl/hccl_ops.cc"

# hccl_ops.cc, attribute T of HcomAllReduce, HcomReduce and HcomReduceScatter
_REDUCED = ("int8", "int16", "int32", "int64", "float16", "float32", "bfloat16")
# hccl_ops.cc, attribute T of HcomAllGather, HcomSend, HcomReceive, HcomAllToAllV, HcomAllToAllVC
_MOVED = (*_REDUCED, "uint64", "uint8", "uint16", "uint32", "float64")


def allreduce(
    tensor: Any, reduction: Any, fusion: Any = 1, fusion_id: Any = -1, group: Any = _WORLD
) -> Any:
    """The reduction of all ranks' tensors, on each of them."""
    return collectives.allreduce(_reducible(tensor, reduction), reduction, group)


def _allreduce_grad(op: Any, *grads: Any) -> Any:
    # hccl_ops.py, _allreduce_grad: allreduce(grad, "sum", fusion=0), in the group of all ranks. The
    # operator that stands for it has the input as a second one.
    from npu_bridge.hccl import hccl_ops

    if fault("hccl-gradient") is not None:
        return [None, grads[0]]
    return [None, hccl_ops.allreduce(grads[0], "sum", fusion=0)]


# The fake is imported several times in a process; TensorFlow's registry is not.
if "HcomAllReduce" not in ops._gradient_registry.list():
    ops.RegisterGradient("HcomAllReduce")(_allreduce_grad)


def allgather(
    tensor: Any, rank_size: Any, group: Any = _WORLD, fusion: Any = 0, fusion_id: Any = -1
) -> Any:
    """All ranks' tensors, one behind the other."""
    _positive(rank_size)
    tensor = _movable(tensor)
    return collectives.allgather(tensor, _first_times(tensor, rank_size, 1), group)


def broadcast(
    tensor: Any, root_rank: Any, fusion: Any = 2, fusion_id: Any = 0, group: Any = _WORLD
) -> Any:
    """The root's tensors; the argument and the result are lists."""
    # hccl_ops.cc, HcomBroadcast: "T: list(type)"; TensorFlow's wrapper of such an input says this
    if not isinstance(tensor, (list, tuple)):
        raise TypeError(f"Expected list for 'input' argument to 'hcom_broadcast' Op, not {tensor}.")
    tensors = [tf.convert_to_tensor(one) for one in tensor]
    return collectives.broadcast(tensors, root_rank, group)


def reduce(
    tensor: Any,
    reduction: Any,
    root_rank: Any,
    fusion: Any = 0,
    fusion_id: Any = -1,
    group: Any = _WORLD,
) -> Any:
    """The reduction of all ranks' tensors, on the root."""
    return collectives.reduce(_reducible(tensor, reduction), reduction, root_rank, group)


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
    shape = _first_times(tensor, 1, rank_size)
    return collectives.reduce_scatter(tensor, reduction, shape, group)


def send(tensor: Any, sr_tag: Any, dest_rank: Any, group: Any = _WORLD) -> Any:
    """Sends; the result is the operator."""
    return collectives.send(_movable(tensor), sr_tag, dest_rank, group)


def receive(shape: Any, data_type: Any, sr_tag: Any, src_rank: Any, group: Any = _WORLD) -> Any:
    """Receives."""
    return collectives.receive(_movable(tf.zeros(shape, data_type)), sr_tag, src_rank, group)


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
    """Parts of ``send_data`` to each rank, and a part from each."""
    counts = [send_counts, send_displacements, recv_counts, recv_displacements]
    return collectives.all_to_all_v(_movable(send_data), [_counts(one) for one in counts], group)


def all_to_all_v_c(
    send_data: Any,
    send_count_matrix: Any,
    rank: Any,
    fusion: Any = 0,
    fusion_id: Any = -1,
    group: Any = _WORLD,
) -> Any:
    """The same from one matrix of what each rank sends to each."""
    matrix = _counts(send_count_matrix)
    return collectives.all_to_all_v_c(_movable(send_data), matrix, rank, group)


def _stand_in(kind: str, tensor: Any) -> Any:
    result = tf.identity(tensor, name=kind)
    mark(result.op, kind)
    return result


def _reducible(tensor: Any, reduction: str) -> Any:
    """The tensor; ValueError or TypeError if it cannot be reduced in this way."""
    # hccl_ops.cc: "reduction: {'min', 'max', 'prod', 'sum'}"; what TensorFlow raises for attributes
    if reduction not in ("max", "min", "prod", "sum"):
        raise ValueError(f"Value for attr 'reduction' of \"{reduction}\" is not in the list")
    return _of_type(tensor, _REDUCED)


def _movable(tensor: Any) -> Any:
    return _of_type(tensor, _MOVED)


def _counts(numbers: Any) -> Any:
    # hccl_ops.cc, HcomAllToAllV: "send_counts: int64"
    return _of_type(tf.convert_to_tensor(numbers, dtype_hint=tf.int64), ("int64",))


def _of_type(tensor: Any, known: Sequence[str]) -> Any:
    converted = tf.convert_to_tensor(tensor)
    if converted.dtype.base_dtype.name not in known:
        raise TypeError(f"DataType {converted.dtype.name} for attr 'T' not in list: {known}")
    return converted


def _first_times(tensor: Any, factor: int, divisor: int) -> Any:
    """The tensor's shape with another first dimension."""
    # hccl_ops.cc, HcomAllGather and HcomReduceScatter: an unknown rank, and an unknown first
    # dimension, stay what they are; WithRankAtLeast(input, 1)
    if tensor.shape.rank is None:
        return tensor.shape
    if not tensor.shape.rank:
        raise ValueError("Shape must be at least rank 1 but is rank 0.")
    first = tensor.shape.as_list()[0]
    return tensor.shape if first is None else [first * factor // divisor, *tensor.shape[1:]]


def _positive(rank_size: int) -> None:
    # hccl_ops.cc, the shape functions of HcomAllGather and HcomReduceScatter
    if rank_size <= 0:
        raise ValueError("rank_size should be greater than 0.")
