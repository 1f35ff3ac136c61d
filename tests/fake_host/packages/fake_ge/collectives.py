"""The operators of collectives: what TensorFlow has in its graph for each, and what runs then.

Each is a py_func that exchanges (communicator.py), behind an operator that is marked as the
vendor's and has its gradient: TensorFlow says that there is none where the vendor registers none
(npu_bridge/hccl/hccl_ops.py has one for HcomAllReduce only).
"""

from typing import Any, Callable, List, Optional, Sequence

from fake_ge import communicator, values
from fake_ge.communicator import Group
from fake_ge.faults import fault
from fake_ge.graphs import mark
from fake_ge.hcom import WORLD
from fake_ge.turns import Site, Turn

__all__ = [
    "all_to_all_v",
    "all_to_all_v_c",
    "allgather",
    "allreduce",
    "broadcast",
    "receive",
    "reduce",
    "reduce_scatter",
    "send",
]


def allreduce(tensor: Any, reduction: str, group: str) -> Any:
    """HcomAllReduce."""

    def run(turn: Turn, own: Group, arrays: List[Any]) -> List[Any]:
        asked = _asked("HcomAllReduce", arrays, reduction=reduction)
        found = communicator.exchange(turn, own, asked, arrays)
        return [values.reduced(reduction, [one[0] for one in found])]

    return _operator("HcomAllReduce", group, run, [tensor], [tensor.shape])[0]


def allgather(tensor: Any, shape: Any, group: str) -> Any:
    """HcomAllGather; ``shape`` is the result's."""

    def run(turn: Turn, own: Group, arrays: List[Any]) -> List[Any]:
        asked = _asked("HcomAllGather", arrays)
        found = communicator.exchange(turn, own, asked, arrays)
        return [values.gathered([one[0] for one in found])]

    return _operator("HcomAllGather", group, run, [tensor], [shape])[0]


def broadcast(tensors: Sequence[Any], root: int, group: str) -> List[Any]:
    """HcomBroadcast."""

    def run(turn: Turn, own: Group, arrays: List[Any]) -> List[Any]:
        asked = _asked("HcomBroadcast", arrays, root=root)
        found = communicator.exchange(turn, own, asked, arrays)
        return list(found[_root(turn, root, own)])

    return _operator("HcomBroadcast", group, run, tensors, [one.shape for one in tensors])


def reduce(tensor: Any, reduction: str, root: int, group: str) -> Any:
    """HcomReduce."""

    def run(turn: Turn, own: Group, arrays: List[Any]) -> List[Any]:
        asked = _asked("HcomReduce", arrays, reduction=reduction, root=root)
        found = communicator.exchange(turn, own, asked, arrays)
        if own.own != _root(turn, root, own):
            return [values.unwritten(arrays[0])]
        return [values.reduced(reduction, [one[0] for one in found])]

    return _operator("HcomReduce", group, run, [tensor], [tensor.shape])[0]


def reduce_scatter(tensor: Any, reduction: str, shape: Any, group: str) -> Any:
    """HcomReduceScatter; ``shape`` is the result's."""

    def run(turn: Turn, own: Group, arrays: List[Any]) -> List[Any]:
        asked = _asked("HcomReduceScatter", arrays, reduction=reduction)
        found = communicator.exchange(turn, own, asked, arrays)
        result = values.reduced(reduction, [one[0] for one in found])
        return [values.scattered(result, len(own.ranks), own.own)]

    return _operator("HcomReduceScatter", group, run, [tensor], [shape])[0]


def all_to_all_v(tensor: Any, counts: Sequence[Any], group: str) -> Any:
    """HcomAllToAllV; ``counts`` are those sent, where they begin, those received, and where."""

    def run(turn: Turn, own: Group, arrays: List[Any]) -> List[Any]:
        asked = _asked("HcomAllToAllV", arrays[:1], count=None)
        found = communicator.exchange(turn, own, asked, arrays)
        parts = []
        for data, sent, begins, _, _ in found:
            begin = begins[own.own]
            parts.append(data.reshape(-1)[begin : begin + sent[own.own]])
        _same_counts(turn, parts, arrays[3])
        return [values.exchanged(parts, arrays[4])]

    return _operator("HcomAllToAllV", group, run, [tensor, *counts], [None])[0]


def all_to_all_v_c(tensor: Any, matrix: Any, rank: int, group: str) -> Any:
    """HcomAllToAllVC."""

    def run(turn: Turn, own: Group, arrays: List[Any]) -> List[Any]:
        # alltoallvc.md, Constraints, 3: "The value of send_count_matrix on each node must be the
        # same"
        counts = arrays[1].reshape(len(own.ranks), len(own.ranks))
        asked = _asked("HcomAllToAllVC", arrays[:1], count=counts.tolist())
        found = communicator.exchange(turn, own, asked, arrays)
        parts = []
        for place, one in enumerate(found):
            begin = counts[place, :rank].sum()
            parts.append(one[0].reshape(-1)[begin : begin + counts[place, rank]])
        displacements = [counts[:place, rank].sum() for place in range(len(parts))]
        return [values.exchanged(parts, displacements)]

    return _operator("HcomAllToAllVC", group, run, [tensor, matrix], [None])[0]


def send(tensor: Any, sr_tag: int, dest_rank: int, group: str) -> Any:
    """HcomSend, which has no output: the operator itself."""

    def run(turn: Turn, own: Group, arrays: List[Any]) -> List[Any]:
        _exchange_pair(turn, own, own.own, dest_rank, arrays)
        return []

    channel = (group, "send", sr_tag, dest_rank)
    return _operator("HcomSend", group, run, [tensor], [], channel)


def receive(like: Any, sr_tag: int, src_rank: int, group: str) -> Any:
    """HcomReceive; ``like`` are zeros of the type and shape of what comes."""

    def run(turn: Turn, own: Group, arrays: List[Any]) -> List[Any]:
        import numpy as np

        found = _exchange_pair(turn, own, src_rank, own.own, arrays)
        lost = fault("hccl-lost") is not None
        return [np.zeros_like(found) if lost else found]

    channel = (group, "receive", sr_tag, src_rank)
    return _operator("HcomReceive", group, run, [like], [like.shape], channel)[0]


def _exchange_pair(turn: Turn, own: Group, source: int, target: int, arrays: List[Any]) -> Any:
    """What the one sends; both wait for each other."""
    # send.md, Constraints: "after the send API is called, the next API can be called only after the
    # paired receive API receives data"
    if len(own.ranks) == 1:
        return arrays[0]
    pair = [own.ranks[source], own.ranks[target]]
    age, (_, _, tag, _), number, times = turn.number
    same = Turn(turn.run, (age, (own.name, "pair", tag, *pair), number, times))
    group = Group(own.name, sorted(pair), sorted(pair).index(own.ranks[own.own]))
    asked = _asked("HcomSend and HcomReceive", arrays)
    found = communicator.exchange(same, group, asked, arrays)
    return found[group.ranks.index(pair[0])][0]


def _root(turn: Turn, root: int, own: Group) -> int:
    if root >= len(own.ranks):
        # reduce.md: "must be a rank ID in the group"
        raise communicator.invalid(turn, f"root [{root}] is not in the group [{own.name}]")
    return (root + 1) % len(own.ranks) if fault("hccl-root") is not None else root


def _same_counts(turn: Turn, parts: Sequence[Any], received: Any) -> None:
    # ASSUMED: HCCL finds out; param_link_stage.md compares counts
    for place, part in enumerate(parts):
        if part.size != received[place]:
            raise communicator.different(
                turn, "HcomAllToAllV", "recv_counts", int(received[place]), part.size
            )


def _asked(tag: str, arrays: Sequence[Any], **more: Any) -> Any:
    """What must be the same on all ranks."""
    if fault("hccl-fails") == f"{tag}/{arrays[0].dtype.name}":
        raise RuntimeError(f"[HCCL] {tag} failed, ret[4294967295]")
    # param_link_stage.md, EI0005: "tag", "count", "dataType", "reduceOp", "root"
    return {
        "tag": tag,
        "dataType": [one.dtype.name for one in arrays],
        "count": [one.size for one in arrays],
        **more,
    }


def _operator(
    kind: str,
    group: str,
    run: Callable[[Turn, Group, List[Any]], List[Any]],
    tensors: Sequence[Any],
    shapes: Sequence[Any],
    channel: Optional[Any] = None,
) -> Any:
    import tensorflow.compat.v1 as tf

    group = WORLD if fault("hccl-world") is not None else group
    site = Site(kind, channel or (group,))

    def execute(*arrays: Any) -> List[Any]:
        turn = site.turn()
        own = communicator.group_of(turn, group)
        return [values.arrived(one, own.own) for one in run(turn, own, list(arrays))]

    types = [one.dtype.base_dtype for one in tensors[: len(shapes)]]
    results = tf.py_func(execute, list(tensors), types, name=f"{kind}Exchange")
    if not shapes:
        with tf.control_dependencies([results]):
            operation = tf.no_op(name=kind)
        mark(operation, kind)
        site.add(operation)
        return operation
    for result, shape in zip(results, shapes):
        result.set_shape(shape)
    # The inputs are there for the gradient, which is theirs.
    with tf.get_default_graph().gradient_override_map({"IdentityN": kind}):
        outputs = tf.identity_n([*results, *tensors], name=kind)
    mark(outputs[0].op, kind)
    site.add(outputs[0].op)
    return outputs[: len(shapes)]
