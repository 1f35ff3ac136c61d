"""Looks at every session that the script opens, whoever makes it for the script.

Every class of sessions ends in ``BaseSession.__init__``: ``tf.Session``, InteractiveSession, and
what MonitoredTrainingSession, Supervisor, Estimator and Keras make. The adapter looks at the
options in the first run, where it ends the process; here that is said before the session is made.
"""

import os
import sys
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ascend_session.compat import ending, life
from ascend_session.compat.judging import Judged, judge
from ascend_session.compat.sessions import Book, Watched, settings_of
from ascend_session.errors import AscendConfigWarning, ConfigError, LifecycleError, Problem

__all__ = ["STRICT_VARIABLE", "book", "is_strict", "is_watching", "start", "stop"]

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


def _judged(config: Any, where: "_Place", kind: str) -> Tuple[Judged, List[Problem]]:
    """What the entry comes to, and which of its options come too late."""
    judged = judge(config if hasattr(config, "graph_options") else None, os.environ)
    late = _State.book.late_options(judged)
    clashes, stuck = _State.book.leftovers(judged)
    judged.notes.extend(stuck)
    refused: List[Problem] = [*judged.refused, *clashes]
    if is_strict():
        refused += [*judged.ignored, *late]
    if refused:
        place = f"{where.shown}:{where.line}"
        _note_refusal(judged, late, kind, place)
        raise ConfigError.of(refused, f"the options of the session that is opened at {place}")
    return judged, late


def _note_refusal(judged: Judged, late: List[Problem], kind: str, place: str) -> None:
    number, settings = len(_State.book.watched) + 1, settings_of(judged, late, {})
    watched = Watched(number, kind, place, judged.has_entry, settings, judged.notes, True)
    _State.book.watched.append(watched)
    ending.leave_record(_State.book.watched)


def _remarks(judged: Judged, late: List[Problem], where: "_Place") -> Dict[str, str]:
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
    """After NPUShutdown the runs of all open sessions fail (adapter_behaviour.md)."""
    for session in _State.book.shut_down():
        for name in ("run", "partial_run", "partial_run_setup", "make_callable"):
            setattr(session, name, _refuse_run)


def _refuse_run(*arguments: Any, **named: Any) -> None:
    raise LifecycleError(
        "This session was open when the device was shut down (NPUShutdown, npu_close); each of its "
        "runs fails with an InternalError on a device.",
        hint="Shut down when all sessions have ended.",
    )
