"""Collectives that write down what they are asked, and give tensors that the graph can have."""

from typing import Any, Dict, List, Sequence, Tuple

from ascend_session.backends.collectives import Collectives

__all__ = ["Recorder"]

Call = Tuple[str, Dict[str, Any]]


class Recorder(Collectives):
    """Sends nothing.

    Attributes:
        calls: What was asked for, in order, with the names of the arguments.
    """

    def __init__(self) -> None:
        self.calls: List[Call] = []

    def _note(self, call: str, values: Dict[str, Any]) -> None:
        self.calls.append((call, {key: values[key] for key in values if key != "self"}))

    def allreduce(
        self, tensor: Any, reduction: str, fusion: int, fusion_id: int, group: str
    ) -> Any:
        self._note("allreduce", locals())
        return tensor

    def allgather(
        self, tensor: Any, rank_size: int, group: str, fusion: int, fusion_id: int
    ) -> Any:
        self._note("allgather", locals())
        return tensor

    def broadcast(
        self, tensors: Sequence[Any], root_rank: int, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        self._note("broadcast", locals())
        return list(tensors)

    def reduce(
        self,
        tensor: Any,
        reduction: str,
        root_rank: int,
        fusion: int,
        fusion_id: int,
        group: str,
    ) -> Any:
        self._note("reduce", locals())
        return tensor

    def reduce_scatter(
        self,
        tensor: Any,
        reduction: str,
        rank_size: int,
        group: str,
        fusion: int,
        fusion_id: int,
    ) -> Any:
        self._note("reduce_scatter", locals())
        return tensor

    def all_to_all_v(
        self,
        send_data: Any,
        send_counts: Any,
        send_displacements: Any,
        recv_counts: Any,
        recv_displacements: Any,
        group: str,
    ) -> Any:
        self._note("all_to_all_v", locals())
        return send_data

    def all_to_all_v_c(
        self,
        send_data: Any,
        send_count_matrix: Any,
        rank: int,
        fusion: int,
        fusion_id: int,
        group: str,
    ) -> Any:
        self._note("all_to_all_v_c", locals())
        return send_data

    def send(self, tensor: Any, sr_tag: int, dest_rank: int, group: str) -> Any:
        self._note("send", locals())
        return tensor.op

    def receive(self, shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str) -> Any:
        self._note("receive", locals())

    def create_group(self, group: str, rank_num: int, rank_ids: List[int]) -> None:
        self._note("create_group", locals())

    def destroy_group(self, group: str) -> None:
        self._note("destroy_group", locals())

    def rank(self, group: str) -> int:
        self._note("rank", locals())
        return 0

    def size(self, group: str) -> int:
        self._note("size", locals())
        return 1

    def local_rank(self, group: str) -> int:
        self._note("local_rank", locals())
        return 0

    def local_size(self, group: str) -> int:
        self._note("local_size", locals())
        return 1

    def world_rank(self, group: str, group_rank: int) -> int:
        self._note("world_rank", locals())
        return group_rank

    def group_rank(self, world_rank: int, group: str) -> int:
        self._note("group_rank", locals())
        return world_rank
