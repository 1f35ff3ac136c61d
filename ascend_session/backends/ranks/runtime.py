"""What moves tensors between ranks: TensorFlow's own runtime, with one server in each process.

A server cannot be stopped, so a process has one until its end, and collectives get fresh numbers
instead. Two of the runtime's operators are used, in one graph that grows, for they do the same on
TensorFlow 1.15 and 2.x: the all-gather of 32-bit words and the all-reduce of numbers
(stub_collectives.md has what else they refuse or hang on: other types, max and min, empty tensors,
groups of one).
"""

import os
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.ranks.operation import Agreed
from ascend_session.cluster.coordinator import parts_of
from ascend_session.errors import InitializationError

__all__ = ["REDUCED", "Runtime", "runtime"]

# dtypes that the all-reduce of both TensorFlows takes
REDUCED = ("int32", "int64", "float32", "float64")

_JOB = "worker"
_LOCAL = ("127.0.0.1", "localhost")


class _Place(NamedTuple):
    """Who this process is among the servers."""

    rank: int
    addresses: Tuple[str, ...]


class Runtime:
    """This process's server, and the sessions on it.

    Args:
        rank: This process's world rank.
        addresses: ``host:port`` of each rank's server, by rank.

    Raises:
        InitializationError: If the server cannot be started.
    """

    def __init__(self, rank: int, addresses: Sequence[str]) -> None:
        self.place = _Place(rank, tuple(addresses))
        self._calls: Dict[int, Callable[[Any], Any]] = {}
        self._lock = threading.Lock()
        self._session: Any = None
        tf = tf1()
        self._proto = _proto(rank)
        _go_round_proxies(addresses)
        cluster = tf.train.ClusterSpec({_JOB: list(addresses)})
        try:
            self._server = tf.train.Server(
                cluster, job_name=_JOB, task_index=rank, config=self._proto
            )
        except tf.errors.OpError as error:
            raise InitializationError(
                f"The TensorFlow server of rank {rank} cannot listen at {addresses[rank]}: "
                f"{error.message}",
                hint="Start the ranks with `ascend-session launch`, which holds their ports.",
            ) from error

    def gather(self, agreed: Agreed, size: int, words: Any) -> Any:
        """All members' words.

        Args:
            agreed: The collective's numbers.
            size: How many ranks take part, two or more.
            words: int32 array of one dimension, as long on each of them and not empty.

        Returns:
            int32 array ``[size, len(words)]``, in the order of the ranks' numbers as texts.
        """
        from tensorflow.python.ops import collective_ops

        def build(tensor: Any) -> Any:
            return collective_ops.all_gather(tensor, size, agreed.group, agreed.instance)

        return self._run(agreed, words, build).reshape(size, len(words))

    def reduce(self, agreed: Agreed, size: int, numbers: Any, merge: str) -> Any:
        """The sum (``Add``) or product (``Mul``) of all members' arrays, the same bits on each.

        Args:
            agreed: The collective's numbers.
            size: How many ranks take part, two or more.
            numbers: Array of one dimension and one of `REDUCED`, as long on each and not empty.
            merge: ``Add`` or ``Mul``.
        """
        from tensorflow.python.ops import collective_ops

        def build(tensor: Any) -> Any:
            return collective_ops.all_reduce(
                tensor, size, agreed.group, agreed.instance, merge, "Id"
            )

        return self._run(agreed, numbers, build)

    def forget(self) -> None:
        """Frees what a system that has ended in order has used; its numbers never come back."""
        with self._lock:
            session, self._session, self._calls = self._session, None, {}
        if session is not None:
            session.close()

    def _run(self, agreed: Agreed, array: Any, build: Callable[[Any], Any]) -> Any:
        call = self._calls.get(agreed.instance)
        if call is None:
            with self._lock:
                call = self._calls[agreed.instance] = self._prepared(array, build)
        return call(array)

    def _prepared(self, array: Any, build: Callable[[Any], Any]) -> Callable[[Any], Any]:
        tf = tf1()
        if self._session is None:
            target = self._server.target
            self._session = tf.Session(target, graph=tf.Graph(), config=self._proto)
        graph = self._session.graph
        device = f"/job:{_JOB}/replica:0/task:{self.place.rank}/device:CPU:0"
        with graph.as_default(), graph.device(device):
            given = tf.placeholder(array.dtype, array.shape)
            call: Callable[[Any], Any] = self._session.make_callable(build(given), [given])
        return call


def _go_round_proxies(addresses: Sequence[str]) -> None:
    """Without this the servers would look for each other behind ``http_proxy``, and wait for ever.

    TensorFlow's client of gRPC heeds the variables whenever it calls somebody new, and
    ``no_grpc_proxy`` before ``no_proxy`` where it is set (gRPC's environment_variables.md).
    """
    hosts = [parts_of(address)[0] for address in addresses]
    local = [*_LOCAL, *(host for host in dict.fromkeys(hosts) if host not in _LOCAL)]
    for name in ("no_proxy", "no_grpc_proxy"):
        given = os.environ.get(name)
        if given or name == "no_proxy":
            os.environ[name] = ",".join(filter(None, [given, *local]))


def _proto(rank: int) -> Any:
    tf = tf1()
    proto = tf.ConfigProto(device_count={"CPU": 1}, isolate_session_state=True)
    proto.device_filters.append(f"/job:{_JOB}/task:{rank}")
    proto.experimental.collective_group_leader = f"/job:{_JOB}/replica:0/task:0"
    # The collectives are single operators, which Grappler has nothing to do with.
    proto.graph_options.rewrite_options.disable_meta_optimizer = True
    return proto


_runtime: Optional[Runtime] = None


def runtime(rank: int, addresses: Sequence[str]) -> Runtime:
    """The one of this process, started when it is first asked for.

    Raises:
        InitializationError: If this process has been another rank, or the server cannot start.
    """
    global _runtime
    if _runtime is None:
        _runtime = Runtime(rank, addresses)
    elif _runtime.place != _Place(rank, tuple(addresses)):
        raise InitializationError(
            f"This process has been rank {_runtime.place.rank} of a job with other addresses; a "
            "TensorFlow server cannot be moved.",
            hint="One process belongs to one job: use a new process.",
        )
    return _runtime
