"""Collectives that move tensors as they are.

Source: npu_bridge/hccl/hccl_ops.py, hccl_ops.cc and the documentation of hccl_ops.
"""

from typing import Any, List, Sequence

from ascend_session.backends.collective_shapes import gathered
from ascend_session.hccl import _job, _numbers, _tensors
from ascend_session.hccl._backend import collectives
from ascend_session.vendor import WORLD_GROUP

__all__ = ["allgather", "broadcast", "receive", "send"]


def allgather(
    tensor: Any, rank_size: int, group: str = WORLD_GROUP, fusion: int = 0, fusion_id: int = -1
) -> Any:
    """The tensors of the group's ranks one behind the other, on each of them.

    Args:
        tensor: Any integer, float16, bfloat16, float32 or float64, of one dimension at least; the
            same shape on each rank.
        rank_size: The number of the group's ranks.
        group: The group's name.
        fusion: How the device merges it with others; 0: not; 2: with those of one ``fusion_id``.
        fusion_id: From 0 for ``fusion=2``.

    Returns:
        A tensor of the same type; its first dimension is ``rank_size`` times as long.

    Raises:
        TypeError: If an argument has the wrong type, also a tensor.
        ValueError: If its value cannot be.
        LifecycleError: Under eager execution.
        BackendError: If the backend cannot run here.
    """
    call = "allgather"
    _tensors.graph_mode(call)
    group = _numbers.group_name(call, group)
    rank_size = _numbers.length(call, rank_size)
    _job.check_rank_size(call, rank_size, group)
    fusion, fusion_id = _numbers.merging(call, fusion, fusion_id, (0, 2))
    made = _tensors.as_tensor(call, "tensor", tensor, _tensors.MOVED)
    gathered(_tensors.shape_of(made), rank_size)
    return collectives().allgather(made, rank_size, group, fusion, fusion_id)


def broadcast(
    tensor: Sequence[Any],
    root_rank: int,
    fusion: int = 2,
    fusion_id: int = 0,
    group: str = WORLD_GROUP,
) -> List[Any]:
    """The root's tensors, on each rank of the group.

    A device changes variables in the list, too (GE, SyncBroadCastData2Var); the stub does not. What
    assigns the results to them, as `training.broadcast_global_variables` does, is right on both.

    Args:
        tensor: A list of tensors or variables, of the types of `allgather` or bool; the same
            types and shapes on each rank.
        root_rank: Rank in the group whose values all get.
        fusion: As for `allgather`. Broadcasts of which one needs the other's result must not be
            merged.
        fusion_id: As for `allgather`.
        group: The group's name.

    Returns:
        A list of as many tensors; nothing is sent for an empty one.

    Raises:
        TypeError, ValueError, LifecycleError, BackendError: As `allgather`; TypeError also for a
            tensor that is in no list.
    """
    call = "broadcast"
    _tensors.graph_mode(call)
    group = _numbers.group_name(call, group)
    root_rank = _numbers.rank_number(call, "root_rank", root_rank)
    _job.check_member(call, "root_rank", root_rank, group)
    fusion, fusion_id = _numbers.merging(call, fusion, fusion_id, (0, 2))
    if not isinstance(tensor, (list, tuple)):
        raise TypeError(
            f"hccl.broadcast takes a list of tensors and gives one; this is {tensor!r}. Write "
            "hccl.broadcast([x], root_rank)[0]."
        )
    made = [
        _tensors.as_tensor(call, f"tensor[{place}]", one, _tensors.BROADCAST)
        for place, one in enumerate(tensor)
    ]
    if not made:
        return []
    return collectives().broadcast(made, root_rank, fusion, fusion_id, group)


def send(tensor: Any, sr_tag: int, dest_rank: int, group: str = WORLD_GROUP) -> Any:
    """Sends a tensor to one rank of the group, which must `receive` it.

    Args:
        tensor: Of the types of `allgather`.
        sr_tag: The message's tag, from 0, the same on both sides.
        dest_rank: Rank in the group that gets it.
        group: The group's name.

    Returns:
        The operation that sends; run it.

    Raises:
        TypeError, ValueError, LifecycleError, BackendError: As `allgather`.
    """
    call = "send"
    _tensors.graph_mode(call)
    group = _numbers.group_name(call, group)
    sr_tag = _numbers.tag(call, sr_tag)
    dest_rank = _numbers.rank_number(call, "dest_rank", dest_rank)
    _job.check_member(call, "dest_rank", dest_rank, group)
    made = _tensors.as_tensor(call, "tensor", tensor, _tensors.MOVED)
    return collectives().send(made, sr_tag, dest_rank, group)


def receive(
    shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str = WORLD_GROUP
) -> Any:
    """What one rank of the group has sent to this one.

    Args:
        shape: The full shape of what is sent, a list or `tf.TensorShape`.
        data_type: Its type, of those of `allgather`.
        sr_tag: The message's tag, from 0, the same on both sides.
        src_rank: Rank in the group that sends it.
        group: The group's name.

    Returns:
        A tensor of this shape and type.

    Raises:
        TypeError, ValueError, LifecycleError, BackendError: As `allgather`.
    """
    call = "receive"
    tf = _tensors.graph_mode(call)
    group = _numbers.group_name(call, group)
    sr_tag = _numbers.tag(call, sr_tag)
    src_rank = _numbers.rank_number(call, "src_rank", src_rank)
    _job.check_member(call, "src_rank", src_rank, group)
    dtype = tf.as_dtype(data_type).base_dtype
    _tensors.check_dtype(call, "data_type", dtype, _tensors.MOVED)
    full = tf.TensorShape(shape)
    if not full.is_fully_defined():
        raise ValueError(
            f"hccl.receive: shape={shape!r} must be known in full, for memory is taken before "
            "anything arrives."
        )
    return collectives().receive(full, dtype, sr_tag, src_rank, group)
