"""HCCL's collectives as operators of CPU graphs, between the processes of a job.

The functions have the names and parameters of the vendor's ``hccl_ops``; fusion has no effect here.
``exchange`` has what the operators do when they run.
"""

import collections
import functools
import hashlib
import sys
import weakref
from typing import Any, Callable, Counter, Dict, List, Optional, Sequence, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.averaging import mark_collective
from ascend_session.backends.collectives import Shape, gather_shape, scatter_shape
from ascend_session.backends.exchange import collectives
from ascend_session.backends.exchange.communicator import Collective, Communicator
from ascend_session.backends.exchange.order import Iteration
from ascend_session.backends.exchange.wire import Operation
from ascend_session.backends.not_finite import SumWatch
from ascend_session.backends.stub_job import StubJob, current_job, members_now
from ascend_session.backends.stub_ops import NO_GRADIENT, Function, blocking_op
from ascend_session.errors import CollectiveError
from ascend_session.user_code import user_line
from ascend_session.vendor import WORLD_GROUP

Describe = Callable[[StubJob, str, Sequence[Any]], Operation]
"""Function of the open job, an operator's name and this rank's arrays; returns the operation."""

Work = Callable[[Communicator, Sequence[Any]], Sequence[Any]]
"""Function of a communicator and this rank's arrays; returns this rank's results."""

_GRADIENT = "AscendSessionHcomAllReduce"
_LONGEST_LINE = 200  # characters of a path and number
_SHOWN = 4  # arrays that a signature spells out


def allreduce(tensor: Any, reduction: str, group: str, **fusion: int) -> Any:
    """Add an allreduce, whose gradient is the sum of the gradients of all ranks of the job."""
    _register_gradient()
    return _allreduce([tensor], reduction, group, _GRADIENT)[0]


def allreduce_many(tensors: Sequence[Any], reduction: str, group: str, **fusion: int) -> List[Any]:
    """Add one allreduce for all tensors, as the device fuses gradients."""
    return _allreduce(tensors, reduction, group, NO_GRADIENT) if tensors else []


def allgather(tensor: Any, rank_size: int, group: str, **fusion: int) -> Any:
    """Add an allgather."""

    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        collectives.check_size(comm, "rank_size", rank_size)
        return [collectives.all_gather(comm, arrays[0])]

    shape = gather_shape(_as_list(tensor.shape), rank_size)
    what = _describe("allgather", [tensor.dtype])
    result = _collective("HcomAllGather", group, what, [_as_bits(tensor)], work, [shape])
    return _from_bits(result[0], tensor.dtype)


def broadcast(tensors: Sequence[Any], root_rank: int, group: str, **fusion: int) -> List[Any]:
    """Add one broadcast for all tensors."""

    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        collectives.check_root(comm, root_rank)
        forms = [(array.dtype, array.shape) for array in arrays]
        return collectives.broadcast(comm, forms, arrays, root_rank)

    what = _describe(f"broadcast from {root_rank}", [tensor.dtype for tensor in tensors])
    shapes = [_as_list(tensor.shape) for tensor in tensors]
    bits = [_as_bits(tensor) for tensor in tensors]
    received = _collective("HcomBroadcast", group, what, bits, work, shapes)
    return [_from_bits(value, tensor.dtype) for value, tensor in zip(received, tensors)]


def reduce(tensor: Any, reduction: str, root_rank: int, group: str, **fusion: int) -> Any:
    """Add a reduce. The other ranks get zeros; the device leaves the memory as it was."""

    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        import numpy as np

        collectives.check_root(comm, root_rank)
        reduced = collectives.all_reduce(comm, arrays, reduction)
        return reduced if comm.me == root_rank else [np.zeros_like(array) for array in reduced]

    what = f"reduce {reduction} to {root_rank}"
    return _reduction("HcomReduce", what, tensor, work, _as_list(tensor.shape), group)


def reduce_scatter(tensor: Any, reduction: str, rank_size: int, group: str, **fusion: int) -> Any:
    """Add an allreduce, of which each rank keeps its part."""

    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        collectives.check_size(comm, "rank_size", rank_size)
        return [collectives.reduce_scatter(comm, arrays[0], reduction)]

    shape = scatter_shape(_as_list(tensor.shape), rank_size)
    what = f"reduce_scatter {reduction}"
    return _reduction("HcomReduceScatter", what, tensor, work, shape, group)


def all_to_all_v(
    send_data: Any,
    send_counts: Any,
    send_displacements: Any,
    recv_counts: Any,
    recv_displacements: Any,
    group: str,
) -> Any:
    """Add an exchange of the counts, then of the data."""

    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        return [collectives.all_to_all_v(comm, arrays)]

    lists = [send_counts, send_displacements, recv_counts, recv_displacements]
    return _exchange("HcomAllToAllV", "all_to_all_v", send_data, lists, work, group)


def all_to_all_v_c(
    send_data: Any, send_count_matrix: Any, rank: int, group: str, **fusion: int
) -> Any:
    """Add an exchange of the matrix, to compare it, then of the data."""

    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        return [collectives.all_to_all_v_c(comm, arrays, rank)]

    matrix = [send_count_matrix]
    return _exchange("HcomAllToAllVC", "all_to_all_v_c", send_data, matrix, work, group)


def send(tensor: Any, sr_tag: int, dest_rank: int, group: str) -> Any:
    """Add a send, which ends when the other rank has the data."""
    what = _describe("send", [tensor.dtype])

    def describe(job: StubJob, name: str, arrays: Sequence[Any]) -> Operation:
        way = (job.process_group.rank, job.groups.world_rank(group, dest_rank))
        return _between(name, _signature(what, arrays), way, sr_tag, group)

    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        forms = [(arrays[0].dtype, arrays[0].shape)]
        collectives.broadcast(comm, forms, arrays, comm.me)
        return []

    return blocking_op("HcomSend", [_as_bits(tensor)], _begin(describe, work), [])[0]


def receive(shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str) -> Any:
    """Add the other end of a `send`."""
    import numpy as np

    tf = tf1()
    carried = tf.int16 if data_type == tf.bfloat16 else data_type
    forms = [(np.dtype(carried.as_numpy_dtype), tuple(shape.as_list()))]
    signature = _write_signature(_describe("send", [data_type]), tuple(forms))

    def describe(job: StubJob, name: str, arrays: Sequence[Any]) -> Operation:
        way = (job.groups.world_rank(group, src_rank), job.process_group.rank)
        return _between(name, signature, way, sr_tag, group)

    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        return collectives.broadcast(comm, forms, [], 1 - comm.me)

    results = [(carried, shape)]
    received = blocking_op("HcomReceive", [], _begin(describe, work), results)
    mark_collective(received, "HcomReceive", group)
    return _from_bits(received[0], data_type)


_graphs: "weakref.WeakKeyDictionary[Any, Dict[str, Tuple[int, int]]]" = weakref.WeakKeyDictionary()
_numbered: Counter[str] = collections.Counter()


def _next_key(group: str) -> str:
    """Name the next collective of a group in the default graph, the same on all ranks.

    It is unique in this process: ``graph 1, hccl_world_group, collective 3``. The same script gives
    the same names on all ranks of a group, whatever its operators' names. Graphs are numbered for
    each set of ranks, in the order in which they get their first collective of it: only its members
    build those, and a name may stand for others later.
    """
    counts = _graphs.setdefault(_outermost_graph(), {})
    ranks = members_now(group)
    if ranks not in counts:
        _numbered[ranks] += 1
        counts[ranks] = (_numbered[ranks], 0)
    graph, count = counts[ranks]
    counts[ranks] = (graph, count + 1)
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
    reduction: str = "",
) -> List[Any]:
    """Add a collective to the default graph.

    Args:
        kind: The vendor's name of the operator.
        group: Name of the ranks that take part.
        what: Beginning of its signature: ``allreduce sum``.
        inputs: Its tensors.
        work: What it does.
        shapes: Shapes of its results; their dtypes are those of the inputs, in order.
        gradient: See `blocking_op`.
        of_shape: Whether the shapes have to be the same on all ranks.
        reduction: How it reduces, if it does.
    """
    number = _next_key(group)

    def describe(job: StubJob, name: str, arrays: Sequence[Any]) -> Operation:
        ranks = job.groups.members(group)
        signature = _signature(what, arrays if of_shape else arrays[:0])
        key = number if group == WORLD_GROUP else f"{number} of {list(ranks)}"
        return Operation(key, name, ranks, signature)

    results = [(tensor.dtype, tf1().TensorShape(shape)) for tensor, shape in zip(inputs, shapes)]
    values = blocking_op(kind, inputs, _begin(describe, work), results, gradient)
    mark_collective(values, kind, group, reduction, number)
    return values


def _begin(describe: Describe, work: Work) -> Function:
    """Return the function that an operator calls when it runs, in the job that is open then."""
    line = str(user_line(sys._getframe()) or "")[-_LONGEST_LINE:]

    def begin(name: str, arrays: Sequence[Any], iteration: Optional[Iteration]) -> Collective:
        job = current_job(f'The collective "{name}"')
        operation = describe(job, name, arrays)._replace(line=line)
        return Collective(job.process_group, operation, lambda comm: work(comm, arrays), iteration)

    return begin


def _allreduce(tensors: Sequence[Any], reduction: str, group: str, gradient: str) -> List[Any]:
    watch = SumWatch() if reduction == "sum" else None

    def work(comm: Communicator, arrays: Sequence[Any]) -> Sequence[Any]:
        results = collectives.all_reduce(comm, arrays, reduction)
        if watch is not None:
            watch.look(arrays, results, comm.size)
        return results

    wide = [_widen(tensor) for tensor in tensors]
    shapes = [_as_list(tensor.shape) for tensor in tensors]
    what = _describe(f"allreduce {reduction}", [tensor.dtype for tensor in tensors])
    reduced = _collective(
        "HcomAllReduce", group, what, wide, work, shapes, gradient, reduction=reduction
    )
    if watch is not None:
        watch.follow(reduced)
    return [tf1().cast(value, tensor.dtype) for value, tensor in zip(reduced, tensors)]


def _reduction(kind: str, what: str, tensor: Any, work: Any, shape: Any, group: str) -> Any:
    what = _describe(what, [tensor.dtype])
    reduced = _collective(kind, group, what, [_widen(tensor)], work, [shape])
    return tf1().cast(reduced[0], tensor.dtype)


def _exchange(kind: str, what: str, data: Any, counts: Sequence[Any], work: Any, group: str) -> Any:
    what = f"{what} {data.dtype.name}"
    inputs = [_as_bits(data), *counts]
    # Each rank has its own number of elements.
    received = _collective(kind, group, what, inputs, work, [None], of_shape=False)
    return _from_bits(received[0], data.dtype)


def _between(name: str, signature: str, way: Tuple[int, int], tag: int, group: str) -> Operation:
    """Return the operation with which the first of two ranks sends to the second."""
    sender, receiver = way
    if sender == receiver:
        raise CollectiveError(f'"{name}": rank {sender} of the job cannot send to itself.')
    key = f"{group}, rank {sender} to rank {receiver}, tag {tag}"
    return Operation(key, name, tuple(sorted(way)), signature)


def _signature(what: str, arrays: Sequence[Any]) -> str:
    """Write ``allreduce sum float32 [4, 3]``; a digest stands for more than four arrays."""
    return _write_signature(what, tuple((array.dtype, array.shape) for array in arrays))


@functools.lru_cache(maxsize=256)
def _write_signature(what: str, arrays: Tuple[Tuple[Any, Tuple[int, ...]], ...]) -> str:
    forms = [f"{dtype.name} {list(shape)}" for dtype, shape in arrays]
    if len(forms) <= _SHOWN:
        return " ".join([what, ", ".join(forms)]).strip()
    digest = hashlib.sha256("".join(forms).encode()).hexdigest()[:8]
    more = len(forms) - _SHOWN
    return f"{what} {', '.join(forms[:_SHOWN])} and {more} more ({digest})"


def _describe(what: str, dtypes: Sequence[Any]) -> str:
    """Add the dtypes to ``what`` if bfloat16 is among them, which travels as another dtype."""
    names = [dtype.base_dtype.name for dtype in dtypes]
    return f"{what} of {', '.join(names)} as" if "bfloat16" in names else what


def _as_list(shape: Any) -> Shape:
    """Return a `tf.TensorShape` as numbers."""
    return None if shape.rank is None else list(shape.as_list())


def _as_bits(tensor: Any) -> Any:
    """Bitcast bfloat16, which NumPy lacks, to int16; `_from_bits` is the way back."""
    tf = tf1()
    return tf.bitcast(tensor, tf.int16) if tensor.dtype.base_dtype == tf.bfloat16 else tensor


def _from_bits(tensor: Any, dtype: Any) -> Any:
    tf = tf1()
    return tf.bitcast(tensor, dtype) if dtype.base_dtype == tf.bfloat16 else tensor


def _widen(tensor: Any) -> Any:
    """Cast bfloat16 to float32, with which NumPy can compute."""
    tf = tf1()
    return tf.cast(tensor, tf.float32) if tensor.dtype.base_dtype == tf.bfloat16 else tensor


_registered = False


def _register_gradient() -> None:
    """Register the vendor's gradient: a sum over the whole job, whatever the reduction and group.

    Source: npu_bridge/hccl/hccl_ops.py, ``_allreduce_grad``.
    """
    global _registered
    if _registered:
        return
    _registered = True

    def gradient(op: Any, *gradients: Any) -> List[Any]:
        count = len(gradients) // 2
        summed = [allreduce(each, "sum", WORLD_GROUP) for each in gradients[:count]]
        return [None] * count + summed

    tf1().RegisterGradient(_GRADIENT)(gradient)
