"""AscendSystem: the device as this process has opened it, and the sessions on it."""

import os
import threading
from functools import partial
from typing import Any, ContextManager, Dict, List, Mapping, Optional, Tuple

from ascend_session.backends import Choice
from ascend_session.backends._tensorflow import graph_or_default
from ascend_session.backends.collectives import Collectives
from ascend_session.cluster.job import device_reason
from ascend_session.cluster.mounted import mounted_place
from ascend_session.cluster.schedulers import detected
from ascend_session.config import host
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import AscendError, LifecycleError
from ascend_session.failures import translate
from ascend_session.session.agreement import check_init_options
from ascend_session.session.conditions import check_conditions
from ascend_session.session.events import EventLog
from ascend_session.session.interrupt import SignalGuard
from ascend_session.session.open_session import OpenSession
from ascend_session.session.patience import Patience
from ascend_session.session.place import PlaceInJob
from ascend_session.session.preparing import check_backend, prepare, try_first
from ascend_session.session.protos import SessionProto, checked
from ascend_session.session.unwinding import Closer, close_all, log_failures

__all__ = ["AscendSystem"]


class AscendSystem(PlaceInJob):
    """The open device of this process; made by `ascend_system`, never directly.

    Attributes:
        backend: Name of the backend, ``npu`` or ``stub``.
        backend_reason: Why this backend runs, in a few words.
        choice: Both of them together.
        config: The configuration that the system was initialised with.
        events: What was done so far, in order (`Event`).
        pid: The process it belongs to.
    """

    def __init__(
        self,
        config: AscendConfig,
        base: Optional[Any],
        choice: Choice,
        environ: Mapping[str, str],
        patience: Patience,
    ) -> None:
        self.config = config
        self._base = base
        self._patience = patience
        self.backend = choice.name
        self.backend_reason = choice.reason
        self.events = EventLog()
        self.pid = os.getpid()
        self.choice = choice
        self._environ = environ
        self._sessions: List[OpenSession] = []
        self._state = "new"
        self._state_lock = threading.Lock()
        self._guard = SignalGuard(self._interrupt, lambda: log_failures(self.close()))

    @property
    def target(self) -> str:
        """The target that a session made by others needs, ``tf.Session(target)``."""
        return self._backend.target

    @property
    def capabilities(self) -> Dict[str, Any]:
        """What this backend does: ``{feature: True}``, or the reason why not."""
        return dict(self._backend.capabilities)

    @property
    def collectives(self) -> Collectives:
        """What `ascend_session.hccl` goes through while this system is open."""
        return self._backend.collectives

    @property
    def parameters(self) -> Dict[str, Any]:
        """The keys and values of the NpuOptimizer entry that it was initialised with."""
        return dict(self._protos.of_system.parameters)

    @property
    def is_open(self) -> bool:
        """Whether sessions can be opened on it."""
        return self._state == "open" and self.pid == os.getpid()

    def check_init_options(self, config: AscendConfig) -> None:
        """Raises ConfigError if this system cannot take on init-scope options of ``config``."""
        wanted = self._protos.files.stored(config).parameter_map()
        check_init_options(self.parameters, wanted)

    def session(
        self,
        graph: Optional[Any] = None,
        device_id: Optional[int] = None,
        session_config: Optional[Any] = None,
    ) -> Any:
        """A context manager that gives a ``tf.Session`` on this system.

        Args:
            graph: The ``tf.Graph`` to run; the default graph if None.
            device_id: Logical id of the device for this session (``session_device_id``).
            session_config: A ``tf.ConfigProto`` to build on; copied, never changed.

        Raises:
            LifecycleError: On a system that is closed, or in a forked process.
            ConfigError: If what is asked contradicts the system's configuration.
        """
        from ascend_session.session.contexts import SessionContext

        self.check_usable()
        return SessionContext(None, graph, device_id, session_config, self.backend, self)

    def session_config(self, cfg: Optional[AscendConfig] = None, base: Optional[Any] = None) -> Any:
        """A ``tf.ConfigProto`` for sessions made by others, such as MonitoredTrainingSession.

        Args:
            cfg: Options for that session; the system's own if None.
            base: A ``tf.ConfigProto`` to build on; copied, never changed.

        Raises:
            LifecycleError: On a system that is closed, or in a forked process.
            ConfigError: If ``cfg`` or ``base`` contradict how the system was initialised.
        """
        self.check_usable()
        proto = self._wanted(checked(cfg), base, None).proto
        return type(proto).FromString(proto.SerializeToString())

    def check_device(self, device_id: int) -> None:
        """Raises DeviceError if this process gets no device with this logical id."""
        wanted = {**self.parameters, "session_device_id": device_id}
        self._backend.require(self._job, wanted)

    def check_usable(self) -> None:
        """Raises LifecycleError unless sessions can be opened on this system."""
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
        """Opens a session; if ``as_default``, it and its graph become this thread's defaults."""
        self.check_usable()
        graph = graph_or_default(graph)
        wanted = self._wanted(config, base, device_id)
        check_conditions(graph, wanted.parameters, self._environ, self.size)
        self._bring_up()
        session = self._backend.session(graph, wanted.proto)
        opened = OpenSession(session, wanted.parameters, as_default)
        self._sessions.append(opened)
        device = wanted.parameters.get("session_device_id", self.device_id)
        self.events.record("session open", f"device {device}")
        return opened

    def _bring_up(self) -> None:
        """Initialises again in case the device went down with the last session."""
        try:
            self._backend.bring_up()
        except Exception as error:
            raise translate(error, asked="initialize_system before a session") from error
        self.events.record("bring up")

    def _wanted(
        self, config: Optional[AscendConfig], base: Optional[Any], device_id: Optional[int]
    ) -> SessionProto:
        """What a session opens with, checked as the system's own options were."""
        wanted = self._protos.for_session(config, base, device_id)
        if wanted is not self._protos.of_system:
            host.check_opening(self._protos.files.restored(wanted.parameters), self._environ)
            check_backend(self._backend, self._job, wanted.parameters)
        return wanted

    def close_session(self, opened: OpenSession, *failure: Any) -> bool:
        """Closes ``opened``; False if that was done before, by a closing system or outer block."""
        try:
            self._sessions.remove(opened)
        except ValueError:
            return False
        try:
            opened.close(*failure)
        finally:
            self.events.record("session close")
        return True

    def deferring_interrupts(self) -> ContextManager[List[BaseException]]:
        """For a block that closes: see `SignalGuard.deferring`."""
        return self._guard.deferring()

    def sessions_here(self) -> List[OpenSession]:
        """The open sessions of this thread, in the order of opening."""
        return [opened for opened in self._sessions if opened.thread == threading.get_ident()]

    def cause_of(self, error: Optional[BaseException]) -> Optional[BaseException]:
        """``error``, or the interrupt that made a run fail with it."""
        return self._guard.cause_of(error)

    def open(self) -> None:
        """Checks what can be known beforehand, then initialises.

        Raises:
            AscendError: If something is in the way; nothing is open afterwards.
            InitializationError: If the initialisation itself fails.
        """
        prepared = prepare(self.config, self._base, self.choice, self._environ)
        self._backend, self._job, self._protos = prepared
        found, mounted = detected(self._environ), mounted_place(self._environ)
        if found.scheduler is not None:
            device = f"device {self._job.device_id} by {device_reason(self._environ)}"
            self.events.record("job", f"{found.reason}; {device}")
        elif mounted is not None:
            self.events.record("job", str(mounted))
        self._guard.install()
        try:
            try_first(prepared, self._patience, self.events)
            self._backend.initialize(self._protos.of_system.proto)
            self._state = "open"
            self.events.record("initialize", self.backend)
            self._job = self._backend.confirmed(self._job)
        except BaseException as error:
            self._abandon(error)

    def _abandon(self, error: BaseException) -> None:
        """Leaves nothing open after a failed opening, and raises why it failed."""
        log_failures(self.close())
        if self._state != "closed":
            self._state = "closed"
            self._guard.begin_unwinding()
            close_all([("keeper", self._backend.close), ("signals", self._guard.remove)])
            self.events.record("failure", f"initialize: {error}")
        cause = self._guard.cause_of(error) or error
        if cause is not error:
            raise cause from error
        if isinstance(error, AscendError) or not isinstance(error, Exception):
            raise error
        raise translate(error, asked=f"initialize_system on the {self.backend}") from error

    def fail(self, error: BaseException) -> None:
        """Says that the block which is left now, the last one, has failed; to other ranks, too."""
        if not (isinstance(error, SystemExit) and not error.code):
            self._backend.interrupt(f"{type(error).__name__}: {error}".rstrip(": "))

    def close(self) -> List[Tuple[str, BaseException]]:
        """Closes all sessions, shuts the device down, gives the signals back.

        Returns:
            What failed, each with its exception; a second call does nothing.
        """
        with self._state_lock:
            if self._state != "open":
                return []
            self._state = "closing"
        self._guard.begin_unwinding()
        sessions: List[Closer] = [
            ("closing a session", partial(self.close_session, opened))
            for opened in reversed(self._sessions)
        ]
        failed = close_all(
            [
                *sessions,
                ("shutdown_system", self._shut_down_device),
                ("closing the keeper session", self._backend.close),
                ("giving the signals back", self._guard.remove),
            ]
        )
        self._state = "closed"
        for what, error in failed:
            self.events.record("failure", f"{what}: {error}")
        return failed

    def _shut_down_device(self) -> None:
        try:
            self._backend.shutdown()
        finally:
            self.events.record("shutdown")

    def _interrupt(self, signal_name: str) -> None:
        """Frees threads that are blocked in a session; the blocks close them afterwards."""
        self.events.record("signal", signal_name)
        self._backend.interrupt(f"{signal_name} has ended it.")
        close_all([("session", opened.interrupt) for opened in list(self._sessions)])
        if self._state == "new":
            self._backend.close()
