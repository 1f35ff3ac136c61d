"""One rank that does what is written to its stdin, line by line, and says what came of it.

Usage: ``python member.py GIVEN``, a JSON object as `jobs.Job` writes it.
"""

import ctypes
import functools
import hashlib
import importlib
import json
import os
import resource
import sys
import threading
import time
from typing import Any, Dict

from ascend_session import AscendError
from ascend_session.backends.exchange.messages import Operation
from ascend_session.backends.exchange.peer import NotYetError, Peer
from ascend_session.backends.exchange.process_group import (
    Collective,
    Communicator,
    ProcessGroup,
)
from ascend_session.backends.exchange.rendezvous import Rank, Rendezvous
from ascend_session.cluster.member import join

_lock = threading.Lock()
_released = threading.Event()  # those that are held in a collective


def say(*words: Any) -> None:
    with _lock:
        print(json.dumps(words), flush=True)


def main(given: Dict[str, Any]) -> None:
    print(os.getpid(), flush=True)
    for name, value in given["settings"].items():
        module, _, constant = name.partition(".")
        setattr(
            importlib.import_module(f"ascend_session.backends.exchange.{module}"), constant, value
        )
    who = described(given)
    peer = Peer(who, given["timeout_s"])
    group = ProcessGroup(who.rank, who, given["timeout_s"], 60)
    loop = Loop()
    for line in iter(sys.stdin.readline, ""):
        what, *words = json.loads(line)
        if what == "join":
            answer(what, peer.join)
        elif what == "enter":
            in_thread(enter, peer, words[0])
        elif what == "record":  # for a launcher, in what it waits
            join(who.rank)
        elif what == "release":
            _released.set()
        elif what == "fail":
            peer.fail(words[0])
        elif what == "leave":
            answer(what, peer.leave)
        elif what == "again":
            peer = Peer(described(given), given["timeout_s"])
        elif what == "open":
            answer(what, group.open)
        elif what == "reduce":
            in_thread(reduce, group, *words)
        elif what == "share":
            in_thread(share, group, *words)
        elif what == "run":
            in_thread(loop.run, group, *words)
        elif what == "stop":
            loop.is_stopped = True
        elif what == "close":
            answer(what, functools.partial(group.close, RuntimeError(words[0]) if words else None))
        elif what == "fork":
            say("child", fork(*words))
        elif what == "compute":
            in_thread(compute, *words)
        elif what == "limit":  # the bytes that a file may have
            resource.setrlimit(resource.RLIMIT_FSIZE, (words[0], words[0]))
        elif what == "files":  # that it may open, or 0 for as many as it could before
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (words[0] or most, most))
    # The end of stdin: this process ends as a script does that has run through.


def described(given: Dict[str, Any]) -> Rank:
    rank, size, job, number = (given[name] for name in ("rank", "size", "job", "node"))
    links, coordinator = None, given["coordinator"]
    if given["starter"] is not None:
        rendezvous = Rendezvous.started_together(job, given["starter"])
    elif coordinator is None:
        rendezvous = Rendezvous.named(job)
    else:
        rendezvous = Rendezvous.named(job, f"node {number}")
        if given["is_hub"]:
            from ascend_session.backends.exchange.credentials import read_credentials
            from ascend_session.backends.exchange.links import Links

            name = f"node {number}" if rank else ""
            links = Links(name, coordinator, read_credentials({}, job), given["timeout_s"])
    label, local_size, is_hub = str(number or 0), given["local_size"], given["is_hub"]
    return Rank(rank, size, label, local_size, rendezvous, is_hub, coordinator, links)


def answer(what: str, call: Any) -> None:
    begun = time.monotonic()
    try:
        call()
    except AscendError as error:
        say("failed", what, str(error), type(error).__name__)
    else:
        say(what, round(time.monotonic() - begun, 3))


def in_thread(function: Any, *words: Any) -> None:
    threading.Thread(target=function, args=words, daemon=True).start()


def operation_of(given: Dict[str, Any]) -> Operation:
    key = given["key"]
    signature = given.get("signature", "allreduce sum float32 [4]")
    return Operation(key, given.get("name", f"op/{key}"), tuple(given["ranks"]), signature)


def enter(peer: Peer, given: Dict[str, Any]) -> None:
    """Enter a collective, and leave it at once; say how much each has, and what if it is little."""
    import numpy as np

    operation = operation_of(given)
    data = np.frombuffer((given.get("data", "") * given.get("times", 1)).encode(), np.uint8)
    limit_s = given.get("limit_s", 30)
    try:
        with peer.exchange(operation, given.get("plan", "gather"), data, limit_s) as exchange:
            result, sizes = exchange.result, exchange.sizes
            ends = np.cumsum(sizes)
            texts = (
                None
                if result is None
                else [
                    result[end - size_bytes : end].tobytes().decode()
                    for size_bytes, end in zip(sizes, ends)
                ]
            )
            is_first = given.get("is_held") or given.get("steps")
            if is_first:
                say("entered", operation.key, list(exchange.sizes), texts)
            if given.get("is_held"):
                _released.wait()
            if given.get("steps"):
                exchange.step()
        if not is_first:
            say("entered", operation.key, list(exchange.sizes), texts)
    except AscendError as error:
        say("failed", operation.key, str(error), type(error).__name__)


def numbers_of(rank: int, seed: int, dtype: str, count: int) -> Any:
    """Give what a rank has, which each rank can tell."""
    import numpy as np

    random = np.random.RandomState(seed * 100 + rank)
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(count).astype(dtype)
    return random.randint(-9, 10, count).astype(dtype)


def reduce(group: ProcessGroup, key: str, given: Dict[str, Any]) -> None:
    """Reduce, and say the digest of the bits and by how much they are wrong."""
    import numpy as np

    dtype, count = given.get("dtype", "float32"), given["count"]
    reduction, seed = given.get("reduction", "sum"), given.get("seed", 1)
    signature = f"allreduce {reduction} {dtype} [{count}]"
    operation = operation_of({"key": key, "signature": signature, **given})
    own = numbers_of(group.rank, seed, dtype, count)

    def work(comm: Communicator) -> Any:
        return comm.all_reduce(own, reduction)

    def call() -> None:
        found = Collective(group, operation, work).run()
        parts = [numbers_of(rank, seed, dtype, count) for rank in operation.ranks]
        wider = "float64" if np.dtype(dtype).kind == "f" else dtype
        function = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[reduction]
        expected = function(np.array(parts, wider), axis=0).astype(wider)
        difference = np.abs(found.astype("float64") - expected.astype("float64"))
        assert found.dtype == dtype
        assert found.shape == (count,)
        say("reduced", key, digest(found), float(difference.max()) if count else 0.0)

    _failing(key, call)


def share(group: ProcessGroup, key: str, given: Dict[str, Any]) -> None:
    """Give all what each has, and say the digest and whether it is what each had."""
    import numpy as np

    sizes, seed = given["sizes"], given.get("seed", 1)
    operation = operation_of({"key": key, "signature": "allgather uint8", **given})
    parts = [numbers_of(rank, seed, "uint8", size) for rank, size in zip(operation.ranks, sizes)]
    received = [np.zeros_like(part) for part in parts]

    def take(index: int, start: int, piece: Any) -> None:
        received[index][start : start + len(piece)] = piece

    def call() -> None:
        collective = Collective(group, operation, lambda comm: comm.share(parts[comm.me], take))
        try:
            collective.run(given.get("patience_s"))
        except NotYetError as reason:
            say("not yet", key, reason.was_in_vain)
            collective.run()
        is_right = all((one == two).all() for one, two in zip(parts, received))
        say("shared", key, digest(np.concatenate(received)), is_right)

    _failing(key, call)


class Loop:
    """A collective after the other, until it is stopped: the ranks agree on that as well."""

    def __init__(self) -> None:
        self.is_stopped = False

    def run(self, group: ProcessGroup, size: int) -> None:
        import numpy as np

        everybody = list(range(size))
        small = operation_of({"key": "small", "ranks": everybody, "signature": "sum [2]"})
        large = operation_of({"key": "large", "ranks": everybody, "signature": "sum [20000]"})

        def add(operation: Operation, numbers: Any) -> Any:
            return Collective(group, operation, lambda comm: comm.all_reduce(numbers, "sum")).run()

        def call() -> None:
            for count in range(1, 1 << 30):
                total = add(small, np.array([1, self.is_stopped], np.int64))
                assert total[0] == size
                sums = add(large, np.full(20000, count + group.rank, np.int64))
                assert (sums == size * count + sum(everybody)).all()
                if total[1] == size:
                    say("ran", count)
                    return

        _failing("run", call)


def digest(array: Any) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def _failing(key: str, call: Any) -> None:
    try:
        call()
    except Exception as error:
        say("failed", key, str(error), type(error).__name__)


def fork(keeps: bool) -> int:
    """Fork a child that sleeps; one that Python does not know of keeps all that is open."""
    libc = ctypes.PyDLL(None)  # which lets no other thread run, so that none is in the midst
    child: int = libc.fork() if keeps else os.fork()
    if child == 0:
        os.close(1)
        os.close(2)
        while True:
            libc.pause()
    return child


def compute(seconds: float = 1e9) -> None:
    while time.thread_time() < seconds:
        sum(range(1000))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
