"""Stubs on which one thing goes wrong, or takes its time: for what a sound device never does."""

import threading
from typing import Any, Callable, Tuple

from ascend_session.backends import backend_class
from ascend_session.backends._tensorflow import tf1

StubBackend: Any = backend_class("stub")
WORDS = "the device is on fire"


def failing_op() -> Any:
    """An operator whose run fails with `WORDS`."""
    return tf1().Assert(False, [WORDS])


def blocking_op(say: Callable[[], None]) -> Any:
    """An operator whose run never ends; it calls ``say`` from inside the run."""
    tf = tf1()
    said = tf.py_func(lambda: bool(say()), [], tf.bool)
    with tf.control_dependencies([said]):
        return tf.FIFOQueue(1, tf.float32).dequeue()


class FailingStart(StubBackend):
    """The initialise op fails."""

    def system_ops(self) -> Tuple[Any, Any]:
        return failing_op(), tf1().no_op()


class FailingStop(StubBackend):
    """The shutdown op fails."""

    def system_ops(self) -> Tuple[Any, Any]:
        return tf1().no_op(), failing_op()


class FailingSession(StubBackend):
    """No session opens."""

    def session(self, graph: Any, proto: Any) -> Any:
        raise MemoryError(WORDS)


class FailingClose(StubBackend):
    """The system session does not close, unless it is told again."""

    def close(self) -> None:
        session, self._system_session = self._system_session, None
        if session is not None:
            session.close()
            raise OSError(WORDS)


class WaitingStop(StubBackend):
    """Shutting down waits until the test lets it go on."""

    begun = threading.Event()
    go_on = threading.Event()

    def shutdown(self) -> None:
        self.begun.set()
        assert self.go_on.wait(30)
        super().shutdown()


class Waiting(StubBackend):
    """Initialising waits until the test lets it go on."""

    begun = threading.Event()
    go_on = threading.Event()

    def initialize(self, proto: Any, parameters: Any) -> None:
        self.begun.set()
        assert self.go_on.wait(30)
        super().initialize(proto, parameters)
