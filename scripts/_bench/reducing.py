"""One rank of the comparison of allreduces: ``reducing.py FOLDER BYTES:TIMES ...``.

Rank 0 prints the seconds that an allreduce of so many bytes of float32 took, as a list: the best
of a few rounds of as many allreduces as asked for.
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator, List, Sequence, Tuple

# Does the allreduce of one of the sizes, by its number; gives the first element of the result.
Reduce = Callable[[int], float]

ROUNDS = 3


def main(argv: Sequence[str]) -> None:
    """Reduce tensors of ones, each first once to warm up, and stay until all ranks are through."""
    folder, *words = argv
    sizes = parse_sizes(words)
    rank, ranks = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])
    with with_hccl([count // 4 for count, _ in sizes]) as reduce:
        seconds = [timed(reduce, number, times, ranks) for number, (_, times) in enumerate(sizes)]
        leave_together(Path(folder), rank, ranks)
    if rank == 0:
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


def leave_together(folder: Path, rank: int, ranks: int) -> None:
    """Wait until all ranks are here: who ends early takes from the others what they still read."""
    (folder / f"through_{rank}").touch()
    while not all((folder / f"through_{each}").exists() for each in range(ranks)):
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
def with_hccl(counts: Sequence[int]) -> Iterator[Reduce]:
    """Use this package, in a session of its own."""
    from ascend_session import ascend_session, hccl

    def add(number: int, value: Any) -> Any:
        return hccl.allreduce(value, "sum")

    with in_a_graph(counts, add, lambda graph: ascend_session(graph=graph)) as reduce:
        yield reduce


if __name__ == "__main__":
    main(sys.argv[1:])
