"""Checks every session that the script opens, whoever makes it for the script.

Every class of sessions ends in ``BaseSession.__init__``: ``tf.Session``, InteractiveSession, and
what MonitoredTrainingSession, Supervisor, Estimator and Keras make. The adapter reads the
options in the first run, where it ends the process; here that is reported before the session is
made. What is known of the sessions is kept for the report.
"""

import os
import sys
import warnings
import weakref
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
)

from ascend_session.compat import life
from ascend_session.compat.verdicts import EntryVerdict, judge_entry
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.hints import SIBLINGS
from ascend_session.config.option import keys_by_name, options_by_key
from ascend_session.errors import AscendConfigWarning, ConfigError, LifecycleError
from ascend_session.findings import ERROR, HOST, NO_EFFECT, WARNING, Finding
from ascend_session.process import on_fork
from ascend_session.session.conditions import Leftovers, init_options, refuse_one_shot
from ascend_session.session.system import current_system
from ascend_session.user_code import UserLine, user_line

STRICT_VARIABLE = "ASCEND_SESSION_STRICT"
"""Environment variable: 1 refuses, too, what the adapter ignores without a word."""


class SessionOption(NamedTuple):
    """One option of one session.

    Attributes:
        key: The vendor's key.
        value: What stands in the entry.
        effect: ``device`` (a device would take it), ``default`` (nobody has set it), ``silent``
            (it does not do what it says there either, and nothing says so), ``stub`` (without
            effect here), ``unused`` (nothing is wrong with it, but its session was refused),
            ``host`` (a device ends the run if its machine lacks the same file) or ``refused`` (a
            device ends the run).
        why: What becomes of it, in a sentence.
    """

    key: str
    value: Any
    effect: str
    why: str


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
        pid: The process.
    """

    def __init__(self) -> None:
        self.sessions: List[WatchedSession] = []
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
        life.record_sessions(self.sessions)

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
        known = options_by_key(AscendConfig)
        late = []
        for key, value in init_options(values).items():
            default = known[key].adapter
            if initial.get(key, default) == value:
                continue
            used = f"{key}={initial[key]!r}" if key in initial else "without it"
            if key not in initial and default is not None:
                used = f"its default {default!r}"
            late.append(
                Finding(
                    ERROR,
                    f"{key}={value!r} comes too late: {self._initial_name} has initialised the "
                    f"device {'with ' if used != 'without it' else ''}{used}.",
                    "Set it on that session, which is the first.",
                    option=known[key].path,
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


_IN_FORCE = {
    "hccl_timeout": "in force: collectives wait as long",
    "session_device_id": "checked; all devices share the CPU",
}


def describe_loops(
    option: SessionOption, loops: Mapping[int, int], is_estimators: bool = False
) -> SessionOption:
    """Tell whether iterations_per_loop was in force in a session.

    Args:
        option: As `describe_options` has it.
        loops: As of `WatchedSession`.
        is_estimators: Whether NPUEstimator has opened the session, which makes loops to train, and
            none to evaluate, to predict or to export (npu_estimator.py).
    """
    if option.effect not in ("device", "silent"):
        return option
    on_device = f" On a device, {option.why}" if option.key in option.why else ""
    if any(loops.values()):
        counts = " and ".join(
            _describe_runs(runs, steps) for steps, runs in sorted(loops.items()) if runs
        )
        why = f"{option.key}={option.value} was in force: {counts}.{on_device}"
        return option._replace(effect="device", why=why)
    if option.value == 1 and not loops:
        return option._replace(why="in force: each run makes one step")
    if is_estimators and not loops:
        why = f"{option.key}={option.value} is for training; this session makes one step a run."
        return option._replace(effect="device", why=why)
    if loops:
        what = (
            "the loop that was made was never run. Run what util.set_iteration_per_loop returns, "
            "or, with SetIterationsVarHook, the operation named IterationOp."
        )
    else:
        what = (
            "each run made one step, for no loop was made. Run what "
            f"util.set_iteration_per_loop(sess, train_op, {option.value}) returns, or leave the "
            "option out."
        )
    why = f"{option.key}={option.value} was not in force: {what}"
    return option._replace(effect="silent", why=why)


def _describe_runs(runs: int, steps: int) -> str:
    who, each = ("1 run", "") if runs == 1 else (f"{runs} runs", " each")
    if steps == 0:
        return f"{who} ended in the first step"
    return f"{who} made {steps} step{'s' if steps > 1 else ''}{each}"


def describe_options(
    verdict: EntryVerdict, stub_effects: Mapping[str, str], is_refused: bool = False
) -> List[SessionOption]:
    """Tell what becomes of each option of an entry.

    Args:
        verdict: The entry.
        stub_effects: Options without effect on the stub alone, and why.
        is_refused: Whether the session is not opened, so that no option of it is in force.
    """
    refused = _first_by_key(verdict.refused)
    silent = _first_by_key([*verdict.late, *verdict.ignored])
    options = []
    for key, value in verdict.written.items():
        if key in refused:
            effect, why = "refused", str(refused[key])
        elif key in silent:
            effect, why = _effect_of(silent[key]), str(silent[key])
        elif key in verdict.defaults:
            effect, why = "default", "the default that NPUEstimator always writes"
        elif key in stub_effects:
            effect, why = "stub", stub_effects[key]
        elif is_refused:
            effect, why = "unused", "the session was refused for other options"
        else:
            effect, why = "device", _IN_FORCE.get(key, "checked here; in effect only on a device")
        if is_refused and effect == "device":
            effect = "unused"
        options.append(SessionOption(key, value, effect, why))
    return options


def _effect_of(finding: Finding) -> str:
    """Tell an option that is ignored from one that is honoured, but worth a warning."""
    if finding.effect == HOST:
        return "host"
    return "device" if finding.severity == WARNING and finding.effect != NO_EFFECT else "silent"


def _first_by_key(findings: Sequence[Finding]) -> Dict[str, Finding]:
    """Give the first finding about each key."""
    keys = keys_by_name(AscendConfig)
    first: Dict[str, Finding] = {}
    for finding in findings:
        name = finding.option or ""
        first.setdefault(keys.get(name, name), finding)
    return first


class _Watch:
    """What is in place of TensorFlow's own constructor, and what it has seen.

    Attributes:
        original: TensorFlow's own.
        log: The sessions.
        is_kept: Whether the device stays up without a session, by NPUInit or npu_resource_init.
    """

    original: Optional[Callable[..., None]] = None
    log = SessionLog()
    is_kept = False


def _refuse_in_child() -> None:
    """Have a forked process open no session, and run none, if its parent has opened one."""
    if _Watch.log.has_opened():
        from ascend_session.backends._tensorflow import refuse_sessions

        refuse_sessions(_Watch.log.pid)


on_fork(_refuse_in_child)


def session_log() -> SessionLog:
    """Give the sessions that were opened in this process so far."""
    return _Watch.log


def is_device_up() -> bool:
    """Whether ranks and groups can be asked for.

    On a device GE, and HCCL with it, is up from the first session that runs something, or from
    NPUInit, until NPUShutdown or until the last session ends. Here the system opens with the first
    session, which counts as running from its opening on.
    """
    if current_system() is None:
        return False
    if _Watch.is_kept or not life.has_opened():
        return True
    return bool(_Watch.log.open_sessions())


def bring_up() -> None:
    """Initialise the device as NPUInit does; nothing happens if that was done before."""
    life.system()
    _Watch.is_kept = True


def shut_down() -> None:
    """End the device as ``NPUShutdown`` and ``npu_close`` do (npu_sys_ctl_ops.cc).

    The runs of all sessions that are open fail from then on. The ranks stay together: a session
    that is opened later starts the device again.
    """
    _Watch.is_kept = False
    for session in _Watch.log.shut_down():
        for name in ("run", "partial_run", "partial_run_setup", "make_callable"):
            setattr(session, name, _refuse_run)


def _refuse_run(*arguments: Any, **named: Any) -> None:
    raise LifecycleError(
        "This session was open when the device was shut down (NPUShutdown, npu_close); each of its "
        "runs fails with an InternalError on a device.",
        hint="Shut down when all sessions have ended.",
    )


def watch_sessions(request: Optional[Dict[str, str]] = None) -> None:
    """Check every session from now on; imports TensorFlow.

    Args:
        request: What the command was called with (`life.begin`).
    """
    life.begin(request or {})
    if _Watch.original is not None:
        return
    from tensorflow.python.client import session as module

    original = _Watch.original = module.BaseSession.__init__

    def __init__(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:  # noqa: N807
        if _is_none_of_the_scripts():
            original(self, target, graph, config)
        else:
            _open(original, self, target, graph, config)

    __init__.__doc__ = original.__doc__
    module.BaseSession.__init__ = __init__


def _is_none_of_the_scripts() -> bool:
    """Whether the session is one of this package's own."""
    if life.is_opening():
        return True
    if _Watch.log.pid != os.getpid():
        _Watch.log = SessionLog()
        life.begin_in_fork()
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        # npu_init has a part of its own in Session.__init__.
        is_between = name.startswith("ascend_session.compat.")
        is_between = is_between or name.partition(".")[0] in ("tensorflow", "tensorflow_core")
        if not is_between:
            return name.startswith("ascend_session.")
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
    log = _Watch.log
    line = user_line(sys._getframe()) or UserLine(sys.argv[0], 1)  # in a thread of a library
    try:
        proto = config if hasattr(config, "graph_options") else None
        verdict = judge_entry(proto, os.environ)
        log.check_initialised(verdict)
        refused = list(verdict.refused)
        if os.environ.get(STRICT_VARIABLE, "") not in ("", "0"):
            refused += [*verdict.ignored, *verdict.late]
        if refused:
            options = describe_options(verdict, {}, is_refused=True)
            log.add(session, str(line), verdict, options, is_refused=True)
            raise ConfigError.of(refused, f"the options of the session that is opened at {line}")
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
    system = life.system(kept)
    if "session_device_id" in kept:
        system.check_device(kept["session_device_id"])
    loops = values.get("iterations_per_loop", 1)
    if loops > 1:
        from ascend_session.backends._tensorflow import tf1

        refuse_one_shot(graph or tf1().get_default_graph(), loops)
    return system.target
