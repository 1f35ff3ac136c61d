"""What an NPU script does first and last."""

from typing import Any

__all__ = ["System"]


class System:
    """The operators that initialise and shut down, and the session that runs them."""

    def __init__(self, tf: Any, config: Any) -> None:
        from npu_bridge.estimator import npu_ops

        graph = tf.Graph()
        with graph.as_default():
            self._start, self._end = npu_ops.initialize_system(), npu_ops.shutdown_system()
        self.session = tf.Session(graph=graph, config=config)

    def start(self) -> None:
        """Runs initialize_system."""
        self.session.run(self._start)

    def end(self) -> None:
        """Runs shutdown_system."""
        self.session.run(self._end)
