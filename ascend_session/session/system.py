"""AscendSystem: the device as this process has opened it, and the sessions on it."""

import functools
import logging
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.backends import Choice, create
from ascend_session.backends._tensorflow import destroy, disown, graph_or_default
from ascend_session.backends.base import Backend
from ascend_session.cluster import member
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import RANK_FOLDER
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.entry import FileStore, adapter_part, flatten
from ascend_session.config.proto import SessionProto
from ascend_session.config.rules import validate_opening
from ascend_session.errors import AscendError, LifecycleError, warn, with_short_traceback
from ascend_session.failures import RetryPolicy, translate
from ascend_session.session.conditions import (
    Leftovers,
    Protos,
    check_conditions,
    check_init_options,
    checked,
)
from ascend_session.session.signals import SignalGuard
from ascend_session.text import format_count

if TYPE_CHECKING:
    from ascend_session.session.api import SessionContext

_logger = logging.getLogger(__name__)

_ANSWER_S = 0.25  # for ranks that hear of a signal, before sessions are closed

Closer = Tuple[str, Callable[[], object]]
"""What is closed, as the subject of a sentence, and how."""

Failed = List[Tuple[str, BaseException]]
"""What failed while closing, each with its exception."""

LEFTOVERS = Leftovers()
"""What earlier systems of this process left behind in the adapter."""


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


class EventLog(List[Event]):
    """The events of one system; also sent to the log at level DEBUG."""

    def __init__(self) -> None:
        super().__init__()
        self._start = time.monotonic()

    def record(self, name: str, detail: str = "") -> None:
        """Add an event that has just happened."""
        event = Event(name, detail, time.monotonic() - self._start)
        self.append(event)
        _logger.debug("%s", event)


class OpenSession:
    """A ``tf.Session``, with the thread that has opened it.

    Args:
        session: The session; closed if it cannot be made the default.
        parameters: The keys and values of its NpuOptimizer entry.
        as_default: Whether it and its graph become the defaults of the current thread.

    Attributes:
        closing: Held by whoever closes it.
    """

    def __init__(self, session: Any, parameters: Mapping[str, Any], as_default: bool) -> None:
        self.session = session
        self.graph = session.graph
        self.parameters = parameters
        self.thread = threading.get_ident()
        self._is_default = as_default
        self.closing = threading.RLock()  # nothing may be freed that is being closed
        if not as_default:
            return
        try:
            session.__enter__()
        except BaseException:
            session.close()
            raise

    def close(self, *failure: Any) -> None:
        """Take the session from the defaults of its thread, close and free it.

        Args:
            failure: Type, value and traceback of the exception that ends the block, or nothing.
        """
        try:
            if self._is_default and self.thread == threading.get_ident():
                self.session.__exit__(*(failure or (None, None, None)))
        finally:
            destroy(self.session)

    def interrupt(self) -> None:
        """Close the session while a thread may be blocked in it; wait for that run to end."""
        with self.closing:
            self.session.close()


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
        _logger.error("%s failed: %s", what, error, exc_info=error)


class AscendSystem:
    """The open device of this process; made by `ascend_system`, never directly.

    Attributes:
        backend: Name of the backend, ``npu`` or ``stub``.
        backend_reason: Why this backend runs, in a few words.
        choice: Both of them together.
        config: The configuration that the system was initialised with.
        events: What was done so far, in order (`Event`).
        pid: The process it belongs to.
        job: This process's place in its job, known from the moment when the system opens.
        rank: Number of this process in its job, from 0.
        size: Number of processes in the job.
        local_rank: Number of this process on its server, from 0.
        local_size: Number of processes of the job on this server.
        device_id: Logical id of its own device (``ASCEND_DEVICE_ID``, ``DEVICE_ID``, else 0).
    """

    job: Job
    rank: int
    size: int
    local_rank: int
    local_size: int
    device_id: int

    def __init__(self, config: AscendConfig, base: Optional[Any], choice: Choice) -> None:
        self.config = config
        self._base = base
        self.backend = choice.name
        self.backend_reason = choice.reason
        self.events = EventLog()
        self.pid = os.getpid()
        self.choice = choice
        self._is_launched = bool(os.environ.get(RANK_FOLDER))
        self._backend = create(choice, os.environ)
        self._sessions: List[OpenSession] = []
        self._state = "new"
        self._closing = threading.RLock()  # garbage collection may leave a block meanwhile
        self.signals = SignalGuard(self._interrupt, lambda: log_failures(self.close()))

    def __repr__(self) -> str:
        state = self._state
        if self.pid != os.getpid():
            state = f"of process {self.pid}, from which this one was forked"
        elif self.is_open:
            state += f", rank {self.rank} of {self.size}, device {self.device_id}, "
            state += format_count(len(self._sessions), "session")
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
        return dict(self._protos.of_system.parameters)

    @property
    def is_open(self) -> bool:
        """Whether sessions can be opened on it."""
        return self._state == "open" and self.pid == os.getpid()

    def check_init_options(self, config: AscendConfig) -> None:
        """Raise ConfigError if this system cannot take on init-scope options of ``config``."""
        check_init_options(self.parameters, adapter_part(config, self._protos.files))

    @with_short_traceback
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

    @with_short_traceback
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

    def open_session(
        self,
        config: Optional[AscendConfig],
        graph: Optional[Any],
        device_id: Optional[int],
        base: Optional[Any],
        as_default: bool = True,
    ) -> OpenSession:
        """Open a session; if ``as_default``, it and its graph become this thread's defaults."""
        self.check_usable()
        graph = graph_or_default(graph)
        proto, parameters = self._session_proto(config, base, device_id)
        check_conditions(graph, parameters, os.environ, self.size)
        try:
            self._backend.bring_up()  # the device may have gone down with the last session
        except Exception as error:
            raise translate(error, action="initialize_system before a session") from error
        self.events.record("bring up")
        session = self._backend.session(graph, proto)
        opened = OpenSession(session, parameters, as_default)
        self._sessions.append(opened)
        device = parameters.get("session_device_id", self.device_id)
        self.events.record("session open", f"device {device}")
        return opened

    def _session_proto(
        self, config: Optional[AscendConfig], base: Optional[Any], device_id: Optional[int]
    ) -> SessionProto:
        """Make what a session opens with, checked as the system's own options were."""
        session_proto = self._protos.for_session(config, base, device_id)
        if session_proto is not self._protos.of_system:
            validate_opening(self._protos.files.restored(session_proto.parameters), os.environ)
            self._check_backend(session_proto.parameters)
        return session_proto

    def _check_backend(self, parameters: Dict[str, Any]) -> None:
        """Refuse what the backend cannot do; warn of what is not as it seems on it."""
        self._backend.require(self.job, parameters)
        for remark in self._backend.remarks(parameters):
            warn(remark)

    def close_session(self, opened: OpenSession, *failure: Any) -> bool:
        """Close ``opened``; False if a closing system or an outer block has done that before."""
        with opened.closing:
            if opened not in self._sessions:
                return False
            try:
                opened.close(*failure)
            finally:
                self._sessions.remove(opened)
                self.events.record("session close")
        return True

    def sessions_here(self) -> List[OpenSession]:
        """List the open sessions of this thread, in the order of opening."""
        return [opened for opened in self._sessions if opened.thread == threading.get_ident()]

    def open(self, wait_s: float = 0, probe: Optional[RetryPolicy] = None) -> None:
        """Check what can be known beforehand, then initialise.

        Args:
            wait_s: How long to wait until no other process holds the device.
            probe: Initialise in another process first, as often as this says; not if None.

        Raises:
            AscendError: If something is in the way; nothing is open afterwards.
            InitializationError: If the initialisation itself fails.
        """
        self._check_beforehand()
        if self.choice.automatic and self.local_rank == 0:
            warning = self._backend.explain_automatic(self.choice.reason)
            if warning is not None:
                _warn_once(warning)
        if self.job.origin:
            self.events.record("job", self.job.origin)
        self.signals.install(self._backend.interrupted_run_s)
        try:
            proto, parameters = self._protos.of_system
            if wait_s:
                self._backend.await_device(self.job, parameters, wait_s)
                self.events.record("wait for device")
            if probe is not None:
                self._backend.probe(self.job, proto, probe)
                self.events.record("probe")
            self._backend.initialize(proto, parameters)
            self._state = "open"
            self.events.record("initialize", self.backend)
            self._set_place(self._backend.confirm_job(self.job))
        except BaseException as error:
            self._abandon(error)

    def _check_beforehand(self) -> None:
        """Check job, options, host and leftovers. Nothing is started."""
        self._set_place(self._backend.find_job(os.environ))
        if self.job.superseded:
            self._unset_superseded()
        if self._is_launched:
            member.join(self.rank)
        # A file that nobody reads is not written; what would be in it is checked all the same.
        files = FileStore(os.environ, writes=self._backend.reads_option_files)
        self._protos = Protos(self.config, self._base, files)
        parameters = self._protos.of_system.parameters
        validate_opening({**parameters, **flatten(self.config)}, os.environ)
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
        self.rank, self.size, self.device_id = job.rank, job.size, job.device_id
        self.local_rank, self.local_size = job.local_rank, job.local_size

    def _abandon(self, error: BaseException) -> None:
        """Leave nothing open after a failed opening, and raise why it failed."""
        log_failures(self.close())
        if self._state != "closed":
            self._state = "closed"
            self.signals.begin_unwinding()
            close_all([("keeper", self._backend.close), ("signals", self.signals.remove)])
            self.events.record("failure", f"initialize: {error}")
        cause = self.signals.cause_of(error) or error
        if cause is not error:
            raise cause from error
        if isinstance(error, AscendError) or not isinstance(error, Exception):
            raise error
        raise translate(error, action=f"initialize_system on the {self.backend}") from error

    def fail(self, error: BaseException) -> None:
        """Tell the other ranks that the last block of this process has failed.

        A program that exits with 0 has not, nor has a generator that nobody reads any more.
        """
        has_exited = isinstance(error, SystemExit) and not error.code
        if not (has_exited or isinstance(error, GeneratorExit)):
            member.fail(error)
            self._backend.interrupt(f"{type(error).__name__}: {error}".rstrip(": "), error)

    def close(self) -> Failed:
        """Close all sessions, shut the device down, give the signals back.

        A second call does nothing, but waits for a first one that is still at it: a process whose
        main thread leaves the last block while a signal shuts the system down ends after that.

        Returns:
            What failed, each with its exception.
        """
        with self._closing:
            if self._state != "open":
                return []
            self._state = "closing"
            self.signals.begin_unwinding()
            sessions: List[Closer] = [
                ("closing a session", partial(self.close_session, opened))
                for opened in reversed(self._sessions)
            ]
            failed = close_all(
                [
                    *sessions,
                    ("shutdown_system", self._shut_down_device),
                    ("closing the keeper session", self._backend.close),
                    ("giving the signals back", self.signals.remove),
                ]
            )
            self._state = "closed"
            if self._is_launched:
                member.leave()
            LEFTOVERS.remember(self.parameters)
            for what, error in failed:
                self.events.record("failure", f"{what}: {error}")
            return failed

    def _shut_down_device(self) -> None:
        try:
            self._backend.shutdown()
        finally:
            self.events.record("shutdown")

    def _interrupt(self, signal_name: str) -> None:
        """Close the sessions, and wait for the runs in them; the blocks do the rest afterwards."""
        self.events.record("signal", signal_name)
        # The ranks hear the reason first, if they answer.
        reason = f"{signal_name} has ended it."
        closers: List[Closer] = [("the ranks", partial(self._backend.interrupt, reason))]
        closers += [("a session", opened.interrupt) for opened in list(self._sessions)]
        close_at_once(closers, head_start_s=_ANSWER_S)
        if self._state == "new":
            self._backend.close()

    def forget_in_child(self) -> None:
        """Have a forked process leave alone what belongs to this one."""
        for opened in self._sessions:
            disown(opened.session)
        self._backend.forget_in_child()
