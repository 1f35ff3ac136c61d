"""`ascend_system` and `ascend_session`: who comes first opens, who comes last closes.

A process has one system. The blocks share it, and what was opened in a block is closed with it.
"""

import enum
import functools
import inspect
import os
import sys
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generic,
    List,
    Optional,
    Tuple,
    TypeVar,
    cast,
)

from ascend_session import backends
from ascend_session.backends._tensorflow import graph_or_default
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.option import options_of
from ascend_session.errors import AscendError, LifecycleError, ShutdownError
from ascend_session.failures.failure import RetryPolicy
from ascend_session.failures.scanner import explain, translate
from ascend_session.session.conditions import (
    warn_of_missed_variables,
    warn_of_unsupported,
    warn_of_unused_loops,
)
from ascend_session.session.options import checked
from ascend_session.session.signals import Failed, Terminated, deferring, join_errors
from ascend_session.session.system import (
    AscendSystem,
    State,
    Use,
    current_system,
    refuse_after_fork,
    use_system,
)
from ascend_session.text import did_you_mean

if TYPE_CHECKING:
    from ascend_session.backends._tensorflow import Session

_Given = TypeVar("_Given")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _refuse_unknown_names(function: _Function) -> _Function:
    """Have ``function`` say where a keyword argument belongs that it does not have."""
    parameters = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        for name in named:
            if name not in parameters:
                raise TypeError(_unknown_argument(name, function.__name__, parameters))
        return function(*args, **named)

    return cast(_Function, call)


def _unknown_argument(name: str, function: str, parameters: List[str]) -> str:
    near = did_you_mean(name, [*parameters, *options_of(AscendConfig)])
    if near is None:
        hint = f"{function}() takes {', '.join(parameters)}; "
        hint += "`ascend-session options` lists all options."
    elif near in parameters:
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
    choice = backends.check_name(backend)
    return SessionContext(checked(config), graph, device_id, session_config, choice, None)


class _Entry(enum.Enum):
    """How far a block has come."""

    NEW = "new"
    OPEN = "open"
    OVER = "over"


class _Block(Generic[_Given]):
    """A context manager that is entered once and exited once, in the process that entered it.

    Attributes:
        call: How it is made.
        gives: The name that examples give to what a block gets from it.
    """

    call: str
    gives: str
    _use: Use

    def __init__(self) -> None:
        self._entry = _Entry.NEW

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self.call} has no attribute {name!r}: it is a context manager.\n"
            f"  hint: with {self.call} as {self.gives}: {self.gives}.{name}"
        )

    def _open(self) -> _Given:
        """Set the use of the system, and return what the block gets."""
        raise NotImplementedError

    def open(self) -> _Given:
        """Open without a block, as over several cells of a notebook, until `close`.

        Raises:
            LifecycleError: If this is open or was open already, or if one that was opened so
                before is still open: for sessions, on the same graph.
            AscendError: As on entry of a block.
        """
        if self._entry is _Entry.OPEN:
            raise LifecycleError(
                f"This {self.call} is open already.",
                hint=f"Continue with the {self.gives} that open() has returned, or close() it and "
                f"call {self.call} again.",
            )
        _refuse_second(self.call, self._key())
        given = self.__enter__()
        _opened.append((self._key(), self._use))
        return given

    def close(self) -> None:
        """Close what `open` has opened, and the system if nothing else uses it.

        A second call does nothing.

        Raises:
            LifecycleError: If this was not opened.
            ShutdownError: If something could not be closed.
        """
        self.__exit__(None, None, None)

    def _key(self) -> Any:
        """Return what only one that is opened with `open` may have at a time."""
        raise NotImplementedError

    def __enter__(self) -> _Given:
        if self._entry is not _Entry.NEW:
            state = "is entered already" if self._entry is _Entry.OPEN else "was used already"
            raise LifecycleError(
                f"This {self.call} {state}.",
                hint=f"Call {self.call} again for each with block, or each open().",
            )
        self._entry = _Entry.OVER  # until there is something to leave
        try:
            with deferring(is_opening=True):
                given = self._open()
                self._entry = _Entry.OPEN
        except BaseException:  # a signal, if the block is open: its body does not begin
            self.__exit__(*sys.exc_info())
            raise
        return given

    def __exit__(self, *failure: Any) -> None:
        if self._entry is _Entry.NEW and failure[0] is None:
            hint = f"with {self.call} as {self.gives}: or {self.gives} = {self.call}.open()"
            raise LifecycleError(f"This {self.call} was not entered.", hint=hint)
        if self._entry is not _Entry.OPEN or self._use.system.state is State.ABANDONED:
            return
        with deferring():
            self._entry = _Entry.OVER
            self._leave(failure)
        if self._use.graph is not None and failure[0] is None:
            use = self._use
            warn_of_unsupported(use.graph, use.parameters, os.environ, use.unsupported)
            warn_of_unused_loops(self._use.graph, self._use.parameters)
            warn_of_missed_variables(self._use.graph)

    def _leave(self, failure: Any) -> None:
        """Close what was opened in the block, the latest first, and leave."""
        use, body = self._use, failure[1]
        is_ending = isinstance(body, Terminated)
        if isinstance(body, Exception):
            explain(body)
        failed: Failed = []
        inside = use.system.sessions_inside(use)
        if body is not None and use.system.is_last(use):
            use.system.fail(body)
        if inside:
            misordered = LifecycleError(
                f"This {self.call} was left while {len(inside)} session(s) opened inside it "
                "were still open; they were closed first.",
                hint="Leave inner blocks before outer ones.",
            )
            failed.append(("closing in order", misordered))
        for inner in reversed(inside):
            failed += use.system.leave(inner, is_ending=is_ending)
        failed += use.system.leave(use, *failure, is_ending=is_ending)
        _raise_failures(body, failed)


_opened: List[Tuple[Any, Use]] = []  # with open(): what for, and the use


def _refuse_second(call: str, key: Any) -> None:
    """Raise LifecycleError if one for the same is open that was opened with ``open()``.

    The same cell of a notebook, run twice, would open a second session with variables of its own,
    and nobody could close the first any more.
    """
    _opened[:] = [(k, use) for k, use in _opened if use.system.is_open and use in use.system.uses]
    if any(other is key for other, _ in _opened):
        what = "" if key is None else " on the same graph"
        raise LifecycleError(
            f"An {call}{what} that was opened with open() is still open; was this cell run twice?",
            hint="Continue with it, or close it and run this again: its close(), or "
            "ascend_session.current_system().close() where its name is gone.",
        )


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

    def _key(self) -> None:
        return None  # there is one system

    def _open(self) -> AscendSystem:
        self._use = use_system(*self._arguments)
        return self._use.system


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
        self._to_use = (config, backend, session_config)
        self._to_open = (config, graph, device_id, session_config, as_default)
        self._system = system

    def _key(self) -> Any:
        return graph_or_default(self._to_open[1])

    def _open(self) -> "Session":
        system = self._system
        self._use = use_system(*self._to_use) if system is None else system.use()
        try:
            session: Session = self._use.open_session(*self._to_open)
        except BaseException as error:
            _raise_failures(error, self._use.system.leave(self._use))
            raise
        return session


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


def _raise_failures(body: Optional[BaseException], failed: Failed) -> None:
    """Raise what failed while closing; if the body has failed, attach it to that exception."""
    errors: List[BaseException] = []
    for what, error in failed:
        if isinstance(error, AscendError) or not isinstance(error, Exception):
            errors.append(error)
        else:
            errors.append(translate(error, action=what, into=ShutdownError))
            errors[-1].__cause__ = error
    first = join_errors(body, errors)
    if first is not None and first is not body:
        raise first
