"""HCCL's collectives with the vendor's signatures, on the device and between stub processes.

The operators take and return tensors of the default graph. Functions about groups and ranks work
inside ``with ascend_system()``. TensorFlow is imported when the first operator is built. All raise

* TypeError or ValueError for an argument of a wrong type or value; tensors are checked as far as
  they are known while the graph is built;
* LifecycleError for an operator under eager execution, and for a group without an open system;
* CollectiveError for a group or rank that does not exist;
* BackendError if the chosen backend cannot run here.

Sources: npu_bridge/hccl/hccl_ops.py, hccl_ops.cc and the documentation of hccl_ops;
hccl/manage/api.py, with shorter names.
"""

from typing import Any, List, Sequence, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.collectives import Groups, Shape, gather_shape, scatter_shape
from ascend_session.errors import LifecycleError
from ascend_session.hccl._arguments import BROADCAST, Arguments, OperatorArguments
from ascend_session.session.graphs import graph_backend
from ascend_session.session.system import current_system
from ascend_session.vendor import WORLD_GROUP

__all__ = [
    "WORLD_GROUP",
    "all_to_all_v",
    "all_to_all_v_c",
    "allgather",
    "allreduce",
    "broadcast",
    "create_group",
    "destroy_group",
    "group_rank",
    "local_rank",
    "local_size",
    "rank",
    "receive",
    "reduce",
    "reduce_scatter",
    "send",
    "size",
    "world_rank",
]


def __dir__() -> List[str]:
    return __all__


def allreduce(
    tensor: Any, reduction: str, fusion: int = 1, fusion_id: int = -1, group: str = WORLD_GROUP
) -> Any:
    """Reduce the tensors of the group's ranks; each rank gets the result.

    As with the vendor's operator, the gradient is summed over all ranks of the job.

    Args:
        tensor: int8, int16, int32, int64, float16, float32 or bfloat16, at most 8 GB, with the
            same shape on each rank.
        reduction: ``sum``, ``max`` or ``min``; or ``prod``, but not of int16 and bfloat16.
        fusion: How the device merges it with other operators. 0: not; 1: by the split of the
            gradients; 2: with those of the same ``fusion_id``. Only sums are merged.
        fusion_id: 0 or more for ``fusion=2``, otherwise -1.
        group: The group's name.

    Returns:
        A tensor of the same type and shape.

    Warns:
        AscendConfigWarning: If ``fusion`` is 2 for another reduction than ``sum``, and for a
            variable as input.
    """
    arguments, operands = _allreduce_arguments([tensor], reduction, fusion, fusion_id, group)
    return arguments.add_operator(*operands)


def allreduce_many(
    tensors: Sequence[Any],
    reduction: str,
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
) -> List[Any]:
    """Apply `allreduce` to several tensors, in their order; return a list of as many."""
    arguments, operands = _allreduce_arguments(tensors, reduction, fusion, fusion_id, group)
    return graph_backend().allreduce_many(operands, **arguments.settings) if operands else []


def _allreduce_arguments(
    tensors: Sequence[Any], reduction: Any, fusion: Any, fusion_id: Any, group: Any
) -> Tuple[OperatorArguments, List[Any]]:
    """Check the arguments of `allreduce`; return them, and the tensors."""
    arguments = OperatorArguments("allreduce", group)
    arguments.reduction(reduction)
    arguments.fusion(fusion, fusion_id, (0, 1, 2))
    operands = [arguments.operand(tensor) for tensor in tensors]
    for operand in operands:
        arguments.warn_of_variable(operand)
    return arguments, operands


def reduce(
    tensor: Any,
    reduction: str,
    root_rank: int,
    fusion: int = 0,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
) -> Any:
    """Reduce the tensors of the group's ranks; one rank gets the result.

    Args:
        tensor: As for `allreduce`.
        reduction: As for `allreduce`.
        root_rank: Rank in the group that gets the result.
        fusion: 0: not merged; 2: merged with operators of the same ``fusion_id``.
        fusion_id: 0 or more for ``fusion=2``.
        group: The group's name.

    Returns:
        A tensor of the same type and shape; on other ranks than the root its values are undefined.
    """
    arguments = OperatorArguments("reduce", group)
    arguments.reduction(reduction)
    arguments.member("root_rank", root_rank)
    arguments.fusion(fusion, fusion_id)
    return arguments.add_operator(arguments.operand(tensor))


def reduce_scatter(
    tensor: Any,
    reduction: str,
    rank_size: int,
    group: str = WORLD_GROUP,
    fusion: int = 0,
    fusion_id: int = -1,
) -> Any:
    """Reduce the tensors of the group's ranks; each rank gets its part of the result.

    Args:
        tensor: As for `allreduce`; its first dimension must be a multiple of ``rank_size``.
        reduction: As for `allreduce`.
        rank_size: The number of the group's ranks.
        group: The group's name.
        fusion: As for `reduce`.
        fusion_id: As for `reduce`.

    Returns:
        A tensor of the same type; its first dimension is divided by ``rank_size``.
    """
    arguments = OperatorArguments("reduce_scatter", group)
    arguments.reduction(reduction)
    rank_size = arguments.rank_size(rank_size)
    arguments.fusion(fusion, fusion_id)
    operand = arguments.operand(tensor)
    scatter_shape(_shape_of(operand), rank_size)  # the adapter would end the process
    return arguments.add_operator(operand)


def allgather(
    tensor: Any, rank_size: int, group: str = WORLD_GROUP, fusion: int = 0, fusion_id: int = -1
) -> Any:
    """Concatenate the tensors of the group's ranks; each rank gets the result.

    Args:
        tensor: Any integer, float16, bfloat16, float32 or float64, with at least one dimension and
            the same shape on each rank.
        rank_size: The number of the group's ranks.
        group: The group's name.
        fusion: As for `reduce`.
        fusion_id: As for `reduce`.

    Returns:
        A tensor of the same type; its first dimension is ``rank_size`` times as long.
    """
    arguments = OperatorArguments("allgather", group)
    rank_size = arguments.rank_size(rank_size)
    arguments.fusion(fusion, fusion_id)
    tensor = arguments.tensor("tensor", tensor)
    gather_shape(_shape_of(tensor), rank_size)
    return arguments.add_operator(tensor)


def broadcast(
    tensor: Sequence[Any],
    root_rank: int,
    fusion: int = 2,
    fusion_id: int = 0,
    group: str = WORLD_GROUP,
) -> List[Any]:
    """Send the root's tensors to all ranks of the group.

    A device also assigns the results to variables in the list (GE, SyncBroadCastData2Var); the stub
    does not. To be right on both, assign them yourself, or use
    `training.broadcast_global_variables`.

    Args:
        tensor: A list of tensors or variables, of the types of `allgather` or bool, with the same
            types and shapes on each rank. A tensor outside a list raises TypeError.
        root_rank: Rank in the group whose values are sent.
        fusion: As for `reduce`. Do not merge broadcasts if one needs the result of another.
        fusion_id: As for `reduce`.
        group: The group's name.

    Returns:
        A list of as many tensors; empty, without an operator, for an empty list.
    """
    arguments = OperatorArguments("broadcast", group)
    arguments.member("root_rank", root_rank)
    arguments.fusion(fusion, fusion_id)
    if not isinstance(tensor, (list, tuple)):
        raise TypeError(
            f"hccl.broadcast takes a list of tensors and gives one; this is {tensor!r}. Write "
            "hccl.broadcast([x], root_rank)[0]."
        )
    tensors = [
        arguments.tensor(f"tensor[{place}]", element, BROADCAST)
        for place, element in enumerate(tensor)
    ]
    return list(arguments.add_operator(tensors)) if tensors else []


def send(tensor: Any, sr_tag: int, dest_rank: int, group: str = WORLD_GROUP) -> Any:
    """Send a tensor to one rank of the group, which must `receive` it.

    Args:
        tensor: Of the types of `allgather`.
        sr_tag: The message's tag, 0 or more, the same on both sides.
        dest_rank: Rank in the group of the receiver.
        group: The group's name.

    Returns:
        The operation that sends; run it.
    """
    arguments = OperatorArguments("send", group)
    arguments.tag(sr_tag)
    arguments.member("dest_rank", dest_rank)
    return arguments.add_operator(arguments.tensor("tensor", tensor))


def receive(
    shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str = WORLD_GROUP
) -> Any:
    """Receive a tensor from one rank of the group, which must `send` it.

    Args:
        shape: Its fully defined shape, a list or `tf.TensorShape`.
        data_type: Its type, one of those of `allgather`.
        sr_tag: The message's tag, 0 or more, the same on both sides.
        src_rank: Rank in the group of the sender.
        group: The group's name.

    Returns:
        A tensor of this shape and type.
    """
    arguments = OperatorArguments("receive", group)
    arguments.tag(sr_tag)
    arguments.member("src_rank", src_rank)
    dtype = tf1().as_dtype(data_type).base_dtype
    arguments.check_dtype("data_type", dtype)
    full = tf1().TensorShape(shape)
    if not full.is_fully_defined():
        raise ValueError(
            f"hccl.receive: shape={shape!r} must be fully defined, because memory is "
            "allocated before the tensor arrives."
        )
    arguments.settings.update(shape=full, data_type=dtype)
    return arguments.add_operator()


def all_to_all_v(
    send_data: Any,
    send_counts: Any,
    send_displacements: Any,
    recv_counts: Any,
    recv_displacements: Any,
    group: str = WORLD_GROUP,
) -> Any:
    """Send a part of ``send_data`` to each rank of the group, and receive a part from each.

    Counts and displacements are numbers of elements, one per rank: ints or an int64 tensor.

    Args:
        send_data: Any integer, float16, bfloat16, float32 or float64; it is flattened.
        send_counts: Number of elements to send to each rank.
        send_displacements: Index in ``send_data`` of the first element for each rank.
        recv_counts: Number of elements to receive from each rank, equal to what that rank sends.
        recv_displacements: Index in the result of the first element from each rank.
        group: The group's name.

    Returns:
        A tensor of the same type with one dimension, up to the last element received; the graph
        does not know its shape.
    """
    arguments = OperatorArguments("all_to_all_v", group)
    data = arguments.tensor("send_data", send_data)
    arguments.counts("send_counts", send_counts)
    arguments.counts("send_displacements", send_displacements)
    arguments.counts("recv_counts", recv_counts)
    arguments.counts("recv_displacements", recv_displacements)
    arguments.check_lists(data)
    return arguments.add_operator(data)


def all_to_all_v_c(
    send_data: Any,
    send_count_matrix: Any,
    rank: int,
    fusion: int = 0,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
) -> Any:
    """Exchange parts as `all_to_all_v` does, given one matrix of counts on all ranks.

    Args:
        send_data: As for `all_to_all_v`.
        send_count_matrix: In ``[i][j]`` the number of elements that rank i sends to rank j; ints or
            an int64 tensor, the same on each rank.
        rank: This process's rank in the group.
        fusion: As for `reduce`.
        fusion_id: As for `reduce`.
        group: The group's name.

    Returns:
        A tensor of the same type with one dimension, the parts in the order of the ranks; the graph
        does not know its length.
    """
    arguments = OperatorArguments("all_to_all_v_c", group)
    arguments.rank_here(rank)
    arguments.fusion(fusion, fusion_id)
    data = arguments.tensor("send_data", send_data)
    arguments.counts("send_count_matrix", send_count_matrix)
    arguments.check_matrix(data)
    return arguments.add_operator(data)


def _shape_of(tensor: Any) -> Shape:
    """Return the shape as the graph knows it; None if the number of dimensions is unknown."""
    return None if tensor.shape.rank is None else tensor.shape.as_list()


def create_group(group: str, rank_num: int, rank_ids: Sequence[int]) -> None:
    """Create a group. Call it on each of its ranks, and on no other, with the same arguments.

    Args:
        group: Its name: 1 to 127 bytes, and not ``WORLD_GROUP``.
        rank_num: The number of its ranks.
        rank_ids: Their ranks in the job, each once, in any order. Ranks in the group follow the
            ranks in the job.

    Raises:
        CollectiveError: If the group exists, the job has no such ranks, or this process is not one
            of them.
    """
    arguments = Arguments("create_group", group)
    arguments.check_not_world()
    ranks = arguments.new_group_ranks(rank_num, rank_ids)
    _open_groups(arguments).create(group, ranks)


def destroy_group(group: str) -> None:
    """Destroy a group; its name can be used again."""
    arguments = Arguments("destroy_group", group)
    arguments.check_not_world()
    _open_groups(arguments).destroy(group)


def rank(group: str = WORLD_GROUP) -> int:
    """Return this process's rank in the group."""
    return _open_groups(Arguments("rank", group)).rank(group)


def size(group: str = WORLD_GROUP) -> int:
    """Return the number of the group's ranks."""
    return _open_groups(Arguments("size", group)).size(group)


def local_rank(group: str = WORLD_GROUP) -> int:
    """Return the index of this process among the group's ranks on its host."""
    return _open_groups(Arguments("local_rank", group)).local_rank(group)


def local_size(group: str = WORLD_GROUP) -> int:
    """Return the number of the group's ranks on this host."""
    return _open_groups(Arguments("local_size", group)).local_size(group)


def world_rank(group: str, group_rank: int) -> int:
    """Return the rank in the job of a rank in the group."""
    arguments = Arguments("world_rank", group)
    number = arguments.rank("group_rank", group_rank)
    return _open_groups(arguments).world_rank(group, number)


def group_rank(world_rank: int, group: str) -> int:
    """Return the rank in the group of a rank in the job."""
    arguments = Arguments("group_rank", group)
    number = arguments.rank("world_rank", world_rank)
    return _open_groups(arguments).group_rank(number, group)


def _open_groups(arguments: Arguments) -> Groups:
    system = current_system()
    if system is None:
        raise LifecycleError(
            f"hccl.{arguments.call} was called, but no Ascend system is open in this process; "
            "ranks and groups exist only inside one.",
            hint="Call it inside the block: with ascend_system() as system: ...",
        )
    return system.graph_backend.groups
