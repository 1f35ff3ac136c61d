"""The sessions of an unchanged script, without a device and with one.

Without a device, each session is checked before it is made, no matter what makes it for the script
(`backends.tf_sessions`). (The adapter reads the options in the first run, and may end the process
there.) A script opens no system itself: the adapter starts the device with the first session, or
with the operator ``NPUInit``, and ends it at exit. Here the stub's system opens with the first
session that needs it, with that session's options, and stays open until the run ends (`report`).

With a device, the vendor's packages are used as they are, and sessions that the script leaves open
are closed. At exit the vendor's package ends GE first, and the sessions are destroyed after it; if
a signal ends the process, nothing is closed. Here the sessions are closed first, and the one that
ran NPUInit last, which ends the device.

Sources: the adapter's geop_npu.cc, ge_plugin.cc and npu_sys_ctl_ops.cc;
guides/facts/process.md#life-of-ge-in-a-process.
"""

import functools
import json
import os
import sys
import threading
import warnings
import weakref
from traceback import walk_stack
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    MutableMapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ascend_session.backends import tf_sessions
from ascend_session.backends._tensorflow import destroy, disown, is_running, tf1
from ascend_session.backends.exchange.models import Advice
from ascend_session.backends.exchange.outcome import set_advice
from ascend_session.backends.outside import describe_replaced, replaced_in
from ascend_session.backends.tf_sessions import SessionObserver, add_observer
from ascend_session.cluster.schedulers import read_identity
from ascend_session.compat.typed_config import print_config
from ascend_session.compat.verdicts import (
    IN_FORCE,
    EntryVerdict,
    SessionOption,
    describe_host_operators,
    describe_loops,
    describe_options,
    judge_entry,
)
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.hints import SIBLINGS
from ascend_session.errors import (
    AscendConfigWarning,
    ConfigError,
    LifecycleError,
    flush_stderr,
)
from ascend_session.files import replace_file
from ascend_session.findings import ERROR, Finding
from ascend_session.process import on_close, on_fork
from ascend_session.rank_folder import RANK_FOLDER, SESSIONS_NAME
from ascend_session.session.api import SystemContext
from ascend_session.session.conditions import find_unsupported, refuse_one_shot
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
"""Environment variable: 1 also refuses options with a warning, such as ignored ones."""


# The system --------------------------------------------------------------------------------------


class _Opened:
    """The system that this process has opened.

    Attributes:
        context: The context manager of the system, entered until `close_system`; None without one.
        pid: The process that entered it.
        opening: Lock of the thread that opens the system; other threads that need it wait.
        opener: Identity of that thread: sessions that it makes meanwhile are the system's own.
        is_kept: Whether the device stays up without a session, by NPUInit or npu_resource_init.
    """

    context: Optional[Any] = None
    pid = -1
    opening = threading.RLock()
    opener: Optional[int] = None
    is_kept = False


def system(parameters: Optional[Mapping[str, Any]] = None) -> AscendSystem:
    """Return the open system of this process; open one on the stub if there is none.

    It may be a system that the script itself has opened with `ascend_session`.

    Args:
        parameters: Options of the system if this call opens it: valid values by keys of the
            NpuOptimizer entry.

    Raises:
        AscendError: The subclass that names why none can be opened in this environment.
        LifecycleError: In a process that was forked after it was opened.
    """
    with _Opened.opening:
        return current_system() or _open_system(parameters or {})


def _open_system(parameters: Mapping[str, Any]) -> AscendSystem:
    close_system()  # the context of a system that something else has closed
    with warnings.catch_warnings():
        # The options were reported when the session was checked.
        warnings.simplefilter("ignore", AscendConfigWarning)
        # What is set from outside is in the parameters already.
        context = SystemContext(AscendConfig.from_parameter_map(parameters), "stub", 0, None)
        _Opened.opener = threading.get_ident()
        try:
            opened: AscendSystem = context.__enter__()
        finally:
            _Opened.opener = None
    opened.others.warns = False  # the report lists them, and the adapter ends with the process
    _Opened.context, _Opened.pid = context, os.getpid()
    on_close("run", close_system)
    return opened


def close_system() -> None:
    """Close the system that `system` has opened, if any; does nothing in a forked process.

    Raises:
        ShutdownError: If something could not be closed.
    """
    context, _Opened.context = _Opened.context, None
    if context is not None and _Opened.pid == os.getpid():
        context.__exit__(None, None, None)


def owns_system() -> bool:
    """Return whether `system` opened the open system, and not the script with `ascend_session`."""
    return _Opened.context is not None


def is_device_up() -> bool:
    """Return whether a script may ask for ranks and groups now.

    On a device, GE and HCCL are up from the first run of a session or from NPUInit, until
    NPUShutdown or until the last session ends. Here a session counts from its opening on.
    """
    if current_system() is None:
        return False
    if _Opened.is_kept or not owns_system():
        return True
    return bool(session_log().open_sessions())


def bring_up() -> None:
    """Initialise the device as NPUInit does, unless it is initialised."""
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
    """One session that the script has opened, or has tried to open.

    Attributes:
        number: From 1, in the order of opening.
        kind: The name of its class.
        where: File and line of the script.
        has_entry: Whether it has an NpuOptimizer entry.
        settings: Its options.
        notes: Other sentences about it.
        is_refused: Whether it was refused for its options.
        loops: Numbers of runs by the number of steps that each has made: fewer than the loop's if
            the run failed. A loop that was made but never run has 0 runs.
        fed: Placeholders of more than a scalar that its loops were fed.
        shared: Operators of the host whose values all steps of a loop's run have shared.
        graph: Sentences about operators of its graph, by the effect (`verdicts.SessionOption`).
    """

    number: int
    kind: str
    where: str
    has_entry: bool
    settings: List[SessionOption]
    notes: List[str]
    is_refused: bool
    loops: Dict[int, int]
    fed: List[str]
    shared: List[str]
    graph: Dict[str, List[str]]

    def as_dict(self) -> Dict[str, Any]:
        """Return the session, as far as it has come, as plain values."""
        settings = self.settings
        if not self.is_refused:
            settings = describe_loops(settings, self.loops, self.fed, self.shared)
        return {**self._asdict(), "settings": [dict(setting._asdict()) for setting in settings]}


class SessionLog:
    """The sessions of one process, and the options with which they have initialised the device.

    Attributes:
        sessions: All sessions so far.
        has_own: Whether the script has also opened sessions of this package.
        local_gradients: Sentences about gradients that an optimizer got without being averaged.
        eager_training: Where gradients were first computed eagerly; None if nowhere.
        pid: The process.
    """

    def __init__(self) -> None:
        self.sessions: List[WatchedSession] = []
        self.has_own = False
        self.local_gradients: List[str] = []
        self.eager_training: Optional[UserLine] = None
        self.pid = os.getpid()
        self._open: List[Any] = []
        self._initial: Optional[Dict[str, Any]] = None
        self._initial_name = ""
        self._loops: MutableMapping[Any, Tuple[Dict[int, int], List[str], List[str]]] = (
            weakref.WeakKeyDictionary()
        )
        self._leftovers = Leftovers()
        self._idle: MutableMapping[Any, int] = weakref.WeakKeyDictionary()
        self._have_run: Set[int] = set()
        self._offloaded: MutableMapping[Any, EntryVerdict] = weakref.WeakKeyDictionary()
        # The number of operators that were checked, and the options with a finding
        self._checked: MutableMapping[Any, Tuple[int, Set[Any]]] = weakref.WeakKeyDictionary()

    def add(
        self, session: Any, where: str, verdict: EntryVerdict, is_refused: bool = False
    ) -> None:
        """Add a session, and write the record of all sessions for the other ranks."""
        number, kind, notes = len(self.sessions) + 1, type(session).__name__, list(verdict.notes)
        options = describe_options(verdict, is_refused)
        loops: Dict[int, int] = {}
        fed: List[str] = []
        shared: List[str] = []
        if not is_refused:
            reasons = {option.why for option in options}
            notes += [str(each) for each in verdict.ignored if str(each) not in reasons]
            self._loops[session] = loops, fed, shared
            self._idle[session] = number
        if verdict.is_offloaded and not is_refused:
            self._offloaded[session] = verdict
        self.sessions.append(
            WatchedSession(
                number,
                kind,
                where,
                verdict.has_entry,
                options,
                notes,
                is_refused,
                loops,
                fed,
                shared,
                verdict.graph,
            )
        )
        if verdict.is_offloaded and not is_refused:
            self._open.append(weakref.ref(session))
            if self._initial is None:  # this session initialises GE
                self._initial = init_options(verdict.values)
                self._initial_name = f"session {number} ({where})"
        self.record()

    def as_dict(self) -> Dict[str, Any]:
        """Return the record for other ranks: ``rank`` and ``sessions``."""
        sessions = [session.as_dict() for session in self.sessions]
        for session in sessions if self.eager_training else ():
            if session["number"] not in self._have_run:
                for setting in session["settings"]:
                    if setting["effect"] in ("device", "stub", "warning"):
                        setting.update(effect="unused", why="the session never ran anything")
        return {"rank": _rank(), "sessions": sessions}

    def record(self) -> None:
        """Write the record for the other ranks of this node, if this is a rank of a launch."""
        folder = os.environ.get(RANK_FOLDER)
        if folder:
            write_json(os.path.join(folder, SESSIONS_NAME), self.as_dict())

    def has_opened(self) -> bool:
        """Return whether a session was opened; a refused one does not count."""
        return not all(session.is_refused for session in self.sessions)

    def note_any_run(self, session: Any) -> None:
        """Note that a session runs something, and check what its graph has now."""
        if session in self._idle:
            self._have_run.add(self._idle.pop(session))
        verdict = self._offloaded.get(session)
        checked, reported = self._checked.get(session, (0, set()))
        if verdict is None or session.graph.version == checked:
            return
        operations = session.graph.get_operations()[checked:]
        self._checked[session] = checked + len(operations), reported
        for finding in find_unsupported(operations, verdict.values, os.environ):
            effect = "refused" if finding.severity == ERROR else "warning"
            if finding.option not in reported:
                reported.add(finding.option)
                verdict.graph.setdefault(effect, []).append(str(finding))

    def note_loop(self, session: Any, steps: int) -> None:
        """Note that a session has a loop of so many steps."""
        self._loops.get(session, ({}, [], []))[0].setdefault(steps, 0)

    def note_run(
        self, session: Any, steps: int, fed: Sequence[str] = (), shared: Sequence[str] = ()
    ) -> None:
        """Count a run of a loop.

        Args:
            session: The session.
            steps: The steps that the run has made.
            fed: Placeholders that it was fed.
            shared: Operators of the host whose values its steps have shared.
        """
        loops, *known = self._loops.get(session, ({}, [], []))
        loops[steps] = loops.get(steps, 0) + 1
        for names, more in zip(known, (fed, shared)):
            names += [name for name in more if name not in names]

    def check_initialised(self, verdict: EntryVerdict) -> None:
        """Compare the options of a new session with those of the device's initialisation.

        Adds to the verdict: options that come too late; an error if an option fails together with
        one that an earlier initialisation has left in the adapter; notes on those that stay.
        """
        if not self.open_sessions():  # GE ends with the last one (ge_plugin.cc)
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
        """Return findings about init options that differ from those of the initialisation."""
        late = []
        for key, option in late_options(initial, values).items():
            used = "without it"
            if key in initial:
                used = f"with {key}={initial[key]!r}"
            elif option.adapter is not None:
                used = f"with its default {option.adapter!r}"
            late.append(
                Finding(
                    ERROR,
                    f"{key}={values[key]!r} comes too late: {self._initial_name} has initialised "
                    f"the device {used}.",
                    "Set it on that session, which is the first.",
                    option=option.path,
                )
            )
        return late

    def open_sessions(self) -> List[Any]:
        """Return the offloaded sessions that are open, in the order of opening."""
        alive = [reference() for reference in self._open]
        return [each for each in alive if each is not None and not getattr(each, "_closed", False)]

    def shut_down(self) -> List[Any]:
        """Forget the initialisation of GE, and return the sessions that were open."""
        sessions = self.open_sessions()
        self._leftovers.remember(self._initial or {})
        self._open, self._initial = [], None
        return sessions


class _Watch:
    """The state of `watch_sessions`: what sees the sessions, and the log of them."""

    observer: "Optional[_OnStub]" = None
    log = SessionLog()
    begin_in_fork: Optional[Callable[[], None]] = None


def session_log() -> SessionLog:
    """Return the log of this process's sessions."""
    return _Watch.log


def _rank() -> int:
    """Return the rank of the open system, else that of the environment, else 0."""
    opened = current_system()
    if opened is not None:
        return opened.rank
    rank = read_identity(os.environ).rank
    return 0 if rank is None else rank.value


def write_json(path: str, data: Any) -> None:
    """Write a JSON file; print a message if that fails."""
    text = json.dumps(data, indent=1, default=repr)
    try:
        replace_file(path, f"{text}\n".encode())
    except OSError as error:
        sys.stderr.write(f"ascend-session: {path} could not be written: {error.strerror}.\n")
        flush_stderr()


def _leave_parents_sessions() -> None:
    """Refuse sessions in a forked process whose parent has opened one.

    The lock is replaced: the thread that holds it may not exist in this process.
    """
    _Opened.opening, _Opened.opener = threading.RLock(), None
    if session_log().has_opened():
        from ascend_session.backends._tensorflow import refuse_sessions

        refuse_sessions(session_log().pid)


on_fork(_leave_parents_sessions)


# Watching without a device ------------------------------------------------------------------------

_ADVICE = Advice(
    broadcast="the hook NPUBroadcastGlobalVariablesHook(0), for Keras the callback "
    "NPUBroadcastGlobalVariablesCallback(0), or npu_hook.broadcast_global_variables(0) after the "
    "variables' initialisers",
    average="npu_tf_optimizer(optimizer), for Keras npu_keras_optimizer(optimizer)",
)


def watch_sessions(begin_in_fork: Callable[[], None]) -> None:
    """Check every session from now on; imports TensorFlow.

    Args:
        begin_in_fork: Called in a forked process before its first session.
    """
    _Watch.begin_in_fork = begin_in_fork
    if _Watch.observer is None:
        _Watch.observer = _OnStub()
        add_observer(_Watch.observer)
        set_advice(_ADVICE)
        _watch_eager_gradients()


def _watch_eager_gradients() -> None:
    """Note where the script computes gradients without a graph, in or out of a ``tf.function``.

    All ways lead through one function of TensorFlow's: GradientTape, and Keras' optimizers with it.
    """
    from tensorflow.python.eager import imperative_grad
    from tensorflow.python.framework import ops

    compute = imperative_grad.imperative_grad

    @functools.wraps(compute)
    def note(*args: Any, **kwargs: Any) -> Any:
        log = session_log()
        if log.eager_training is None and ops.executing_eagerly_outside_functions():
            log.eager_training = user_line(sys._getframe()) or UserLine(sys.argv[0], 1)
        return compute(*args, **kwargs)

    imperative_grad.imperative_grad = note


def _is_own_session() -> bool:
    """Return whether this package makes the session, and not the script."""
    if _Opened.opener == threading.get_ident():
        return True
    if _Watch.log.pid != os.getpid():
        _Watch.log = SessionLog()
        if _Watch.begin_in_fork is not None:
            _Watch.begin_in_fork()
    is_between = True  # observers of the same opening
    for frame, _ in walk_stack(sys._getframe(1)):
        name = str(frame.f_globals.get("__name__", ""))
        if is_between:
            is_between = name != tf_sessions.__name__ or frame.f_code.co_name != "__init__"
            continue
        # npu_init wraps Session.__init__.
        is_of_library = name.startswith("ascend_session.compat.")
        if not is_of_library and name.partition(".")[0] not in ("tensorflow", "tensorflow_core"):
            is_own = name.startswith("ascend_session.")
            session_log().has_own |= is_own
            return is_own
    return False


class _OnStub(SessionObserver):
    """Checks each session of the script, and opens those on the stub that a device would run."""

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Check a session of the script, and make it.

        Raises:
            ConfigError: With all findings that end the run on a device.
            AscendError: If the system cannot be opened, or has no such device.
        """
        if _is_own_session():
            create(session, target, graph, config)
            return
        log = session_log()
        line = user_line(sys._getframe()) or UserLine(sys.argv[0], 1)  # in a library's thread
        proto = config if hasattr(config, "graph_options") else None
        verdict = judge_entry(proto, os.environ)
        log.check_initialised(verdict)
        print_config(proto, verdict, line)
        refused = list(verdict.refused)
        if os.environ.get(STRICT_VARIABLE, "") not in ("", "0"):
            refused += [*verdict.ignored, *verdict.late]
        if refused:
            log.add(session, str(line), verdict, is_refused=True)
            raise ConfigError.from_problems(
                refused, f"the options of the session that is opened at {line}"
            )
        if verdict.is_offloaded:
            _warn_of_stub(verdict, line)
            graph = graph or tf1().get_default_graph()
            endings = describe_host_operators(verdict.values, graph)
            if endings:
                verdict.graph["refused"] = endings
            target = target or _system_target(verdict.values, graph)
        verdict.notes += filter(None, [describe_replaced(replaced_in(session))])
        create(session, target, graph, config)
        log.add(session, str(line), verdict)

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        """Note that the session is of use."""
        session_log().note_any_run(session)


def _warn_of_stub(verdict: EntryVerdict, line: UserLine) -> None:
    """Warn of options that have an effect on a device, but none on the stub; note them."""
    from ascend_session.backends.stub import without_effect

    verdict.stub_effects = without_effect(verdict.values)
    too_late = {finding.message.partition("=")[0] for finding in verdict.late}
    for key, message in verdict.stub_effects.items():
        if key not in too_late:
            warnings.warn_explicit(message, AscendConfigWarning, line.file, line.number)
    flush_stderr()


def _system_target(values: Dict[str, Any], graph: Any) -> str:
    kept: Dict[str, Any] = {key: values[key] for key in IN_FORCE if key in values}
    opened = system(kept)
    if "session_device_id" in kept:
        opened.check_device(kept["session_device_id"])
    loops = values.get("iterations_per_loop", 1)
    if loops > 1:
        refuse_one_shot(graph, loops)
    return opened.target


# Watching with a device ---------------------------------------------------------------------------


class _OnDevice:
    """The sessions of this process on a device.

    Attributes:
        references: Weak references to the sessions.
        guard: The guard that closes them when a signal ends the process.
        closing: Held while sessions are closed, by a signal or at exit.
        pid: The process.
    """

    references: List[Any] = []  # noqa: RUF012  (there is one of this class)
    guard: Optional[SignalGuard] = None
    closing = threading.RLock()
    pid = -1


def watch_sessions_on_device() -> None:
    """Keep track of sessions from now on, to close them at the end; imports TensorFlow."""
    if _OnDevice.guard is not None:
        return
    _OnDevice.pid = os.getpid()
    add_observer(_SessionsOnDevice())
    _OnDevice.guard = SignalGuard(_interrupt, finish_on_device)
    _take_signals()
    on_fork(_leave_device)


class _SessionsOnDevice(SessionObserver):
    """Keeps track of the script's sessions, which `finish_on_device` closes."""

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Open a session, and have it closed at exit."""
        _take_signals()
        create(session, target, graph, config)
        _OnDevice.references.append(weakref.ref(session, _OnDevice.references.remove))
        # Registered last, so it runs before the vendor's exit handler, which ends GE.
        on_close("sessions", finish_on_device)


def _take_signals() -> None:
    """Look after signals, unless a system of the script's own has a guard that does."""
    from ascend_session.backends.npu import NpuBackend

    if _OnDevice.guard is not None and _OnDevice.pid == os.getpid():
        _OnDevice.guard.install()
        _OnDevice.guard.watch(NpuBackend.interrupted_run_s)


def _leave_device() -> None:
    """Disown the parent's sessions and its device in a forked process."""
    from ascend_session.backends.npu import unregister_exit_handler

    for session in _alive_sessions():
        disown(session)
    unregister_exit_handler()


def _alive_sessions() -> List[Any]:
    alive = [reference() for reference in list(_OnDevice.references)]
    return [session for session in alive if session is not None]


def _find_starter(sessions: List[Any]) -> Optional[Any]:
    """Return the session that ran NPUInit, None without one.

    Scripts open it first; later sessions often have the same graph.
    """
    candidates = [each for each in sessions if _system_op(each, "NPUInit") is not None]
    return next((each for each in candidates if not each._closed), next(iter(candidates), None))


def _interrupt(signal_name: str) -> None:
    """Close sessions so that threads blocked in them go on; NPUShutdown needs the first one."""
    sessions = _alive_sessions()
    starter = _find_starter(sessions)
    blocking = [each for each in sessions if each is not starter or is_running(each)]
    with _OnDevice.closing:
        close_at_once([("closing a session", session.close) for session in blocking])


def finish_on_device() -> None:
    """Close and destroy all sessions, and log what fails; does nothing in a forked process.

    Closed sessions are destroyed as well: destroying the one that ran NPUInit ends the device. A
    signal that comes meanwhile is raised afterwards.
    """
    guard = _OnDevice.guard
    if guard is None or _OnDevice.pid != os.getpid():
        return
    _take_signals()
    guard.begin_unwinding()
    with deferring(), _OnDevice.closing:  # none is destroyed while it closes
        sessions = _alive_sessions()
        starter = _find_starter(sessions)
        closers = [
            functools.partial(destroy, each) for each in reversed(sessions) if each is not starter
        ]
        if starter is not None:
            closers.append(functools.partial(_shut_down_device, starter))
        log_failures(close_all([("closing a session", closer) for closer in closers]))
        del _OnDevice.references[:]
        guard.remove()


def _shut_down_device(starter: Any) -> None:
    shutdown = _system_op(starter, "NPUShutdown")
    try:
        if shutdown is not None and not starter._closed:
            starter.run(shutdown)  # does nothing if GE has ended (ge_plugin.cc)
    finally:
        destroy(starter)


def _system_op(session: Any, kind: str) -> Optional[Any]:
    """Return the operation of this type in the session's graph, None without one."""
    for operation in session.graph.get_operations():
        if operation.type == kind or operation.name.rpartition("/")[2].split("_")[0] == kind:
            return operation
    return None
