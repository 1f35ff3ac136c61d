"""The context managers `ascend_system` and `ascend_session`: what is opened is closed."""

import os
from functools import partial
from typing import Any, List, Optional, Tuple

from ascend_session import backends
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import AscendError, LifecycleError, ShutdownError
from ascend_session.failures import RetryPolicy, explain, translate
from ascend_session.session import registry
from ascend_session.session.conditions import warn_of_unused_loops
from ascend_session.session.interrupt import Terminated
from ascend_session.session.open_session import OpenSession
from ascend_session.session.patience import Patience
from ascend_session.session.protos import checked
from ascend_session.session.system import AscendSystem
from ascend_session.session.unwinding import close_all, keep_body_error

__all__ = ["SessionContext", "SystemContext", "ascend_session", "ascend_system"]

Failed = List[Tuple[str, BaseException]]


def ascend_system(
    config: Optional[AscendConfig] = None,
    *,
    backend: str = "auto",
    wait_for_device: float = 0,
    probe: Optional[RetryPolicy] = None,
) -> "SystemContext":
    """Opens the device for this process: initialises on entry, shuts down on exit.

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
    """
    patience = Patience.of(wait_for_device, probe)
    return SystemContext(checked(config), backends.known(backend), patience)


def ascend_session(
    config: Optional[AscendConfig] = None,
    *,
    graph: Optional[Any] = None,
    device_id: Optional[int] = None,
    session_config: Optional[Any] = None,
    backend: str = "auto",
) -> "SessionContext":
    """Opens a ``tf.Session`` on the device, and the system if this process has none.

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
    known = backends.known(backend)
    return SessionContext(checked(config), graph, device_id, session_config, known, None)


def _enter_system(
    config: Optional[AscendConfig],
    backend: str,
    base: Optional[Any] = None,
    patience: Patience = Patience(),  # noqa: B008  (it never changes)
) -> AscendSystem:
    environ = os.environ
    shared = registry.current_system()
    # "auto" means the open system; otherwise what was asked for is compared with it.
    auto = shared is not None and backend == "auto" and not environ.get(backends.BACKEND_VARIABLE)
    choice = shared.choice if shared is not None and auto else backends.choose(backend, environ)
    wanted = AscendConfig() if config is None else config
    system = registry.enter(lambda: AscendSystem(wanted, base, choice, environ, patience))
    try:
        if choice.name != system.backend:
            raise LifecycleError(
                f"The {choice.name} backend was asked for ({choice.reason}), but the open system "
                f"of this process is on the {system.backend}."
            )
        if config is not None and config is not system.config:
            system.check_init_options(config)
    except BaseException:
        registry.leave(system)
        raise
    return system


class _Once:
    """A context manager that is entered once and exited once, in the process that entered it."""

    def __init__(self) -> None:
        self._entered_in: Optional[int] = None
        self._left = False

    def _begin(self, what: str) -> None:
        if self._entered_in is not None:
            state = "was used already" if self._left else "is entered already"
            raise LifecycleError(
                f"This {what} {state}.", hint=f"Call {what} again for each with block."
            )
        self._entered_in = os.getpid()

    def _end(self, what: str) -> bool:
        """Whether leaving has something to do: not twice, and not in a forked process."""
        if self._entered_in is None:
            raise LifecycleError(f"This {what} was not entered.", hint=f"with {what} as ...:")
        if self._left or self._entered_in != os.getpid():
            return False
        self._left = True
        return True


class SystemContext(_Once):
    """What `ascend_system` returns."""

    def __init__(self, config: Optional[AscendConfig], backend: str, patience: Patience) -> None:
        super().__init__()
        self._config = config
        self._backend = backend
        self._patience = patience

    def __enter__(self) -> AscendSystem:
        self._begin("ascend_system(...)")
        try:
            self._system = _enter_system(self._config, self._backend, patience=self._patience)
        except BaseException:
            self._left = True
            raise
        self._sessions_before = self._system.sessions_here()
        return self._system

    def __exit__(self, *failure: Any) -> None:
        if self._end("ascend_system(...)"):
            _leave(self._system, None, self._sessions_before, "ascend_system(...)", failure)


class SessionContext(_Once):
    """What `ascend_session` and `AscendSystem.session` return."""

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
        self._config = config
        self._arguments = (graph, device_id, session_config)
        self._as_default = as_default
        self._backend = backend
        self._given = system

    def __enter__(self) -> Any:
        self._begin("ascend_session(...)")
        try:
            self._system = self._acquired()
            try:
                self._opened = self._system.open_session(
                    self._config, *self._arguments, as_default=self._as_default
                )
            except BaseException as error:
                _finish(self._system, error, registry.leave(self._system))
                raise
        except BaseException:
            self._left = True
            raise
        self._sessions_before = self._system.sessions_here()
        return self._opened.session

    def _acquired(self) -> AscendSystem:
        if self._given is not None:
            return registry.join(self._given)
        return _enter_system(self._config, self._backend, self._arguments[2])

    def __exit__(self, *failure: Any) -> None:
        if self._end("ascend_session(...)"):
            before = self._sessions_before
            _leave(self._system, self._opened, before, "ascend_session(...)", failure)
            if failure[0] is None:
                warn_of_unused_loops(self._opened.graph, self._opened.parameters)


def _leave(
    system: AscendSystem,
    own: Optional[OpenSession],
    before: List[OpenSession],
    what: str,
    failure: Any,
) -> None:
    """Closes what a block has opened, the latest first, and leaves the system."""
    ending = isinstance(failure[1], Terminated)
    if isinstance(failure[1], Exception):
        explain(failure[1])
    with system.deferring_interrupts() as waiting:
        if failure[1] is not None and registry.is_last_user(system):
            system.fail(failure[1])
        inner = [opened for opened in system.sessions_here() if opened not in before]
        failed = _out_of_order(what, len(inner))
        for opened in reversed(inner):
            failed += _release(system, opened, ending)
        if own is None:
            failed += registry.leave(system, ending=ending)
        else:
            failed += _release(system, own, ending, *failure)
    _finish(system, failure[1], failed + [("an interrupt", error) for error in waiting])


def _out_of_order(what: str, count: int) -> Failed:
    if not count:
        return []
    error = LifecycleError(
        f"This {what} was left while {count} session(s) opened inside it were still open; they "
        "were closed first.",
        hint="Leave inner blocks before outer ones.",
    )
    return [("closing in order", error)]


def _release(system: AscendSystem, opened: OpenSession, ending: bool, *failure: Any) -> Failed:
    """Closes a session and takes its block from the users, unless that was done before."""
    done: List[bool] = []
    closer = partial(system.close_session, opened, *failure)
    failed = close_all([("closing a session", lambda: done.append(closer()))])
    if done == [False]:
        return failed
    return failed + registry.leave(system, ending=ending)


def _finish(system: AscendSystem, body: Optional[BaseException], failed: Failed) -> None:
    """Raises what failed while closing, unless the body's exception comes first."""
    cause = system.cause_of(body)
    errors = [_as_ours(what, error) for what, error in failed]
    errors.sort(key=lambda error: isinstance(error, Exception))  # interrupts first
    first = cause if cause is not None or not errors else errors.pop(0)
    if first is None:
        return
    for error in errors:
        keep_body_error(first, error)
    if first is not body:
        raise first from (body or first.__cause__)


def _as_ours(what: str, error: BaseException) -> BaseException:
    if isinstance(error, AscendError) or not isinstance(error, Exception):
        return error
    ours = translate(error, asked=what, into=ShutdownError)
    ours.__cause__ = error
    return ours
