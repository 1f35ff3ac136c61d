"""The end of a run: the system is closed in order, and one report is written.

That is after the script's own exit handlers. The report of a script that fails comes before its
traceback, which is what people and the launcher look for at the end; a name that only TensorFlow 1
has is explained after it.
"""

import atexit
import contextlib
import importlib
import json
import os
import re
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascend_session.cluster.schedulers import read_identity
from ascend_session.compat import life
from ascend_session.compat.report import RunReport, build_report, rank_differences, report_lines
from ascend_session.files import replace_file
from ascend_session.session import current_system
from ascend_session.session.signals import Terminated, at_forced_end
from ascend_session.session.teardown import log_failures

RECORD_NAME = "sessions.json"
"""What each rank writes into its folder about its sessions."""

_FOLDER_VARIABLE = "ASCEND_SESSION_RANK_FOLDER"


class _RunEnd:
    """What is to be done at the end of this process.

    Attributes:
        request: As of `begin`; None if nothing is to be done, or all is done.
        pid: The process; a fork of it does nothing.
        sessions: What was opened so far, as plain values.
        is_reported: Whether the report is written.
        advice: What to tell after the traceback.
    """

    request: Optional[Dict[str, str]] = None
    pid = -1
    sessions: Sequence[Mapping[str, Any]] = ()
    is_reported = False
    advice: Optional[str] = None

    @classmethod
    def reset(cls, request: Optional[Dict[str, str]] = None) -> None:
        cls.request, cls.pid = request, os.getpid()
        cls.sessions, cls.is_reported, cls.advice = (), False, None

    @classmethod
    def is_due(cls) -> bool:
        return cls.request is not None and cls.pid == os.getpid()


def begin(request: Dict[str, str]) -> None:
    """Have the report written at exit; a second call adds what it knows.

    Args:
        request: ``reason``: why there is no device. ``json``: a file for the report. ``drawer``: a
            module whose ``show(report, head)`` draws it on a terminal. ``child``: whether it is a
            Python that a script has started, which reports nothing if it opens no session.
    """
    if _RunEnd.request is None:
        _RunEnd.request, _RunEnd.pid = {}, os.getpid()
        atexit.register(finish)
        at_forced_end(_report_if_due)
    _RunEnd.request.update(request)


def begin_in_fork() -> None:
    """Do as `begin` in a process that was forked from one that had opened nothing yet."""
    _RunEnd.reset({"child": "1"})
    atexit.unregister(finish)
    atexit.register(finish)
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:  # whose processes end without exit handlers
        multiprocessing.Finalize(None, finish, exitpriority=0)


def forget() -> None:
    """Take `begin` back; for tests."""
    atexit.unregister(finish)
    _RunEnd.reset()


def fail(error: BaseException) -> None:
    """Report before Python prints what ends the program; advice on TensorFlow 1 comes after it."""
    is_success = isinstance(error, SystemExit) and not error.code
    if is_success or not _RunEnd.is_due():
        return
    life.fail(error)
    _RunEnd.advice = advise_on_tensorflow1(error)
    _report_if_due()
    if isinstance(error, Terminated):
        finish()  # the process ends by its signal before it comes to anything else


def record_sessions(sessions: Sequence[Any]) -> None:
    """Write down the sessions so far; for the other ranks of this node, where there are any."""
    _RunEnd.sessions = [session.as_dict() for session in sessions]
    folder = os.environ.get(_FOLDER_VARIABLE)
    if folder:
        record = {"rank": _rank(), "sessions": _RunEnd.sessions}
        _write_json(os.path.join(folder, RECORD_NAME), record)


def finish() -> None:
    """Close the system and write the report, once; nothing happens in a forked process."""
    if not _RunEnd.is_due():
        return
    request, _RunEnd.request = _RunEnd.request or {}, None
    atexit.unregister(finish)
    _report(request)
    try:
        life.end()
    except Exception as error:
        log_failures([("closing the system", error)])
    if _RunEnd.advice is not None and sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"ascend-session: {_RunEnd.advice}\n")
    _RunEnd.reset()


def _report_if_due() -> None:
    if _RunEnd.is_due():
        _report(_RunEnd.request or {})


def _report(request: Mapping[str, str]) -> None:
    """Write the report of rank 0, once."""
    if _RunEnd.is_reported:
        return
    _RunEnd.is_reported = True
    if _rank() != 0:
        return
    report = build_report(_RunEnd.sessions, _compare_ranks())
    if "json" in request:
        rows = [row._asdict() for row in report.rows]
        contents = {"options": rows, "sentences": report.sentences, "sessions": _RunEnd.sessions}
        _write_json(request["json"], contents)
    if _RunEnd.sessions or "child" not in request:
        _show(report, request)


def _show(report: RunReport, request: Mapping[str, str]) -> None:
    reason = request.get("reason")
    head = f"ascend-session: this ran on the stub{': ' + reason if reason else ''}."
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it any more
        if "drawer" in request and sys.stderr.isatty():
            importlib.import_module(request["drawer"]).show(report, head)
        else:
            sys.stderr.write("\n".join(report_lines(report, head)) + "\n")
        sys.stderr.flush()


def _rank() -> int:
    """Give this process's rank: the open system's, else what a variable says."""
    system = current_system()
    if system is not None:
        return system.rank
    rank = read_identity(os.environ).rank
    return 0 if rank is None else rank.value


def _compare_ranks() -> List[str]:
    """Tell how the other ranks of this node differ that have written down their sessions so far."""
    folder = os.environ.get(_FOLDER_VARIABLE)
    if not folder:
        return []
    sentences: List[str] = []
    ranks_folder = os.path.dirname(folder)
    for name in sorted(os.listdir(ranks_folder)):
        path = os.path.join(ranks_folder, name, RECORD_NAME)
        if os.path.join(ranks_folder, name) == folder or not os.path.exists(path):
            continue
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            record = json.load(file)
            sentences += rank_differences(_RunEnd.sessions, record["rank"], record["sessions"])
    return sentences


def _write_json(path: str, data: Any) -> None:
    text = json.dumps(data, indent=1, default=repr)
    try:
        replace_file(path, f"{text}\n".encode())
    except OSError as error:
        sys.stderr.write(f"ascend-session: {path} could not be written: {error.strerror}.\n")


_ATTRIBUTE = re.compile(
    r"module '(?:tensorflow|tensorflow_core|tensorflow\._api\.v2)((?:\.\w+)*)' "
    r"has no attribute '(\w+)'"
)
_MODULE = re.compile(r"No module named '(tensorflow\.\w+(?:\.\w+)*)'")
_GRAPH_ONLY = re.compile(r"(eager execution|RuntimeError: The Session graph is empty)")

_OLD = "Run it with Python 3.7 and TensorFlow 1.15, for which such scripts are written"
_RENAMED = (
    "or write `import tensorflow.compat.v1 as tf` and `tf.disable_v2_behavior()` for "
    "`import tensorflow as tf`"
)


def advise_on_tensorflow1(error: BaseException) -> Optional[str]:
    """Give a sentence if it is TensorFlow 1 that the script misses; None for other errors."""
    tensorflow: Any = sys.modules.get("tensorflow")
    version = str(getattr(tensorflow, "__version__", ""))
    if not version or version.startswith("1."):
        return None
    here = f"this is TensorFlow {version}"
    missing = _missing_name(error, tensorflow)
    if missing is not None:
        name, has_new_name = missing
        remedy = f"{_OLD}, {_RENAMED}." if has_new_name else f"{_OLD}: TensorFlow 2 has not got it."
        return f"{_place(error)} needs {name}, which is TensorFlow 1's; {here}. {remedy}"
    if isinstance(error, (RuntimeError, ValueError)) and _GRAPH_ONLY.search(str(error)):
        return (
            f"{_place(error)} builds a graph, but eager execution is on; {here}. Call "
            "`tf.compat.v1.disable_v2_behavior()` before anything is built."
        )
    return None


def _missing_name(error: BaseException, tensorflow: Any) -> Optional[Tuple[str, bool]]:
    """Give the name that TensorFlow 2 has not got, and whether ``tensorflow.compat.v1`` has it."""
    if isinstance(error, AttributeError):
        match = _ATTRIBUTE.search(str(error))
        if match is not None:
            inside = [part for part in match.group(1).split(".") if part not in ("", "_api", "v2")]
            parts = [*inside, match.group(2)]
            value = tensorflow
            for part in ("compat", "v1", *parts):
                value = getattr(value, part, None)
            return ".".join(["tf", *parts]), value is not None
    if isinstance(error, ModuleNotFoundError):
        match = _MODULE.search(str(error))
        if match is not None:
            return match.group(1), False
    return None


def _place(error: BaseException) -> str:
    """Give file and line of the script's last frame before TensorFlow's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if "tensorflow" in str(trace.tb_next.tb_frame.f_globals.get("__name__", "")):
            break
        trace = trace.tb_next
    if trace is None:
        return "The script"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
