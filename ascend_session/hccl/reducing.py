"""Collectives that reduce: sum, prod, max or min over the ranks of a group.

Source: npu_bridge/hccl/hccl_ops.py, hccl_ops.cc and the documentation of hccl_ops.
"""

from typing import Any, List, Sequence, Tuple

from ascend_session.backends.collective_shapes import scattered
from ascend_session.config.checking import warn
from ascend_session.hccl import _job, _numbers, _tensors
from ascend_session.hccl._backend import collectives
from ascend_session.vendor import WORLD_GROUP

__all__ = ["allreduce", "allreduce_many", "reduce", "reduce_scatter"]


def allreduce(
    tensor: Any, reduction: str, fusion: int = 1, fusion_id: int = -1, group: str = WORLD_GROUP
) -> Any:
    """The reduction of the group's tensors, on each of its ranks.

    Its gradient is the vendor's: the allreduced sum of the gradients over all ranks of the job.

    Args:
        tensor: int8, int16, int32, int64, float16, float32 or bfloat16, at most 8 GB; the same
            shape on each rank.
        reduction: ``sum``, ``max`` or ``min``; or ``prod``, but not of int16 and bfloat16.
        fusion: How the device merges it with others; 0: not; 1: by the split of the gradients;
            2: with those of the same ``fusion_id``. Only sums are merged.
        fusion_id: From 0 for ``fusion=2``, else -1.
        group: The group's name.

    Returns:
        A tensor of the same type and shape.

    Raises:
        TypeError: If an argument has the wrong type, also a tensor.
        ValueError: If its value cannot be.
        LifecycleError: Under eager execution.
        BackendError: If the backend cannot run here.

    Warns:
        AscendConfigWarning: For a reduction that is not merged although ``fusion`` is 2, and for a
            variable as input.
    """
    made, numbers = _summands([tensor], reduction, fusion, fusion_id, group)
    return collectives().allreduce(made[0], *numbers)


def allreduce_many(
    tensors: Sequence[Any],
    reduction: str,
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
) -> List[Any]:
    """As `allreduce` for several tensors, in their order; raises and warns as that."""
    made, numbers = _summands(tensors, reduction, fusion, fusion_id, group)
    return collectives().allreduce_many(made, *numbers) if made else []


def reduce(
    tensor: Any,
    reduction: str,
    root_rank: int,
    fusion: int = 0,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
) -> Any:
    """The reduction of the group's tensors, on one of its ranks.

    Args:
        tensor: As for `allreduce`.
        reduction: As for `allreduce`.
        root_rank: Rank in the group that gets the result.
        fusion: 0: not merged; 2: with those of the same ``fusion_id``.
        fusion_id: From 0 for ``fusion=2``.
        group: The group's name.

    Returns:
        A tensor of the same type and shape; its values mean something on the root only.

    Raises:
        TypeError, ValueError, LifecycleError, BackendError: As `allreduce`.
    """
    call = "reduce"
    _tensors.graph_mode(call)
    group = _numbers.group_name(call, group)
    reduction = _numbers.reduction_name(call, reduction)
    root_rank = _numbers.rank_number(call, "root_rank", root_rank)
    _job.check_member(call, "root_rank", root_rank, group)
    fusion, fusion_id = _merging(call, reduction, fusion, fusion_id, (0, 2))
    made = _reducible(call, tensor, reduction)
    return collectives().reduce(made, reduction, root_rank, fusion, fusion_id, group)


def reduce_scatter(
    tensor: Any,
    reduction: str,
    rank_size: int,
    group: str = WORLD_GROUP,
    fusion: int = 0,
    fusion_id: int = -1,
) -> Any:
    """This rank's part of the reduction of the group's tensors.

    Args:
        tensor: As for `allreduce`; its first dimension is a multiple of ``rank_size``.
        reduction: As for `allreduce`.
        rank_size: The number of the group's ranks.
        group: The group's name.
        fusion: As for `reduce`.
        fusion_id: As for `reduce`.

    Returns:
        A tensor of the same type; its first dimension is divided by ``rank_size``.

    Raises:
        TypeError, ValueError, LifecycleError, BackendError: As `allreduce`.
    """
    call = "reduce_scatter"
    _tensors.graph_mode(call)
    group = _numbers.group_name(call, group)
    reduction = _numbers.reduction_name(call, reduction)
    rank_size = _numbers.length(call, rank_size)
    _job.check_rank_size(call, rank_size, group)
    fusion, fusion_id = _merging(call, reduction, fusion, fusion_id, (0, 2))
    made = _reducible(call, tensor, reduction)
    scattered(_tensors.shape_of(made), rank_size)  # the adapter would end the process
    return collectives().reduce_scatter(made, reduction, rank_size, group, fusion, fusion_id)


def _summands(
    tensors: Sequence[Any], reduction: Any, fusion: Any, fusion_id: Any, group: Any
) -> Tuple[List[Any], Tuple[str, int, int, str]]:
    """The tensors and the other arguments of `allreduce`, checked."""
    call = "allreduce"
    _tensors.graph_mode(call)
    group = _numbers.group_name(call, group)
    reduction = _numbers.reduction_name(call, reduction)
    fusion, fusion_id = _merging(call, reduction, fusion, fusion_id, (0, 1, 2))
    made = [_reducible(call, tensor, reduction) for tensor in tensors]
    for tensor in made:
        _tensors.warn_of_variable(call, tensor)
    return made, (reduction, fusion, fusion_id, group)


def _merging(
    call: str, reduction: str, fusion: Any, fusion_id: Any, known: Sequence[int]
) -> Tuple[int, int]:
    fusion, fusion_id = _numbers.merging(call, fusion, fusion_id, known)
    if fusion == 2 and reduction != "sum":
        warn(
            f"hccl.{call}: fusion=2 has no effect on reduction={reduction!r}: HCCL merges only "
            "sums. Leave fusion out."
        )
    return fusion, fusion_id


def _reducible(call: str, tensor: Any, reduction: str) -> Any:
    is_product = reduction == "prod"
    name = "tensor, with reduction='prod'," if is_product else "tensor"
    known: Sequence[str] = _tensors.MULTIPLIED if is_product else _tensors.REDUCED
    made = _tensors.as_tensor(call, name, tensor, known)
    _tensors.check_size(call, made)
    return made
