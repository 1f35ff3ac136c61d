"""What a backend is: the initialise and shutdown ops, and the sessions of one process.

The ops live in a graph of their own and run in a session of their own, the *keeper*, which stays
open as long as the system: closing the session that ran the initialisation takes the device down
for everyone (adapter_behaviour.md, "Life of GE in a process").
"""

import abc
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ascend_session.backends._tensorflow import destroy, disown, tf1
from ascend_session.backends.collectives import Collectives
from ascend_session.cluster.job import Job
from ascend_session.failures import RetryPolicy

__all__ = ["FEATURES", "Backend"]

# What a backend may do; for each its `Backend.capabilities` says True, or why not.
FEATURES = (
    "graph execution",
    "option checks",
    "offload",
    "precision modes",
    "data dump",
    "profiling",
    "AOE tuning",
    "iterations per loop",
    "separate devices",
    "collectives",
)

_keeper_graphs: Dict[Any, Tuple[Any, Any, Any]] = {}


class Backend(abc.ABC):
    """One way to run graphs in this process.

    Attributes:
        name: ``npu`` or ``stub``.
        capabilities: What this backend does, ``{feature: True, or why not}``.
        collectives: What `ascend_session.hccl` goes through.
        target: What a session made by others needs as its target.
        interrupted_run_s: How long a signal waits for a run that does not react to the end of its
            session.
    """

    name: str
    interrupted_run_s = 2.0
    capabilities: Dict[str, Any]
    collectives: Collectives
    target = ""

    def __init__(self) -> None:
        self._keeper: Optional[Any] = None
        self._initialize_op: Any = None
        self._shutdown_op: Any = None

    @abc.abstractmethod
    def require(self, job: Job, parameters: Mapping[str, Any]) -> None:
        """Refuses by name what this backend does not do, before anything is started."""

    def remarks(self, parameters: Mapping[str, Any]) -> List[str]:
        """What a session with ``parameters`` does here that one would not expect, in sentences."""
        return []

    @abc.abstractmethod
    def system_ops(self) -> Tuple[Any, Any]:
        """Adds the initialise and shutdown ops to the default graph and returns them."""

    def job(self, environ: Mapping[str, str]) -> Job:
        """This process's place in its job, as far as it can be known before the device is up."""
        return Job.detect(environ)

    def confirmed(self, job: Job) -> Job:
        """The place in the job as the device knows it, once it is up."""
        return job

    def await_device(  # noqa: B027  (nothing to wait for is a good answer)
        self, job: Job, parameters: Mapping[str, Any], seconds: float
    ) -> None:
        """Waits until no other process holds the devices; here nobody ever does.

        Raises:
            DeviceTimeoutError: If somebody still does after so many seconds.
        """

    def probe(self, job: Job, proto: Any, policy: RetryPolicy) -> None:  # noqa: B027
        """Initialises in short-lived processes until that works; here there is nothing to try.

        Raises:
            InitializationError: If the policy's attempts are used up, or none would help.
        """

    def initialize(self, proto: Any) -> None:
        """Opens the keeper session with ``proto`` and runs the initialise op in it."""
        graph, self._initialize_op, self._shutdown_op = self._keeper_graph()
        self._keeper = tf1().Session(self.target, graph=graph, config=proto)
        self.bring_up()

    def _keeper_graph(self) -> Tuple[Any, Any, Any]:
        """The graph of the two ops, built once a process: that takes as long as opening it."""
        build = type(self).system_ops
        if build not in _keeper_graphs:
            graph = tf1().Graph()
            with graph.as_default():
                ops = self.system_ops()
            graph.finalize()
            _keeper_graphs[build] = (graph, *ops)
        return _keeper_graphs[build]

    def bring_up(self) -> None:
        """Runs the initialise op again; it does nothing while the device is up."""
        assert self._keeper is not None
        self._keeper.run(self._initialize_op)

    def session(self, graph: Any, proto: Any) -> Any:
        """A real ``tf.Session`` on this backend; nothing is wrapped around it."""
        return tf1().Session(self.target, graph=graph, config=proto)

    def interrupt(  # noqa: B027  (a device has nothing to be freed)
        self, reason: str, error: Optional[BaseException] = None
    ) -> None:
        """Free threads that are blocked in what closing their session does not end.

        Args:
            reason: Why, for other ranks.
            error: The exception because of which, if it is one.
        """

    def shutdown(self) -> None:
        """Runs the shutdown op; the keeper is still open afterwards."""
        assert self._keeper is not None
        self._keeper.run(self._shutdown_op)

    def close(self) -> None:
        """Closes and frees the keeper session, whatever state it is in; twice does nothing."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            destroy(keeper)

    def forget_in_child(self) -> None:
        """Have a forked process leave alone what belongs to this one."""
        if self._keeper is not None:
            disown(self._keeper)
