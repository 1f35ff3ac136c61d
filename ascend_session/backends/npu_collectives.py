"""The vendor's collectives: its operators, and HCCL's ranks and groups; nothing of our own.

Source: npu_bridge/hccl/hccl_ops.py, hccl/manage/api.py.
"""

from typing import Any, Callable, Dict, List, Mapping, Sequence

from ascend_session.backends.collectives import Collectives
from ascend_session.cluster.variables import uses_collectives
from ascend_session.errors import CollectiveError

__all__ = ["NpuCollectives"]


class NpuCollectives(Collectives):
    """HCCL, through the vendor's packages, which must have been imported already.

    Args:
        environ: The environment to go by.
        bring_up: Initialises again if HCCL is down, restores the groups, and does nothing else.
    """

    def __init__(self, environ: Mapping[str, str], bring_up: Callable[[], None]) -> None:
        self._environ = environ
        self._bring_up = bring_up
        self._groups: Dict[str, List[int]] = {}  # their ranks, in the order of making

    def allreduce(
        self, tensor: Any, reduction: str, fusion: int, fusion_id: int, group: str
    ) -> Any:
        """The operator HcomAllReduce, with the vendor's gradient."""
        return _ops().allreduce(
            tensor, reduction=reduction, fusion=fusion, fusion_id=fusion_id, group=group
        )

    def allgather(
        self, tensor: Any, rank_size: int, group: str, fusion: int, fusion_id: int
    ) -> Any:
        """The operator HcomAllGather."""
        return _ops().allgather(
            tensor, rank_size=rank_size, group=group, fusion=fusion, fusion_id=fusion_id
        )

    def broadcast(
        self, tensors: Sequence[Any], root_rank: int, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """One operator HcomBroadcast for all tensors."""
        received = _ops().broadcast(
            list(tensors), root_rank=root_rank, fusion=fusion, fusion_id=fusion_id, group=group
        )
        return list(received)

    def reduce(
        self,
        tensor: Any,
        reduction: str,
        root_rank: int,
        fusion: int,
        fusion_id: int,
        group: str,
    ) -> Any:
        """The operator HcomReduce."""
        return _ops().reduce(
            tensor,
            reduction=reduction,
            root_rank=root_rank,
            fusion=fusion,
            fusion_id=fusion_id,
            group=group,
        )

    def reduce_scatter(
        self,
        tensor: Any,
        reduction: str,
        rank_size: int,
        group: str,
        fusion: int,
        fusion_id: int,
    ) -> Any:
        """The operator HcomReduceScatter."""
        return _ops().reduce_scatter(
            tensor,
            reduction=reduction,
            rank_size=rank_size,
            group=group,
            fusion=fusion,
            fusion_id=fusion_id,
        )

    def all_to_all_v(
        self,
        send_data: Any,
        send_counts: Any,
        send_displacements: Any,
        recv_counts: Any,
        recv_displacements: Any,
        group: str,
    ) -> Any:
        """The operator HcomAllToAllV."""
        return _ops().all_to_all_v(
            send_data,
            send_counts=send_counts,
            send_displacements=send_displacements,
            recv_counts=recv_counts,
            recv_displacements=recv_displacements,
            group=group,
        )

    def all_to_all_v_c(
        self,
        send_data: Any,
        send_count_matrix: Any,
        rank: int,
        fusion: int,
        fusion_id: int,
        group: str,
    ) -> Any:
        """The operator HcomAllToAllVC."""
        return _ops().all_to_all_v_c(
            send_data,
            send_count_matrix=send_count_matrix,
            rank=rank,
            fusion=fusion,
            fusion_id=fusion_id,
            group=group,
        )

    def send(self, tensor: Any, sr_tag: int, dest_rank: int, group: str) -> Any:
        """The operator HcomSend."""
        return _ops().send(tensor, sr_tag=sr_tag, dest_rank=dest_rank, group=group)

    def receive(self, shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str) -> Any:
        """The operator HcomReceive."""
        return _ops().receive(
            shape=shape, data_type=data_type, sr_tag=sr_tag, src_rank=src_rank, group=group
        )

    def create_group(self, group: str, rank_num: int, rank_ids: List[int]) -> None:
        """``create_group`` of hccl.manage.api."""
        self._call("create_group", group, rank_num, rank_ids)
        self._groups[group] = rank_ids

    def destroy_group(self, group: str) -> None:
        """``destroy_group`` of hccl.manage.api."""
        self._call("destroy_group", group)
        self._groups.pop(group, None)

    def rank(self, group: str) -> int:
        """``get_rank_id`` of hccl.manage.api."""
        return int(self._call("get_rank_id", group))

    def size(self, group: str) -> int:
        """``get_rank_size`` of hccl.manage.api."""
        return int(self._call("get_rank_size", group))

    def local_rank(self, group: str) -> int:
        """``get_local_rank_id`` of hccl.manage.api."""
        return int(self._call("get_local_rank_id", group))

    def local_size(self, group: str) -> int:
        """``get_local_rank_size`` of hccl.manage.api."""
        return int(self._call("get_local_rank_size", group))

    def world_rank(self, group: str, group_rank: int) -> int:
        """``get_world_rank_from_group_rank`` of hccl.manage.api."""
        return int(self._call("get_world_rank_from_group_rank", group, group_rank))

    def group_rank(self, world_rank: int, group: str) -> int:
        """``get_group_rank_from_world_rank`` of hccl.manage.api."""
        return int(self._call("get_group_rank_from_world_rank", world_rank, group))

    def restore_groups(self) -> None:
        """Make those groups again that went with HCCL.

        Closing the last session ends GE and HCCL
        (guides/facts/process.md#life-of-ge-in-a-process), while graphs still have operators in
        these groups.

        Raises:
            CollectiveError: If HCCL refuses one.
        """
        for group, ranks in self._groups.items():
            try:
                _ranks().get_rank_size(group)
            except ValueError:
                self._call_once("create_group", group, len(ranks), ranks)

    def _call(self, function: str, *arguments: Any) -> Any:
        """Call HCCL, which is brought up first if it went down with the last session.

        Raises:
            CollectiveError: If it refuses; of the reason it gives a number at most.
        """
        try:
            return getattr(_ranks(), function)(*arguments)
        except ValueError:
            self._bring_up()
        return self._call_once(function, *arguments)

    def _call_once(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(_ranks(), function)(*arguments)
        except ValueError as error:
            call = f"{function}({', '.join(map(repr, arguments))})"
            if uses_collectives(self._environ):
                hint = (
                    "A group exists from hccl.create_group to hccl.destroy_group, and only on its "
                    "own ranks. Name each rank once. HCCL's own log says more."
                )
            else:
                hint = (
                    "HCCL is not up in this process, which is in no job. Start it with "
                    "`ascend-session launch -n 1`, or ask the system: system.rank, system.size."
                )
            raise CollectiveError(
                f"HCCL refused {call}: {str(error).rstrip('.')}.", hint=hint
            ) from error


def _ops() -> Any:
    from npu_bridge.hccl import hccl_ops

    return hccl_ops


def _ranks() -> Any:
    from hccl.manage import api

    return api
