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
        """The reduction of the group's tensors, on each rank."""

    def allreduce_many(
        self, tensors: Sequence[Any], reduction: str, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """Several at a time, in their order; here one operator for each."""
        return [self.allreduce(one, reduction, fusion, fusion_id, group) for one in tensors]

    @abc.abstractmethod
    def allgather(
        self, tensor: Any, rank_size: int, group: str, fusion: int, fusion_id: int
    ) -> Any:
        """The group's tensors one behind the other, on each rank."""

    @abc.abstractmethod
    def broadcast(
        self, tensors: Sequence[Any], root_rank: int, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """The root's tensors, on each rank."""

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
        """The reduction of the group's tensors, on the root."""

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
        """This rank's part of the reduction; the first dimension is divided by ``rank_size``."""

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
        """Parts of ``send_data`` to each rank, and a part from each; the lists are int64."""

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
        """The same from one int64 matrix of what each rank sends to each."""

    @abc.abstractmethod
    def send(self, tensor: Any, sr_tag: int, dest_rank: int, group: str) -> Any:
        """Sends to one rank; gives the operation."""

    @abc.abstractmethod
    def receive(self, shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str) -> Any:
        """What that rank has sent; ``shape`` is a full `tf.TensorShape`, ``data_type`` a dtype."""

    @abc.abstractmethod
    def create_group(self, group: str, rank_num: int, rank_ids: List[int]) -> None:
        """Makes a group of world ranks.

        Raises:
            LifecycleError: Without an open system.
            CollectiveError: If this is no group of this job.
        """

    @abc.abstractmethod
    def destroy_group(self, group: str) -> None:
        """Ends a group; raises as `create_group`."""

    @abc.abstractmethod
    def rank(self, group: str) -> int:
        """This process's rank in the group; raises as `create_group`."""

    @abc.abstractmethod
    def size(self, group: str) -> int:
        """The number of ranks of the group; raises as `create_group`."""

    @abc.abstractmethod
    def local_rank(self, group: str) -> int:
        """This process's place among the group's ranks of this host; raises as `create_group`."""

    @abc.abstractmethod
    def local_size(self, group: str) -> int:
        """How many of the group's ranks are on this host; raises as `create_group`."""

    @abc.abstractmethod
    def world_rank(self, group: str, group_rank: int) -> int:
        """The rank in the job of a rank of the group; raises as `create_group`."""

    @abc.abstractmethod
    def group_rank(self, world_rank: int, group: str) -> int:
        """The rank in the group of a rank of the job; raises as `create_group`."""
