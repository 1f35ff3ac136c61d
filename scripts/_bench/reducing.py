"""One rank of the comparison of allreduces: ``reducing.py WAY FOLDER BYTES:TIMES ...``.

Rank 0 prints the seconds that an allreduce of so many bytes of float32 took, as a list.
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


class Place(NamedTuple):
    """Who this rank is; the folder is the job's own."""

    rank: int
    size: int
    folder: Path


def main(argv: Sequence[str]) -> None:
    """Reduce tensors of ones, each first once to warm up, and stay until all ranks are through."""
    way, folder, *asked = argv
    sizes = [tuple(map(int, words.split(":"))) for words in asked]
    rank, ranks = _who(way)
    place = Place(rank, ranks, Path(folder))
    with WAYS[way](place, [count // 4 for count, _ in sizes]) as reduce:
        found = [timed(reduce, number, times, place) for number, (_, times) in enumerate(sizes)]
        leave_together(place)
    if place.rank == 0:
        print("seconds", json.dumps(found), flush=True)
    if way == "tensorflow":
        os._exit(0)  # its server cannot be stopped


def timed(reduce: Reduce, number: int, times: int, place: Place) -> float:
    """Give the mean of so many allreduces, in seconds."""
    reduce(number)
    begin = time.perf_counter()
    found = {reduce(number) for _ in range(times)}
    seconds = time.perf_counter() - begin
    assert found == {place.size}, f"{place.size} ranks gave {found}"
    return seconds / times


def leave_together(place: Place) -> None:
    """Wait until all ranks are here: who ends early takes from the others what they still read."""
    (place.folder / f"through_{place.rank}").touch()
    while not all((place.folder / f"through_{rank}").exists() for rank in range(place.size)):
        time.sleep(0.01)


@contextlib.contextmanager
def with_hccl(place: Place, counts: Sequence[int]) -> Iterator[Reduce]:
    """Use this package, in a session of its own."""
    import tensorflow.compat.v1 as tf

    from ascend_session import ascend_session, hccl

    with tf.Graph().as_default() as graph:
        values = [tf.Variable(tf.ones([count])) for count in counts]
        firsts = [hccl.allreduce(value, "sum")[0] for value in values]
        ready = tf.global_variables_initializer()
        with ascend_session(graph=graph) as sess:
            sess.run(ready)
            yield lambda number: float(sess.run(firsts[number]))


@contextlib.contextmanager
def with_tensorflow(place: Place, counts: Sequence[int]) -> Iterator[Reduce]:
    """Use what TensorFlow brings, as if nothing could go wrong."""
    import tensorflow.compat.v1 as tf
    from tensorflow.python.ops.collective_ops import all_reduce

    cluster = tf.train.ClusterSpec({"rank": _addresses(place)})
    config = tf.ConfigProto(device_filters=[f"/job:rank/task:{place.rank}"])
    config.experimental.collective_group_leader = "/job:rank/replica:0/task:0"
    server = tf.train.Server(cluster, "rank", place.rank, config=config)
    with tf.Graph().as_default(), tf.device(f"/job:rank/task:{place.rank}/device:CPU:0"):
        values: List[Any] = [tf.Variable(tf.ones([count])) for count in counts]
        asked: Dict[str, Any] = {"group_size": place.size, "merge_op": "Add", "final_op": "Id"}
        firsts = [
            all_reduce(value.read_value(), group_key=1, instance_key=1 + number, **asked)[0]
            for number, value in enumerate(values)
        ]
        ready = tf.global_variables_initializer()
        with tf.Session(server.target, config=config) as sess:
            sess.run(ready)
            yield lambda number: float(sess.run(firsts[number]))


def _addresses(place: Place) -> List[str]:
    """Tell the others the port of this rank, and wait for theirs."""
    told = place.folder / f"port_{place.rank}.new"
    told.write_text(os.environ["ASCEND_SESSION_PORT"])
    told.rename(place.folder / f"port_{place.rank}")
    files = [place.folder / f"port_{rank}" for rank in range(place.size)]
    while not all(file.exists() for file in files):
        time.sleep(0.01)
    return [f"127.0.0.1:{file.read_text()}" for file in files]


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
    "tensorflow": with_tensorflow,
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
