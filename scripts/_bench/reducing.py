"""One rank of the comparison of allreduces: ``reducing.py WAY FOLDER BYTES:TIMES ...``.

Rank 0 prints the seconds that an allreduce of so many bytes of float32 took, as a list: the best
of a few rounds of as many allreduces as asked for.
"""

import contextlib
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Sequence, Tuple

# Does the allreduce of one of the sizes, by its number; gives the first element of the result.
Reduce = Callable[[int], float]

ROUNDS = 3


class Place(NamedTuple):
    """Who this rank is; the folder is the job's own."""

    rank: int
    size: int
    folder: Path


def main(argv: Sequence[str]) -> None:
    """Reduce tensors of ones, each first once to warm up, and stay until all ranks are through."""
    way, folder, *words = argv
    sizes = parse_sizes(words)
    rank, ranks = _who(way)
    place = Place(rank, ranks, Path(folder))
    with WAYS[way](place, [count // 4 for count, _ in sizes]) as reduce:
        seconds = [timed(reduce, number, times, ranks) for number, (_, times) in enumerate(sizes)]
        leave_together(place)
    if place.rank == 0:
        print("seconds", json.dumps(seconds), flush=True)


def parse_sizes(words: Sequence[str]) -> List[Tuple[int, int]]:
    """Read ``BYTES:TIMES`` from the command line."""
    pairs = [word.split(":") for word in words]
    return [(int(size_bytes), int(times)) for size_bytes, times in pairs]


def timed(reduce: Reduce, number: int, times: int, ranks: int) -> float:
    """Give the mean of so many allreduces in the best round, in seconds, after warming up."""
    for _ in range(1 + times // 10):
        reduce(number)
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        sums = {reduce(number) for _ in range(times)}
        rounds.append((time.perf_counter() - begin) / times)
        assert sums == {ranks}, f"{ranks} ranks gave {sums}"
    return min(rounds)


def leave_together(place: Place) -> None:
    """Wait until all ranks are here: who ends early takes from the others what they still read."""
    (place.folder / f"through_{place.rank}").touch()
    while not all((place.folder / f"through_{rank}").exists() for rank in range(place.size)):
        time.sleep(0.01)


@contextlib.contextmanager
def in_a_graph(
    counts: Sequence[int],
    add: Callable[[int, Any], Any],
    open_session: Callable[[Any], ContextManager[Any]],
) -> Iterator[Reduce]:
    """Reduce variables in a session.

    Args:
        counts: How many elements each has.
        add: Adds the allreduce of a variable to the default graph, by its number; returns it.
        open_session: Opens a session on a graph.
    """
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as graph:
        values = [tf.Variable(tf.ones([count])) for count in counts]
        firsts = [add(number, value)[0] for number, value in enumerate(values)]
        ready = tf.global_variables_initializer()
        with open_session(graph) as sess:
            sess.run(ready)
            yield lambda number: float(sess.run(firsts[number]))


@contextlib.contextmanager
def with_hccl(place: Place, counts: Sequence[int]) -> Iterator[Reduce]:
    """Use this package, in a session of its own."""
    from ascend_session import ascend_session, hccl

    def add(number: int, value: Any) -> Any:
        return hccl.allreduce(value, "sum")

    with in_a_graph(counts, add, lambda graph: ascend_session(graph=graph)) as reduce:
        yield reduce


@contextlib.contextmanager
def with_gloo(place: Place, counts: Sequence[int]) -> Iterator[Reduce]:
    """Use PyTorch over gloo."""
    torch, distributed = import_module("torch"), import_module("torch.distributed")
    meeting = f"file://{place.folder / 'gloo'}"
    distributed.init_process_group(
        "gloo", init_method=meeting, rank=place.rank, world_size=place.size
    )
    values = [torch.ones(count) for count in counts]

    def reduce(number: int) -> float:
        reduced = values[number].clone()
        distributed.all_reduce(reduced)
        return float(reduced[0])

    yield reduce
    distributed.destroy_process_group()


@contextlib.contextmanager
def with_mpi4py(place: Place, counts: Sequence[int]) -> Iterator[Reduce]:
    """Use MPI."""
    np: Any = import_module("numpy")
    world = import_module("mpi4py.MPI").COMM_WORLD
    values = [np.ones(count, np.float32) for count in counts]

    def reduce(number: int) -> float:
        reduced = np.empty_like(values[number])
        world.Allreduce(values[number], reduced)
        return float(reduced[0])

    yield reduce


WAYS: Dict[str, Callable[[Place, Sequence[int]], ContextManager[Reduce]]] = {
    "hccl": with_hccl,
    "gloo": with_gloo,
    "mpi4py": with_mpi4py,
}


def _who(way: str) -> Tuple[int, int]:
    if way == "mpi4py":
        world = import_module("mpi4py.MPI").COMM_WORLD
        return world.Get_rank(), world.Get_size()
    return int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])


if __name__ == "__main__":
    main(sys.argv[1:])
