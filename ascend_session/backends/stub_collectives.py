"""HCCL's collectives as operators of CPU graphs, between the processes of a job.

Fusion has no effect here. What the operators do when they run is in the room ``exchange``.
"""

import collections
import functools
import hashlib
import weakref
from typing import Any, Callable, Counter, Dict, List, Optional, Sequence, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.collectives import Collectives, Shape, gathered, scattered
from ascend_session.backends.exchange import collectives
from ascend_session.backends.exchange.messages import Operation
from ascend_session.backends.exchange.process_group import Collective, Communicator, Iteration
from ascend_session.backends.stub_job import current_job, members_now
from ascend_session.backends.stub_ops import NO_GRADIENT, blocking_op
from ascend_session.errors import CollectiveError
from ascend_session.vendor import WORLD_GROUP

__all__ = ["StubCollectives"]

Work = Callable[[Communicator, Sequence[Any]], Sequence[Any]]
"""What a collective does: gets the ranks and this rank's arrays, gives this rank's results."""

_GRADIENT = "AscendSessionHcomAllReduce"
_SHOWN = 4  # arrays that a signature spells out


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

        def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
            collectives.check_size(comm, "rank_size", rank_size)
            return [collectives.all_gather(comm, arrays[0])]

        shape = gathered(_as_list(tensor.shape), rank_size)
        what = _described("allgather", [tensor.dtype])
        result = _collective("HcomAllGather", group, what, [_as_bits(tensor)], work, [shape])
        return _from_bits(result[0], tensor.dtype)

    def broadcast(
        self, tensors: Sequence[Any], root_rank: int, fusion: int, fusion_id: int, group: str
    ) -> List[Any]:
        """All in one exchange."""

        def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
            collectives.check_root(comm, root_rank)
            forms = [(array.dtype, array.shape) for array in arrays]
            return collectives.broadcast(comm, forms, arrays, root_rank)

        what = _described(f"broadcast from {root_rank}", [tensor.dtype for tensor in tensors])
        shapes = [_as_list(tensor.shape) for tensor in tensors]
        bits = [_as_bits(tensor) for tensor in tensors]
        received = _collective("HcomBroadcast", group, what, bits, work, shapes)
        return [_from_bits(value, tensor.dtype) for value, tensor in zip(received, tensors)]

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

        def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
            import numpy as np

            collectives.check_root(comm, root_rank)
            reduced = collectives.all_reduce(comm, arrays, reduction)
            return reduced if comm.me == root_rank else [np.zeros_like(array) for array in reduced]

        what = f"reduce {reduction} to {root_rank}"
        return _reduction("HcomReduce", what, tensor, work, _as_list(tensor.shape), group)

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

        def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
            collectives.check_size(comm, "rank_size", rank_size)
            return [collectives.reduce_scatter(comm, arrays[0], reduction)]

        shape = scattered(_as_list(tensor.shape), rank_size)
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

        def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
            return [collectives.all_to_all_v(comm, arrays)]

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

        def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
            return [collectives.all_to_all_v_c(comm, arrays, rank)]

        matrix = [send_count_matrix]
        return _exchange("HcomAllToAllVC", "all_to_all_v_c", send_data, matrix, work, group)

    def send(self, tensor: Any, sr_tag: int, dest_rank: int, group: str) -> Any:
        """One exchange between two ranks; it ends when the other one has the data."""
        what = _described("send", [tensor.dtype])

        def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
            forms = [(arrays[0].dtype, arrays[0].shape)]
            collectives.broadcast(comm, forms, arrays, comm.me)
            return []

        def function(
            name: str, arrays: Sequence[Any], iteration: Optional[Iteration]
        ) -> Collective:
            job = current_job(f'"{name}"')
            way = (job.process_group.rank, job.groups.world_rank(group, dest_rank))
            operation = _between(name, _signature(what, arrays), way, sr_tag, group)
            return Collective(
                job.process_group, operation, lambda comm: work(comm, arrays), iteration
            )

        return blocking_op("HcomSend", [_as_bits(tensor)], function, [])[0]

    def receive(self, shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str) -> Any:
        """The other end of `send`."""
        tf = tf1()
        carried = tf.int16 if data_type == tf.bfloat16 else data_type
        what = _described("send", [data_type])

        def function(
            name: str, arrays: Sequence[Any], iteration: Optional[Iteration]
        ) -> Collective:
            import numpy as np

            job = current_job(f'"{name}"')
            empty = np.zeros(shape.as_list(), carried.as_numpy_dtype)
            way = (job.groups.world_rank(group, src_rank), job.process_group.rank)
            operation = _between(name, _signature(what, [empty]), way, sr_tag, group)
            forms = [(empty.dtype, empty.shape)]
            return Collective(
                job.process_group,
                operation,
                lambda comm: collectives.broadcast(comm, forms, [], 1 - comm.me),
                iteration,
            )

        results = [(carried, shape)]
        return _from_bits(blocking_op("HcomReceive", [], function, results)[0], data_type)

    def create_group(self, group: str, rank_num: int, rank_ids: List[int]) -> None:
        """Make a group; nothing is sent."""
        current_job("hccl.create_group").groups.create(group, rank_num, rank_ids)

    def destroy_group(self, group: str) -> None:
        """End a group; nothing is sent."""
        current_job("hccl.destroy_group").groups.destroy(group)

    def rank(self, group: str) -> int:
        """Give this process's rank in the group."""
        return current_job("hccl.rank").groups.rank_in(group)

    def size(self, group: str) -> int:
        """Count the group's ranks."""
        return current_job("hccl.size").groups.size_of(group)

    def local_rank(self, group: str) -> int:
        """Give this process's place among the group's ranks of this server."""
        return current_job("hccl.local_rank").groups.local_rank_in(group)

    def local_size(self, group: str) -> int:
        """Count the group's ranks on this server."""
        return current_job("hccl.local_size").groups.local_size_of(group)

    def world_rank(self, group: str, group_rank: int) -> int:
        """Find the rank in the job of a rank of the group."""
        return current_job("hccl.world_rank").groups.world_rank(group, group_rank)

    def group_rank(self, world_rank: int, group: str) -> int:
        """Find the rank in the group of a rank of the job."""
        return current_job("hccl.group_rank").groups.group_rank(world_rank, group)


_graphs: "weakref.WeakKeyDictionary[Any, Dict[str, Tuple[int, int]]]" = weakref.WeakKeyDictionary()
_numbered: Counter[str] = collections.Counter()


def _next_key(group: str) -> str:
    """Name the next collective of a group in the default graph, the same on all ranks.

    It is unique in this process: ``graph 1, hccl_world_group, collective 3``. The same script gives
    the same names on all ranks of a group, whatever its operators' names. Graphs are numbered for
    each set of ranks, in the order in which they get their first collective of it: only its members
    build those, and a name may stand for others later.
    """
    known = _graphs.setdefault(_outermost_graph(), {})
    ranks = members_now(group)
    if ranks not in known:
        _numbered[ranks] += 1
        known[ranks] = (_numbered[ranks], 0)
    graph, count = known[ranks]
    known[ranks] = (graph, count + 1)
    return f"graph {graph}, {group}, collective {count + 1}"


def _outermost_graph() -> Any:
    """Find the graph that a session will run: functions and loops have graphs inside."""
    graph = tf1().get_default_graph()
    while True:
        outer = getattr(graph, "outer_graph", None) or getattr(graph, "_outer_graph", None)
        if outer is None:
            return graph
        graph = outer


def _collective(
    kind: str,
    group: str,
    what: str,
    inputs: Sequence[Any],
    work: Work,
    shapes: Sequence[Shape],
    gradient: str = NO_GRADIENT,
    of_shape: bool = True,
) -> List[Any]:
    """Add a collective to the default graph.

    Args:
        kind: The vendor's name of the operator.
        group: Name of the ranks that take part.
        what: Beginning of its signature, the same on all ranks: ``allreduce sum``.
        inputs: Its tensors.
        work: What it does.
        shapes: Of what it gives; the dtypes are those of the inputs, in their order.
        gradient: See `blocking_op`.
        of_shape: Whether all ranks have to give the same shapes.
    """
    tf = tf1()
    own_key = _next_key(group)

    def function(name: str, arrays: Sequence[Any], iteration: Optional[Iteration]) -> Collective:
        job = current_job(f'The collective "{name}"')
        ranks = job.groups.members(group)
        signature = _signature(what, arrays if of_shape else arrays[:0])
        key = own_key if group == WORLD_GROUP else f"{own_key} of {list(ranks)}"
        operation = Operation(key, name, ranks, signature)
        return Collective(job.process_group, operation, lambda comm: work(comm, arrays), iteration)

    results = [(tensor.dtype, tf.TensorShape(shape)) for tensor, shape in zip(inputs, shapes)]
    return blocking_op(kind, inputs, function, results, gradient)


def _allreduce(tensors: Sequence[Any], reduction: str, group: str, gradient: str) -> List[Any]:
    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        return collectives.all_reduce(comm, arrays, reduction)

    wide = [_wide(tensor) for tensor in tensors]
    shapes = [_as_list(tensor.shape) for tensor in tensors]
    what = _described(f"allreduce {reduction}", [tensor.dtype for tensor in tensors])
    reduced = _collective("HcomAllReduce", group, what, wide, work, shapes, gradient)
    return [tf1().cast(value, tensor.dtype) for value, tensor in zip(reduced, tensors)]


def _reduction(kind: str, what: str, tensor: Any, work: Any, shape: Any, group: str) -> Any:
    what = _described(what, [tensor.dtype])
    reduced = _collective(kind, group, what, [_wide(tensor)], work, [shape])
    return tf1().cast(reduced[0], tensor.dtype)


def _exchange(kind: str, what: str, data: Any, counts: Sequence[Any], work: Any, group: str) -> Any:
    what = f"{what} {data.dtype.name}"
    inputs = [_as_bits(data), *counts]
    # Each rank has its own number of elements.
    received = _collective(kind, group, what, inputs, work, [None], of_shape=False)
    return _from_bits(received[0], data.dtype)


def _between(name: str, signature: str, way: Tuple[int, int], tag: int, group: str) -> Operation:
    """Describe what two ranks do, the first of whom sends."""
    sender, receiver = way
    if sender == receiver:
        raise CollectiveError(f'"{name}": rank {sender} of the job cannot send to itself.')
    key = f"{group}, rank {sender} to rank {receiver}, tag {tag}"
    return Operation(key, name, tuple(sorted(way)), signature)


def _signature(what: str, arrays: Sequence[Any]) -> str:
    """Write ``allreduce sum float32 [4, 3]``; of many arrays the first are spelt out."""
    return _write_signature(what, tuple((array.dtype, array.shape) for array in arrays))


@functools.lru_cache(maxsize=256)
def _write_signature(what: str, arrays: Tuple[Tuple[Any, Tuple[int, ...]], ...]) -> str:
    forms = [f"{dtype.name} {list(shape)}" for dtype, shape in arrays]
    if len(forms) <= _SHOWN:
        return " ".join([what, ", ".join(forms)]).strip()
    digest = hashlib.sha256("".join(forms).encode()).hexdigest()[:8]
    more = len(forms) - _SHOWN
    return f"{what} {', '.join(forms[:_SHOWN])} and {more} more ({digest})"


def _described(what: str, dtypes: Sequence[Any]) -> str:
    """Give ``what``, and say if it is about bfloat16, which travels as something else."""
    names = [dtype.base_dtype.name for dtype in dtypes]
    return f"{what} of {', '.join(names)} as" if "bfloat16" in names else what


def _as_list(shape: Any) -> Shape:
    """Give a `tf.TensorShape` as plain numbers."""
    return None if shape.rank is None else list(shape.as_list())


def _as_bits(tensor: Any) -> Any:
    """Give ``tensor`` in a dtype of NumPy's own, bit by bit; `_from_bits` is the way back."""
    tf = tf1()
    return tf.bitcast(tensor, tf.int16) if tensor.dtype.base_dtype == tf.bfloat16 else tensor


def _from_bits(tensor: Any, dtype: Any) -> Any:
    tf = tf1()
    return tf.bitcast(tensor, dtype) if dtype.base_dtype == tf.bfloat16 else tensor


def _wide(tensor: Any) -> Any:
    """Give ``tensor`` in a dtype that NumPy can compute with."""
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
        stub = StubCollectives()
        summed = [stub.allreduce(each, "sum", 0, -1, WORLD_GROUP) for each in gradients[:count]]
        return [None] * count + summed

    tf1().RegisterGradient(_GRADIENT)(gradient)
