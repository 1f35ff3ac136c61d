"""``npu_bridge.hccl.hccl_ops``: the collectives, between the ranks of this job.

They are `ascend_session.hccl`'s; what reaches into the memory of other devices is refused. Source:
hccl_ops.py; for what a broadcast does with variables GE's graph_var_manager.cc
(SyncBroadCastData2Var).
"""

from typing import Any

from ascend_session import hccl
from ascend_session.compat.formulas import is_variable
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.unavailable import define_unavailable
from ascend_session.vendor import WORLD_GROUP

__all__ = [
    "all_to_all_v",
    "all_to_all_v_c",
    "allgather",
    "allreduce",
    "broadcast",
    "gen_hccl_ops",
    "helper",
    "receive",
    "reduce",
    "reduce_scatter",
    "send",
]

gen_hccl_ops = helper.get_gen_ops()


def allreduce(
    tensor: Any, reduction: Any, fusion: Any = 1, fusion_id: Any = -1, group: Any = WORLD_GROUP
) -> Any:
    """The reduction of all ranks' tensors, on each of them."""
    return hccl.allreduce(tensor, reduction, fusion, fusion_id, group)


def allgather(
    tensor: Any, rank_size: Any, group: Any = WORLD_GROUP, fusion: Any = 0, fusion_id: Any = -1
) -> Any:
    """The tensors of all ranks, one behind the other."""
    group, fusion, fusion_id = _in_order(group, fusion, fusion_id)
    return hccl.allgather(tensor, rank_size, group, fusion, fusion_id)


def broadcast(
    tensor: Any, root_rank: Any, fusion: Any = 2, fusion_id: Any = 0, group: Any = WORLD_GROUP
) -> Any:
    """The root's tensors, on each rank; takes a list and gives one.

    Variables in the list have the root's values, too, when what is given for them is computed: the
    device broadcasts in place. Many scripts run the result and assign nothing.
    """
    if isinstance(fusion, str):  # the third argument in the releases of 2020
        fusion, group = 2, fusion
    received = hccl.broadcast(tensor, root_rank, fusion, fusion_id, group)
    return [_kept(given, value) for given, value in zip(tensor, received)]


def _kept(given: Any, received: Any) -> Any:
    if not is_variable(given):
        return received
    with tf.control_dependencies([tf.assign(given, received)]):
        return tf.identity(received)


def reduce(
    tensor: Any,
    reduction: Any,
    root_rank: Any,
    fusion: Any = 0,
    fusion_id: Any = -1,
    group: Any = WORLD_GROUP,
) -> Any:
    """The reduction of all ranks' tensors, on the root."""
    return hccl.reduce(tensor, reduction, root_rank, fusion, fusion_id, group)


def reduce_scatter(
    tensor: Any,
    reduction: Any,
    rank_size: Any,
    group: Any = WORLD_GROUP,
    fusion: Any = 0,
    fusion_id: Any = -1,
) -> Any:
    """This rank's part of the reduction of all ranks' tensors."""
    group, fusion, fusion_id = _in_order(group, fusion, fusion_id)
    return hccl.reduce_scatter(tensor, reduction, rank_size, group, fusion, fusion_id)


def send(tensor: Any, sr_tag: Any, dest_rank: Any, group: Any = WORLD_GROUP) -> Any:
    """The operation that sends to one rank."""
    return hccl.send(tensor, sr_tag, dest_rank, group)


def receive(
    shape: Any, data_type: Any, sr_tag: Any, src_rank: Any, group: Any = WORLD_GROUP
) -> Any:
    """What one rank sends to this one."""
    return hccl.receive(shape, data_type, sr_tag, src_rank, group)


def all_to_all_v(
    send_data: Any,
    send_counts: Any,
    send_displacements: Any,
    recv_counts: Any,
    recv_displacements: Any,
    group: Any = WORLD_GROUP,
) -> Any:
    """A part for each rank, and one of each."""
    return hccl.all_to_all_v(
        send_data, send_counts, send_displacements, recv_counts, recv_displacements, group
    )


def all_to_all_v_c(
    send_data: Any,
    send_count_matrix: Any,
    rank: Any,
    fusion: Any = 0,
    fusion_id: Any = -1,
    group: Any = WORLD_GROUP,
) -> Any:
    """The same, from the matrix of how much each rank sends to each."""
    return hccl.all_to_all_v_c(send_data, send_count_matrix, rank, fusion, fusion_id, group)


def _in_order(group: Any, fusion: Any, fusion_id: Any) -> Any:
    """The three, also if they were given in the order of the releases of 2021: the group last."""
    if isinstance(group, str):
        return group, fusion, fusion_id
    number = fusion if fusion or group else -1  # 0 is both today's default and a number
    return (fusion_id if isinstance(fusion_id, str) else WORLD_GROUP), group, number


define_unavailable(globals())
