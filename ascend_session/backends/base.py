"""What a backend is: the initialise and shutdown ops, and the sessions of one process.

The ops live in a graph of their own and run in a session of their own, the *keeper*, which stays
open as long as the system: closing the session that ran the initialisation takes the device down
for everyone (adapter_behaviour.md, "Life of GE in a process").
"""

import abc
from typing import Any, Dict, Mapping, Optional, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.cluster.job import Job

__all__ = ["Backend"]

_keeper_graphs: Dict[Any, Tuple[Any, Any, Any]] = {}


class Backend(abc.ABC):
    """One way to run graphs in this process.

    Attributes:
        name: ``npu`` or ``stub``.
        capabilities: What this backend does, ``{feature: True, or why not}``.
        target: What a session made by others needs as its target.
    """

    name: str
    capabilities: Dict[str, Any]
    target = ""

    def __init__(self) -> None:
        self._keeper: Optional[Any] = None
        self._initialize_op: Any = None
        self._shutdown_op: Any = None

    @abc.abstractmethod
    def require(self, job: Job, parameters: Mapping[str, Any]) -> None:
        """Refuses by name what this backend does not do, before anything is started."""

    def ineffective(self, parameters: Mapping[str, Any]) -> Dict[str, str]:
        """Options that are on but have no visible effect on this backend, with the reason."""
        return {}

    @abc.abstractmethod
    def system_ops(self) -> Tuple[Any, Any]:
        """Adds the initialise and shutdown ops to the default graph and returns them."""

    def job(self, environ: Mapping[str, str]) -> Job:
        """This process's place in its job."""
        return Job.from_env(environ)

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

    def shutdown(self) -> None:
        """Runs the shutdown op; the keeper is still open afterwards."""
        assert self._keeper is not None
        self._keeper.run(self._shutdown_op)

    def close(self) -> None:
        """Closes the keeper session, whatever state it is in; twice does nothing."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()
