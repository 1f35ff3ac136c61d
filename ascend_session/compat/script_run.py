"""One run of an unchanged script: what was asked, its sessions and its system.

The finder has a run begin when the script imports ``npu_bridge`` or ``hccl``; until it ends, a
process has one `ScriptRun`, which owns all that is known of the script. Without a device, `on_stub`
looks after the sessions and `run_end` writes the report; with one, `on_device` closes what the
script leaves open.

A script opens no system itself. The stub's system opens with the first session that needs it, with
that session's options, and stays open until the run ends.
"""

import enum
import json
import os
import threading
import warnings
import weakref
from typing import Any, Dict, List, Mapping, MutableSet, Optional, Sequence

from ascend_session.backends.tf_sessions import refuse_sessions
from ascend_session.cluster.schedulers import read_identity
from ascend_session.compat.finder import RunRequest
from ascend_session.compat.sessions import SessionLog
from ascend_session.compat.verdicts import EntryVerdict
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import AscendConfigWarning, LifecycleError, write_stderr
from ascend_session.files import replace_file
from ascend_session.process import on_close, on_fork
from ascend_session.rank_folder import RANK_FOLDER, SESSIONS_NAME
from ascend_session.session.api import SystemContext
from ascend_session.session.signals import SignalGuard
from ascend_session.session.system import AscendSystem, current_system
from ascend_session.user_code import UserLine


class ReportState(enum.Enum):
    """Whether there is a report on a run."""

    NONE = "none"
    DUE = "due"
    WRITTEN = "written"


class ScriptRun:
    """A script for the vendor's packages in one process.

    Args:
        request: What is asked of it.

    Attributes:
        request: What is asked of it.
        unread: Lines that open a session with an entry before a vendor's package is imported.
        log: Its sessions.
        has_api_sessions: Whether the script has also opened sessions of this package.
        local_gradients: Sentences about gradients that an optimizer got without being averaged.
        eager_training: Where gradients were first computed eagerly; None if nowhere.
        printed: The configurations that were printed, by their places.
        schedules_early: What the script has set with ``set_schedule_aicore_task_early``.
        broadcast_graphs: Graphs whose variables `npu_decorator` has given all ranks.
        advice: The advice on the exception that ends the script.
        pid: The process.
        report_state: Whether there is a report.
        guard: Has signals end the script by an exception; None if they end the process.
    """

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.unread: Sequence[UserLine] = ()
        self.log = SessionLog()
        self.has_api_sessions = False
        self.local_gradients: List[str] = []
        self.eager_training: Optional[UserLine] = None
        self.printed: Dict[str, str] = {}
        self.schedules_early = False
        self.broadcast_graphs: MutableSet[Any] = weakref.WeakSet()
        self.advice: List[str] = []
        self.pid = os.getpid()
        self.report_state = ReportState.NONE
        self.guard: Optional[SignalGuard] = None
        self._context: Optional[Any] = None  # of the system, entered
        self._opening = threading.RLock()  # other threads that need the system wait
        self._is_kept = False  # without a session, by NPUInit or npu_resource_init

    # The system

    def system(self, parameters: Optional[Mapping[str, Any]] = None) -> AscendSystem:
        """Return the open system of this process; open one on the stub if there is none.

        It may be a system that the script itself has opened with `ascend_session`.

        Args:
            parameters: Options of the system if this call opens it: valid values by keys of the
                NpuOptimizer entry.

        Raises:
            AscendError: The subclass that names why none can be opened in this environment.
            LifecycleError: In a process that was forked after it was opened.
        """
        with self._opening:
            return current_system() or self._open_system(parameters or {})

    def _open_system(self, parameters: Mapping[str, Any]) -> AscendSystem:
        self.close_system()  # the context of a system that something else has closed
        with warnings.catch_warnings():
            # The options were reported when the session was checked.
            warnings.simplefilter("ignore", AscendConfigWarning)
            # What is set from outside is in the parameters already.
            context = SystemContext(AscendConfig.from_parameter_map(parameters), "stub", 0, None)
            has_api_sessions = self.has_api_sessions
            try:
                opened: AscendSystem = context.__enter__()
            finally:
                self.has_api_sessions = has_api_sessions  # the system opens a session, too
        opened.others.warns = False  # the report lists them, and the adapter ends with the process
        self._context = context
        on_close("run", self.close_system)
        return opened

    def close_system(self) -> None:
        """Close the system that `system` has opened, if any.

        Raises:
            ShutdownError: If something could not be closed.
        """
        context, self._context = self._context, None
        if context is not None:
            context.__exit__(None, None, None)

    def tell_ranks(self, error: BaseException) -> None:
        """Tell the other ranks that an exception ends this one, before anything is closed."""
        opened = current_system()
        if opened is not None and self._context is not None:
            opened.fail(error)

    def is_device_up(self) -> bool:
        """Return whether the script may ask for ranks and groups now.

        On a device, GE and HCCL are up from the first run of a session or from NPUInit, until
        NPUShutdown or until the last session ends. Here a session counts from its opening on.
        """
        if current_system() is None:
            return False
        return self._is_kept or self._context is None or bool(self.log.open_sessions())

    def bring_up(self) -> None:
        """Initialise the device as NPUInit does, unless it is initialised."""
        self.system()
        self._is_kept = True

    def shut_down(self) -> None:
        """End the device as ``NPUShutdown`` and ``npu_close`` do (npu_sys_ctl_ops.cc).

        The runs of all sessions that are open fail from then on. The ranks stay together: a session
        that is opened later starts the device again.
        """
        self._is_kept = False
        for session in self.log.shut_down():
            for name in ("run", "partial_run", "partial_run_setup", "make_callable"):
                setattr(session, name, _refuse_run)

    # The sessions

    def add_session(
        self, session: Any, line: UserLine, verdict: EntryVerdict, is_refused: bool = False
    ) -> None:
        """Add a session of the script, and record all sessions for the other ranks."""
        self.log.add(session, str(line), verdict, is_refused)
        folder = os.environ.get(RANK_FOLDER)
        if folder:
            write_json(os.path.join(folder, SESSIONS_NAME), self.as_record())

    def as_record(self) -> Dict[str, Any]:
        """Return the record for other ranks: ``rank`` and ``sessions``."""
        sessions = [session.as_dict() for session in self.log.sessions]
        for opened, session in zip(self.log.sessions, sessions if self.eager_training else ()):
            if opened.is_refused or opened.has_run:
                continue
            for setting in session["settings"]:
                if setting["effect"] in ("device", "stub", "warning"):
                    setting.update(effect="unused", why="the session never ran anything")
        return {"rank": current_rank(), "sessions": sessions}


_current: Optional[ScriptRun] = None  # here, because a script has no place to keep it


def script_run() -> ScriptRun:
    """Return the run of this process; one without a report if none has begun."""
    global _current
    if _current is None:
        _current = ScriptRun(RunRequest())
    return _current


def forget_run() -> None:
    """Let the run of this process go."""
    global _current
    _current = None


def _leave_parent() -> None:
    """Begin a run of its own in a forked process; refuse sessions if the parent has opened one."""
    global _current
    parent, _current = _current, None
    if parent is None:
        return
    if parent.log.has_opened():
        refuse_sessions(parent.pid)
    if parent.report_state is not ReportState.NONE:
        _current = ScriptRun(RunRequest(is_child=True))


on_fork(_leave_parent)


def current_rank() -> int:
    """Return the rank of the open system, else that of the environment, else 0.

    Raises:
        JobError: If the environment contradicts itself.
    """
    opened = current_system()
    if opened is not None:
        return opened.rank
    rank = read_identity(os.environ).rank
    return 0 if rank is None else rank.value


def _refuse_run(*arguments: Any, **named: Any) -> None:
    raise LifecycleError(
        "This session was open when the device was shut down (NPUShutdown, npu_close); each of its "
        "runs fails with an InternalError on a device.",
        hint="Shut down when all sessions are closed.",
    )


def write_json(path: str, data: Any) -> None:
    """Write a JSON file; print a message if that fails."""
    text = json.dumps(data, indent=1, default=repr)
    try:
        replace_file(path, f"{text}\n".encode())
    except OSError as error:
        write_stderr(f"ascend-session: {path} could not be written: {error.strerror}.\n")
