"""Collectives in which each rank gives each rank something else.

Source: npu_bridge/hccl/hccl_ops.py, hccl_ops.cc and the documentation of hccl_ops.
"""

from typing import Any

from ascend_session.hccl import _counts, _job, _numbers, _tensors
from ascend_session.hccl._backend import collectives
from ascend_session.vendor import WORLD_GROUP

__all__ = ["all_to_all_v", "all_to_all_v_c"]


def all_to_all_v(
    send_data: Any,
    send_counts: Any,
    send_displacements: Any,
    recv_counts: Any,
    recv_displacements: Any,
    group: str = WORLD_GROUP,
) -> Any:
    """A part of ``send_data`` to each rank of the group, and a part from each.

    All counts and displacements are in elements, one for each rank, ints or an int64 tensor.

    Args:
        send_data: Any integer, float16, bfloat16, float32 or float64; taken as one row.
        send_counts: How many elements go to each rank.
        send_displacements: Where in ``send_data`` they begin.
        recv_counts: How many elements come from each rank; what that one sends.
        recv_displacements: Where in the result they begin.
        group: The group's name.

    Returns:
        A tensor of the same type with one dimension, up to the last element received; the graph
        does not know its shape.

    Raises:
        TypeError: If an argument has the wrong type, also a tensor.
        ValueError: If its value cannot be, as far as it is known while the graph is built.
        LifecycleError: Under eager execution.
        BackendError: If the backend cannot run here.
    """
    call = "all_to_all_v"
    _tensors.graph_mode(call)
    group = _numbers.group_name(call, group)
    data = _tensors.as_tensor(call, "send_data", send_data, _tensors.MOVED)
    given = {
        "send_counts": send_counts,
        "send_displacements": send_displacements,
        "recv_counts": recv_counts,
        "recv_displacements": recv_displacements,
    }
    numbers = {name: _tensors.counts(call, name, value) for name, value in given.items()}
    _counts.check_lists(call, data, numbers, _job.known_size(group))
    return collectives().all_to_all_v(data, group=group, **numbers)


def all_to_all_v_c(
    send_data: Any,
    send_count_matrix: Any,
    rank: int,
    fusion: int = 0,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
) -> Any:
    """The same, where each rank knows what each sends to each; the parts lie side by side.

    Args:
        send_data: As for `all_to_all_v`.
        send_count_matrix: ``[i][j]``: how many elements rank i sends to rank j; ints or an int64
            tensor, the same on each rank.
        rank: This process's rank in the group.
        fusion: How the device merges it with others; 0: not; 2: with those of one ``fusion_id``.
        fusion_id: From 0 for ``fusion=2``.
        group: The group's name.

    Returns:
        A tensor of the same type with one dimension; the graph does not know its length.

    Raises:
        TypeError, ValueError, LifecycleError, BackendError: As `all_to_all_v`.
    """
    call = "all_to_all_v_c"
    _tensors.graph_mode(call)
    group = _numbers.group_name(call, group)
    rank = _numbers.rank_number(call, "rank", rank)
    _job.check_own_rank(call, rank, group)
    fusion, fusion_id = _numbers.merging(call, fusion, fusion_id, (0, 2))
    data = _tensors.as_tensor(call, "send_data", send_data, _tensors.MOVED)
    matrix = _tensors.counts(call, "send_count_matrix", send_count_matrix)
    _counts.check_matrix(call, data, matrix, rank, _job.known_size(group))
    return collectives().all_to_all_v_c(data, matrix, rank, fusion, fusion_id, group)
