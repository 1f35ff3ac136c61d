"""Looks at every session that the script opens, whoever makes it for the script.

Every class of sessions ends in ``BaseSession.__init__``: ``tf.Session``, InteractiveSession, and
what MonitoredTrainingSession, Supervisor, Estimator and Keras make. The adapter looks at the
options in the first run, where it ends the process; here that is said before the session is made.
What is known of the sessions is kept for the report.
"""

import os
import sys
import warnings
import weakref
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.compat import ending, life
from ascend_session.compat.judging import Judged, judge
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.option import options_by_key
from ascend_session.errors import AscendConfigWarning, ConfigError, LifecycleError
from ascend_session.findings import ERROR, Finding
from ascend_session.session.conditions import Leftovers, check_init_options, init_options

DEFAULT = "default"
DEVICE_ONLY = "checked; for the device only"
_HERE = {
    "hccl_timeout": "in force: collectives wait as long",
    "iterations_per_loop": "in force where util.set_iteration_per_loop or a hook makes the loop",
    "session_device_id": "checked; all devices share the CPU",
}


class Setting(NamedTuple):
    """One option of one session.

    Attributes:
        key: The vendor's key.
        value: What stands in the entry.
        effect: ``device`` (a device would take it), ``default`` (nobody has said it), ``silent``
            (it does not do what it says there either, and nothing says so), ``stub`` (without
            effect here) or ``refused`` (a device ends the run).
        why: What becomes of it, in a sentence.
    """

    key: str
    value: Any
    effect: str
    why: str


class Watched(NamedTuple):
    """One session that the script has opened, or wanted to.

    Attributes:
        number: From 1, in the order of opening.
        kind: Its class.
        where: File and line of the script.
        has_entry: Whether it has an NpuOptimizer entry.
        settings: Its options.
        notes: What else there is to say, in sentences.
        is_refused: Whether its options kept it from being opened.
    """

    number: int
    kind: str
    where: str
    has_entry: bool
    settings: List[Setting]
    notes: List[str]
    is_refused: bool = False

    def as_dict(self) -> Dict[str, Any]:
        """The session as plain values."""
        settings = [setting._asdict() for setting in self.settings]
        return {**self._asdict(), "settings": [dict(setting) for setting in settings]}


class Book:
    """The sessions of one process, and which of their options are in force.

    Attributes:
        watched: All sessions so far.
    """

    def __init__(self) -> None:
        self.watched: List[Watched] = []
        self._open: List[Any] = []
        self._initial: Optional[Dict[str, Any]] = None
        self._leftovers = Leftovers()
        self._pid = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that the sessions were opened in, and no fork of it."""
        return self._pid == os.getpid()

    def late_options(self, judged: Judged) -> List[Finding]:
        """The options of a new session that came too late: another session has initialised GE."""
        self._forget_if_down()
        if self._initial is None or not judged.is_offloaded:
            return []
        try:
            check_init_options(self._initial, _known(judged.values))
        except ConfigError as error:
            return list(error.problems)
        return []

    def leftovers(self, judged: Judged) -> Tuple[List[Finding], List[str]]:
        """What an earlier initialisation has left in the adapter.

        Returns:
            What fails together with this one's options, and what stays in force beside them.
        """
        self._forget_if_down()
        if self._initial is not None or not judged.is_offloaded:
            return [], []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self._leftovers.check(_known(judged.values))
            except ConfigError as error:
                return [Finding(ERROR, error.message, error.hint, option="precision_mode")], []
        return [], [str(each.message) for each in caught]

    def opened(self, session: Any, watched: Watched, judged: Judged) -> None:
        """Notes a session that is open now."""
        self.watched.append(watched)
        if not judged.is_offloaded:
            return
        self._open.append(weakref.ref(session))
        if self._initial is None:
            self._initial = init_options(_known(judged.values))

    def open_sessions(self) -> List[Any]:
        """The offloaded sessions that are open, in the order of opening."""
        found = [reference() for reference in self._open]
        return [each for each in found if each is not None and not getattr(each, "_closed", False)]

    def _forget_if_down(self) -> None:
        """GE ends with its last session; the next one initialises it (ge_plugin.cc)."""
        if not self.open_sessions():
            self.shut_down()

    def shut_down(self) -> List[Any]:
        """Forgets what GE was initialised with; returns the sessions that were open then."""
        found = self.open_sessions()
        self._leftovers.remember(self._initial or {})
        self._open, self._initial = [], None
        return found


def settings_of(judged: Judged, late: List[Finding], remarks: Mapping[str, str]) -> List[Setting]:
    """What becomes of each option of an entry.

    Args:
        judged: The entry.
        late: What came too late to be read.
        remarks: Options without effect on the stub alone, and why.
    """
    refused = _by_key(judged, judged.refused)
    silent = _by_key(judged, [*late, *judged.ignored])
    found = []
    for key, value in judged.said.items():
        if key in refused:
            found.append(Setting(key, value, "refused", refused[key]))
        elif key in judged.defaults and key not in silent:
            found.append(Setting(key, value, DEFAULT, "as NPUEstimator writes it for everybody"))
        elif key in silent:
            found.append(Setting(key, value, "silent", silent[key]))
        elif key in remarks:
            found.append(Setting(key, value, "stub", remarks[key]))
        else:
            found.append(Setting(key, value, "device", _HERE.get(key, DEVICE_ONLY)))
    return found


def _by_key(judged: Judged, problems: Sequence[Finding]) -> Dict[str, str]:
    """What was said of each option first, whatever name it was said under."""
    found: Dict[str, str] = {}
    known = options_by_key(AscendConfig)
    for problem in problems:
        for key in judged.said:
            option = known.get(key)
            names = (key,) if option is None else (key, option.name, option.path)
            if problem.option in names:
                found.setdefault(key, str(problem))
    return found


def _known(values: Mapping[str, Any]) -> Dict[str, Any]:
    known = options_by_key(AscendConfig)
    return {key: value for key, value in values.items() if key in known}


STRICT_VARIABLE = "ASCEND_SESSION_STRICT"
"""Environment variable: 1 refuses, too, what the adapter ignores without a word."""

# Modules between the script and a session that others make for it.
_BETWEEN = (
    *("tensorflow", "tensorflow_core", "tensorflow_estimator", "keras", "tf_keras"),
    *("ascend_session", "contextlib", "npu_bridge", "six"),
)
_OWN, _COMPAT = "ascend_session.", "ascend_session.compat."


class _State:
    """What is in place of TensorFlow's own, and what is known of the sessions."""

    original: Optional[Callable[..., None]] = None
    book = Book()
    enders_given = False


def book() -> Book:
    """The sessions that were opened in this process so far."""
    return _State.book


def is_watching() -> bool:
    """Whether sessions are looked at."""
    return _State.original is not None


def start(asked: Optional[Dict[str, str]] = None) -> None:
    """Begins to watch; imports TensorFlow.

    Args:
        asked: What the command was asked (`ending.begin`).
    """
    ending.begin(asked or {})
    if is_watching():
        return
    from tensorflow.python.client import session as module

    original = _State.original = module.BaseSession.__init__

    def __init__(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:  # noqa: N807
        if _is_none_of_the_scripts():
            original(self, target, graph, config)
        else:
            _open(original, self, target, graph, config)

    __init__.__doc__ = original.__doc__
    module.BaseSession.__init__ = __init__
    if not _State.enders_given:
        _State.enders_given = True
        life.on_shut_down(_refuse_open_sessions)


def stop() -> None:
    """Puts TensorFlow's own back, and forgets the sessions; for tests."""
    from tensorflow.python.client import session as module

    if _State.original is not None:
        module.BaseSession.__init__ = _State.original
    _State.original = None
    _State.book = Book()


def _is_none_of_the_scripts() -> bool:
    """Whether the session is one of this package's own, or of a fork that can open no system."""
    if life.is_opening():
        return True
    if not _State.book.is_ours:
        if life.is_of_parent():
            return True
        _State.book = Book()
        ending.begin_in_fork()
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        passed_through = name.startswith(_COMPAT)  # npu_init's own part of Session.__init__, too
        if name.partition(".")[0] not in ("tensorflow", "tensorflow_core") and not passed_through:
            return name.startswith(_OWN)
        frame = frame.f_back
    return False


def _open(
    original: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
) -> None:
    """Makes the session, if the adapter would run it.

    Raises:
        ConfigError: With all that ends the run on a device.
        AscendError: If the system cannot be opened, or has no such device.
    """
    where = _where()
    try:
        judged, late = _judged(config, where, type(session).__name__)
        remarks = _remarks(judged, late, where)
        if judged.is_offloaded:
            target = target or _system_target(judged.values, graph)
    except BaseException:
        session._session, session._closed = None, True  # for TensorFlow's __del__
        raise
    original(session, target, graph, config)
    settings = settings_of(judged, late, remarks)
    told = {setting.why for setting in settings}
    notes = [str(each) for each in judged.ignored if str(each) not in told]
    number = len(_State.book.watched) + 1
    kind, place = type(session).__name__, f"{where.shown}:{where.line}"
    watched = Watched(number, kind, place, judged.has_entry, settings, [*judged.notes, *notes])
    _State.book.opened(session, watched, judged)
    ending.leave_record(_State.book.watched)


def _judged(config: Any, where: "_Place", kind: str) -> Tuple[Judged, List[Finding]]:
    """What the entry comes to, and which of its options come too late."""
    judged = judge(config if hasattr(config, "graph_options") else None, os.environ)
    late = _State.book.late_options(judged)
    clashes, stuck = _State.book.leftovers(judged)
    judged.notes.extend(stuck)
    refused: List[Finding] = [*judged.refused, *clashes]
    if is_strict():
        refused += [*judged.ignored, *late]
    if refused:
        place = f"{where.shown}:{where.line}"
        _note_refusal(judged, late, kind, place)
        raise ConfigError.of(refused, f"the options of the session that is opened at {place}")
    return judged, late


def _note_refusal(judged: Judged, late: List[Finding], kind: str, place: str) -> None:
    number, settings = len(_State.book.watched) + 1, settings_of(judged, late, {})
    watched = Watched(number, kind, place, judged.has_entry, settings, judged.notes, True)
    _State.book.watched.append(watched)
    ending.leave_record(_State.book.watched)


def _remarks(judged: Judged, late: List[Finding], where: "_Place") -> Dict[str, str]:
    """The options that have no effect on the stub although they have one on a device."""
    from ascend_session.backends.stub import without_effect

    if not judged.is_offloaded:
        return {}
    too_late = {problem.message.partition("=")[0] for problem in late}
    found = without_effect(judged.values)
    for key, said in found.items():
        if key not in too_late:
            warnings.warn_explicit(said, AscendConfigWarning, where.file, where.line)
    return found


def is_strict() -> bool:
    """Whether what the adapter ignores without a word is refused."""
    return os.environ.get(STRICT_VARIABLE, "") not in ("", "0")


def _system_target(values: Dict[str, Any], graph: Any) -> str:
    # The system needs no more of them, and must not refuse what the adapter takes.
    kept: Dict[str, Any] = {
        key: values[key] for key in ("hccl_timeout", "session_device_id") if key in values
    }
    device = kept.get("session_device_id")
    system = life.open_with(kept)
    if device is not None:
        system.check_device(device)
    loops = values.get("iterations_per_loop", 1)
    if loops > 1:
        from ascend_session.backends._tensorflow import tf1
        from ascend_session.session.conditions import refuse_one_shot

        refuse_one_shot(graph or tf1().get_default_graph(), loops)
    return system.target


class _Place(NamedTuple):
    """A line of the script."""

    file: str
    line: int

    @property
    def shown(self) -> str:
        """The file, from the working directory if it is below that."""
        try:
            path = os.path.relpath(self.file)
        except OSError:  # there is no working directory any more
            return self.file
        return self.file if path.startswith(os.pardir) else path


def _where() -> _Place:
    """File and line of the script that the session is opened for."""
    frame: Any = sys._getframe(3)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in _BETWEEN:
            break
        frame = frame.f_back
    return _Place(frame.f_code.co_filename, frame.f_lineno)


def _refuse_open_sessions() -> None:
    """After NPUShutdown the runs of all open sessions fail (npu_sys_ctl_ops.cc)."""
    for session in _State.book.shut_down():
        for name in ("run", "partial_run", "partial_run_setup", "make_callable"):
            setattr(session, name, _refuse_run)


def _refuse_run(*arguments: Any, **named: Any) -> None:
    raise LifecycleError(
        "This session was open when the device was shut down (NPUShutdown, npu_close); each of its "
        "runs fails with an InternalError on a device.",
        hint="Shut down when all sessions have ended.",
    )
