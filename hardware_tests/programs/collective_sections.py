"""The parts of the contract of collectives: a graph each, its inputs, and what NumPy expects.

All inputs are fed, for what depends on constants alone may be computed while a graph is compiled.
"""

import zlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

from hardware_tests.collective_cases import REDUCED, REDUCING

__all__ = ["Answer", "Graph", "Rank", "of_type", "reduced"]


class Answer(NamedTuple):
    """An array that came out of a collective.

    Attributes:
        check: The name of the check.
        dtype: The type of the tensor.
        found: The array.
        expected: What NumPy makes of the same inputs.
        counts: Whether the values mean anything on this rank.
    """

    check: str
    dtype: str
    found: Any
    expected: Any
    counts: bool = True


class Rank(NamedTuple):
    """What each section gets: the modules, and the open system."""

    tf: Any
    np: Any
    hccl: Any
    system: Any

    @property
    def rank(self) -> int:
        return int(self.system.rank)

    @property
    def size(self) -> int:
        return int(self.system.size)

    def input(self, check: str, dtype: str, shape: Tuple[int, ...], rank: int) -> Any:
        """The input of a rank: small numbers, so that no type is too small for their sum.

        Each element has a rank whose number decides: the largest, the smallest, or what is
        multiplied. A result without that rank is then another, and so is each part of a result.
        """
        np = self.np
        random = np.random.RandomState(zlib.crc32(f"{check} {rank}".encode()))
        own = np.arange(int(np.prod(shape))).reshape(shape) % self.size == rank
        deciding = random.randint(2, 4, shape) * (-1 if " min " in check else 1)
        if dtype.startswith("float"):
            others = random.uniform(0.5, 1.5, shape)
            return np.where(own, deciding * others, others).astype(dtype)
        low = 0 if dtype.startswith("u") or " prod " in check else -1
        others = random.randint(low, 2, shape) if " prod " not in check else np.ones(shape)
        whole = np.where(own, deciding, others)
        return whole.astype("float32" if dtype == "bfloat16" else dtype)

    def inputs(self, check: str, dtype: str, shape: Tuple[int, ...]) -> List[Any]:
        """The inputs of all ranks."""
        return [self.input(check, dtype, shape, rank) for rank in range(self.size)]


class Graph:
    """A graph that is being made, with its own inputs, and what is expected of it."""

    def __init__(self, me: Rank, only: str = "") -> None:
        self.me = me
        self._only = only
        self.graph = me.tf.Graph()
        self._feeds: Dict[Any, Any] = {}
        self._asked: List[Tuple[str, Any, Any, bool]] = []

    def __enter__(self) -> "Graph":
        self._default = self.graph.as_default()
        self._default.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._default.__exit__(*failure)

    def wants(self, check: str) -> bool:
        """Whether this collective is to be in the graph: it is asked for, or all are."""
        return self._only in ("", check)

    def feed(self, value: Any, dtype: str = "") -> Any:
        """A tensor that is fed."""
        tensor = self.me.tf.placeholder(value.dtype, value.shape)
        self._feeds[tensor] = value
        return self.me.tf.cast(tensor, dtype) if dtype == "bfloat16" else tensor

    def ask(self, check: str, tensor: Any, expected: Any, counts: bool = True) -> None:
        """Has a tensor computed and compared."""
        self._asked.append((check, tensor, expected, counts))

    def answers(self) -> Iterator[Answer]:
        """Runs everything once."""
        with self.me.system.session(self.graph) as sess:
            yield from self.run(sess)

    def run(self, sess: Any) -> List[Answer]:
        """Runs everything once in this session."""
        tf = self.me.tf
        with self.graph.as_default():
            fetches = [
                tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor
                for _, tensor, _, _ in self._asked
            ]
        values = sess.run(fetches, self._feeds) if fetches else []
        return [
            Answer(check, tensor.dtype.base_dtype.name, value, expected, counts)
            for (check, tensor, expected, counts), value in zip(self._asked, values)
        ]


def reduced(me: Rank, reduction: str, values: List[Any]) -> Any:
    """What NumPy makes of the tensors of all ranks, in their type; exact where that can be."""
    steps = {"sum": me.np.sum, "prod": me.np.prod, "max": me.np.max, "min": me.np.min}
    wide = "float64" if values[0].dtype.kind == "f" else "int64"
    return steps[reduction]([one.astype(wide) for one in values], axis=0).astype(values[0].dtype)


def of_type(dtype: str, only: str) -> Callable[[Rank], Iterator[Answer]]:
    """The section of a type: everything that takes it, or only the collective of that check."""

    def section(me: Rank) -> Iterator[Answer]:
        with Graph(me, "" if only == dtype else only) as made:
            if dtype in REDUCED:
                for reduction in [one for one, other in REDUCING if other == dtype]:
                    _reductions(made, reduction, dtype)
            _moves(made, dtype)
            _exchanges(made, dtype)
            _pairs(made, dtype)
        return made.answers()

    return section


def _reductions(made: Graph, reduction: str, dtype: str) -> None:
    me, hccl = made.me, made.me.hccl
    check = f"allreduce {reduction} {dtype}"
    if made.wants(check):
        all_of = me.inputs(check, dtype, (4, 3))
        result = hccl.allreduce(made.feed(all_of[me.rank], dtype), reduction)
        made.ask(check, result, reduced(me, reduction, all_of))
    check, root = f"reduce {reduction} {dtype}", me.size - 1
    if made.wants(check):
        all_of = me.inputs(check, dtype, (8,))
        result = hccl.reduce(made.feed(all_of[me.rank], dtype), reduction, root)
        # HcclReduce.md: the result is the root's; of what the others have no page says anything.
        made.ask(check, result, reduced(me, reduction, all_of), counts=me.rank == root)
    check = f"reduce_scatter {reduction} {dtype}"
    if made.wants(check):
        all_of = me.inputs(check, dtype, (2 * me.size, 4))
        result = hccl.reduce_scatter(made.feed(all_of[me.rank], dtype), reduction, me.size)
        part = slice(2 * me.rank, 2 * me.rank + 2)
        made.ask(check, result, reduced(me, reduction, all_of)[part])


def _moves(made: Graph, dtype: str) -> None:
    me, hccl = made.me, made.me.hccl
    check = f"allgather {dtype}"
    if made.wants(check):
        all_of = me.inputs(check, dtype, (2, 3))
        result = hccl.allgather(made.feed(all_of[me.rank], dtype), me.size)
        made.ask(check, result, me.np.concatenate(all_of))
    # Two tensors at a time, the second as large as nothing else here.
    check, root = f"broadcast {dtype}", me.size // 2
    if made.wants(check):
        first, second = me.inputs(check, dtype, (2, 2)), me.inputs(f"{check} second", dtype, (7,))
        fed = [made.feed(one[me.rank], dtype) for one in (first, second)]
        results = hccl.broadcast(fed, root)
        both = me.tf.concat([me.tf.reshape(one, [-1]) for one in results], 0)
        made.ask(check, both, me.np.concatenate([first[root].reshape(-1), second[root]]))


def _exchanges(made: Graph, dtype: str) -> None:
    """Ragged parts, of which some are nothing; what is sent has gaps."""
    me, np, hccl = made.me, made.me.np, made.me.hccl
    matrix = np.array([[(i + 2 * j) % 4 for j in range(me.size)] for i in range(me.size)])
    begins = np.array([[row[:j].sum() + j for j in range(me.size)] for row in matrix])
    check = f"all_to_all_v {dtype}"
    if made.wants(check):
        all_of = [
            me.input(check, dtype, (int(row.sum()) + me.size,), rank)
            for rank, row in enumerate(matrix)
        ]
        received = matrix[:, me.rank]
        where = np.cumsum(received) - received
        counts = [matrix[me.rank], begins[me.rank], received, where]
        result = hccl.all_to_all_v(
            made.feed(all_of[me.rank], dtype), *[me.tf.constant(one, me.tf.int64) for one in counts]
        )
        parts = [
            one[begins[rank, me.rank] :][: matrix[rank, me.rank]] for rank, one in enumerate(all_of)
        ]
        made.ask(check, result, np.concatenate(parts))
    check = f"all_to_all_v_c {dtype}"
    if made.wants(check):
        all_of = [
            me.input(check, dtype, (int(row.sum()),), rank) for rank, row in enumerate(matrix)
        ]
        ends = np.cumsum(matrix, axis=1)
        result = hccl.all_to_all_v_c(
            made.feed(all_of[me.rank], dtype), me.tf.constant(matrix, me.tf.int64), me.rank
        )
        parts = [
            one[ends[rank, me.rank] - matrix[rank, me.rank] : ends[rank, me.rank]]
            for rank, one in enumerate(all_of)
        ]
        made.ask(check, result, np.concatenate(parts))


def _pairs(made: Graph, dtype: str) -> None:
    """Each even rank sends to the next, which answers; a last one without a partner does nothing.

    send.md: "after the send API is called, the next API can be called only after the paired receive
    API receives data"; so each waits for its first before its second.
    """
    me, tf, hccl = made.me, made.me.tf, made.me.hccl
    partner = me.rank ^ 1
    if partner >= me.size or not made.wants(f"there {dtype}"):
        return
    there, back = f"there {dtype}", f"and back {dtype}"
    out, answer = (
        me.input(there, dtype, (2, 3), me.rank & ~1),
        me.input(back, dtype, (4,), me.rank | 1),
    )
    if me.rank % 2 == 0:
        with tf.control_dependencies([hccl.send(made.feed(out, dtype), 3, partner)]):
            result = hccl.receive([4], tf.as_dtype(dtype), 4, partner)
        made.ask(back, result, answer)
    else:
        result = hccl.receive([2, 3], tf.as_dtype(dtype), 3, partner)
        with tf.control_dependencies([result]):
            sent = hccl.send(made.feed(answer, dtype), 4, partner)
        with tf.control_dependencies([sent]):
            made.ask(there, tf.identity(result), out)
