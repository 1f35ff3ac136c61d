"""All TensorFlow sessions of this process, whoever makes them: their opening, runs and closing.

This is the one place that replaces methods of TensorFlow's ``BaseSession``, which all classes of
sessions share: ``tf.Session``, ``tf.InteractiveSession``, and what ``tf.train`` and Keras open.
They are replaced when the first observer is added, once in a process; what was opened before is not
seen. A forked process keeps the observers, but has none of its parent's sessions.

(`host_loop` replaces a run by several, on top of this: observers see each of them.)
"""

import contextlib
import functools
import importlib
import sys
import threading
import weakref
from typing import Any, Callable, Iterator, List, MutableMapping, Optional, Sequence, Tuple

from ascend_session.backends._tensorflow import RUNNING, error_after_fork
from ascend_session.process import on_fork

_SESSION_MODULE = "tensorflow.python.client.session"


class SessionObserver:
    """Is called about each session of this process; by default does nothing.

    Several threads may call at the same time.
    """

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Open a session: a link of a chain, in which the observer that was added first begins.

        It may raise to refuse the session, or pass on another target, graph or config.

        Args:
            create: The rest of the chain; takes the other four arguments.
            session: The object that is to become a session.
            target: As the caller gives it, like the two that follow.
            graph: The ``tf.Graph``; None for the default graph.
            config: The ``tf.ConfigProto``, or None.
        """
        create(session, target, graph, config)

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        """Note that a session is about to run something, in the thread that runs it.

        Called for ``run``, ``partial_run`` and callables, Keras' as well, if they were made after
        the first observer was added. What this raises, the run raises.

        Args:
            session: The session.
            list_operations: Lists the ``tf.Operation`` objects that are fetched, each once; empty
                where they cannot be known. It takes time, so call it only if you need them.
        """

    def after_run(self, session: Any, fetches: Any, values: Any, feeds: Any) -> None:
        """Note what a run has given, in the thread that has run it; not called if it failed.

        Args:
            session: The session.
            fetches: What was fetched, as the caller gave it.
            values: The values, in the same structure.
            feeds: The ``feed_dict``, or None; None for callables, too.
        """

    def before_close(self, session: Any, error: Optional[BaseException]) -> None:
        """Note that an open session is about to be closed, once; it can still run.

        Called for ``close``, the end of a ``with`` block (in another thread, if an exception ends
        it), ``tf.Session.reset``, and when nothing refers to the session any more; but not for
        sessions in a cycle that the garbage collector frees, nor once Python shuts down. What this
        raises is raised after the session was closed. It must not wait for other runs of the
        session: a signal closes sessions that threads are blocked in.

        Args:
            session: The session.
            error: The exception that ends its ``with`` block, or that is being handled; None if
                there is none.
        """


_observers: Tuple[SessionObserver, ...] = ()
_run_observers: Tuple[SessionObserver, ...] = ()  # those that override `before_run`
_result_observers: Tuple[SessionObserver, ...] = ()  # those that override `after_run`
# By the id of the session, in the order of opening.
_open: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
# The exceptions that end ``with`` blocks: TensorFlow closes those sessions in another thread.
_ending: MutableMapping[int, BaseException] = {}
_lock = threading.Lock()  # of the changes of `_observers`
_opener = threading.local()  # a thread's ``is_by_api``: it opens sessions of this package


def add_observer(observer: SessionObserver, sees_only_opening: bool = False) -> None:
    """Have ``observer`` called from now on, unless it is already; imports TensorFlow.

    Args:
        observer: The observer.
        sees_only_opening: Whether it overrides nothing but `open`. Then only that is replaced, so
            that the traceback of a run that fails is TensorFlow's.
    """
    importlib.import_module(_SESSION_MODULE)  # not in the lock: the import may add an observer
    with _lock:
        _replace_opening()
        if not sees_only_opening:
            replace_methods()
        if observer not in _observers:
            _set_observers((*_observers, observer))


def remove_observer(observer: SessionObserver) -> None:
    """Have ``observer`` called no more; do nothing if it is not."""
    with _lock:
        _set_observers(tuple(each for each in _observers if each is not observer))


def open_sessions() -> List[Any]:
    """List the ``tf.Session`` objects that are open, in the order of opening."""
    sessions = [reference() for reference in _open.valuerefs()]
    return [each for each in sessions if each is not None and not each._closed]


@contextlib.contextmanager
def opening_by_api() -> Iterator[None]:
    """Have sessions that this thread opens in the block count as those of this package's API."""
    outer, _opener.is_by_api = is_opening_by_api(), True
    try:
        yield
    finally:
        _opener.is_by_api = outer


def is_opening_by_api() -> bool:
    """Return whether this thread is in a block of `opening_by_api`."""
    return getattr(_opener, "is_by_api", False)


def refuse_sessions(parent: int) -> None:
    """Make all sessions refuse to open and to run in this forked process.

    TensorFlow starts its threads with the first session of a process. A child does not have them,
    so its first run would wait for ever.

    Args:
        parent: The pid of the process that had a session.
    """
    module = sys.modules.get(_SESSION_MODULE)
    base = getattr(module, "BaseSession", None)
    if base is None:  # a thread of the parent was importing it during the fork
        return

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise error_after_fork(parent)

    def refuse_opening(self: Any, *args: Any, **kwargs: Any) -> None:
        self._session, self._closed = None, True  # for TensorFlow's __del__
        refuse()

    base.__init__ = refuse_opening
    for name in RUNNING:
        setattr(base, name, refuse)
    base._Callable.__call__ = refuse
    # They would free objects of the parent.
    base.__del__ = base._Callable.__del__ = lambda self: None


def list_fetched(graph: Any, fetches: Any) -> List[Any]:
    """List the operations of what a run fetches; empty for something that cannot be fetched."""
    from tensorflow.python.client import session as module

    with contextlib.suppress(TypeError, ValueError), graph.as_default():
        elements = module._FetchMapper.for_fetch(fetches).unique_fetches()
        return list(dict.fromkeys(getattr(each, "op", each) for each in elements))
    return []  # the run itself says what is wrong


def _set_observers(observers: Tuple[SessionObserver, ...]) -> None:
    global _observers, _run_observers, _result_observers
    _observers = observers
    unused: Any = SessionObserver.before_run
    _run_observers = tuple(each for each in observers if type(each).before_run is not unused)
    unused = SessionObserver.after_run
    _result_observers = tuple(each for each in observers if type(each).after_run is not unused)


@functools.lru_cache(maxsize=None)
def _replace_opening() -> None:
    """Have all sessions that are opened from now on opened by the observers."""
    from tensorflow.python.client import session as module

    base = module.BaseSession
    original_init = base.__init__

    def create(session: Any, target: Any, graph: Any, config: Any) -> None:
        original_init(session, target, graph, config)
        _open[id(session)] = session

    def open_next(earlier: Tuple[SessionObserver, ...], *arguments: Any) -> None:
        """Have the next observer open the session, which may have been added by one before it."""
        observer = next((each for each in _observers if each not in earlier), None)
        if observer is None:
            create(*arguments)
        else:
            observer.open(functools.partial(open_next, (*earlier, observer)), *arguments)

    @functools.wraps(original_init)
    def __init__(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:  # noqa: N807
        try:
            open_next((), self, target, graph, config)
        except BaseException:
            # For TensorFlow's __del__, if the session was refused.
            vars(self).setdefault("_session", None)
            vars(self).setdefault("_closed", True)
            raise

    base.__init__ = __init__


@functools.lru_cache(maxsize=None)
def replace_methods() -> None:
    """Have the methods of all sessions call the observers; `add_observer` does this."""
    from tensorflow.python.client import session as module

    _replace_opening()
    base = module.BaseSession
    original_close, original_run = base.close, base._run
    original_callable, original_make = base.make_callable, base._make_callable_from_options
    original_reset, original_exit = module.Session.reset, module.Session.__exit__

    # ``session.run`` and ``partial_run`` come here; a script may have looked them up before.
    @functools.wraps(original_run)
    def run(
        self: Any, handle: Any, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> Any:
        if _run_observers:
            _note_run(self, fetches)
        values = original_run(self, handle, fetches, feed_dict, options, run_metadata)
        for observer in _result_observers:
            observer.after_run(self, fetches, values, feed_dict)
        return values

    @functools.wraps(original_callable)
    def make_callable(
        self: Any, fetches: Any, feed_list: Any = None, accept_options: bool = False
    ) -> Any:
        call = original_callable(self, fetches, feed_list, accept_options)
        if feed_list is not None:
            return call  # it calls ``session.run``
        return _observed(call, self, fetches)

    @functools.wraps(original_make)
    def make_from_options(self: Any, options: Any) -> Any:
        return _observed(original_make(self, options), self, [*options.fetch, *options.target])

    @functools.wraps(original_close)
    def close(self: Any) -> None:
        try:
            _note_close([self])
        finally:
            original_close(self)

    @functools.wraps(original_exit)
    def __exit__(self: Any, kind: Any, error: Any, traceback: Any) -> None:  # noqa: N807
        if error is not None:
            _ending[id(self)] = error
        try:
            original_exit(self, kind, error, traceback)
        finally:
            _ending.pop(id(self), None)

    @functools.wraps(original_reset)
    def reset(target: Any, containers: Any = None, config: Any = None) -> None:
        try:
            target_bytes = _as_bytes(target)
            _note_close(
                [each for each in open_sessions() if _as_bytes(each._target) == target_bytes]
            )
        finally:
            original_reset(target, containers, config)

    base.close, base._run = close, run
    base.make_callable, base._make_callable_from_options = make_callable, make_from_options
    module.Session.reset, module.Session.__exit__ = staticmethod(reset), __exit__


def _observed(call: Callable[..., Any], session: Any, fetches: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if _run_observers:
            _note_run(session, fetches)
        values = call(*args, **kwargs)
        for observer in _result_observers:
            observer.after_run(session, fetches, values, None)
        return values

    return run


def _note_run(session: Any, fetches: Any) -> None:
    for observer in _run_observers:
        observer.before_run(session, functools.partial(list_fetched, session.graph, fetches))


def _note_close(sessions: Sequence[Any]) -> None:
    """Call all observers about sessions that are open, even if one raises."""
    with contextlib.ExitStack() as stack:
        for session in sessions:
            if _open.pop(id(session), None) is not None and not sys.is_finalizing():
                error = _ending.get(id(session), sys.exc_info()[1])
                for observer in _observers:
                    stack.callback(observer.before_close, session, error)


def _as_bytes(target: Any) -> bytes:
    return target.encode() if isinstance(target, str) else target or b""


def _leave_parents_sessions() -> None:
    global _lock
    _lock = threading.Lock()  # of a thread that is not here
    _open.clear()
    _ending.clear()


on_fork(_leave_parents_sessions)
