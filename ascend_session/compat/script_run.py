"""One run of an unchanged script: what was asked, its sessions, its system, and its report.

The finder begins a run when the script imports ``npu_bridge`` or ``hccl``; until it ends, a process
has one, which owns all that is known of the script.

Without a device, each session is checked before it is made, no matter what makes it for the script
(`backends.tf_sessions`). (The adapter reads the options in the first run, and may end the process
there.) A script opens no system itself. The stub's system opens with the first session that needs
it, with that session's options, and stays open until the run ends.

The report is written at exit, when the script's own exit handlers have run, and then the system is
closed. If the script fails, the report comes before the traceback, which people and the launcher
look for at the end, and the advice after it. With a device there is none (`on_device`).
"""

import contextlib
import functools
import json
import os
import shutil
import sys
import threading
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from ascend_session.backends import outside
from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.exchange.models import Advice
from ascend_session.backends.exchange.outcome import set_advice
from ascend_session.backends.outside import take_replaced
from ascend_session.backends.stub import StubBackend, without_effect
from ascend_session.backends.tf_sessions import (
    SessionObserver,
    add_observer,
    is_opening_own,
    refuse_sessions,
)
from ascend_session.cluster.records import own_rank
from ascend_session.compat.advice import advise
from ascend_session.compat.finder import RunRequest
from ascend_session.compat.on_device import OnDevice
from ascend_session.compat.report import RunReport, report_lines, report_run
from ascend_session.compat.sessions import SessionLog
from ascend_session.compat.typed_config import print_config
from ascend_session.compat.unread import describe_unread
from ascend_session.compat.verdicts import (
    IN_FORCE,
    EntryVerdict,
    describe_host_operators,
    judge_entry,
)
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import (
    AscendConfigWarning,
    ConfigError,
    LifecycleError,
    flush_stderr,
)
from ascend_session.files import replace_file
from ascend_session.process import on_close, on_fork
from ascend_session.rank_folder import RANK_FOLDER, SESSIONS_NAME
from ascend_session.session.api import SystemContext
from ascend_session.session.conditions import refuse_one_shot
from ascend_session.session.signals import (
    SignalGuard,
    Terminated,
    at_forced_end,
    log_failures,
)
from ascend_session.session.system import (
    AscendSystem,
    current_system,
    has_opened_system,
    interrupt,
)
from ascend_session.user_code import UserLine, user_line

STRICT_VARIABLE = "ASCEND_SESSION_STRICT"
"""Environment variable: 1 also refuses options with a warning, such as ignored ones."""

_ADVICE = Advice(
    broadcast="the hook NPUBroadcastGlobalVariablesHook(0), for Keras the callback "
    "NPUBroadcastGlobalVariablesCallback(0), or npu_hook.broadcast_global_variables(0) after the "
    "variables' initialisers",
    average="npu_tf_optimizer(optimizer), for Keras npu_keras_optimizer(optimizer)",
)


class ScriptRun:
    """A script for the vendor's packages in one process.

    Args:
        request: What is asked of it.

    Attributes:
        request: What is asked of it.
        unread: Lines that open a session with an entry before a vendor's package is imported.
        log: Its sessions.
        has_own: Whether the script has also opened sessions of this package.
        local_gradients: Sentences about gradients that an optimizer got without being averaged.
        eager_training: Where gradients were first computed eagerly; None if nowhere.
        printed: The configurations that were printed, by their places.
        advice: The advice on the exception that ends the script.
        pid: The process.
        is_watched: Whether its end is, so that there is a report.
    """

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.unread: Sequence[UserLine] = ()
        self.log = SessionLog()
        self.has_own = False
        self.local_gradients: List[str] = []
        self.eager_training: Optional[UserLine] = None
        self.printed: Dict[str, str] = {}
        self.advice: List[str] = []
        self.pid = os.getpid()
        self.is_watched = False
        # The system
        self._context: Optional[Any] = None  # entered
        self._opening = threading.RLock()  # other threads that need the system wait
        self._is_opening = False
        self._is_kept = False  # without a session, by NPUInit or npu_resource_init
        # The end
        self._is_reported = False
        self._guard: Optional[SignalGuard] = None  # has signals end the script by an exception

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
            self._is_opening = True
            try:
                opened: AscendSystem = context.__enter__()
            finally:
                self._is_opening = False
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

    def note_own_session(self) -> None:
        """Note a session that this package's own API opens."""
        self.has_own |= not self._is_opening

    def add_session(
        self, session: Any, line: UserLine, verdict: EntryVerdict, is_refused: bool = False
    ) -> None:
        """Add a session of the script, and record all sessions for the other ranks."""
        self.log.add(session, str(line), verdict, is_refused)
        folder = os.environ.get(RANK_FOLDER)
        if folder:
            _write_json(os.path.join(folder, SESSIONS_NAME), self.as_record())

    def as_record(self) -> Dict[str, Any]:
        """Return the record for other ranks: ``rank`` and ``sessions``."""
        sessions = [session.as_dict() for session in self.log.sessions]
        for known, session in zip(self.log.sessions, sessions if self.eager_training else ()):
            if known.is_refused or known.has_run:
                continue
            for setting in session["settings"]:
                if setting["effect"] in ("device", "stub", "warning"):
                    setting.update(effect="unused", why="the session never ran anything")
        return {"rank": _rank(), "sessions": sessions}

    # The end

    def watch_end(self) -> None:
        """Have the report written when this process ends."""
        self.is_watched = True
        on_close("report", finish)

    def watch_signals(self) -> None:
        """Have signals end the script by an exception, so that the report is written."""
        self._guard = SignalGuard(interrupt, finish)
        self._guard.install()
        self._guard.watch(StubBackend.interrupted_run_s)

    def report(self) -> None:
        """Write the report of rank 0, once."""
        if self._is_reported or not self.is_watched:
            return
        self._is_reported = True
        if _rank() != 0:
            return
        report = report_run(self, _read_records())
        sessions = self.as_record()["sessions"]
        self._write_report(report, sessions)
        if sessions or not self.request.is_child:
            reason = self.request.reason
            _show_report(report, f"this ran on the stub{': ' + reason if reason else ''}.")

    def report_unused(self, is_quiet: bool) -> None:
        """Report on a script that has imported neither of the stand-ins, as all do on a device.

        Args:
            is_quiet: Whether an exception has ended it, and the traceback is enough, or it has not
                imported TensorFlow.
        """
        unused = "" if is_quiet else outside.find_unused()
        if not self.request.replaces_vendor:
            if unused:
                _show(f"ascend-session: {unused}")
            return
        unread = [*describe_unread(self.unread), *filter(None, [unused])]
        checks_itself = has_opened_system()
        if checks_itself:
            what = "this script uses ascend_session, which checks its sessions itself."
        else:
            what = (
                "this process has imported neither npu_bridge nor hccl; it would compute on the "
                "host even where there is a device."
            )
        self._write_report(RunReport([], [what, *unread]), [])
        if unread or not (is_quiet or checks_itself):
            _show_report(RunReport([], unread), what)

    def _write_report(self, report: RunReport, sessions: Sequence[Mapping[str, Any]]) -> None:
        if self.request.json_file:
            rows = [row._asdict() for row in report.rows]
            sentences = [*report.sentences, *self.advice]
            contents = {"options": rows, "sentences": sentences, "sessions": sessions}
            _write_json(self.request.json_file, contents)

    def fail(self, error: BaseException) -> None:
        """Write the report before the traceback of an exception; advise after it."""
        advice = advise(error, self.request)
        if advice is not None:
            self.advice = [advice]
            on_close("advice", functools.partial(_show, f"ascend-session: {advice}"))
        system = current_system()
        if system is not None and self._context is not None:
            system.fail(error)  # tells the other ranks before anything is closed
        self.report()

    def finish(self) -> None:
        """Write the report, and close the system."""
        self.report()
        if self._guard is not None:
            self._guard.begin_unwinding()
        try:
            self.close_system()
        except Exception as error:
            log_failures([("closing the system", error)])
        if self._guard is not None:
            self._guard.remove()


_current: Optional[ScriptRun] = None


def script_run() -> ScriptRun:
    """Return the run of this process; one without a report if none has begun."""
    global _current
    if _current is None:
        _current = ScriptRun(RunRequest())
    return _current


def begin(request: RunRequest, unread: Sequence[UserLine] = ()) -> None:
    """Look after the sessions of a script from now on, and report on them; imports TensorFlow.

    Args:
        request: What is asked of the run.
        unread: Lines that have opened a session with an entry before.
    """
    outside.watch_sessions()  # first: what is set from outside is checked like the script's own
    if not request.replaces_vendor:
        OnDevice().watch()
        return
    run = script_run()
    run.request, run.unread = request, unread
    run.watch_end()
    at_forced_end(run.report)
    if not request.is_child:
        run.watch_signals()
    add_observer(_ON_STUB)
    set_advice(_ADVICE)
    _watch_eager_gradients()


def fail(error: BaseException, request: RunRequest) -> None:
    """Write the report of a script that an exception ends, before the traceback; advise after it.

    Args:
        error: The exception.
        request: What is asked of the run, which may not have begun.
    """
    if isinstance(error, SystemExit) and not error.code:
        return
    run = script_run()
    run.request = request
    run.fail(error)
    if isinstance(error, Terminated):
        finish()  # the signal ends the process before exit handlers run


def finish() -> None:
    """Write the report and close the system, once."""
    global _current
    run = _current
    if run is not None and run.is_watched:
        run.finish()
        _current = None


def finish_unused(request: RunRequest, unread: Sequence[UserLine], is_quiet: bool) -> None:
    """Report on a script that has imported neither of the vendor's packages.

    Args:
        request: What is asked of the run.
        unread: Lines that have opened a session with an entry.
        is_quiet: As for `ScriptRun.report_unused`.
    """
    run = script_run()
    run.request, run.unread = request, unread
    run.report_unused(is_quiet)


def _leave_parent() -> None:
    """Begin a run of its own in a forked process; refuse sessions if the parent has opened one."""
    global _current
    parent, _current = _current, None
    if parent is not None and parent.log.has_opened():
        refuse_sessions(parent.pid)
    if parent is not None and parent.is_watched:
        _current = ScriptRun(RunRequest(is_child=True))


on_fork(_leave_parent)


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
        run = script_run()
        if is_opening_own():
            run.note_own_session()
            create(session, target, graph, config)
            return
        if run.request.is_child and not run.is_watched:
            _watch_end_in_fork(run)
        line = user_line(sys._getframe()) or UserLine(sys.argv[0], 1)  # in a library's thread
        proto = config if hasattr(config, "graph_options") else None
        verdict = judge_entry(proto, os.environ)
        run.log.check_initialised(verdict)
        print_config(proto, verdict, line, run.printed)
        verdict.notes += filter(None, [take_replaced(session)])
        refused = list(verdict.refused)
        if os.environ.get(STRICT_VARIABLE, "") not in ("", "0"):
            refused += [*verdict.ignored, *verdict.late]
        if refused:
            run.add_session(session, line, verdict, is_refused=True)
            raise ConfigError.from_problems(
                refused, f"the options of the session that is opened at {line}"
            )
        if verdict.is_offloaded:
            _warn_of_stub(verdict, line)
            graph = graph or tf1().get_default_graph()
            endings = describe_host_operators(verdict.values, graph)
            if endings:
                verdict.graph["refused"] = endings
            target = target or _open_target(run, verdict.values, graph)
        create(session, target, graph, config)
        run.add_session(session, line, verdict)

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        """Note that the session is of use."""
        script_run().log.note_any_run(session)


_ON_STUB = _OnStub()


def _watch_end_in_fork(run: ScriptRun) -> None:
    """Have a report written by a process that was forked before the first session was opened."""
    run.watch_end()
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:  # its processes run no exit handlers
        multiprocessing.Finalize(None, finish, exitpriority=0)


def _warn_of_stub(verdict: EntryVerdict, line: UserLine) -> None:
    """Warn of options that have an effect on a device, but none on the stub; note them."""
    verdict.stub_effects = without_effect(verdict.values)
    too_late = {finding.message.partition("=")[0] for finding in verdict.late}
    for key, message in verdict.stub_effects.items():
        if key not in too_late:
            warnings.warn_explicit(message, AscendConfigWarning, line.file, line.number)
    flush_stderr()


def _open_target(run: ScriptRun, values: Mapping[str, Any], graph: Any) -> str:
    kept = {key: values[key] for key in IN_FORCE if key in values}
    opened = run.system(kept)
    if "session_device_id" in kept:
        opened.check_device(kept["session_device_id"])
    loops = values.get("iterations_per_loop", 1)
    if loops > 1:
        refuse_one_shot(graph, loops)
    return opened.target


@functools.lru_cache(maxsize=None)
def _watch_eager_gradients() -> None:
    """Note where the script computes gradients without a graph, in or out of a ``tf.function``.

    All ways lead through one function of TensorFlow's: GradientTape, and Keras' optimizers with it.
    """
    from tensorflow.python.eager import imperative_grad
    from tensorflow.python.framework import ops

    compute = imperative_grad.imperative_grad

    @functools.wraps(compute)
    def note(*args: Any, **kwargs: Any) -> Any:
        run = script_run()
        if run.eager_training is None and ops.executing_eagerly_outside_functions():
            run.eager_training = user_line(sys._getframe()) or UserLine(sys.argv[0], 1)
        return compute(*args, **kwargs)

    imperative_grad.imperative_grad = note


def _refuse_run(*arguments: Any, **named: Any) -> None:
    raise LifecycleError(
        "This session was open when the device was shut down (NPUShutdown, npu_close); each of its "
        "runs fails with an InternalError on a device.",
        hint="Shut down when all sessions are closed.",
    )


def _rank() -> int:
    """Return the rank of the open system, else that of the environment, else 0."""
    opened = current_system()
    return own_rank(os.environ) if opened is None else opened.rank


def _write_json(path: str, data: Any) -> None:
    """Write a JSON file; print a message if that fails."""
    text = json.dumps(data, indent=1, default=repr)
    try:
        replace_file(path, f"{text}\n".encode())
    except OSError as error:
        sys.stderr.write(f"ascend-session: {path} could not be written: {error.strerror}.\n")
        flush_stderr()


def _show_report(report: RunReport, head: str) -> None:
    width = None
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it is closed
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    _show(*report_lines(report, f"ascend-session: {head}", width))


def _show(*lines: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()


def _read_records() -> Iterator[Mapping[str, Any]]:
    """Read the records that the other ranks of this node have written of their sessions."""
    own = os.environ.get(RANK_FOLDER)
    if not own:
        return
    ranks_folder, names = os.path.dirname(own), []
    with contextlib.suppress(OSError):  # a script may have removed it
        names = sorted(os.listdir(ranks_folder))
    for name in names:
        path = os.path.join(ranks_folder, name, SESSIONS_NAME)
        if os.path.dirname(path) == own:
            continue
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            yield json.load(file)
