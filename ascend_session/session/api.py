"""`ascend_system` and `ascend_session`: who comes first opens, who comes last closes.

A process has one system. The blocks share it, and what was opened in a block is closed with it.
"""

import atexit
import functools
import inspect
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Generic, List, Optional, TypeVar, cast

from ascend_session import backends
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import AnyFunction, AscendError, LifecycleError, ShutdownError
from ascend_session.failures import RetryPolicy, explain, translate
from ascend_session.session.conditions import checked, warn_of_unused_loops
from ascend_session.session.signals import Terminated
from ascend_session.session.system import AscendSystem, Failed, OpenSession, log_failures
from ascend_session.text import did_you_mean

if TYPE_CHECKING:
    from ascend_session.backends._tensorflow import Session

_logger = logging.getLogger(__name__)

_Given = TypeVar("_Given")


def _refuse_unknown_names(function: AnyFunction) -> AnyFunction:
    """Have ``function`` say where a keyword argument belongs that it does not have."""
    own = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        for name in named:
            if name not in own:
                raise TypeError(_unknown_argument(name, function.__name__, own))
        try:
            return function(*args, **named)
        except AscendError as error:
            raise error.with_traceback(None)  # noqa: B904  (one frame of ours is enough)

    return cast(AnyFunction, call)


def _unknown_argument(name: str, function: str, own: List[str]) -> str:
    near = did_you_mean(name, [*own, *AscendConfig.model_fields])
    if near is None:
        hint = f"{function}() takes {', '.join(own)}; `ascend-session options` lists all options."
    elif near in own:
        hint = f"Did you mean {near}?"
    else:
        hint = f"Options belong in AscendConfig: {function}(AscendConfig({near}=...))."
    return f"{function}() has no argument {name!r}.\n  hint: {hint}"


@_refuse_unknown_names
def ascend_system(
    config: Optional[AscendConfig] = None,
    *,
    backend: str = "auto",
    wait_for_device: float = 0,
    probe: Optional[RetryPolicy] = None,
) -> "SystemContext":
    """Open the device for this process: initialise on entry, shut down on exit.

    Blocks may be nested and share one system; the last one out shuts it down.

    Args:
        config: The options to initialise with; the adapter's defaults if None.
        backend: ``auto``, ``npu`` or ``stub``.
        wait_for_device: Seconds to wait until no other process holds the device. The stub's
            devices are never held, so it does not wait.
        probe: Initialise in a short-lived process first, and again as the RetryPolicy says, for
            a failed initialisation ends its process. The stub has nothing to try. Neither this
            nor ``wait_for_device`` does anything in a process that has an open system.

    Returns:
        A context manager that gives an `AscendSystem`.

    Raises:
        AscendError: On entry, the leaf that fits; nothing is open afterwards.
        TypeError: If ``wait_for_device`` is no number, or ``probe`` no RetryPolicy.
        ValueError: If ``wait_for_device`` is below 0.
    """
    if isinstance(wait_for_device, bool) or not isinstance(wait_for_device, (int, float)):
        raise TypeError(f"wait_for_device must be a number of seconds, not {wait_for_device!r}.")
    if not wait_for_device >= 0:  # NaN is neither
        raise ValueError(f"wait_for_device must be 0 seconds or more, not {wait_for_device}.")
    if probe is not None and not isinstance(probe, RetryPolicy):
        raise TypeError(f"probe must be a RetryPolicy, such as RetryPolicy(), not {probe!r}.")
    return SystemContext(checked(config), backends.check_name(backend), wait_for_device, probe)


@_refuse_unknown_names
def ascend_session(
    config: Optional[AscendConfig] = None,
    *,
    graph: Optional[Any] = None,
    device_id: Optional[int] = None,
    session_config: Optional[Any] = None,
    backend: str = "auto",
) -> "SessionContext":
    """Open a ``tf.Session`` on the device, and the system if this process has none.

    Inside the block the session and its graph are the defaults, as with ``with tf.Session()``.

    Args:
        config: The options; inside an open system, None means that system's.
        graph: The ``tf.Graph`` to run; the default graph if None.
        device_id: Logical id of the device (``session_device_id``).
        session_config: A ``tf.ConfigProto`` to build on; copied, never changed.
        backend: ``auto``, ``npu`` or ``stub``.

    Returns:
        A context manager that gives a real ``tf.Session``.

    Raises:
        AscendError: On entry, the leaf that fits; nothing is open afterwards.
    """
    known = backends.check_name(backend)
    return SessionContext(checked(config), graph, device_id, session_config, known, None)


class _Slot:
    """The place for the system. Opening and closing take long, so they are noted, not locked.

    Attributes:
        system: The open system.
        opening: The system that a thread is opening, for a process that is forked meanwhile.
        owner: The process that has a system, or begins to open one; 0 if there is none.
        users: The threads of the blocks that use it.
        busy: Which thread opens or closes at this moment, empty if none does.
    """

    def __init__(self) -> None:
        self.system: Optional[AscendSystem] = None
        self.opening: Optional[AscendSystem] = None
        self.owner = 0
        self.users: List[int] = []
        self.lock = threading.RLock()  # garbage collection may leave a block meanwhile
        self.busy = ""


_slot = _Slot()


def current_system() -> Optional[AscendSystem]:
    """Return the open `AscendSystem` of this process, or None."""
    system = _slot.system
    return system if system is not None and system.pid == os.getpid() else None


def _enter_system(
    config: Optional[AscendConfig],
    backend: str,
    base: Optional[Any] = None,
    wait_s: float = 0,
    probe: Optional[RetryPolicy] = None,
) -> AscendSystem:
    """Share the open system of this process if it is what the arguments ask for, or open one.

    Raises:
        LifecycleError: While another thread opens or closes, after a fork, or if the open system
            uses another backend.
    """
    refuse_after_fork()
    me = threading.get_ident()
    with _slot.lock:
        if _slot.busy:
            raise LifecycleError(
                f"{_slot.busy} the Ascend system of this process at this moment.",
                hint="Open one ascend_system(...) first, then start threads that open sessions.",
            )
        if _slot.system is not None:
            _check_shared(_slot.system, config, backend)
            _slot.users.append(me)
            return _slot.system
        _slot.busy = f"Thread {threading.current_thread().name!r} is opening"
        _slot.owner = os.getpid()
    try:
        choice = backends.choose(backend, os.environ)
        options = AscendConfig() if config is None else config
        system = _slot.opening = AscendSystem(options, base, choice)
        system.open(wait_s, probe)
        atexit.register(_close_at_exit, system)
        _slot.system, _slot.users = system, [me]
        return system
    except BaseException:  # an interrupt may arrive after the last line of open()
        _slot.system, _slot.users = None, []
        if _slot.opening is not None:
            log_failures(_slot.opening.close())
        _slot.owner = 0  # a child that is forked before is told to start another way
        raise
    finally:
        _slot.opening, _slot.busy = None, ""


def _check_shared(system: AscendSystem, config: Optional[AscendConfig], backend: str) -> None:
    """Refuse the open system if it is not what a block asks for."""
    # "auto" means the open system, unless the environment names a backend.
    if backend != "auto" or os.environ.get(backends.BACKEND_VARIABLE):
        choice = backends.choose(backend, os.environ)
        if choice.name != system.backend:
            raise LifecycleError(
                f"The {choice.name} backend was chosen ({choice.reason}), but the open system "
                f"of this process uses the {system.backend}.",
                hint="Use one backend for all systems that are open at the same time.",
            )
    if config is not None and config is not system.config:
        system.check_init_options(config)


def leave_system(system: AscendSystem, *, ending: bool = False) -> Failed:
    """Take one user from ``system``; the last one out shuts it down.

    Does nothing in a process that was forked from the system's own.

    Args:
        system: The system that a block of this thread has used.
        ending: Whether the process ends, so that the last block of this thread shuts the system
            down although other threads still use it.

    Returns:
        What failed while shutting down, each with its exception.
    """
    if system.pid != os.getpid():
        return []
    with _slot.lock:
        if _slot.system is not system:
            return []
        me = threading.get_ident()
        # A block may be left by another thread than the one that entered it.
        _slot.users.remove(me if me in _slot.users else _slot.users[0])
        if _slot.users and not (ending and me not in _slot.users):
            return []
        _slot.busy = f"Thread {threading.current_thread().name!r} is closing"
    try:
        return _shut(system)
    finally:
        _slot.busy = ""


def _shut(system: AscendSystem) -> Failed:
    try:
        return system.close()
    finally:
        _slot.system, _slot.users, _slot.owner = None, [], 0
        atexit.unregister(_close_at_exit)


def refuse_after_fork() -> None:
    """Raise LifecycleError in a process that was forked from one with a system, or opening one.

    The latter also has to import nothing: a module that a thread of its parent was importing stays
    locked for ever.
    """
    if _slot.owner not in (0, os.getpid()):
        raise LifecycleError(
            f"This process was forked from process {_slot.owner} while that process had "
            "an Ascend system open; neither TensorFlow nor the device survives a fork.",
            hint="Start workers as fresh processes (subprocess, or multiprocessing's 'spawn').",
        )


def _close_at_exit(system: AscendSystem) -> None:
    if system.pid == os.getpid() and _slot.system is system:
        _logger.warning("An Ascend system was left open; it is shut down at exit.")
        log_failures(_shut(system))


def _forget_in_child() -> None:
    """Have a forked process touch nothing of what its parent has open, nor at its exit."""
    _slot.lock, _slot.busy = threading.RLock(), ""  # of threads that are not here
    system = _slot.system or _slot.opening
    if system is not None:
        atexit.unregister(_close_at_exit)
        system.forget_in_child()


os.register_at_fork(after_in_child=_forget_in_child)


class _Block(Generic[_Given]):
    """A context manager that is entered once and exited once, in the process that entered it.

    Attributes:
        call: How it is made.
        gives: The name that examples give to what a block gets from it.
    """

    call: str
    gives: str

    _system: AscendSystem
    _sessions_before: List[OpenSession]

    def __init__(self) -> None:
        self._entered_in: Optional[int] = None
        self._left = False
        self._opened: Optional[OpenSession] = None  # the block's own

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self.call} has no attribute {name!r}: it is a context manager.\n"
            f"  hint: with {self.call} as {self.gives}: {self.gives}.{name}"
        )

    def _open(self) -> _Given:
        """Set the system, and return what the block gets."""
        raise NotImplementedError

    def __enter__(self) -> _Given:
        if self._entered_in is not None:
            state = "was used already" if self._left else "is entered already"
            raise LifecycleError(
                f"This {self.call} {state}.", hint=f"Call {self.call} again for each with block."
            )
        self._entered_in = os.getpid()
        self._left = True  # until there is something to leave
        try:
            given = self._open()
        except AscendError as error:
            raise error.with_traceback(None)  # noqa: B904  (one frame of ours is enough)
        self._left = False
        self._sessions_before = self._system.sessions_here()
        return given

    def __exit__(self, *failure: Any) -> None:
        if self._entered_in is None:
            hint = f"with {self.call} as {self.gives}:"
            raise LifecycleError(f"This {self.call} was not entered.", hint=hint)
        if self._left or self._entered_in != os.getpid():
            return
        self._left = True
        error = self._leave(failure)
        if error is not None:
            raise error
        if self._opened is not None and failure[0] is None:
            warn_of_unused_loops(self._opened.graph, self._opened.parameters)

    def _leave(self, failure: Any) -> Optional[BaseException]:
        """Close what was opened in the block, the latest first, and leave; see `_finish`."""
        system, body = self._system, failure[1]
        ending = isinstance(body, Terminated)
        if isinstance(body, Exception):
            explain(body)
        with system.signals.deferring() as waiting:
            with _slot.lock:
                is_last_user = _slot.system is system and len(_slot.users) == 1
            if body is not None and is_last_user:
                system.fail(body)
            failed: Failed = []
            inner = [each for each in system.sessions_here() if each not in self._sessions_before]
            if inner:
                left_too_early = LifecycleError(
                    f"This {self.call} was left while {len(inner)} session(s) opened inside it "
                    "were still open; they were closed first.",
                    hint="Leave inner blocks before outer ones.",
                )
                failed.append(("closing in order", left_too_early))
            for opened in reversed(inner):
                failed += _release(system, opened, ending)
            if self._opened is None:
                failed += leave_system(system, ending=ending)
            else:
                failed += _release(system, self._opened, ending, *failure)
        return _finish(system, body, failed + [("an interrupt", error) for error in waiting])


class SystemContext(_Block[AscendSystem]):
    """What `ascend_system` returns."""

    call = "ascend_system(...)"
    gives = "system"

    def __init__(
        self,
        config: Optional[AscendConfig],
        backend: str,
        wait_s: float,
        probe: Optional[RetryPolicy],
    ) -> None:
        super().__init__()
        self._arguments = (config, backend, None, wait_s, probe)

    def _open(self) -> AscendSystem:
        self._system = _enter_system(*self._arguments)
        return self._system


class SessionContext(_Block["Session"]):
    """What `ascend_session` and `AscendSystem.session` return."""

    call = "ascend_session(...)"
    gives = "sess"

    def __init__(
        self,
        config: Optional[AscendConfig],
        graph: Optional[Any],
        device_id: Optional[int],
        session_config: Optional[Any],
        backend: str,
        system: Optional[AscendSystem],
        as_default: bool = True,
    ) -> None:
        super().__init__()
        self._to_enter = (config, backend, session_config)
        self._to_open = (config, graph, device_id, session_config, as_default)
        self._given = system

    def _open(self) -> "Session":
        if self._given is not None:
            with _slot.lock:
                self._given.check_usable()
                _slot.users.append(threading.get_ident())
            self._system = self._given
        else:
            self._system = _enter_system(*self._to_enter)
        try:
            self._opened = self._system.open_session(*self._to_open)
        except BaseException as error:
            cause = _finish(self._system, error, leave_system(self._system))
            if cause is not None:
                raise cause from error
            raise
        return self._opened.session


def device_check(backend: str) -> Callable[[int], None]:
    """Return a function that raises DeviceError for a logical id of which there is no device.

    It asks the open system of this process, else the backend that one would open; starts nothing.
    """
    refuse_after_fork()
    system = current_system()
    if system is not None:
        return system.check_device
    chosen = backends.create(backends.choose(backend, os.environ), os.environ)
    job = chosen.find_job(os.environ)
    return lambda device_id: chosen.require(job, {"session_device_id": device_id})


def _release(system: AscendSystem, opened: OpenSession, ending: bool, *failure: Any) -> Failed:
    """Close a session and take its block from the users, unless that was done before."""
    failed: Failed = []
    try:
        if not system.close_session(opened, *failure):
            return []
    except BaseException as error:  # an interrupt must not keep the device from closing
        failed = [("closing a session", error)]
    return failed + leave_system(system, ending=ending)


def _finish(
    system: AscendSystem, body: Optional[BaseException], failed: Failed
) -> Optional[BaseException]:
    """Return what is to be raised instead of the body's exception; None if that stays."""
    errors = [_as_ours(what, error) for what, error in failed]
    first = join_errors(system.signals.cause_of(body), errors)
    if first is None or first is body:
        return None
    first.__cause__ = body or first.__cause__
    return first


def _as_ours(what: str, error: BaseException) -> BaseException:
    if isinstance(error, AscendError) or not isinstance(error, Exception):
        return error
    ours = translate(error, action=what, into=ShutdownError)
    ours.__cause__ = error
    return ours


def join_errors(
    first: Optional[BaseException], others: List[BaseException]
) -> Optional[BaseException]:
    """Return what the user sees of several errors: ``first``, else an interrupt, else any.

    The others are logged and attached to it: in the attribute ``closing_errors`` and, from Python
    3.11 on, in the notes.
    """
    others = sorted(others, key=lambda error: isinstance(error, Exception))
    if first is None:
        if not others:
            return None
        first = others.pop(0)
    for error in others:
        _logger.error("Closing failed after %s: %s", type(first).__name__, error, exc_info=error)
        earlier = getattr(first, "closing_errors", None) or ()
        first.closing_errors = [*earlier, error]  # type: ignore[attr-defined]
        if hasattr(first, "add_note"):
            first.add_note(f"Closing failed as well: {error}")
    return first
