"""AscendSystem: the device as this process has opened it, and who uses it.

A process has one system at most. Each block is one of its uses, and the last one to end shuts it
down.
"""

import functools
import logging
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session import backends
from ascend_session.backends._tensorflow import (
    destroy,
    disown,
    error_after_fork,
    graph_or_default,
    refuse_sessions,
)
from ascend_session.backends.base import Backend
from ascend_session.cluster import member
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import RANK_FOLDER, uses_collectives
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.entry import FileStore, adapter_part, flatten
from ascend_session.config.hccl_variables import check_hccl_variables
from ascend_session.config.proto import SessionProto, add_to_entry, build_proto
from ascend_session.config.rules import validate, validate_opening
from ascend_session.errors import AscendError, LifecycleError, warn
from ascend_session.failures.failure import RetryPolicy
from ascend_session.failures.graph_error import describe_error
from ascend_session.failures.scanner import translate
from ascend_session.process import on_close, on_fork
from ascend_session.session.conditions import (
    Leftovers,
    check_conditions,
    check_init_options,
    checked,
    init_options,
    on_device,
)
from ascend_session.session.signals import SignalGuard, log
from ascend_session.text import format_count

if TYPE_CHECKING:
    from ascend_session.session.api import SessionContext

_logger = logging.getLogger(__name__)

_POLL_S = 1.0  # in which a thread that waits for another one's system looks for SIGTERM
_ANSWER_S = 0.25  # for ranks that hear of a signal, before sessions are closed

Closer = Tuple[str, Callable[[], object]]
"""What is closed, as the subject of a sentence, and how."""

Failed = List[Tuple[str, BaseException]]
"""What failed while closing, each with its exception."""

LEFTOVERS = Leftovers()
"""What earlier systems of this process left behind in the adapter."""

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


def close_all(closers: List[Closer]) -> Failed:
    """Run every closer, whatever the others do; return what failed, with its exception."""
    failed: Failed = []
    for what, closer in closers:
        try:
            closer()
        except BaseException as error:  # an interrupt must not keep the device from closing
            failed.append((what, error))
    return failed


def close_at_once(closers: List[Closer], head_start_s: float = 0) -> None:
    """Run every closer in a thread of its own, and wait for all; the others wait for the first.

    For a signal: closing a session waits for its run, which may not react, and must not keep the
    others from being closed. What fails here fails again when the blocks are left.
    """
    threads: List[threading.Thread] = []
    for closer in closers:
        thread = threading.Thread(target=close_all, args=([closer],), daemon=True)
        thread.start()
        if not threads:
            thread.join(head_start_s)
        threads.append(thread)
    for thread in threads:
        thread.join()


def log_failures(failed: Failed) -> None:
    """Log what failed while closing, where nobody is left to catch it."""
    for what, error in failed:
        log(_logger.error, "%s failed: %s", what, error, exc_info=error)


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
    _files: FileStore
    _proto: SessionProto

    def __init__(self, config: AscendConfig, base: Optional[Any]) -> None:
        self.config = config
        self._base = base
        self.events: List[Event] = []
        self._begin = time.monotonic()
        self.pid = os.getpid()
        self._is_launched = bool(os.environ.get(RANK_FOLDER))
        self.uses: List[Use] = []
        self._set_state("opening")
        self._failure: Optional[BaseException] = None  # which ends the last block
        self._is_up = False  # from the initialisation until the shutdown begins
        self._closing = threading.RLock()  # garbage collection may leave a block meanwhile
        self.signals = SignalGuard(self._interrupt, lambda: log_failures(self.close()))

    def __repr__(self) -> str:
        state = self._state
        if self.pid != os.getpid():
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
        return dict(self._proto.parameters)

    @property
    def is_open(self) -> bool:
        """Whether sessions can be opened on it."""
        return self._state == "open" and self.pid == os.getpid()

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
        proto = self._session_proto(checked(cfg), base, None).proto
        return type(proto).FromString(proto.SerializeToString())

    def check_device(self, device_id: int) -> None:
        """Raise DeviceError if this process gets no device with this logical id."""
        self._backend.require(self.job, {**self.parameters, "session_device_id": device_id})

    def check_usable(self) -> None:
        """Raise LifecycleError unless sessions can be opened on this system."""
        if self.pid != os.getpid():
            raise LifecycleError(
                f"This Ascend system belongs to process {self.pid}; this is process "
                f"{os.getpid()}, forked from it.",
                hint="Start workers as fresh processes (subprocess, or multiprocessing's 'spawn').",
            )
        if self._state != "open":
            raise LifecycleError(
                f"This Ascend system is {self._state}; no session can be opened on it.",
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
        if self._state in ("opening", "closing"):
            raise LifecycleError(
                f"Thread {self._thread.name!r} is {self._state} the Ascend system of this process "
                "at this moment.",
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
        if config is not None and config is not self.config:
            check_init_options(self._proto.parameters, adapter_part(config, self._files))

    def open(self, backend: str, wait_s: float, probe: Optional[RetryPolicy]) -> None:
        """Check what can be known beforehand, then initialise.

        Args:
            backend: ``auto``, ``npu`` or ``stub``.
            wait_s: How long to wait until no other process holds the device.
            probe: Initialise in another process first, as often as this says; not if None.

        Raises:
            AscendError: If something is in the way; nothing is open afterwards.
            InitializationError: If the initialisation itself fails.
        """
        self.choice = backends.choose(backend, os.environ)
        self.backend, self.backend_reason, is_automatic = self.choice
        self._backend = backends.create(self.choice, os.environ)
        self._check_beforehand()
        if is_automatic and self.local_rank == 0:
            warning = self._backend.explain_automatic(self.backend_reason)
            if warning is not None:
                _warn_once(warning)
        if self.job.origin:
            self._record("job", self.job.origin)
        self.signals.install(self._backend.interrupted_run_s)
        try:
            proto, parameters = self._proto
            if wait_s:
                self._backend.await_device(self.job, parameters, wait_s)
                self._record("wait for device")
            if probe is not None:
                self._backend.probe(self.job, proto, probe)
                self._record("probe")
            _note_initialising()
            self._backend.initialize(proto, parameters)
            self._is_up = True
            self._record("initialize", self.backend)
            self._set_place(self._backend.confirm_job(self.job))
            on_close("system", _close_at_exit)
            self._set_state("open")
        except BaseException as error:
            if self._is_up:
                log_failures(self.close())
            else:
                log_failures(self._close())
                self._record("failure", f"initialize: {error}")
            cause = self.signals.cause_of(error) or error
            if cause is not error:
                raise cause from error
            if isinstance(error, AscendError) or not isinstance(error, Exception):
                raise
            raise translate(error, action=f"initialize_system on the {self.backend}") from error

    def _check_beforehand(self) -> None:
        """Check job, options, host and leftovers. Nothing is started."""
        self._set_place(self._backend.find_job(os.environ))
        if self.job.superseded:
            self._unset_superseded()
        if self._is_launched:
            member.join(self.rank)
        # A file that nobody reads is not written; what would be in it is checked all the same.
        self._files = FileStore(os.environ, writes=self._backend.reads_option_files)
        self._proto = build_proto(self.config, self._base, self._files)
        parameters = self._proto.parameters
        self._validate_opening({**parameters, **flatten(self.config)})
        if not self._uses_hccl():
            for finding in check_hccl_variables(os.environ, is_used=False):
                log(_logger.info, "%s", finding)
        LEFTOVERS.check(parameters)
        self._check_backend(parameters)

    def _unset_superseded(self) -> None:
        """Unset what a launcher has set for the script that started this rank, and is wrong here.

        The adapter reads these variables, too. Those that are right stay: the script may have set
        the same, as for its rank 0, and the program may read them.
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

    def _set_state(self, state: str) -> None:
        """Note the state, and which thread is opening or closing."""
        with _lock:
            self._state, self._thread = state, threading.current_thread()
            _changed.notify_all()

    def is_worth_waiting_for(self) -> bool:
        """Tell whether another thread opens or closes it, and this one may go on afterwards."""
        is_changing = self._state in ("opening", "closing")
        is_others = self._thread is not threading.current_thread()
        return is_changing and is_others and not self.signals.is_terminating

    def _record(self, name: str, detail: str = "") -> None:
        """Add an event that has just happened."""
        event = Event(name, detail, time.monotonic() - self._begin)
        self.events.append(event)
        if _logger.isEnabledFor(logging.DEBUG):
            log(_logger.debug, "%s", event)

    def _session_proto(
        self, config: Optional[AscendConfig], base: Optional[Any], device_id: Optional[int]
    ) -> SessionProto:
        """Make what a session opens with: its own options, and the system's init-scope options.

        Raises:
            AscendError: If something is given twice and differs, contradicts the system, or is
                refused as the system's own options would be.
        """
        if config is None:
            config = self.config
        if device_id is not None:
            config = on_device(config, device_id)
        if config is self.config and base is self._base:
            return self._proto
        proto, own = build_proto(config, base, self._files)
        check_init_options(self._proto.parameters, own)
        # Whichever session starts the device decides on these, and the device goes down with the
        # last session of the process, so every session has to carry them.
        fixed = init_options(self._proto.parameters)
        missing = {key: value for key, value in fixed.items() if key not in own}
        parameters = {**own, **missing}
        if missing:
            validate(parameters, own, self._proto.parameters)
            add_to_entry(proto, missing)
        self._validate_opening(self._files.restored(parameters))
        self._check_backend(parameters)
        return SessionProto(proto, parameters)

    def _uses_hccl(self) -> bool:
        """Tell whether HCCL reads its variables: on a device, in a job of several ranks."""
        return self._backend.needs_rank_table and uses_collectives(os.environ)

    def _validate_opening(self, values: Dict[str, Any]) -> None:
        validate_opening(values, os.environ, with_hccl=self._uses_hccl())

    def _check_backend(self, parameters: Dict[str, Any]) -> None:
        """Refuse what the backend cannot do; warn of what is not as it seems on it."""
        self._backend.require(self.job, parameters)
        for remark in self._backend.remarks(parameters):
            warn(remark)

    def fail(self, error: BaseException) -> None:
        """Tell the other ranks that the last block of this process has failed.

        A program that exits with 0 has not, nor has a generator that nobody reads any more.
        """
        has_exited = isinstance(error, SystemExit) and not error.code
        if not (has_exited or isinstance(error, GeneratorExit)):
            self._failure = error
            member.fail(error)
            self._backend.interrupt(describe_error(error), error)

    def close(self) -> Failed:
        """Close all sessions, shut the device down, give the signals back.

        A second call does nothing, but waits for a first one that is still at it: a process whose
        main thread leaves the last block while a signal shuts the system down ends after that.

        Returns:
            What failed, each with its exception.
        """
        with self._closing:
            if not self._is_up:
                return []
            self._is_up = False
            self._begin_closing()
            sessions: List[Closer] = [("closing a session", use.close) for use in self.uses]
            if self._failure is not None and self._backend.holds_npus:
                failed_calls = partial(self._backend.destroy_failed, self._failure)
                sessions.insert(0, ("closing the sessions of failed calls", failed_calls))
            self._failure = None
            try:
                failed = self._close(*sessions[::-1], ("shutdown_system", self._shut_down_device))
                if self._is_launched:
                    member.leave()
                LEFTOVERS.remember(self._proto.parameters)
                for what, error in failed:
                    self._record("failure", f"{what}: {error}")
                return failed
            finally:
                _forget(self)

    def _begin_closing(self) -> None:
        """Have no other block share this system from now on."""
        with _lock:
            if self._state == "open":
                self._set_state("closing")

    def _close(self, *closers: Closer) -> Failed:
        """Run these closers, and those of what is there before the device is up."""
        self.signals.begin_unwinding()
        return close_all(
            [
                *closers,
                ("closing the keeper session", self._backend.close),
                ("giving the signals back", self.signals.remove),
            ]
        )

    def _shut_down_device(self) -> None:
        try:
            self._backend.shutdown()
        finally:
            self._record("shutdown")

    def _interrupt(self, signal_name: str) -> None:
        """Close the sessions, and wait for the runs in them; the blocks do the rest afterwards."""
        self._record("signal", signal_name)
        # The ranks hear the reason first, if they answer.
        reason = f"{signal_name} has ended it."
        closers: List[Closer] = [("the ranks", partial(self._backend.interrupt, reason))]
        closers += [("a session", use.interrupt) for use in list(self.uses)]
        close_at_once(closers, head_start_s=_ANSWER_S)
        if self._state == "opening" and not self._is_up:
            self._backend.close()

    def forget_in_child(self) -> None:
        """Have a forked process leave alone what belongs to this one."""
        for use in self.uses:
            if use.session is not None:
                disown(use.session)
        if hasattr(self, "_backend"):  # a thread may have been at the first steps of opening
            self._backend.forget_in_child()


class Use:
    """What one block has of a system: a place among its uses, and a session if it opens one.

    Attributes:
        system: The system.
        thread: The thread that has entered the block.
        session: The open ``tf.Session``; None before and afterwards.
        graph: The graph of that session.
        parameters: The keys and values of its NpuOptimizer entry.
    """

    session: Any = None
    graph: Any = None
    parameters: Mapping[str, Any] = {}

    def __init__(self, system: AscendSystem) -> None:
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
        proto, self.parameters = system._session_proto(config, base, device_id)
        check_conditions(self.graph, self.parameters, os.environ, system.size)
        try:
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

    def sessions_inside(self) -> "List[Use]":
        """List the open sessions of this thread that were opened later, in that order."""
        uses = self.system.uses
        with _lock:
            later = uses[uses.index(self) + 1 :] if self in uses else []
        me = threading.get_ident()
        return [use for use in later if use.session is not None and use.thread == me]

    def is_last(self) -> bool:
        """Tell whether the system is open and used by this block alone, with what is inside it."""
        with _lock:
            uses = self.system.uses
            is_alone = self in uses and len(uses) == 1 + len(self.sessions_inside())
            return is_alone and self.system.is_open

    def leave(self, *failure: Any, is_ending: bool = False) -> Failed:
        """Close the session, and the system if this was its last use; then wait until it is closed.

        Args:
            failure: Type, value and traceback of the exception that ends the block, or nothing.
            is_ending: Whether the process ends, so that the last block of this thread shuts the
                system down although other threads still use it.

        Returns:
            What failed, each with its exception.
        """
        failed = close_all([("closing a session", partial(self.close, *failure))])
        system = self.system
        with _lock:
            if self in system.uses:
                system.uses.remove(self)
            me = threading.get_ident()
            if any(not is_ending or use.thread == me for use in system.uses):
                return failed
            system._begin_closing()
        return failed + system.close()

    def close(self, *failure: Any) -> None:
        """Take the session from the defaults of its thread, close and free it, if it is open."""
        with self._closing:
            if self.session is None:
                return
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


def current_system() -> Optional[AscendSystem]:
    """Return the open `AscendSystem` of this process, or None."""
    system = _current
    if system is None or system.pid != os.getpid() or system._state == "opening":
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

    While another thread opens or closes the system, wait until it has done so.

    Raises:
        LifecycleError: While this thread opens or closes it, after a fork, or if the open system
            uses another backend.
    """
    global _current
    refuse_after_fork()
    with _lock:
        while _current is not None and _current.is_worth_waiting_for():
            _changed.wait(_POLL_S)
        if _current is not None:
            _current.check_shareable(config, backend)
            return Use(_current)
        system = _current = AscendSystem(AscendConfig() if config is None else config, base)
        use = Use(system)
    try:
        system.open(backend, wait_s, probe)
        return use
    except BaseException:  # an interrupt may arrive after the last line of open()
        log_failures(system.close())
        _forget(system)
        raise


def refuse_after_fork() -> None:
    """Raise LifecycleError in a process that was forked from one that has had a system.

    Where the parent was opening it, nothing is imported either: a module that a thread of the
    parent was importing stays locked for ever.
    """
    if _current is not None and _current.pid != os.getpid():
        raise LifecycleError(
            f"This process was forked from process {_current.pid} while that process had "
            "an Ascend system open; neither TensorFlow nor the device survives a fork.",
            hint="Start workers as fresh processes (subprocess, or multiprocessing's 'spawn').",
        )
    if _initialised_in is not None and _initialised_in != os.getpid():
        raise error_after_fork(_initialised_in)


def _note_initialising() -> None:
    global _initialised_in
    if _initialised_in is None:
        _initialised_in = os.getpid()


def _forget(system: AscendSystem) -> None:
    """Make way for another system, if that was not done before; this one is closed now."""
    global _current
    with _lock:
        system._set_state("closed")
        if _current is system:
            _current = None
            _changed.notify_all()


def _close_at_exit() -> None:
    system = current_system()
    if system is not None:
        log(_logger.warning, "An Ascend system was left open; it is shut down at exit.")
        log_failures(system.close())


def _forget_in_child() -> None:
    """Have a forked process touch nothing of what its parent has open, nor at its exit."""
    global _lock, _changed
    _lock = threading.RLock()  # of threads that are not here
    _changed = threading.Condition(_lock)
    if _initialised_in is not None:
        refuse_sessions(_initialised_in)
    if _current is not None:
        _current.forget_in_child()


on_fork(_forget_in_child)
