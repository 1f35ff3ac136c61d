"""HCCL's collectives as operators of CPU graphs, between the processes of a launched job.

Fusion has no effect here. What the operators do when they run is in the room ``ranks``.
"""

from typing import Any, List, Sequence

from ascend_session.backends import collective_shapes
from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.collectives import Collectives
from ascend_session.backends.ranks import exchanging, moving, reducing
from ascend_session.backends.ranks.exchange import Channel
from ascend_session.backends.stub_collective import (
    as_bits,
    as_list,
    collective,
    from_bits,
    with_bits,
)
from ascend_session.backends.stub_job import current_job
from ascend_session.backends.stub_ops import NO_GRADIENT
from ascend_session.backends.stub_pairs import receive, send
from ascend_session.backends.stub_places import next_place
from ascend_session.errors import CollectiveError
from ascend_session.vendor import WORLD_GROUP

__all__ = ["StubCollectives"]

_GRADIENT = "AscendSessionHcomAllReduce"


class StubCollectives(Collectives):
    """The stub's collectives; they belong to the process, not to a system."""

    def allreduce(
        self, tensor: Any, reduction: str, fusion: int, fusion_id: int, group: str
    ) -> Any:
        """One exchange; its gradient is the sum of the gradients of all ranks of the job."""
        _register_gradient()
        return _allreduce([tensor], reduction, group, _GRADIENT)[0]

    def allreduce_many(
        self, tensors: Sequence[Any], reduction: str, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """All in one exchange, as the device fuses gradients."""
        return _allreduce(tensors, reduction, group, NO_GRADIENT) if tensors else []

    def allgather(
        self, tensor: Any, rank_size: int, group: str, fusion: int, fusion_id: int
    ) -> Any:
        """One exchange."""

        def work(channel: Channel, arrays: Sequence[Any]) -> Sequence[Any]:
            exchanging.check_size(channel, "rank_size", rank_size)
            return [moving.gathered(channel, arrays[0])]

        shape = collective_shapes.gathered(as_list(tensor.shape), rank_size)
        place = next_place(group)
        bits = [as_bits(tensor)]
        what = with_bits("allgather", [tensor.dtype])
        found = collective("HcomAllGather", place, what, bits, work, [shape])
        return from_bits(found[0], tensor.dtype)

    def broadcast(
        self, tensors: Sequence[Any], root_rank: int, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """All in one exchange."""

        def work(channel: Channel, arrays: Sequence[Any]) -> Sequence[Any]:
            exchanging.check_root(channel, root_rank)
            forms = [(array.dtype, array.shape) for array in arrays]
            found: Sequence[Any] = moving.from_root(channel, forms, arrays, root_rank)
            return found

        what = with_bits(f"broadcast from {root_rank}", [one.dtype for one in tensors])
        shapes = [as_list(tensor.shape) for tensor in tensors]
        bits = [as_bits(tensor) for tensor in tensors]
        found = collective("HcomBroadcast", next_place(group), what, bits, work, shapes)
        return [from_bits(one, tensor.dtype) for one, tensor in zip(found, tensors)]

    def reduce(
        self,
        tensor: Any,
        reduction: str,
        root_rank: int,
        fusion: int,
        fusion_id: int,
        group: str,
    ) -> Any:
        """One exchange; the other ranks get zeros, where the device leaves what was there."""

        def work(channel: Channel, arrays: Sequence[Any]) -> Sequence[Any]:
            exchanging.check_root(channel, root_rank)
            found = reducing.reduced(channel, arrays, reduction)
            return found if channel.me == root_rank else moving.zeros_like(found)

        what = f"reduce {reduction} to {root_rank}"
        return _reduction("HcomReduce", what, tensor, work, as_list(tensor.shape), group)

    def reduce_scatter(
        self,
        tensor: Any,
        reduction: str,
        rank_size: int,
        group: str,
        fusion: int,
        fusion_id: int,
    ) -> Any:
        """One exchange of the whole, of which each rank keeps its part."""

        def work(channel: Channel, arrays: Sequence[Any]) -> Sequence[Any]:
            exchanging.check_size(channel, "rank_size", rank_size)
            lengths = arrays[0].shape
            if not lengths or lengths[0] % rank_size:
                raise CollectiveError(
                    f"reduce_scatter divides the first dimension among {rank_size} ranks; the "
                    f"shape {list(lengths)} cannot be divided so."
                )
            whole = reducing.reduced(channel, arrays, reduction)[0]
            part = lengths[0] // rank_size
            return [whole[channel.me * part : (channel.me + 1) * part]]

        shape = collective_shapes.scattered(as_list(tensor.shape), rank_size)
        what = f"reduce_scatter {reduction}"
        return _reduction("HcomReduceScatter", what, tensor, work, shape, group)

    def all_to_all_v(
        self,
        send_data: Any,
        send_counts: Any,
        send_displacements: Any,
        recv_counts: Any,
        recv_displacements: Any,
        group: str,
    ) -> Any:
        """Two exchanges: who sends how much to whom, and the data."""

        def work(channel: Channel, arrays: Sequence[Any]) -> Sequence[Any]:
            return [exchanging.by_lists(channel, arrays)]

        lists = [send_counts, send_displacements, recv_counts, recv_displacements]
        return _exchange("HcomAllToAllV", "all_to_all_v", send_data, lists, work, group)

    def all_to_all_v_c(
        self,
        send_data: Any,
        send_count_matrix: Any,
        rank: int,
        fusion: int,
        fusion_id: int,
        group: str,
    ) -> Any:
        """Two exchanges: the matrix, which has to be the same on all, and the data."""

        def work(channel: Channel, arrays: Sequence[Any]) -> Sequence[Any]:
            return [exchanging.by_matrix(channel, arrays, rank)]

        matrix = [send_count_matrix]
        return _exchange("HcomAllToAllVC", "all_to_all_v_c", send_data, matrix, work, group)

    def send(self, tensor: Any, sr_tag: int, dest_rank: int, group: str) -> Any:
        """One exchange between two ranks; it ends when the other one has the data."""
        return send(tensor, sr_tag, dest_rank, group)

    def receive(self, shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str) -> Any:
        """The other end of `send`."""
        return receive(shape, data_type, sr_tag, src_rank, group)

    def create_group(self, group: str, rank_num: int, rank_ids: List[int]) -> None:
        """Makes a group; nothing is sent."""
        current_job("hccl.create_group").groups.create(group, rank_num, rank_ids)

    def destroy_group(self, group: str) -> None:
        """Ends a group; nothing is sent."""
        current_job("hccl.destroy_group").groups.destroy(group)

    def rank(self, group: str) -> int:
        """This process's rank in the group."""
        return current_job("hccl.rank").groups.rank_in(group)

    def size(self, group: str) -> int:
        """The number of the group's ranks."""
        return current_job("hccl.size").groups.size_of(group)

    def local_rank(self, group: str) -> int:
        """This process's place among the group's ranks of this server."""
        return current_job("hccl.local_rank").groups.local_rank_in(group)

    def local_size(self, group: str) -> int:
        """How many of the group's ranks are on this server."""
        return current_job("hccl.local_size").groups.local_size_of(group)

    def world_rank(self, group: str, group_rank: int) -> int:
        """The rank in the job of a rank of the group."""
        return current_job("hccl.world_rank").groups.world_rank(group, group_rank)

    def group_rank(self, world_rank: int, group: str) -> int:
        """The rank in the group of a rank of the job."""
        return current_job("hccl.group_rank").groups.group_rank(world_rank, group)


def _allreduce(tensors: Sequence[Any], reduction: str, group: str, gradient: str) -> List[Any]:
    def work(channel: Channel, arrays: Sequence[Any]) -> Sequence[Any]:
        return reducing.reduced(channel, arrays, reduction)

    wide = [_wide(tensor) for tensor in tensors]
    shapes = [as_list(tensor.shape) for tensor in tensors]
    place = next_place(group)
    what = with_bits(f"allreduce {reduction}", [tensor.dtype for tensor in tensors])
    found = collective("HcomAllReduce", place, what, wide, work, shapes, gradient)
    return [tf1().cast(one, tensor.dtype) for one, tensor in zip(found, tensors)]


def _reduction(kind: str, what: str, tensor: Any, work: Any, shape: Any, group: str) -> Any:
    what = with_bits(what, [tensor.dtype])
    found = collective(kind, next_place(group), what, [_wide(tensor)], work, [shape])
    return tf1().cast(found[0], tensor.dtype)


def _exchange(kind: str, what: str, data: Any, counts: Sequence[Any], work: Any, group: str) -> Any:
    what = f"{what} {data.dtype.name}"
    inputs = [as_bits(data), *counts]
    # Each rank has its own number of elements.
    found = collective(kind, next_place(group), what, inputs, work, [None], of_shape=False)
    return from_bits(found[0], data.dtype)


def _wide(tensor: Any) -> Any:
    """``tensor`` in a dtype that NumPy can reckon with."""
    tf = tf1()
    return tf.cast(tensor, tf.float32) if tensor.dtype.base_dtype == tf.bfloat16 else tensor


_registered = False


def _register_gradient() -> None:
    """As the vendor's: a sum over the whole job, whatever was reduced how and in which group.

    Source: npu_bridge/hccl/hccl_ops.py, ``_allreduce_grad``.
    """
    global _registered
    if _registered:
        return
    _registered = True

    def gradient(op: Any, *gradients: Any) -> List[Any]:
        count = len(gradients) // 2
        summed = [
            StubCollectives().allreduce(one, "sum", 0, -1, WORLD_GROUP) for one in gradients[:count]
        ]
        return [None] * count + summed

    tf1().RegisterGradient(_GRADIENT)(gradient)
