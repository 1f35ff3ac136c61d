"""TensorFlow's graph-mode interface, the same under 1.15 and 2.x."""

import contextlib
import importlib
import os
import signal
import sys
import threading
from traceback import walk_stack, walk_tb
from types import FrameType
from typing import TYPE_CHECKING, Any, Collection, ContextManager, Iterator, List, Optional

from ascend_session.errors import LifecycleError

if TYPE_CHECKING:
    from tensorflow.compat.v1 import Session as Session

_OWN = "_ascend_session"  # an attribute
_RUNNING = ("run", "partial_run", "make_callable", "_extend_graph", "_call_tf_sessionrun")
# The last two are what callables that exist already go through.
_RUNTIME_FILE = "client/session.py"


def tf1() -> Any:
    """Import ``tensorflow.compat.v1``, which 1.15 and 2.x share.

    Raises:
        BackendError: If TensorFlow is not installed, or importing it fails.
    """
    try:
        if "tensorflow.compat.v1" not in sys.modules:
            with interrupt_afterwards():
                importlib.import_module("tensorflow.compat.v1")
        import tensorflow.compat.v1 as module
    except Exception as error:
        from ascend_session.config.proto import tensorflow_error

        raise tensorflow_error(error) from error
    return module


@contextlib.contextmanager
def interrupt_afterwards() -> Iterator[None]:
    """Have Ctrl-C wait until what is imported in the block is there; a second one does not wait.

    An exception that a signal handler raises in the midst of an import can get lost: in a callback
    of Python's import locks, in a finaliser, or in a module that handles everything. And a package
    that was left half imported is of no use to a program that goes on.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    received: List[int] = []

    def note(number: int, frame: Optional[FrameType]) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if received:
            raise KeyboardInterrupt


def graph_or_default(graph: Any) -> Any:
    """Return ``graph``, or the current default graph if it is None.

    Raises:
        TypeError: If it is no ``tf.Graph``.
        LifecycleError: If eager execution is on, so that there is no default graph to train.
    """
    tf = tf1()
    if graph is not None:
        if not isinstance(graph, tf.Graph):
            raise TypeError(f"graph must be a tf.Graph, this is {graph!r}.")
        return graph
    if tf.executing_eagerly():
        raise LifecycleError(
            "Eager execution is on and no graph was given: what was built so far is in no graph.",
            hint="Call tf.disable_eager_execution() (tf.compat.v1 in TensorFlow 2) before building "
            "the model, or pass graph=.",
        )
    return tf.get_default_graph()


def own_operators(graph: Any) -> ContextManager[None]:
    """Mark what is built in the block: the user's script has not asked for these operators."""
    scope: ContextManager[None] = graph._attr_scope({_OWN: tf1().AttrValue(b=True)})
    return scope


def is_own(operation: Any) -> bool:
    """Tell whether an operator was marked as our own."""
    return _OWN in operation.node_def.attr


def operators_of_user(graph: Any, types: Collection[str]) -> List[Any]:
    """List the operators of some types in a graph, without those that were marked as our own."""
    return [op for op in graph.get_operations() if op.type in types and not is_own(op)]


@contextlib.contextmanager
def outermost(graph: Any) -> Iterator[None]:
    """Leave all scopes, which would begin the names that the adapter and GE look for."""
    tf = tf1()
    root = tf.VariableScope(reuse=tf.AUTO_REUSE, name="")
    with contextlib.ExitStack() as scopes:
        scopes.enter_context(graph.as_default())
        scopes.enter_context(tf.control_dependencies(None))
        scopes.enter_context(tf.device(None))
        scopes.enter_context(tf.variable_scope(root, auxiliary_name_scope=False))
        scopes.enter_context(tf.name_scope(None))
        yield


def destroy(session: Any) -> None:
    """Close a ``tf.Session`` and free what it holds, although somebody may still refer to it.

    ``close()`` ends it, but its kernels live as long as the object, which a variable named after
    ``as`` keeps beyond its block. On a device they would take the graph engine down when they go
    at last, in the midst of a later session (geop_npu.cc, ``GeOp::Finalize``; npu_sys_ctl_ops.cc).
    A session in which another thread is still running is only closed; it goes with its object.
    """
    session.close()
    if not is_running(session):
        session.__del__()


def destroy_failed(error: BaseException, spared: Optional[Any]) -> None:
    """Close and free the ``tf.Session`` objects that calls which have failed were working with.

    The exception's traceback keeps them, such as one whose first run failed while
    MonitoredTrainingSession made it, and on a device they have to go before its shutdown.

    Args:
        error: What they have raised, with its causes.
        spared: One that is needed still.
    """
    chain: List[BaseException] = []
    links: List[Optional[BaseException]] = [error]
    while links:
        link = links.pop()
        if link is not None and not any(link is known for known in chain):
            chain.append(link)
            links += [link.__cause__, link.__context__]
    session_types = (tf1().Session, tf1().InteractiveSession)
    for frame, _ in (each for link in chain for each in walk_tb(link.__traceback__)):
        for value in list(frame.f_locals.values()):
            is_session = isinstance(value, session_types) and value is not spared
            if is_session and getattr(value, "_session", None) is not None:
                destroy(value)


def is_running(session: Any) -> bool:
    """Tell whether another thread is in a run of the ``tf.Session``."""
    return any(
        thread != threading.get_ident() and _is_in_run(session, innermost)
        for thread, innermost in sys._current_frames().items()
    )


def is_of_session(frame: FrameType) -> bool:
    """Tell whether a frame is one of TensorFlow's ``Session``, where every run passes."""
    return frame.f_code.co_filename.endswith(_RUNTIME_FILE)


def _is_in_run(session: Any, innermost: FrameType) -> bool:
    for frame, _ in walk_stack(innermost):
        if is_of_session(frame):
            running = frame.f_locals.get("self")
            if running is session or getattr(running, "_session", None) is session:
                return True
    return False


def disown(session: Any) -> None:
    """Make a ``tf.Session`` that a forked process has inherited refuse to run there.

    Its C object belongs to the parent: a run would wait for threads that the child does not have,
    and freeing it would close what the parent uses.
    """
    if isinstance(session._session, _Disowned):
        return  # in a parent that was forked itself
    import ctypes

    parent = os.getppid()

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise LifecycleError(
            f"This tf.Session was opened in process {parent}; in process {os.getpid()}, which was "
            "forked from it, it cannot run.",
            hint="Start workers as fresh processes (subprocess, or multiprocessing's 'spawn').",
        )

    for name in _RUNNING:
        setattr(session, name, refuse)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(session._session))  # so that it is never freed
    session._session, session._closed = _Disowned(), True


def refuse_sessions(parent: int) -> None:
    """Have all sessions refuse to open and to run in this process, which was forked.

    TensorFlow's threads belong to the first process that had a session. A child has none of them,
    and its first run would wait for them for ever.

    Args:
        parent: The process that had a session.
    """
    module = sys.modules.get("tensorflow.python.client.session")
    base = getattr(module, "BaseSession", None)
    if base is None:  # a thread of the parent was just importing it
        return

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise error_after_fork(parent)

    def refuse_opening(self: Any, *args: Any, **kwargs: Any) -> None:
        self._session, self._closed = None, True  # for TensorFlow's __del__
        refuse()

    base.__init__ = refuse_opening
    for name in _RUNNING:
        setattr(base, name, refuse)
    base._Callable.__call__ = refuse
    # What these would free is the parent's.
    base.__del__ = base._Callable.__del__ = lambda self: None


def error_after_fork(parent: int) -> LifecycleError:
    """Make the error of a process that was forked from one that had run sessions."""
    return LifecycleError(
        f"This process was forked from process {parent} after that process had opened a session; "
        "TensorFlow's threads do not survive a fork, and a run would wait for them for ever.",
        hint="Start workers as fresh processes (subprocess, or multiprocessing's 'spawn').",
    )


class _Disowned:
    """Stands for the C object of a session; TensorFlow's C functions take it for a wrong type."""
