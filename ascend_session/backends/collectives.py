"""Groups of ranks, and the shapes of the results of collectives, for all backends.

`ascend_session.hccl` checks and converts the arguments.

Sources: hccl/manage/api.py; hccl_ops.cc, the shape functions, for what the graph knows; HCCL's
inference of shapes (hcom_ops: HcomAllToAllV, HcomAllToAllVC) for the results.
"""

import abc
from typing import List, Optional, Sequence

Shape = Optional[Sequence[Optional[int]]]
"""The dimensions of a tensor, with None for unknown ones; None if their number is unknown."""


class Groups(abc.ABC):
    """The groups of ranks that this process is in.

    All methods raise CollectiveError if there is no such group or rank, and LifecycleError without
    an open system.
    """

    @abc.abstractmethod
    def create(self, group: str, ranks: Sequence[int]) -> None:
        """Create a group of ranks of the job, given in any order."""

    @abc.abstractmethod
    def destroy(self, group: str) -> None:
        """Destroy a group."""

    @abc.abstractmethod
    def rank(self, group: str) -> int:
        """Return this process's rank in the group."""

    @abc.abstractmethod
    def size(self, group: str) -> int:
        """Return the number of ranks of the group."""

    @abc.abstractmethod
    def local_rank(self, group: str) -> int:
        """Return the index of this process among the group's ranks on its host."""

    @abc.abstractmethod
    def local_size(self, group: str) -> int:
        """Return the number of the group's ranks on this process's host."""

    @abc.abstractmethod
    def world_rank(self, group: str, group_rank: int) -> int:
        """Return the rank in the job of a rank in the group."""

    @abc.abstractmethod
    def group_rank(self, world_rank: int, group: str) -> int:
        """Return the rank in the group of a rank in the job."""


def gather_shape(shape: Shape, rank_size: int) -> Optional[List[Optional[int]]]:
    """Return the shape of allgather's result for an input of ``shape``.

    Raises:
        ValueError: For a scalar, which cannot be concatenated.
    """
    if shape is None:
        return None
    first = _first(shape, "allgather concatenates the ranks' tensors")
    return [first if first is None else first * rank_size, *shape[1:]]


def scatter_shape(shape: Shape, rank_size: int) -> Optional[List[Optional[int]]]:
    """Return the shape of reduce_scatter's result for an input of ``shape``.

    An unknown first dimension stays unknown; the operator checks it when it runs.

    Raises:
        ValueError: For a scalar, or if the first dimension is not a multiple of ``rank_size``.
    """
    if shape is None:
        return None
    first = _first(shape, "reduce_scatter divides a tensor among the ranks")
    if first is None:
        return list(shape)
    if first % rank_size:
        raise ValueError(
            f"reduce_scatter divides the first dimension among {rank_size} ranks, but {first} of "
            f"the shape {list(shape)} is not a multiple of {rank_size}. Pad the tensor."
        )
    return [first // rank_size, *shape[1:]]


def count_exchanged(recv_counts: Sequence[int], recv_displacements: Sequence[int]) -> int:
    """Return the number of elements in the result of all_to_all_v: up to the last one received.

    Raises:
        ValueError: If the lists have different lengths.
    """
    if len(recv_counts) != len(recv_displacements):
        raise ValueError(
            f"recv_counts has {len(recv_counts)} numbers, but recv_displacements has "
            f"{len(recv_displacements)}: each needs one for each rank."
        )
    ends = [count + where for count, where in zip(recv_counts, recv_displacements)]
    return max(ends) if ends else 0


def _first(shape: Sequence[Optional[int]], purpose: str) -> Optional[int]:
    if not shape:
        raise ValueError(
            f"{purpose} along their first dimension, but this is a scalar. Give it one: "
            "tf.reshape(x, [1])."
        )
    return shape[0]
