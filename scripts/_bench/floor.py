"""The bare floor of an allreduce on one machine: ``floor.py WAY RANKS BYTES:TIMES ...``.

Shared memory, one Unix socket as hub, NumPy and forked ranks, and nothing that checks anything.
With ``floor`` as way there is no TensorFlow; with ``operator`` each allreduce is a Python function
in a graph, which is the least that one in TensorFlow can cost. Rank 0 prints the seconds that an
allreduce of so many bytes of float32 took, as a list.
"""

import contextlib
import json
import mmap
import multiprocessing
import os
import socket
import sys
import tempfile
from typing import Any, ContextManager, List, Sequence

import numpy as np

from reducing import Reduce, in_a_graph, parse_sizes, timed


class Rank:
    """One rank: its connection to the hub, and the memory that all ranks share.

    Attributes:
        rank: Its number.
        hub: Its connection to the hub.
        places: One array for each size, of shape ``[ranks, elements]``; row k belongs to rank k.
        tensors: What this rank contributes, one array for each size.
        results: What comes out, likewise.
    """

    def __init__(self, rank: int, hub: socket.socket, places: Sequence[Any]) -> None:
        self.rank = rank
        self.hub = hub
        self.places = places
        self.tensors = [np.ones_like(shared[rank]) for shared in places]
        self.results = [np.empty_like(tensor) for tensor in self.tensors]

    def all_reduce(self, number: int) -> float:
        """Add up the tensors of all ranks, of the size with this number.

        Three of the barriers keep the ranks from reading what is not yet written, and from
        overwriting what is still read. The first two stand for what no collective can do without:
        the ranks agree on what they reduce, and on the memory that they do it in.

        Returns:
            The first element of the result.
        """
        places, result = self.places[number], self.results[number]
        ranks, elements = places.shape
        part = slice(elements * self.rank // ranks, elements * (self.rank + 1) // ranks)
        self.wait_for_all()
        self.wait_for_all()
        places[self.rank] = self.tensors[number]
        self.wait_for_all()
        total = places[0, part]
        for place in places[1:]:
            total += place[part]
        self.wait_for_all()
        result[:] = places[0]
        self.wait_for_all()
        return float(result[0])

    def wait_for_all(self) -> None:
        """Send the hub one byte; its answer is one byte, once all ranks have sent theirs."""
        self.hub.sendall(b".")
        if not self.hub.recv(1):
            raise SystemExit(f"rank {self.rank}: another rank is gone")


def main(argv: Sequence[str]) -> None:
    """Fork the ranks and be their hub until they end."""
    way, ranks = argv[0], int(argv[1])
    sizes = parse_sizes(argv[2:])
    places = [share_memory(ranks, size_bytes // 4) for size_bytes, _ in sizes]
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(folder, "hub")
        listener.bind(path)
        listener.listen(ranks)
        listener.settimeout(60)  # for ranks that end before they get here
        times = [times for _, times in sizes]
        processes = [
            fork.Process(target=run_rank, args=(way, rank, path, places, times))
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        serve([listener.accept()[0] for _ in range(ranks)])
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a rank has failed")


def share_memory(ranks: int, elements: int) -> Any:
    """Map memory that forked processes share, as an array with a row for each rank."""
    memory = mmap.mmap(-1, ranks * elements * 4)
    return np.frombuffer(memory, np.float32).reshape(ranks, elements)


def run_rank(way: str, rank: int, path: str, places: Sequence[Any], times: Sequence[int]) -> None:
    """Time each size and check the results; rank 0 prints the seconds."""
    with contextlib.ExitStack() as stack:
        hub = stack.enter_context(socket.socket(socket.AF_UNIX))
        hub.connect(path)
        this = Rank(rank, hub, places)
        ranks = len(places[0])
        reduce: Reduce = this.all_reduce
        if way == "operator":
            reduce = stack.enter_context(as_operators(this))
        seconds = [timed(reduce, number, count, ranks) for number, count in enumerate(times)]
    assert all((result == ranks).all() for result in this.results)
    if rank == 0:
        print("seconds", json.dumps(seconds), flush=True)


def as_operators(rank: Rank) -> ContextManager[Reduce]:
    """Do the rank's allreduces in a session, each in a Python function."""
    import tensorflow.compat.v1 as tf

    def add(number: int, variable: Any) -> Any:
        def reduce(tensor: Any) -> Any:
            rank.tensors[number] = tensor
            rank.all_reduce(number)
            return rank.results[number]

        reduced = tf.numpy_function(reduce, [variable], tf.float32)
        reduced.set_shape(variable.shape)
        return reduced

    counts = [len(tensor) for tensor in rank.tensors]
    return in_a_graph(counts, add, lambda graph: tf.Session(graph=graph))


def serve(connections: List[socket.socket]) -> None:
    """Answer all ranks as soon as each has sent its byte, until one of them hangs up."""
    with contextlib.ExitStack() as stack:
        for connection in connections:
            stack.enter_context(connection)
        while True:
            received = [connection.recv(1) for connection in connections]
            if not all(received):
                return
            for connection in connections:
                connection.sendall(b".")


if __name__ == "__main__":
    main(sys.argv[1:])
