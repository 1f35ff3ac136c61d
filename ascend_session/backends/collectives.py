"""What a backend does for `ascend_session.hccl`: the operators, and who is in which group.

All arguments are checked and converted there; here a tensor is a tensor, a number a plain int.
"""

import abc
from typing import Any, List, Sequence

__all__ = ["Collectives"]


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
