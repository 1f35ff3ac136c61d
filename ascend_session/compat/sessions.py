"""What a script's sessions have opened in this process, with a device and without.

Without one, every session is checked before it is made, whoever makes it for the script: each class
of sessions ends in ``BaseSession.__init__``. The adapter reads the options in the first run, where
it ends the process. A script opens no system itself; the adapter starts the device with the first
session, or with the operator ``NPUInit``, and ends it at exit. Here the system opens on the stub at
first need, with the options of the session that needs it first, and stays open until the run ends
(`report`).

With a device the vendor's packages are left alone, and what the script leaves open is closed. At
exit the vendor's package ends GE while the script's sessions are still open; they are destroyed
after it. When a signal ends the process nothing is closed at all. Here the sessions are closed
first, that which has run NPUInit last, whose end is the device's.

Sources: the adapter's geop_npu.cc, ge_plugin.cc and npu_sys_ctl_ops.cc;
guides/facts/process.md#life-of-ge-in-a-process.
"""

import json
import os
import sys
import threading
import warnings
import weakref
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, MutableMapping, NamedTuple, Optional

from ascend_session.backends._tensorflow import destroy, disown, is_running
from ascend_session.cluster.schedulers import read_identity
from ascend_session.compat.typed_config import print_config
from ascend_session.compat.verdicts import (
    EntryVerdict,
    SessionOption,
    describe_loops,
    describe_options,
    judge_entry,
)
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.hints import SIBLINGS
from ascend_session.errors import AscendConfigWarning, ConfigError, LifecycleError
from ascend_session.files import replace_file
from ascend_session.findings import ERROR, Finding
from ascend_session.process import on_close, on_fork
from ascend_session.rank_folder import RANK_FOLDER, SESSIONS_NAME
from ascend_session.session.api import ascend_system
from ascend_session.session.conditions import refuse_one_shot
from ascend_session.session.options import Leftovers, init_options, late_options
from ascend_session.session.signals import (
    SignalGuard,
    close_all,
    close_at_once,
    deferring,
    log_failures,
)
from ascend_session.session.system import AscendSystem, current_system
from ascend_session.user_code import UserLine, user_line

STRICT_VARIABLE = "ASCEND_SESSION_STRICT"
"""Environment variable: 1 refuses, too, what the adapter ignores without a word."""


# The system --------------------------------------------------------------------------------------


class _Opened:
    """What this process has opened.

    Attributes:
        context: The block that is entered until `close_system`; None while there is none.
        pid: The process that entered it.
        opening: Held by the thread that enters it; others, whose sessions need it, too, wait.
        opener: That thread: sessions that it makes meanwhile are the system's own.
        is_kept: Whether the device stays up without a session, by NPUInit or npu_resource_init.
    """

    context: Optional[Any] = None
    pid = -1
    opening = threading.RLock()
    opener: Optional[int] = None
    is_kept = False


def system(parameters: Optional[Mapping[str, Any]] = None) -> AscendSystem:
    """Give the open system of this process; open one on the stub if there is none.

    One that the script has opened itself with `ascend_session` is taken as well.

    Args:
        parameters: Options of the first session, if this call opens it: keys of the NpuOptimizer
            entry, and values that were found to be in order.

    Raises:
        AscendError: If none can be opened in this environment; the leaf that fits.
        LifecycleError: In a process that was forked after it was opened.
    """
    with _Opened.opening:
        return current_system() or _open_system(parameters or {})


def _open_system(parameters: Mapping[str, Any]) -> AscendSystem:
    close_system()  # what is left of one that something else has closed
    with warnings.catch_warnings():
        # What there is to say of the options is said where the session is checked.
        warnings.simplefilter("ignore", AscendConfigWarning)
        context = ascend_system(AscendConfig.from_parameter_map(parameters), backend="stub")
        _Opened.opener = threading.get_ident()
        try:
            opened: AscendSystem = context.__enter__()
        finally:
            _Opened.opener = None
    _Opened.context, _Opened.pid = context, os.getpid()
    on_close("run", close_system)
    return opened


def close_system() -> None:
    """Close the system that `system` has opened, if any; nothing happens in a forked process.

    Raises:
        ShutdownError: If something could not be closed.
    """
    context, _Opened.context = _Opened.context, None
    if context is not None and _Opened.pid == os.getpid():
        context.__exit__(None, None, None)


def owns_system() -> bool:
    """Whether the open system was opened here, and not by the script with `ascend_session`."""
    return _Opened.context is not None


def is_device_up() -> bool:
    """Whether ranks and groups can be asked for.

    On a device GE, and HCCL with it, is up from the first session that runs something, or from
    NPUInit, until NPUShutdown or until the last session ends. Here the system opens with the first
    session, which counts as running from its opening on.
    """
    if current_system() is None:
        return False
    if _Opened.is_kept or not owns_system():
        return True
    return bool(session_log().open_sessions())


def bring_up() -> None:
    """Initialise the device as NPUInit does; nothing happens if that was done before."""
    system()
    _Opened.is_kept = True


def shut_down() -> None:
    """End the device as ``NPUShutdown`` and ``npu_close`` do (npu_sys_ctl_ops.cc).

    The runs of all sessions that are open fail from then on. The ranks stay together: a session
    that is opened later starts the device again.
    """
    _Opened.is_kept = False
    for session in session_log().shut_down():
        for name in ("run", "partial_run", "partial_run_setup", "make_callable"):
            setattr(session, name, _refuse_run)


def _refuse_run(*arguments: Any, **named: Any) -> None:
    raise LifecycleError(
        "This session was open when the device was shut down (NPUShutdown, npu_close); each of its "
        "runs fails with an InternalError on a device.",
        hint="Shut down when all sessions have ended.",
    )


# The sessions -------------------------------------------------------------------------------------


class WatchedSession(NamedTuple):
    """One session that the script has opened, or tried to.

    Attributes:
        number: From 1, in the order of opening.
        kind: Its class.
        where: File and line of the script.
        has_entry: Whether it has an NpuOptimizer entry.
        settings: Its options.
        notes: What else there is to say, in sentences.
        is_refused: Whether its options kept it from being opened.
        loops: How many runs of a loop have made how many steps each, by the number of steps, which
            is less than the loop's for a run that failed; 0 runs of what was only made ready.
    """

    number: int
    kind: str
    where: str
    has_entry: bool
    settings: List[SessionOption]
    notes: List[str]
    is_refused: bool
    loops: Dict[int, int]

    def as_dict(self) -> Dict[str, Any]:
        """Give the session as plain values, as far as it has come."""
        is_estimators = any(setting.effect == "default" for setting in self.settings)
        settings = [
            describe_loops(setting, self.loops, is_estimators)
            if setting.key == "iterations_per_loop" and not self.is_refused
            else setting
            for setting in self.settings
        ]
        return {**self._asdict(), "settings": [dict(setting._asdict()) for setting in settings]}


class SessionLog:
    """The sessions of one process, and which of their options are in force.

    Attributes:
        sessions: All sessions so far.
        variables: What stands for the variables before the first step with averaged gradients;
            None if there was none.
        has_own: Whether sessions of this package were opened, which it checks itself.
        pid: The process.
    """

    def __init__(self) -> None:
        self.sessions: List[WatchedSession] = []
        self.variables: Optional[int] = None
        self.has_own = False
        self.pid = os.getpid()
        self._open: List[Any] = []
        self._initial: Optional[Dict[str, Any]] = None
        self._initial_name = ""
        self._loops: MutableMapping[Any, Dict[int, int]] = weakref.WeakKeyDictionary()
        self._leftovers = Leftovers()

    def add(
        self,
        session: Any,
        where: str,
        verdict: EntryVerdict,
        options: List[SessionOption],
        is_refused: bool = False,
    ) -> None:
        """Note a session, and leave the record of all for the other ranks."""
        number, kind, notes = len(self.sessions) + 1, type(session).__name__, list(verdict.notes)
        loops: Dict[int, int] = {}
        if not is_refused:
            reasons = {option.why for option in options}
            notes += [str(each) for each in verdict.ignored if str(each) not in reasons]
            self._loops[session] = loops
        self.sessions.append(
            WatchedSession(
                number, kind, where, verdict.has_entry, options, notes, is_refused, loops
            )
        )
        if verdict.is_offloaded and not is_refused:
            self._open.append(weakref.ref(session))
            if self._initial is None:  # so this one has initialised GE
                self._initial = init_options(verdict.values)
                self._initial_name = f"session {number} ({where})"
        self.record()

    def as_dict(self) -> Dict[str, Any]:
        """Give what the ranks tell each other: ``rank``, ``sessions`` and ``variables``."""
        sessions = [session.as_dict() for session in self.sessions]
        return {"rank": _rank(), "sessions": sessions, "variables": self.variables}

    def record(self) -> None:
        """Write it down for the other ranks of this node, where there are any."""
        folder = os.environ.get(RANK_FOLDER)
        if folder:
            write_json(os.path.join(folder, SESSIONS_NAME), self.as_dict())

    def has_opened(self) -> bool:
        """Whether a session was opened, and none of them only refused."""
        return not all(session.is_refused for session in self.sessions)

    def note_loop(self, session: Any, steps: int) -> None:
        """Note that a loop of so many steps is ready in a session."""
        self._loops.get(session, {}).setdefault(steps, 0)

    def note_run(self, session: Any, steps: int) -> None:
        """Note a run of a loop that has made so many steps, less than the loop's if it failed."""
        loops = self._loops.get(session, {})
        loops[steps] = loops.get(steps, 0) + 1

    def check_initialised(self, verdict: EntryVerdict) -> None:
        """Compare the options of a new session with what earlier ones have initialised.

        The verdict gets the options that came too late; what fails together with what an earlier
        initialisation has left in the adapter; and what of that stays in force beside its options.
        """
        if not self.open_sessions():  # GE has ended with the last one (ge_plugin.cc)
            self.shut_down()
        if not verdict.is_offloaded:
            return
        if self._initial is not None:
            verdict.late = self._list_late(self._initial, verdict.values)
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self._leftovers.check(verdict.values)
            except ConfigError as error:
                option = next(mode for mode in SIBLINGS if mode in verdict.values)
                verdict.refused.append(Finding(ERROR, error.message, error.hint, option=option))
                return
        verdict.notes.extend(str(each.message) for each in caught)

    def _list_late(self, initial: Mapping[str, Any], values: Mapping[str, Any]) -> List[Finding]:
        """List the options that another session would have had to set."""
        late = []
        for key, option in late_options(initial, values).items():
            value, default = values[key], option.adapter
            used = f"{key}={initial[key]!r}" if key in initial else "without it"
            if key not in initial and default is not None:
                used = f"its default {default!r}"
            late.append(
                Finding(
                    ERROR,
                    f"{key}={value!r} comes too late: {self._initial_name} has initialised the "
                    f"device {'with ' if used != 'without it' else ''}{used}.",
                    "Set it on that session, which is the first.",
                    option=option.path,
                )
            )
        return late

    def open_sessions(self) -> List[Any]:
        """List the offloaded sessions that are open, in the order of opening."""
        alive = [reference() for reference in self._open]
        return [each for each in alive if each is not None and not getattr(each, "_closed", False)]

    def shut_down(self) -> List[Any]:
        """Forget what GE was initialised with, and return the sessions that were open then."""
        sessions = self.open_sessions()
        self._leftovers.remember(self._initial or {})
        self._open, self._initial = [], None
        return sessions


class _Watch:
    """What is in place of TensorFlow's own constructor, and what it has seen."""

    original: Optional[Callable[..., None]] = None
    log = SessionLog()
    begin_in_fork: Optional[Callable[[], None]] = None


def session_log() -> SessionLog:
    """Give the sessions that were opened in this process so far."""
    return _Watch.log


def record_variables(digest: int) -> None:
    """Write down what stands for the variables before the first step with averaged gradients."""
    session_log().variables = digest
    session_log().record()


def has_no_variables() -> bool:
    """Whether `record_variables` is still to be called in this process."""
    return session_log().variables is None


def _rank() -> int:
    """Give this process's rank: the open system's, else what a variable says."""
    opened = current_system()
    if opened is not None:
        return opened.rank
    rank = read_identity(os.environ).rank
    return 0 if rank is None else rank.value


def write_json(path: str, data: Any) -> None:
    """Write a file; a full disk is only told of."""
    text = json.dumps(data, indent=1, default=repr)
    try:
        replace_file(path, f"{text}\n".encode())
    except OSError as error:
        sys.stderr.write(f"ascend-session: {path} could not be written: {error.strerror}.\n")


def _leave_parents_sessions() -> None:
    """Have a forked process open no session, and run none, if its parent has opened one.

    It does not wait for a thread that it does not have either.
    """
    _Opened.opening, _Opened.opener = threading.RLock(), None
    if session_log().has_opened():
        from ascend_session.backends._tensorflow import refuse_sessions

        refuse_sessions(session_log().pid)


on_fork(_leave_parents_sessions)


# Watching without a device ------------------------------------------------------------------------


def watch_sessions(begin_in_fork: Callable[[], None]) -> None:
    """Check every session from now on; imports TensorFlow.

    Args:
        begin_in_fork: Is called in a forked process that opens a session of its own.
    """
    _Watch.begin_in_fork = begin_in_fork
    if _Watch.original is not None:
        return
    original = _Watch.original = _original_constructor()

    def __init__(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:  # noqa: N807
        if _is_none_of_the_scripts():
            original(self, target, graph, config)
        else:
            _open(original, self, target, graph, config)

    _replace_constructor(__init__)


def _original_constructor() -> Callable[..., None]:
    from tensorflow.python.client import session as module

    constructor: Callable[..., None] = module.BaseSession.__init__
    return constructor


def _replace_constructor(replacement: Callable[..., None]) -> None:
    from tensorflow.python.client import session as module

    replacement.__doc__ = module.BaseSession.__init__.__doc__
    module.BaseSession.__init__ = replacement


def _is_none_of_the_scripts() -> bool:
    """Whether the session is one of this package's own."""
    if _Opened.opener == threading.get_ident():
        return True
    if _Watch.log.pid != os.getpid():
        _Watch.log = SessionLog()
        if _Watch.begin_in_fork is not None:
            _Watch.begin_in_fork()
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        # npu_init has a part of its own in Session.__init__.
        is_between = name.startswith("ascend_session.compat.")
        is_between = is_between or name.partition(".")[0] in ("tensorflow", "tensorflow_core")
        if not is_between:
            is_own = name.startswith("ascend_session.")
            session_log().has_own |= is_own
            return is_own
        frame = frame.f_back
    return False


def _open(
    original: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
) -> None:
    """Make the session, if the adapter would run it.

    Raises:
        ConfigError: With all that ends the run on a device.
        AscendError: If the system cannot be opened, or has no such device.
    """
    log = session_log()
    line = user_line(sys._getframe()) or UserLine(sys.argv[0], 1)  # in a thread of a library
    try:
        proto = config if hasattr(config, "graph_options") else None
        verdict = judge_entry(proto, os.environ)
        log.check_initialised(verdict)
        print_config(proto, verdict, line)
        refused = list(verdict.refused)
        if os.environ.get(STRICT_VARIABLE, "") not in ("", "0"):
            refused += [*verdict.ignored, *verdict.late]
        if refused:
            options = describe_options(verdict, {}, is_refused=True)
            log.add(session, str(line), verdict, options, is_refused=True)
            raise ConfigError.from_problems(
                refused, f"the options of the session that is opened at {line}"
            )
        stub_effects = _warn_of_stub(verdict, line)
        if verdict.is_offloaded:
            target = target or _system_target(verdict.values, graph)
    except BaseException:
        session._session, session._closed = None, True  # for TensorFlow's __del__
        raise
    original(session, target, graph, config)
    log.add(session, str(line), verdict, describe_options(verdict, stub_effects))


def _warn_of_stub(verdict: EntryVerdict, line: UserLine) -> Dict[str, str]:
    """Warn of the options that have no effect on the stub although they have one on a device."""
    from ascend_session.backends.stub import without_effect

    if not verdict.is_offloaded:
        return {}
    too_late = {finding.message.partition("=")[0] for finding in verdict.late}
    effects = without_effect(verdict.values)
    for key, message in effects.items():
        if key not in too_late:
            warnings.warn_explicit(message, AscendConfigWarning, line.file, line.number)
    return effects


def _system_target(values: Dict[str, Any], graph: Any) -> str:
    # The system needs no more of them, and must not refuse what the adapter takes.
    names = ("hccl_timeout", "session_device_id")
    kept: Dict[str, Any] = {key: values[key] for key in names if key in values}
    opened = system(kept)
    if "session_device_id" in kept:
        opened.check_device(kept["session_device_id"])
    loops = values.get("iterations_per_loop", 1)
    if loops > 1:
        from ascend_session.backends._tensorflow import tf1

        refuse_one_shot(graph or tf1().get_default_graph(), loops)
    return opened.target


# Watching with a device ---------------------------------------------------------------------------


class _OnDevice:
    """The sessions of this process, and what looks after its signals.

    Attributes:
        closing: Held by whoever closes sessions: a signal, or what is done at exit.
    """

    references: List[Any] = []  # noqa: RUF012  (there is one of this class)
    guard: Optional[SignalGuard] = None
    closing = threading.RLock()
    pid = -1


def watch_sessions_on_device() -> None:
    """Begin to remember the sessions that are opened; imports TensorFlow."""
    if _OnDevice.guard is not None:
        return
    _OnDevice.pid = os.getpid()
    original = _original_constructor()

    def __init__(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:  # noqa: N807
        _take_signals()
        original(self, target, graph, config)
        _OnDevice.references.append(weakref.ref(self, _OnDevice.references.remove))
        # The vendor's exit handler, which ends GE, comes after what was registered after it.
        on_close("sessions", finish_on_device)

    _replace_constructor(__init__)
    _OnDevice.guard = SignalGuard(_interrupt, finish_on_device)
    _take_signals()
    on_fork(_leave_device)


def _take_signals() -> None:
    """Look after signals, unless a system of the script's own has a guard that does."""
    from ascend_session.backends.npu import NpuBackend

    if _OnDevice.guard is not None and _OnDevice.pid == os.getpid():
        _OnDevice.guard.install()
        _OnDevice.guard.watch(NpuBackend.interrupted_run_s)


def _leave_device() -> None:
    """Have a forked process leave the device and the parent's sessions alone, also when it ends."""
    from ascend_session.backends.npu import unregister_exit_handler

    for session in _alive_sessions():
        disown(session)
    unregister_exit_handler()


def _alive_sessions() -> List[Any]:
    alive = [reference() for reference in list(_OnDevice.references)]
    return [session for session in alive if session is not None]


def _keeper(sessions: List[Any]) -> Optional[Any]:
    """Find the session that has run NPUInit; None if there is none.

    Scripts open it first; later ones often have the same graph.
    """
    candidates = [each for each in sessions if _system_op(each, "NPUInit") is not None]
    return next((each for each in candidates if not each._closed), next(iter(candidates), None))


def _interrupt(signal_name: str) -> None:
    """Free threads that are blocked in a session; NPUShutdown needs its own as long as possible."""
    sessions = _alive_sessions()
    keeper = _keeper(sessions)
    blocking = [each for each in sessions if each is not keeper or is_running(each)]
    with _OnDevice.closing:
        close_at_once([("closing a session", session.close) for session in blocking])


def finish_on_device() -> None:
    """Close what is open; nothing happens in a forked process. What fails is logged.

    Sessions that are closed already are destroyed, too: the end of NPUInit's ends the device. A
    signal that comes meanwhile is raised when all is closed.
    """
    guard = _OnDevice.guard
    if guard is None or _OnDevice.pid != os.getpid():
        return
    _take_signals()
    guard.begin_unwinding()
    with deferring(), _OnDevice.closing:  # nothing is freed that is being closed
        sessions = _alive_sessions()
        keeper = _keeper(sessions)
        closers = [partial(destroy, each) for each in reversed(sessions) if each is not keeper]
        if keeper is not None:
            closers.append(partial(_shut_down_device, keeper))
        log_failures(close_all([("closing a session", closer) for closer in closers]))
        del _OnDevice.references[:]
        guard.remove()


def _shut_down_device(keeper: Any) -> None:
    shutdown = _system_op(keeper, "NPUShutdown")
    try:
        if shutdown is not None and not keeper._closed:
            keeper.run(shutdown)  # GE that has ended already is left as it is (ge_plugin.cc)
    finally:
        destroy(keeper)


def _system_op(session: Any, kind: str) -> Optional[Any]:
    """Find the operation of this type in the session's graph; None if there is none."""
    for operation in session.graph.get_operations():
        if operation.type == kind or operation.name.rpartition("/")[2].split("_")[0] == kind:
            return operation
    return None
