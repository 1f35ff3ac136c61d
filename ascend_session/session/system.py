"""AscendSystem: the device as this process has opened it, and who uses it.

A process has one system at most. Each block is one of its uses, and the last one to end shuts it
down. Three verbs end what is open:

- ``leave``: a use ends. Its session is closed, and the system if no other use is left.
- ``close``: everything is closed in order: the sessions, the latest first, then the device, then
  the system session; then the signals are given back. Whoever comes second waits for the first.
- ``abandon``: everything is forgotten, and nothing is said to the device.

What happens, by the event and the `State` in which it finds the system:

=================  ========  =======  =======  =======  =========
event              opening   open     closing  closed   abandoned
=================  ========  =======  =======  =======  =========
a block begins     wait      share    wait     open     refuse
last block ends    close     leave    wait     nothing  nothing
close() or exit    nothing   close    wait     nothing  nothing
signal             close     leave    wait     default  default
second SIGTERM     abandon   abandon  abandon  default  default
fork, in a child   abandon   abandon  abandon  refuse   abandon
=================  ========  =======  =======  =======  =========

- A block that fails to open, or is interrupted, ends while the system is opening.
- Who waits goes on as the next state says; in the thread that opens or closes it is refused.
- A signal is an exception in the main thread, so that the blocks are left. It ends an
  initialisation and a wait for the device, but waits for all else that opens or closes
  (`ascend_session.session.signals`). A system that another thread has opened leaves signals to
  whoever has them. By default a signal does what it would do without this package.
- After a fork from a process whose system is closed there is nothing to abandon, but TensorFlow's
  threads are missing in the child: opening and running are refused.
"""

import enum
import functools
import logging
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Collection, Dict, List, Mapping, NamedTuple, Optional

from ascend_session import backends
from ascend_session.backends import outside
from ascend_session.backends._tensorflow import (
    FORK_HINT,
    destroy,
    disown,
    error_after_fork,
    graph_or_default,
)
from ascend_session.backends.base import Backend
from ascend_session.backends.tf_sessions import (
    add_observer,
    open_sessions,
    refuse_sessions,
    remove_observer,
)
from ascend_session.cluster import member
from ascend_session.cluster.job import Job
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import AscendError, LifecycleError
from ascend_session.failures.failure import RetryPolicy
from ascend_session.failures.reason import describe_error
from ascend_session.failures.scanner import translate
from ascend_session.process import on_close, on_fork
from ascend_session.rank_folder import RANK_FOLDER
from ascend_session.session.conditions import check_conditions, warn_of_unsupported
from ascend_session.session.options import Options, checked
from ascend_session.session.others import OtherSessions, close_before_device, reporting_wait
from ascend_session.session.signals import (
    Closer,
    Failed,
    SignalGuard,
    close_all,
    close_at_once,
    deferring,
    interruptible,
    log,
    log_failures,
)
from ascend_session.text import format_count

if TYPE_CHECKING:
    from ascend_session.session.api import SessionContext

_logger = logging.getLogger(__name__)

_POLL_S = 1.0  # in which a thread that waits for another one's system looks for SIGTERM
_ANSWER_S = 0.25  # for ranks that hear of a signal, before sessions are closed

_current: "Optional[AscendSystem]" = None  # from before it opens until it is closed
_lock = threading.RLock()  # of `_current` and its uses; garbage collection may leave a block
_changed = threading.Condition(_lock)  # a system has opened, or made way
_initialised_in: Optional[int] = None  # the process that was the first to start TensorFlow


@functools.lru_cache(maxsize=None)
def _warn_once(message: str) -> None:
    logging.getLogger("ascend_session").warning("%s", message)


class Event(NamedTuple):
    """One thing that a system did.

    Attributes:
        name: ``job`` (which scheduler says who this process is), ``wait for device``, ``probe``,
            ``initialize``, ``bring up``, ``session open``, ``session close``, ``shutdown``,
            ``signal`` or ``failure``.
        detail: What it was done to or with; may be empty.
        seconds: When, in seconds since the system began to open.
    """

    name: str
    detail: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:8.3f} s  {self.name}" + (f": {self.detail}" if self.detail else "")


class State(enum.Enum):
    """What a system is doing, in the word that messages have for it."""

    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    ABANDONED = "abandoned"


class Use:
    """A place among the uses of a system, and a session if the block opens one.

    Attributes:
        system: The system.
        thread: The thread that has entered the block.
        session: The open ``tf.Session``; None before and afterwards.
        graph: The graph of that session.
        parameters: The keys and values of its NpuOptimizer entry.
        unsupported: What was warned of when it opened (`warn_of_unsupported`).
    """

    session: Any = None
    graph: Any = None
    parameters: Mapping[str, Any] = {}
    unsupported: Collection[str] = ()

    def __init__(self, system: "AscendSystem") -> None:
        self.system = system
        self.thread = threading.get_ident()
        self._is_default = False
        self._closing = threading.RLock()  # nothing may be freed that is being closed
        system.uses.append(self)

    def open_session(
        self,
        config: Optional[AscendConfig],
        graph: Optional[Any],
        device_id: Optional[int],
        base: Optional[Any],
        as_default: bool,
    ) -> Any:
        """Open a session; if ``as_default``, it and its graph become this thread's defaults."""
        system = self.system
        system.check_usable()
        self.graph = graph_or_default(graph)
        proto, self.parameters = system._options.of_session(system.job, config, base, device_id)
        check_conditions(self.graph, self.parameters, os.environ, system.size)
        self.unsupported = warn_of_unsupported(self.graph, self.parameters, os.environ)
        try:
            with interruptible():
                system._backend.bring_up()  # it may have gone down with the last session
        except AscendError:
            raise
        except Exception as error:
            raise translate(error, action="initialize_system before a session") from error
        system._record("bring up")
        self.session = system._backend.session(self.graph, proto)
        if as_default:
            self.session.__enter__()
            self._is_default = True
        device = self.parameters.get("session_device_id", system.device_id)
        system._record("session open", f"device {device}")
        return self.session

    def close(self, *failure: Any) -> None:
        """Take the session from the defaults of its thread, close and free it, if it is open."""
        with self._closing:
            if self.session is None:
                return
            with reporting_wait(self.session):
                try:
                    if self._is_default and self.thread == threading.get_ident():
                        self.session.__exit__(*(failure or (None, None, None)))
                finally:
                    try:
                        destroy(self.session)
                    finally:
                        self.session = None
                        self.system._record("session close")

    def interrupt(self) -> None:
        """Close the session while a thread may be blocked in it; wait for that run to end."""
        with self._closing:
            if self.session is not None:
                self.session.close()


class AscendSystem:
    """The open device of this process; made by `ascend_system`, never directly.

    Attributes:
        backend: Name of the backend, ``npu`` or ``stub``.
        backend_reason: Why this backend runs, in a few words.
        choice: Both of them together.
        config: The configuration that the system was initialised with.
        events: What was done so far, in order (`Event`); also sent to the log at level DEBUG.
        pid: The process it belongs to.
        job: This process's place in its job, known from the moment when the system opens.
        rank: Number of this process in its job, from 0.
        size: Number of processes in the job.
        local_rank: Number of this process on its server, from 0.
        local_size: Number of processes of the job on this server.
        device_id: Logical id of its own device (``ASCEND_DEVICE_ID``, ``DEVICE_ID``, else 0).
        uses: Those that have not ended (`Use`), in the order of their beginning.
        others: The sessions that others have opened.
    """

    backend: str
    backend_reason: str
    choice: backends.Choice
    job: Job
    rank: int
    size: int
    local_rank: int
    local_size: int
    device_id: int
    _backend: Backend
    _options: Options

    def __init__(self, config: AscendConfig, base: Optional[Any]) -> None:
        self.config = config
        self._base = base
        self.events: List[Event] = []
        self._begin = time.monotonic()
        self.pid = os.getpid()
        self._is_launched = bool(os.environ.get(RANK_FOLDER))
        self.uses: List[Use] = []
        self._set_state(State.OPENING)
        self._failure: Optional[BaseException] = None  # which ends the last block
        self._closing = threading.RLock()  # garbage collection may leave a block meanwhile
        self.signals = SignalGuard(self._interrupt, _shut_down)
        self.others = OtherSessions()
        # What is open besides the sessions; `close` closes the latest first.
        self._opened: List[Closer] = []
        # What comes after all of them, in this order; empty once that has begun.
        self._last_closers: List[Closer] = [
            ("observing sessions", partial(remove_observer, self.others)),
            ("making way for another system", partial(_make_way, self)),
            ("giving the signals back", self.signals.remove),
        ]

    def __repr__(self) -> str:
        state = self.state.value
        if self.state is State.ABANDONED:
            state = f"of process {self.pid}, from which this one was forked"
        elif self.is_open:
            sessions = [use for use in self.uses if use.session is not None]
            state += f", rank {self.rank} of {self.size}, device {self.device_id}, "
            state += format_count(len(sessions), "session")
        return f"<AscendSystem on the {self.backend}: {state}>"

    @property
    def target(self) -> str:
        """The target that a session made by others needs, ``tf.Session(target)``."""
        return self._backend.target

    @property
    def capabilities(self) -> Dict[str, Any]:
        """What this backend does: ``{feature: True}``, or the reason why not."""
        return dict(self._backend.capabilities)

    @property
    def graph_backend(self) -> Backend:
        """The backend whose operators go into graphs that are built while this system is open."""
        return self._backend

    @property
    def parameters(self) -> Dict[str, Any]:
        """The keys and values of the NpuOptimizer entry that it was initialised with."""
        return dict(self._options.proto.parameters)

    @property
    def state(self) -> State:
        """Its `State`; in a forked process it is abandoned, whatever it was before."""
        return self._state if self.pid == os.getpid() else State.ABANDONED

    @property
    def is_open(self) -> bool:
        """Whether sessions can be opened on it."""
        return self.state is State.OPEN

    def session(
        self,
        graph: Optional[Any] = None,
        device_id: Optional[int] = None,
        session_config: Optional[Any] = None,
    ) -> "SessionContext":
        """Return a context manager that gives a ``tf.Session`` on this system.

        Args:
            graph: The ``tf.Graph`` to run; the default graph if None.
            device_id: Logical id of the device for this session (``session_device_id``).
            session_config: A ``tf.ConfigProto`` to build on; copied, never changed.

        Raises:
            LifecycleError: On a system that is closed, or in a forked process.
            ConfigError: If what is asked contradicts the system's configuration.
        """
        from ascend_session.session.api import SessionContext

        self.check_usable()
        return SessionContext(None, graph, device_id, session_config, self.backend, self)

    def session_config(self, cfg: Optional[AscendConfig] = None, base: Optional[Any] = None) -> Any:
        """Make a ``tf.ConfigProto`` for sessions made by others, as by MonitoredTrainingSession.

        Args:
            cfg: Options for that session; the system's own if None.
            base: A ``tf.ConfigProto`` to build on; copied, never changed.

        Raises:
            LifecycleError: On a system that is closed, or in a forked process.
            ConfigError: If ``cfg`` or ``base`` contradict how the system was initialised.
        """
        self.check_usable()
        proto = self._options.of_session(self.job, checked(cfg), base, None).proto
        return type(proto).FromString(proto.SerializeToString())

    def check_device(self, device_id: int) -> None:
        """Raise DeviceError if this process gets no device with this logical id."""
        self._backend.require(self.job, {**self.parameters, "session_device_id": device_id})

    def check_usable(self) -> None:
        """Raise LifecycleError unless sessions can be opened on this system."""
        if self.state is State.ABANDONED:
            raise LifecycleError(
                f"This Ascend system belongs to process {self.pid}; this is process "
                f"{os.getpid()}, forked from it.",
                hint=FORK_HINT,
            )
        if self.state is not State.OPEN:
            raise LifecycleError(
                f"This Ascend system is {self.state.value}; no session can be opened on it.",
                hint="Open sessions inside the block: with ascend_system(cfg) as system: ...",
            )

    def use(self) -> "Use":
        """Begin to use this system in a block, although another one may be open by now.

        Raises:
            LifecycleError: On a system that is closed, or in a forked process.
        """
        with _lock:
            self.check_usable()
            return Use(self)

    def check_shareable(self, config: Optional[AscendConfig], backend: str) -> None:
        """Refuse to share this system with a block that asks for another one.

        Raises:
            LifecycleError: While this thread opens or closes it, or for another backend.
            ConfigError: For init-scope options that it was not initialised with.
        """
        if self.state in (State.OPENING, State.CLOSING):
            raise LifecycleError(
                f"Thread {self._thread.name!r} is {self.state.value} the Ascend system of this "
                "process at this moment.",
                hint="Open one ascend_system(...) first, then start threads that open sessions.",
            )
        # "auto" means the open system, unless the environment names a backend.
        if backend != "auto" or os.environ.get(backends.BACKEND_VARIABLE):
            choice = backends.choose(backend, os.environ)
            if choice.name != self.backend:
                raise LifecycleError(
                    f"The {choice.name} backend was chosen ({choice.reason}), but the open system "
                    f"of this process uses the {self.backend}.",
                    hint="Use one backend for all systems that are open at the same time.",
                )
        if config is not None:
            self._options.check_shareable(config)

    def open(self, backend: str, wait_s: float, probe: Optional[RetryPolicy]) -> None:
        """Check what can be known beforehand, then initialise.

        Args:
            backend: ``auto``, ``npu`` or ``stub``.
            wait_s: How long to wait until no other process holds the device.
            probe: Initialise in another process first, as often as this says; not if None.

        Raises:
            AscendError: If something is in the way.
            InitializationError: If the initialisation itself fails.
        """
        self.choice = backends.choose(backend, os.environ)
        self.backend, self.backend_reason, is_automatic = self.choice
        self._backend = backends.create(self.choice, os.environ)
        self._opened.append(("closing the system session", self._backend.close))
        self._set_place(self._backend.find_job(os.environ))
        if self.job.superseded:
            self._unset_superseded()
        if self._is_launched:
            member.join(self.rank)
        self._options = Options(self.config, self._base, self._backend, self.job)
        if is_automatic and self.local_rank == 0:
            warning = self._backend.explain_automatic(self.backend_reason)
            if warning is not None:
                _warn_once(warning)
        if self.job.origin:
            self._record("job", self.job.origin)
        self.signals.watch(self._backend.interrupted_run_s)
        try:
            self._initialize(wait_s, probe)
            self._set_place(self._backend.confirm_job(self.job))
            outside.watch_sessions()
            add_observer(self.others)
            on_close("system", _close_at_exit)
            self._set_state(State.OPEN)
        except AscendError:
            raise
        except Exception as error:
            raise translate(error, action=f"initialize_system on the {self.backend}") from error

    def _initialize(self, wait_s: float, probe: Optional[RetryPolicy]) -> None:
        """Initialise the device; from then on there is something to shut down."""
        global _initialised_in
        proto, parameters = self._options.proto
        try:
            with interruptible():
                if wait_s:
                    self._backend.await_device(self.job, parameters, wait_s)
                    self._record("wait for device")
                if probe is not None:
                    self._backend.probe(self.job, proto, probe)
                    self._record("probe")
                _initialised_in = _initialised_in or os.getpid()
                self._backend.initialize(proto, parameters)
        except BaseException as error:
            self._record("failure", f"initialize: {error}")
            raise
        self._opened.append(("shutdown_system", self._shut_down_device))
        if self._is_launched:
            self._opened.insert(0, ("noting that all is closed", member.leave))
        self._options.remember()
        self._record("initialize", self.backend)

    def _unset_superseded(self) -> None:
        """Unset what a launcher has set for the script that started this rank, and is wrong here.

        The adapter reads these variables, too. Those that are right stay for the program.
        """
        right = {
            "RANK_ID": self.rank,
            "LOCAL_RANK": self.local_rank,
            "DEVICE_ID": self.device_id,
            "ASCEND_DEVICE_ID": self.device_id,
        }
        for name in self.job.superseded:
            if os.environ[name] != str(right.get(name)):
                os.environ.pop(name, None)

    def _set_place(self, job: Job) -> None:
        self.job = job
        self.rank, self.size, self.local_rank, self.local_size, self.device_id = job[:5]

    def _set_state(self, state: State) -> None:
        """Note the state, and which thread is opening or closing."""
        with _lock:
            self._state, self._thread = state, threading.current_thread()
            _changed.notify_all()

    def is_worth_waiting_for(self) -> bool:
        """Tell whether another thread opens or closes it, and this one may go on afterwards."""
        is_changing = self.state in (State.OPENING, State.CLOSING)
        is_others = self._thread is not threading.current_thread()
        return is_changing and is_others and not self.signals.is_terminating

    def _record(self, name: str, detail: str = "") -> None:
        """Add an event that has just happened."""
        event = Event(name, detail, time.monotonic() - self._begin)
        self.events.append(event)
        if _logger.isEnabledFor(logging.DEBUG):
            log(_logger.debug, "%s", event)

    def fail(self, error: BaseException) -> None:
        """Tell the other ranks that the last block of this process has failed.

        A program that exits with 0 has not, nor has a generator that nobody reads any more.
        """
        has_exited = isinstance(error, SystemExit) and not error.code
        if not (has_exited or isinstance(error, GeneratorExit)):
            self._failure = error
            member.fail(error)
            self._backend.interrupt(describe_error(error), error)

    def sessions_inside(self, use: Use) -> List[Use]:
        """List the open sessions of this thread that were opened after ``use``, in that order."""
        with _lock:
            later = self.uses[self.uses.index(use) + 1 :] if use in self.uses else []
        me = threading.get_ident()
        return [each for each in later if each.session is not None and each.thread == me]

    def is_last(self, use: Use) -> bool:
        """Tell whether the system is open and used by ``use`` alone, with what is inside it."""
        with _lock:
            is_alone = len(self.uses) == 1 + len(self.sessions_inside(use))
            return use in self.uses and is_alone and self.is_open

    def leave(self, use: Use, *failure: Any, is_ending: bool = False) -> Failed:
        """End a use: close its session and, after the last use, the system.

        Args:
            use: The use.
            failure: Type, value and traceback of the exception that ends the block, or nothing.
            is_ending: Whether the process ends, so that the last block of this thread shuts the
                system down although other threads still use it.

        Returns:
            ``(what, exception)`` for each thing that failed; empty if nothing did.
        """
        failed = close_all([("closing a session", partial(use.close, *failure))])
        with _lock:
            if use in self.uses:
                self.uses.remove(use)
            me = threading.get_ident()
            if any(not is_ending or each.thread == me for each in self.uses):
                return failed
            if self._state is State.OPEN:
                self._set_state(State.CLOSING)  # no other block shares it from now on
        return failed + self.close()

    def close(self) -> Failed:
        """Close all sessions, shut the device down, give the signals back.

        A second call does nothing, but waits for a first one that is still at it. While another
        thread opens the system this does nothing: that thread closes what it opens.

        Returns:
            What failed, each with its exception.
        """
        with deferring() as failures, self._closing:
            is_opener = self._thread is threading.current_thread()
            if self._last_closers and (self.state is not State.OPENING or is_opener):
                failures += self._close_opened()
        return failures

    def _close_opened(self) -> Failed:
        """Close everything, the latest first."""
        opened, self._opened = self._opened, []
        last, self._last_closers = self._last_closers, []
        if self._state is State.OPEN:
            self._set_state(State.CLOSING)
        self.signals.begin_unwinding()
        with _lock:
            uses = list(self.uses)
        others = self.others.list_alive([use.session for use in uses])
        if self._failure is None:
            self.others.warn_of(others)
        self._failure = None
        opened += [("closing a session", use.close) for use in uses]
        opened += [("closing a session", partial(self._close_other, each)) for each in others]
        failed = close_all(opened[::-1])
        try:
            for what, error in failed:
                self._record("failure", f"{what}: {error}")
        finally:
            failed += close_all(last)
        return failed

    def _close_other(self, session: Any) -> None:
        close_before_device(session, self._backend.holds_npus)

    def _shut_down_device(self) -> None:
        try:
            self._backend.shutdown()
        finally:
            self._record("shutdown")

    def _interrupt(self, signal_name: str) -> None:
        """Close the sessions, and wait for the runs in them; the blocks do the rest afterwards."""
        self._record("signal", signal_name)
        # The ranks hear the reason first, if they answer.
        reason = f"{signal_name} stopped it."
        closers: List[Closer] = [("the ranks", partial(self._backend.interrupt, reason))]
        uses = list(self.uses)
        closers += [("a session", use.interrupt) for use in uses]
        others = self.others.list_blocking([use.session for use in uses])
        closers += [("a session", session.close) for session in others]
        close_at_once(closers, head_start_s=_ANSWER_S)
        if self.state is State.OPENING:
            self._backend.close()

    def abandon(self) -> None:
        """Have a forked process leave alone what belongs to its parent."""
        self._opened, self._last_closers = [], []
        remove_observer(self.others)
        self._closing = threading.RLock()  # another thread may have held the other one
        for use in self.uses:
            if use.session is not None:
                disown(use.session)
        if hasattr(self, "_backend"):  # a thread may have been at the first steps of opening
            self._backend.abandon()


def has_opened_system() -> bool:
    """Return True if this process has opened a system, which may be closed by now."""
    return _initialised_in == os.getpid()


def current_system() -> Optional[AscendSystem]:
    """Return the `AscendSystem` of this process that is open or just closes, or None."""
    system = _current
    if system is None or system.state in (State.OPENING, State.ABANDONED):
        return None
    return system


def use_system(
    config: Optional[AscendConfig],
    backend: str,
    base: Optional[Any] = None,
    wait_s: float = 0,
    probe: Optional[RetryPolicy] = None,
) -> Use:
    """Share the open system of this process if it is what the arguments ask for, or open one.

    To be called within `deferring`. While another thread opens or closes the system, wait until it
    has done so.

    Raises:
        LifecycleError: While this thread opens or closes it, after a fork, or if the open system
            uses another backend.
    """
    global _current
    refuse_after_fork()
    with _lock:
        while _current is not None and _current.is_worth_waiting_for():
            with interruptible():
                _changed.wait(_POLL_S)
        if _current is not None:
            _current.check_shareable(config, backend)
            return Use(_current)
        if config is None:
            config = outside.overlay_config(AscendConfig())
        system = AscendSystem(config, base)
        system.signals.install()  # first: from here on no signal leaves the system opening
        _current = system
        use = Use(system)
    try:
        system.open(backend, wait_s, probe)
    except BaseException:
        log_failures(system.close())
        raise
    return use


def refuse_after_fork() -> None:
    """Raise LifecycleError in a process that was forked from one that has had a system.

    Where the parent was opening it, nothing is imported either: a module that a thread of the
    parent was importing stays locked for ever.
    """
    if _current is not None and _current.state is State.ABANDONED:
        raise LifecycleError(
            f"This process was forked from process {_current.pid} while that process had "
            "an Ascend system open; neither TensorFlow nor the device survives a fork.",
            hint=FORK_HINT,
        )
    if _initialised_in is not None and _initialised_in != os.getpid():
        raise error_after_fork(_initialised_in)


def interrupt(signal_name: str) -> None:
    """Close the sessions of this process so that runs end, whoever has opened them."""
    system = _current
    if system is not None and system.state is not State.ABANDONED:
        system._interrupt(signal_name)
    else:
        close_at_once([("a session", session.close) for session in open_sessions()])


def _make_way(system: AscendSystem) -> None:
    """Make way for another system; this one is closed now."""
    global _current
    with _lock:
        system._set_state(State.CLOSED)
        if _current is system:
            _current = None


def _shut_down() -> None:
    """Close what is open where nobody is left to catch what fails."""
    system = current_system()
    if system is not None:
        system.others.warns = False
        log_failures(system.close())


def _close_at_exit() -> None:
    if current_system() is not None:
        log(_logger.warning, "An Ascend system was left open; it is shut down at exit.")
        _shut_down()


def _abandon() -> None:
    """Have a forked process touch nothing of what its parent has open, nor at its exit."""
    global _lock, _changed
    _lock = threading.RLock()  # of threads that are not here
    _changed = threading.Condition(_lock)
    if _initialised_in is not None:
        refuse_sessions(_initialised_in)
    if _current is not None:
        _current.abandon()


on_fork(_abandon)
