"""More sections of the contract of collectives: groups, shapes, loops, gradients, sessions."""

import os
from typing import Any, Iterator, List, Tuple

from collective_sections import Answer, Graph, Rank, reduced

__all__ = ["MORE"]

Fact = Tuple[str, Any, Any]


def world(me: Rank) -> Iterator[Fact]:
    """Who this process is; all ranks are on one host."""
    hccl = me.hccl
    # The launcher says it, too; without a rank table in these variables alone.
    rank, size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_SIZE"])
    ranks = list(range(size))
    yield "world rank", [hccl.rank(), me.rank], [rank, rank]
    yield "world size", [hccl.size(), me.size], [size, size]
    yield "world local rank", [hccl.local_rank(), int(me.system.local_rank)], [rank, rank]
    yield "world local size", [hccl.local_size(), int(me.system.local_size)], [size, size]
    yield "world world ranks", [hccl.world_rank(hccl.WORLD_GROUP, one) for one in ranks], ranks
    yield "world group ranks", [hccl.group_rank(one, hccl.WORLD_GROUP) for one in ranks], ranks


def group(me: Rank) -> Iterator[Any]:
    """Two halves of the job: each rank is in one of them, and both work at the same time."""
    hccl, np, middle = me.hccl, me.np, (me.size + 1) // 2
    halves = [list(range(middle)), list(range(middle, me.size))]
    own, other = halves if me.rank < middle else halves[::-1]
    name = f"half from {own[0]}"
    # Atlas training has groups of 1, 2, 4 and 8 inside of a ring only; the halves are such.
    hccl.create_group(name, len(own), own)
    yield "group rank", hccl.rank(name), own.index(me.rank)
    yield "group size", hccl.size(name), len(own)
    yield "group world ranks", [hccl.world_rank(name, n) for n in range(len(own))], own
    yield "group group ranks", [hccl.group_rank(n, name) for n in own], list(range(len(own)))
    yield "group stranger", _refused(lambda: hccl.group_rank(other[0], name)), True
    with Graph(me) as made:
        _in_the_group(made, own, name)
    yield from made.answers()
    with Graph(me) as made:
        values = [np.int32([rank, 2]) for rank in own]
        result = hccl.allreduce(made.feed(np.int32([me.rank, 2])), "sum", group=name)
        made.ask("group in the next session", result, reduced(me, "sum", values))
    yield from made.answers()
    hccl.destroy_group(name)
    yield "group destroyed", _refused(lambda: hccl.size(name)), True
    # The first half's name again, with other ranks.
    hccl.create_group("half from 0", me.size, list(range(me.size)))
    with Graph(me) as made:
        values = [np.float32([rank, 1]) for rank in range(me.size)]
        result = hccl.allreduce(made.feed(values[me.rank]), "sum", group="half from 0")
        made.ask("group made again", result, reduced(me, "sum", values))
    yield from made.answers()
    hccl.destroy_group("half from 0")


def _in_the_group(made: Graph, own: List[int], name: str) -> None:
    me, np, hccl = made.me, made.me.np, made.me.hccl

    def inputs(check: str, *shape: int) -> List[Any]:
        return [me.input(check, "int32", shape, rank) for rank in own]

    place, named = own.index(me.rank), {"group": name}
    values = inputs("group allreduce", 4)
    result = hccl.allreduce(made.feed(values[place]), "sum", **named)
    made.ask("group allreduce", result, reduced(me, "sum", values))
    values = inputs("group allgather", 2, 2)
    result = hccl.allgather(made.feed(values[place]), len(own), **named)
    made.ask("group allgather", result, np.concatenate(values))
    values = inputs("group broadcast", 3)
    result = hccl.broadcast([made.feed(values[place])], len(own) - 1, **named)[0]
    made.ask("group broadcast", result, values[-1])
    values = inputs("group reduce", 3)
    result = hccl.reduce(made.feed(values[place]), "max", len(own) - 1, **named)
    counts = place == len(own) - 1
    made.ask("group reduce", result, reduced(me, "max", values), counts)
    values = inputs("group reduce_scatter", len(own), 2)
    result = hccl.reduce_scatter(made.feed(values[place]), "sum", len(own), **named)
    made.ask("group reduce_scatter", result, reduced(me, "sum", values)[place : place + 1])


def shape(me: Rank) -> Iterator[Answer]:
    """Scalars, and a megabyte."""
    hccl, np = me.hccl, me.np
    with Graph(me) as made:
        values = [np.float32(rank + 2) for rank in range(me.size)]
        result = hccl.allreduce(made.feed(values[me.rank]), "prod")
        made.ask("shape scalar allreduce", result, reduced(me, "prod", values))
        result = hccl.broadcast([made.feed(values[me.rank])], 0)[0]
        made.ask("shape scalar broadcast", result, values[0])
        values = [np.arange(1 << 18, dtype=np.int32) * (rank + 1) for rank in range(me.size)]
        result = hccl.allreduce(made.feed(values[me.rank]), "sum")
        made.ask("shape large allreduce", result, reduced(me, "sum", values))
        result = hccl.allgather(made.feed(values[me.rank]), me.size)
        made.ask("shape large allgather", result, np.concatenate(values))
    return made.answers()


def empty(me: Rank) -> Iterator[Answer]:
    """Tensors without an element; of the device no page says what it does with them."""
    hccl, np, tf = me.hccl, me.np, me.tf
    with Graph(me) as made:
        nothing = np.zeros([0, 3], np.float32)
        made.ask("empty allreduce", hccl.allreduce(made.feed(nothing), "sum"), nothing)
        made.ask("empty allgather", hccl.allgather(made.feed(nothing), me.size), nothing)
        made.ask("empty broadcast", hccl.broadcast([made.feed(nothing)], 0)[0], nothing)
        result = hccl.reduce_scatter(made.feed(nothing), "sum", me.size)
        made.ask("empty reduce_scatter", result, nothing)
        zeros = tf.constant([0] * me.size, tf.int64)
        result = hccl.all_to_all_v(made.feed(nothing[:, 0]), zeros, zeros, zeros, zeros)
        made.ask("empty all_to_all_v", result, nothing[:, 0])
    return made.answers()


def loop(me: Rank) -> Iterator[Answer]:
    """A collective three times, each time of what came out before."""
    hccl, np, tf = me.hccl, me.np, me.tf
    with Graph(me) as made:
        value = np.float32([me.rank + 1, 1])

        def step(count: Any, x: Any) -> Any:
            return count + 1, hccl.allreduce(x, "sum") * (me.rank + 1.0)

        start = (tf.constant(0), made.feed(value))
        result = tf.while_loop(lambda count, x: count < 3, step, start)[1]
        total = me.size * (me.size + 1) / 2
        expected = np.float32([total**3, me.size * total**2]) * (me.rank + 1)
        made.ask("loop", result, expected)
    return made.answers()


def gradient(me: Rank) -> Iterator[Answer]:
    """hccl_ops.py, _allreduce_grad: the sum of all ranks' gradients, whatever the reduction was."""
    hccl, np, tf = me.hccl, me.np, me.tf
    with Graph(me) as made:
        for reduction in ("sum", "max"):
            value = np.float32([1.5, me.rank - 1.0])
            x = made.feed(value)
            y = hccl.allreduce(x * x, reduction) * (me.rank + 1.0)
            total = np.float32(me.size * (me.size + 1) / 2)
            made.ask(f"gradient {reduction}", tf.gradients(y, x)[0], 2 * value * total)
    return made.answers()


def session(me: Rank) -> Iterator[Answer]:
    """Two graphs in two sessions that are open at the same time, by turns."""
    graphs = []
    for number in (1, 2):
        with Graph(me) as made:
            values = [me.np.int32([rank, 10 * number]) for rank in range(me.size)]
            result = me.hccl.allreduce(made.feed(values[me.rank]), "sum")
            made.ask(f"session {number}", result, reduced(me, "sum", values))
        graphs.append(made)
    first, second = [me.system.session(made.graph) for made in graphs]
    with first as one, second as other:
        for turn, (made, sess) in enumerate([(graphs[0], one), (graphs[1], other)] * 2):
            for answer in made.run(sess):
                yield answer._replace(check=f"session turn {turn}")


def _refused(ask: Any) -> bool:
    """Whether it ends with an error that says so."""
    try:
        ask()
    except RuntimeError:  # CollectiveError is one
        return True
    return False


MORE = {
    "world": world,
    "group": group,
    "shape": shape,
    "empty": empty,
    "loop": loop,
    "gradient": gradient,
    "session": session,
}
