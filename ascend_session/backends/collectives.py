"""What a backend does for `ascend_session.hccl`: the operators, and who is in which group.

All arguments are checked and converted there; here a tensor is a tensor, a number a plain int.
Also the shapes of what collectives give, the same on every backend.

Sources: hccl_ops.cc, the shape functions, for what the graph knows; HCCL's inference of shapes
(hcom_ops: HcomAllToAllV, HcomAllToAllVC) for what comes out.
"""

import abc
from typing import Any, List, Optional, Sequence

Shape = Optional[Sequence[Optional[int]]]
"""Lengths of a tensor, None for one that is not known, or None if nothing is known."""


class Collectives(abc.ABC):
    """The collectives of one backend; each operator goes into the current default graph."""

    @abc.abstractmethod
    def allreduce(
        self, tensor: Any, reduction: str, fusion: int, fusion_id: int, group: str
    ) -> Any:
        """Reduce the group's tensors, with the result on each rank."""

    def allreduce_many(
        self, tensors: Sequence[Any], reduction: str, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """Reduce several at a time, in their order; here one operator for each."""
        return [self.allreduce(tensor, reduction, fusion, fusion_id, group) for tensor in tensors]

    @abc.abstractmethod
    def allgather(
        self, tensor: Any, rank_size: int, group: str, fusion: int, fusion_id: int
    ) -> Any:
        """Put the group's tensors one behind the other, on each rank."""

    @abc.abstractmethod
    def broadcast(
        self, tensors: Sequence[Any], root_rank: int, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """Give each rank the root's tensors."""

    @abc.abstractmethod
    def reduce(
        self,
        tensor: Any,
        reduction: str,
        root_rank: int,
        fusion: int,
        fusion_id: int,
        group: str,
    ) -> Any:
        """Reduce the group's tensors, with the result on the root."""

    @abc.abstractmethod
    def reduce_scatter(
        self,
        tensor: Any,
        reduction: str,
        rank_size: int,
        group: str,
        fusion: int,
        fusion_id: int,
    ) -> Any:
        """Reduce, and give each rank its part; the first dimension is divided by ``rank_size``."""

    @abc.abstractmethod
    def all_to_all_v(
        self,
        send_data: Any,
        send_counts: Any,
        send_displacements: Any,
        recv_counts: Any,
        recv_displacements: Any,
        group: str,
    ) -> Any:
        """Send parts of ``send_data`` to each rank, and receive one from each; lists are int64."""

    @abc.abstractmethod
    def all_to_all_v_c(
        self,
        send_data: Any,
        send_count_matrix: Any,
        rank: int,
        fusion: int,
        fusion_id: int,
        group: str,
    ) -> Any:
        """Do the same by one int64 matrix of what each rank sends to each."""

    @abc.abstractmethod
    def send(self, tensor: Any, sr_tag: int, dest_rank: int, group: str) -> Any:
        """Send to one rank; return the operation."""

    @abc.abstractmethod
    def receive(self, shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str) -> Any:
        """Receive what that rank sends.

        Args:
            shape: A `tf.TensorShape` that is known in full.
            data_type: A `tf.DType`.
            sr_tag: The message's tag.
            src_rank: Rank in the group that sends it.
            group: The group's name.
        """

    @abc.abstractmethod
    def create_group(self, group: str, rank_num: int, rank_ids: List[int]) -> None:
        """Make a group of world ranks.

        Raises:
            LifecycleError: Without an open system.
            CollectiveError: If this is no group of this job.
        """

    @abc.abstractmethod
    def destroy_group(self, group: str) -> None:
        """End a group; raises as `create_group`."""

    @abc.abstractmethod
    def rank(self, group: str) -> int:
        """Return this process's rank in the group; raises as `create_group`."""

    @abc.abstractmethod
    def size(self, group: str) -> int:
        """Return the number of ranks of the group; raises as `create_group`."""

    @abc.abstractmethod
    def local_rank(self, group: str) -> int:
        """Return the place among the group's ranks of this host; raises as `create_group`."""

    @abc.abstractmethod
    def local_size(self, group: str) -> int:
        """Return how many of the group's ranks are on this host; raises as `create_group`."""

    @abc.abstractmethod
    def world_rank(self, group: str, group_rank: int) -> int:
        """Return the rank in the job of a rank of the group; raises as `create_group`."""

    @abc.abstractmethod
    def group_rank(self, world_rank: int, group: str) -> int:
        """Return the rank in the group of a rank of the job; raises as `create_group`."""


def gathered(shape: Shape, rank_size: int) -> Optional[List[Optional[int]]]:
    """The shape of what allgather gives for an input of ``shape``.

    Raises:
        ValueError: For a scalar, which cannot be put behind another.
    """
    if shape is None:
        return None
    first = _first(shape, "allgather puts the ranks' tensors one behind the other")
    return [first if first is None else first * rank_size, *shape[1:]]


def scattered(shape: Shape, rank_size: int) -> Optional[List[Optional[int]]]:
    """The shape of what reduce_scatter gives for an input of ``shape``.

    An unknown first dimension stays unknown; that it can be divided is then seen when it runs.

    Raises:
        ValueError: For a scalar, or if the first dimension is no multiple of ``rank_size``.
    """
    if shape is None:
        return None
    first = _first(shape, "reduce_scatter divides a tensor among the ranks")
    if first is None:
        return list(shape)
    if first % rank_size:
        raise ValueError(
            f"reduce_scatter divides the first dimension among {rank_size} ranks, but {first} of "
            f"the shape {list(shape)} is no multiple of {rank_size}. Pad the tensor."
        )
    return [first // rank_size, *shape[1:]]


def exchanged(recv_counts: Sequence[int], recv_displacements: Sequence[int]) -> int:
    """How many elements all_to_all_v gives, in one dimension: up to the last one received.

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
