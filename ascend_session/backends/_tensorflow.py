"""TensorFlow's graph-mode interface, the same under 1.15 and 2.x."""

import contextlib
import importlib
import os
import signal
import sys
import threading
from traceback import walk_stack
from types import FrameType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Collection,
    ContextManager,
    Dict,
    Iterator,
    List,
    Optional,
)

from ascend_session.errors import LifecycleError
from ascend_session.process import find_frames

if TYPE_CHECKING:
    from tensorflow.compat.v1 import Session as Session

VARIABLES = ("Variable", "VariableV2", "VarHandleOp")
"""Types of the operators that hold a variable."""

FORK_HINT = "Start workers as fresh processes (subprocess, or multiprocessing's 'spawn')."

_MARK = "_ascend_session"  # attribute of operators that this package adds
# Methods of a session that run something; existing callables go through the last two.
RUNNING = ("run", "partial_run", "make_callable", "_extend_graph", "_call_tf_sessionrun")
_RUNTIME_FILE = "client/session.py"
# Modules of the Keras in TensorFlow, and of the one beside it, which hold a session.
_KERAS_BACKENDS = ("tensorflow.python.keras.backend", "keras.src.backend", "keras.backend")


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
    """Delay Ctrl-C until the imports in the block are done; a second Ctrl-C is not delayed.

    KeyboardInterrupt can get lost during an import: in a callback of Python's import locks, in a
    finaliser, or in a module that catches everything. It can also leave a package half imported,
    which a program that continues cannot use.
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
    """Return ``graph``, or the default graph if it is None.

    Raises:
        TypeError: If it is no ``tf.Graph``.
        LifecycleError: If it is None and eager execution is on.
    """
    tf = tf1()
    if graph is not None:
        if not isinstance(graph, tf.Graph):
            raise TypeError(f"graph must be a tf.Graph, this is {graph!r}.")
        return graph
    if tf.executing_eagerly():
        raise LifecycleError(
            "Eager execution is on and no graph was given, so there is no graph to train.",
            hint="Call tf.disable_eager_execution() (tf.compat.v1 in TensorFlow 2) before building "
            "the model, or pass graph=.",
        )
    return tf.get_default_graph()


def mark_operators(graph: Any) -> ContextManager[None]:
    """Mark operators that are built in the block as this package's own, not the user's."""
    scope: ContextManager[None] = graph._attr_scope({_MARK: tf1().AttrValue(b=True)})
    return scope


def is_marked(operation: Any) -> bool:
    """Return whether `mark_operators` marked an operator."""
    return _MARK in operation.node_def.attr


def operators_of_user(graph: Any, types: Collection[str]) -> List[Any]:
    """List the operators of these types in a graph, without those of this package."""
    return [op for op in graph.get_operations() if op.type in types and not is_marked(op)]


def keep_on(graph: Any, name: str, make: Callable[[], Any] = dict) -> Any:
    """Return what a graph keeps as its attribute of this name, as long as it lives itself.

    What refers to the graph may be in it. The graphs of TensorFlow 2 have no ``__dict__``.

    Args:
        graph: The graph.
        name: The attribute.
        make: Makes what is kept, if there is none yet.
    """
    if not hasattr(graph, name):
        setattr(graph, name, make())
    return getattr(graph, name)


def find_global_step(graph: Any) -> Any:
    """Return the variable that counts the steps of a graph; None if there is none.

    ``tf.train.get_global_step`` goes by the name ``global_step:0`` where a script has registered
    none: then it returns a placeholder, and raises TypeError for a resource variable.
    """
    keys = tf1().GraphKeys
    variables = graph.get_collection(keys.GLOBAL_VARIABLES)
    named = [each for each in variables if each.op.name == "global_step"]
    for step in graph.get_collection(keys.GLOBAL_STEP) or named:
        if step.dtype.base_dtype.is_integer and step.get_shape().ndims == 0:
            return step
    return None


def walk_inputs(*operations: Any, by_control: bool = True) -> Iterator[Any]:
    """Iterate over operations and everything that they need, each once.

    Args:
        operations: Where to begin.
        by_control: Whether to follow control dependencies, too, and not data only.
    """
    seen = set(operations)
    todo = list(seen)
    while todo:
        current = todo.pop()
        yield current
        controls = current.control_inputs if by_control else ()
        for needed in [*(tensor.op for tensor in current.inputs), *controls]:
            if needed not in seen:
                seen.add(needed)
                todo.append(needed)


@contextlib.contextmanager
def outermost(graph: Any) -> Iterator[None]:
    """Leave all scopes: they would prefix names by which the adapter and GE find operators."""
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
    """Close a ``tf.Session`` and free its kernels, even if something still refers to it.

    After ``close()`` the kernels live on as long as the object, which the variable after ``as``
    keeps beyond the block. On a device, freeing them later takes the graph engine down, perhaps
    during another session (geop_npu.cc, ``GeOp::Finalize``; npu_sys_ctl_ops.cc). If another thread
    is in a run of the session, it is only closed.
    """
    session.close()
    if not is_running(session):
        session.__del__()


def is_running(session: Any) -> bool:
    """Return whether another thread is in a run of the ``tf.Session``."""
    return any(thread != threading.get_ident() for thread in find_runs(session))


def find_runs(session: Any) -> Dict[int, FrameType]:
    """Find the threads that are in a run of the ``tf.Session``: identity to innermost frame."""
    threads = find_frames().items()
    return {thread: innermost for thread, innermost in threads if _is_in_run(session, innermost)}


def find_keras_session() -> Optional[Any]:
    """Return the session that Keras has for this thread, without making one."""
    for name in _KERAS_BACKENDS:
        session = getattr(getattr(sys.modules.get(name), "_SESSION", None), "session", None)
        if session is not None:
            return session
    return None


def is_of_session(frame: FrameType) -> bool:
    """Return whether a frame is in TensorFlow's ``session.py``, which every run goes through."""
    return frame.f_code.co_filename.endswith(_RUNTIME_FILE)


def _is_in_run(session: Any, innermost: FrameType) -> bool:
    for frame, _ in walk_stack(innermost):
        if is_of_session(frame):
            running = frame.f_locals.get("self")
            if running is session or getattr(running, "_session", None) is session:
                return True
    return False


def disown(session: Any) -> None:
    """Make an inherited ``tf.Session`` refuse to run in this forked process.

    Its C object belongs to the parent: a run would wait for threads that the child does not have,
    and freeing it would close what the parent uses.
    """
    if isinstance(session._session, _Disowned):
        return  # the parent was forked itself
    import ctypes

    parent = os.getppid()

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise LifecycleError(
            f"This tf.Session was opened in process {parent}; in process {os.getpid()}, which was "
            "forked from it, it cannot run.",
            hint=FORK_HINT,
        )

    for name in RUNNING:
        setattr(session, name, refuse)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(session._session))  # so that it is never freed
    session._session, session._closed = _Disowned(), True


def error_after_fork(parent: int) -> LifecycleError:
    """Return the error for a process that was forked after process ``parent`` had a session."""
    return LifecycleError(
        f"This process was forked from process {parent} after that process had opened a session; "
        "TensorFlow's threads do not survive a fork, and a run would wait for them for ever.",
        hint=FORK_HINT,
    )


class _Disowned:
    """Replaces the C object of a session; TensorFlow's C functions refuse its type."""
