"""Collectives (tf_adapter/python/npu_bridge/hccl/hccl_ops.py).

Each is one TensorFlow operator that stands for the vendor's; between processes nothing is sent. A
job of one rank gets what the device would give; the result has the right shape for any size.
"""

from typing import Any

import tensorflow.compat.v1 as tf
from fake_ge import mark

from npu_bridge.helper import helper

gen_hccl_ops = helper.get_gen_ops()

_WORLD = "hccl_world_group"


def allreduce(
    tensor: Any, reduction: Any, fusion: Any = 1, fusion_id: Any = -1, group: Any = _WORLD
) -> Any:
    """The reduction of all ranks' tensors, on each of them."""
    _reduction(reduction)
    return _stand_in("HcomAllReduce", tensor)


def allgather(
    tensor: Any, rank_size: Any, group: Any = _WORLD, fusion: Any = 0, fusion_id: Any = -1
) -> Any:
    """All ranks' tensors, one behind the other."""
    return _stand_in("HcomAllGather", tf.concat([tf.convert_to_tensor(tensor)] * rank_size, 0))


def broadcast(
    tensor: Any, root_rank: Any, fusion: Any = 2, fusion_id: Any = 0, group: Any = _WORLD
) -> Any:
    """The root's tensors; the argument and the result are lists."""
    tensors = tensor if isinstance(tensor, (list, tuple)) else [tensor]
    return [_stand_in("HcomBroadcast", one) for one in tensors]


def reduce(
    tensor: Any,
    reduction: Any,
    root_rank: Any,
    fusion: Any = 0,
    fusion_id: Any = -1,
    group: Any = _WORLD,
) -> Any:
    """The reduction of all ranks' tensors, on the root."""
    _reduction(reduction)
    return _stand_in("HcomReduce", tensor)


def reduce_scatter(
    tensor: Any,
    reduction: Any,
    rank_size: Any,
    group: Any = _WORLD,
    fusion: Any = 0,
    fusion_id: Any = -1,
) -> Any:
    """This rank's part of the reduction."""
    _reduction(reduction)
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


def _reduction(reduction: str) -> None:
    # hccl_ops.py: "max", "min", "prod" and "sum"
    if reduction not in ("max", "min", "prod", "sum"):
        raise ValueError(f"Value for attr 'reduction' of \"{reduction}\" is not in the list")
