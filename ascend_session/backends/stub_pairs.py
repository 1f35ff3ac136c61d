"""Sending from one rank to another, on the stub."""

from typing import Any, Optional, Sequence

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.ranks import moving
from ascend_session.backends.ranks.exchange import Channel
from ascend_session.backends.ranks.operation import Operation
from ascend_session.backends.ranks.turns import Turn
from ascend_session.backends.stub_collective import (
    as_bits,
    from_bits,
    signature,
    with_bits,
)
from ascend_session.backends.stub_job import current_job
from ascend_session.backends.stub_ops import blocking_op
from ascend_session.errors import CollectiveError

__all__ = ["receive", "send"]


def send(tensor: Any, tag: int, to: int, group: str) -> Any:
    """Sends to rank ``to`` of the group; gives the operation."""
    what = with_bits("send", [tensor.dtype])

    def function(name: str, arrays: Sequence[Any], turn: Optional[Turn]) -> Sequence[Any]:
        job = current_job(f'"{name}"')
        there = job.groups.world_rank(group, to)
        way = (job.exchange.rank, there)
        operation = _operation(name, signature(what, arrays), way, tag, group)

        def work(channel: Channel) -> Any:
            form = (arrays[0].dtype, arrays[0].shape)
            moving.from_root(channel, [form], arrays, channel.me)

        job.exchange.run(operation, work, turn)
        return []

    return blocking_op("HcomSend", [as_bits(tensor)], function, [])[0]


def receive(shape: Any, dtype: Any, tag: int, source: int, group: str) -> Any:
    """What rank ``source`` of the group has sent with the same tag."""
    tf = tf1()
    carried = tf.int16 if dtype == tf.bfloat16 else dtype
    what = with_bits("send", [dtype])

    def function(name: str, arrays: Sequence[Any], turn: Optional[Turn]) -> Sequence[Any]:
        import numpy as np

        job = current_job(f'"{name}"')
        there = job.groups.world_rank(group, source)
        empty = np.zeros(shape.as_list(), carried.as_numpy_dtype)
        way = (there, job.exchange.rank)
        operation = _operation(name, signature(what, [empty]), way, tag, group)

        def work(channel: Channel) -> Any:
            return moving.from_root(channel, [(empty.dtype, empty.shape)], [], 1 - channel.me)

        found: Sequence[Any] = job.exchange.run(operation, work, turn)
        return found

    results = [(carried, shape)]
    return from_bits(blocking_op("HcomReceive", [], function, results)[0], dtype)


def _operation(name: str, signed: str, way: Sequence[int], tag: int, group: str) -> Operation:
    sender, receiver = way
    if sender == receiver:
        raise CollectiveError(f'"{name}": rank {sender} of the job cannot send to itself.')
    key = f"{group}, rank {sender} to rank {receiver}, tag {tag}"
    return Operation(key, name, tuple(sorted(way)), signed)
