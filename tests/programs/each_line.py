"""Gets Ctrl-C at each line of the package in turn; says where something is left behind.

Argument: ``once``, in a whole session; ``nested``, in one inside a system's block; ``fan_out``, in
one on a device; ``twice``, after a first one has ended the initialisation.
"""

import os
import signal
import sys
from typing import Any, List

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_session, ascend_system, fan_out, fanout
from ascend_session.backends.stub import StubBackend
from ascend_session.session import system as systems
from tests.signals import signal_this_thread

CODE = (os.path.join(os.path.dirname(systems.__file__), ""), fanout.__file__)
initialize = StubBackend.initialize


class Tracer:
    """Sends a signal when so many lines of the package have run, and notes before which line."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self.where = ""

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(CODE):  # asked for each call that TensorFlow makes
            return None
        if event == "line":
            self._lines -= 1
            if self._lines == 0:
                self.where = f"{os.path.basename(file)}:{frame.f_lineno}"
                sys.settrace(None)
                signal_this_thread(signal.SIGINT)
        return self

    def trace_callers(self) -> None:
        """Begin with the functions that are running."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(CODE):
                frame.f_trace = self
            frame = frame.f_back
        sys.settrace(self)


def handlers() -> List[Any]:
    """Return the handlers of both signals."""
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def use() -> None:
    """Open, run and close."""
    if sys.argv[1] == "nested":
        with ascend_system():
            with ascend_session(graph=graph) as sess:
                sess.run(step)
    elif sys.argv[1] == "fan_out":
        with fan_out(None, [0], lambda device: tf.constant(7)):
            pass
    else:
        with ascend_session(graph=graph) as sess:
            sess.run(step)


def is_interrupted_later() -> bool:
    """Return whether Ctrl-C is raised where it comes in another session."""
    with ascend_session(graph=graph):
        try:
            signal_this_thread(signal.SIGINT)
        except KeyboardInterrupt:
            return True
    return False


def interrupt(lines: int) -> bool:
    """Open, run and close; return whether there was a signal at such a line."""
    before = handlers()
    tracer = Tracer(lines)

    def initialize_with_ctrl_c(stub: Any, *arguments: Any) -> None:
        initialize(stub, *arguments)
        tracer.trace_callers()
        signal_this_thread(signal.SIGINT)

    is_raised = False
    try:
        if sys.argv[1] == "twice":
            StubBackend.initialize = initialize_with_ctrl_c
        else:
            sys.settrace(tracer)
        use()
        sys.settrace(None)
    except KeyboardInterrupt:
        is_raised = True
    finally:
        sys.settrace(None)
    left = [systems._current, tf.get_default_session()]
    left.append(handlers() != before)
    if not any(left):
        StubBackend.initialize = initialize
        left.append(not is_interrupted_later())
    if any(left) or (tracer.where and not is_raised):
        say(f"at {tracer.where}: raised {is_raised}, left {left}")
        os._exit(1)
    return bool(tracer.where)


with tf.Graph().as_default() as graph:
    step = tf.constant(7)
interrupted = 0
while interrupt(interrupted + 1):
    interrupted += 1
say(f"many lines {interrupted > 50}")
