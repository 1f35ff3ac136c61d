"""The end of a run: the system is closed in order, and one report is written.

That is after the script's own exit handlers. The report of a script that fails comes before its
traceback, which is what people and the launcher look for at the end.
"""

import atexit
import contextlib
import importlib
import json
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ascend_session.cluster.schedulers import detected
from ascend_session.compat import life
from ascend_session.compat.report import Report, differences, lines, made
from ascend_session.session import current_system
from ascend_session.session.interrupt import Terminated, at_forced_end
from ascend_session.session.unwinding import log_failures

__all__ = [
    "RECORD_NAME",
    "begin",
    "begin_in_fork",
    "failed",
    "finish",
    "forget",
    "leave_record",
]

RECORD_NAME = "sessions.json"
"""What each rank writes into its folder about its sessions."""

_FOLDER = "ASCEND_SESSION_RANK_FOLDER"


class _Ending:
    """What is to be done at the end."""

    asked: Optional[Dict[str, str]] = None
    pid = -1
    sessions: Sequence[Mapping[str, Any]] = ()
    is_said = False
    advice: Optional[str] = None


def begin(asked: Dict[str, str]) -> None:
    """Has the report written at exit; a second call adds what it knows.

    Args:
        asked: ``reason``: why there is no device. ``json``: a file for the report. ``drawer``: a
            module whose ``show(report, head)`` draws it on a terminal. ``child``: whether it is a
            Python that a script has started, which says nothing if it opens no session.
    """
    if _Ending.asked is None:
        _Ending.asked, _Ending.pid = {}, os.getpid()
        atexit.register(finish)
        at_forced_end(_report_at_last)
    _Ending.asked.update(asked)


def begin_in_fork() -> None:
    """As `begin` in a process that was forked from one that had opened nothing yet."""
    _Ending.asked, _Ending.pid = {"child": "1"}, os.getpid()
    _Ending.sessions, _Ending.advice, _Ending.is_said = (), None, False
    atexit.unregister(finish)
    atexit.register(finish)
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:  # whose processes end without exit handlers
        multiprocessing.Finalize(None, finish, exitpriority=0)


def forget() -> None:
    """Takes `begin` back; for tests."""
    atexit.unregister(finish)
    _Ending.asked, _Ending.sessions, _Ending.advice = None, (), None
    _Ending.is_said = False


def failed(error: BaseException) -> None:
    """Reports before Python prints what ends the program; other advice comes after that."""
    is_success = isinstance(error, SystemExit) and not error.code
    if os.getpid() != _Ending.pid or _Ending.asked is None or is_success:
        return
    life.fail(error)
    from ascend_session.compat.old_names import advice

    _Ending.advice = advice(error)
    _report(_Ending.asked)
    if isinstance(error, Terminated):
        finish()  # the process ends by its signal before it comes to anything else


def leave_record(watched: Sequence[Any]) -> None:
    """Writes down the sessions so far; for the other ranks of this node, where there are any."""
    _Ending.sessions = [each.as_dict() for each in watched]
    folder = os.environ.get(_FOLDER)
    if folder:
        _write(os.path.join(folder, RECORD_NAME), {"rank": _rank(), "sessions": _Ending.sessions})


def finish() -> None:
    """Closes the system and writes the report, once; nothing happens in a forked process."""
    if _Ending.asked is None or _Ending.pid != os.getpid():
        return
    asked, _Ending.asked = _Ending.asked, None
    atexit.unregister(finish)
    _report(asked)
    try:
        life.end()
    except Exception as error:
        log_failures([("closing the system", error)])
    if _Ending.advice is not None and sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"ascend-session: {_Ending.advice}\n")
    _Ending.sessions, _Ending.advice, _Ending.is_said = (), None, False


def _report_at_last() -> None:
    if _Ending.asked is not None and _Ending.pid == os.getpid():
        _report(_Ending.asked)


def _report(asked: Mapping[str, str]) -> None:
    """Writes the report, once."""
    if _Ending.is_said:
        return
    _Ending.is_said = True
    rank = _rank()
    if rank != 0:
        return
    report = made(_Ending.sessions, _others())
    if "json" in asked:
        rows = [row._asdict() for row in report.rows]
        found = {"options": rows, "sentences": report.sentences, "sessions": _Ending.sessions}
        _write(asked["json"], found)
    if _Ending.sessions or "child" not in asked:
        _show(report, asked)


def _show(report: Report, asked: Mapping[str, str]) -> None:
    reason = asked.get("reason")
    head = f"ascend-session: this ran on the stub{': ' + reason if reason else ''}."
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it any more
        if "drawer" in asked and sys.stderr.isatty():
            importlib.import_module(asked["drawer"]).show(report, head)
        else:
            sys.stderr.write("\n".join(lines(report, head)) + "\n")
        sys.stderr.flush()


def _rank() -> int:
    """This process's rank: the open system's, else what a variable says; the report is rank 0's."""
    system = current_system()
    if system is not None:
        return system.rank
    said = detected(os.environ).rank
    return 0 if said is None else said.value


def _others() -> List[str]:
    """How the other ranks of this node differ that have written down their sessions so far."""
    folder = os.environ.get(_FOLDER)
    if not folder:
        return []
    said: List[str] = []
    beside = os.path.dirname(folder)
    for name in sorted(os.listdir(beside)):
        path = os.path.join(beside, name, RECORD_NAME)
        if os.path.join(beside, name) == folder or not os.path.exists(path):
            continue
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            record = json.load(file)
            said += differences(_Ending.sessions, record["rank"], record["sessions"])
    return said


def _write(path: str, data: Any) -> None:
    new = f"{path}.{os.getpid()}"
    try:
        with open(new, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1, default=repr)
            file.write("\n")
        os.replace(new, path)
    except OSError as error:
        sys.stderr.write(f"ascend-session: {path} could not be written: {error.strerror}.\n")
