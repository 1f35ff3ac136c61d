"""``npu_bridge.hccl.hccl_ops``: the collectives, between the ranks of this job.

They are `ascend_session.hccl`'s; what reaches into the memory of other devices is refused. Source:
hccl_ops.py; for what a broadcast does with variables GE's graph_var_manager.cc
(SyncBroadCastData2Var).
"""

from typing import Any

from ascend_session import hccl
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.vendor_modules import mirror
from ascend_session.vendor import WORLD_GROUP

allreduce, reduce = hccl.allreduce, hccl.reduce
send, receive = hccl.send, hccl.receive
all_to_all_v, all_to_all_v_c = hccl.all_to_all_v, hccl.all_to_all_v_c


def allgather(
    tensor: Any, rank_size: Any, group: Any = WORLD_GROUP, fusion: Any = 0, fusion_id: Any = -1
) -> Any:
    """Return the tensors of all ranks, concatenated."""
    group, fusion, fusion_id = _in_order(group, fusion, fusion_id)
    return hccl.allgather(tensor, rank_size, group, fusion, fusion_id)


def broadcast(
    tensor: Any, root_rank: Any, fusion: Any = 2, fusion_id: Any = 0, group: Any = WORLD_GROUP
) -> Any:
    """Take a list of tensors; return a list of the root's, on each rank.

    Computing a result assigns it to the variable in its place of the list, too, as a device does,
    which broadcasts in place: many scripts run the result and assign nothing.
    """
    if isinstance(fusion, str):  # the third argument in the releases of 2020
        fusion, group = 2, fusion
    received = hccl.broadcast(tensor, root_rank, fusion, fusion_id, group)
    return [_kept(given, value) for given, value in zip(tensor, received)]


def _kept(given: Any, received: Any) -> Any:
    # Neither class of variables covers all of them in every TensorFlow.
    is_variable = hasattr(given, "assign") and hasattr(given, "initializer")
    is_reference = getattr(getattr(given, "dtype", None), "_is_ref_dtype", False)
    if not is_variable and not is_reference:
        return received
    with tf.control_dependencies([tf.assign(given, received)]):
        return tf.identity(received)


def reduce_scatter(
    tensor: Any,
    reduction: Any,
    rank_size: Any,
    group: Any = WORLD_GROUP,
    fusion: Any = 0,
    fusion_id: Any = -1,
) -> Any:
    """Return this rank's part of the reduction of all ranks' tensors."""
    group, fusion, fusion_id = _in_order(group, fusion, fusion_id)
    return hccl.reduce_scatter(tensor, reduction, rank_size, group, fusion, fusion_id)


def _in_order(group: Any, fusion: Any, fusion_id: Any) -> Any:
    """Return the three arguments in today's order; the releases of 2021 had the group last."""
    if isinstance(group, str):
        return group, fusion, fusion_id
    number = fusion if fusion or group else -1  # 0 is both today's default and a number
    return (fusion_id if isinstance(fusion_id, str) else WORLD_GROUP), group, number


__getattr__, __all__ = mirror(
    globals(), "all_to_all_v all_to_all_v_c allreduce gen_hccl_ops helper receive reduce send"
)
