"""The life of a process that runs a script written for the vendor's packages.

Such a script opens nothing itself: the adapter starts the device with the first session, or with
the operator ``NPUInit``, and ends it at exit. Here the system opens on the stub at first need, with
the options of the session that needs it first, and stays open until the run ends.

At the end of the run the system is closed in order, after the exit handlers that the script has
registered since it was opened, and after all of them one report is written. The report of a script
that fails comes before its traceback, which is what people and the launcher look for at the end;
what to do about it comes after that.

Sources: the adapter's geop_npu.cc, ge_plugin.cc and npu_sys_ctl_ops.cc;
guides/facts/process.md#life-of-ge-in-a-process.
"""

import contextlib
import functools
import json
import os
import shutil
import sys
import threading
import warnings
from linecache import getlines
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from ascend_session.cluster.schedulers import read_identity
from ascend_session.compat.report import (
    RunReport,
    advise,
    build_report,
    compare_ranks,
    report_lines,
)
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.errors import AscendConfigWarning
from ascend_session.files import replace_file
from ascend_session.process import on_close, on_fork
from ascend_session.rank_folder import RANK_FOLDER, SESSIONS_NAME
from ascend_session.session.api import ascend_system
from ascend_session.session.signals import Terminated, at_forced_end, log_failures
from ascend_session.session.system import AscendSystem, current_system
from ascend_session.user_code import UserLine


class _Life:
    """What this process has opened.

    Attributes:
        context: The block that is entered until `end`.
        pid: The process that entered it.
        opening: Held by the thread that enters it; others, whose sessions need it, too, wait.
        opener: That thread: sessions that it makes meanwhile are the system's own.
    """

    context: Optional[Any] = None
    pid = -1
    opening = threading.RLock()
    opener: Optional[int] = None


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
    with _Life.opening:
        return current_system() or _open(parameters or {})


def _open(parameters: Mapping[str, Any]) -> AscendSystem:
    end()  # what is left of one that something else has closed
    with warnings.catch_warnings():
        # What there is to say of the options is said where the session is checked.
        warnings.simplefilter("ignore", AscendConfigWarning)
        context = ascend_system(AscendConfig.from_parameter_map(parameters), backend="stub")
        _Life.opener = threading.get_ident()
        try:
            opened: AscendSystem = context.__enter__()
        finally:
            _Life.opener = None
    _Life.context, _Life.pid = context, os.getpid()
    on_close("run", end)
    return opened


def is_opening() -> bool:
    """Whether this thread is just opening the system, so that its new sessions are that one's."""
    return _Life.opener == threading.get_ident()


def has_opened() -> bool:
    """Whether the open system was opened here, and not by the script with `ascend_session`."""
    return _Life.context is not None


def end() -> None:
    """Close the system that `system` has opened, if any; nothing happens in a forked process.

    Raises:
        ShutdownError: If something could not be closed.
    """
    context, _Life.context = _Life.context, None
    if context is not None and _Life.pid == os.getpid():
        context.__exit__(None, None, None)


def _forget_opener_in_child() -> None:
    """Have a forked process not wait for a thread that it does not have."""
    _Life.opening, _Life.opener = threading.RLock(), None


on_fork(_forget_opener_in_child)


class _RunEnd:
    """What is to be done at the end of this process.

    Attributes:
        request: As of `begin`; None if nothing is to be done, or all is done.
        pid: The process; a fork of it does nothing.
        sessions: Those that were opened so far (`sessions.WatchedSession`).
        variables: What stands for the variables before the first averaged step, if there was one.
        is_reported: Whether the report is written.
        advice: What there is to do about the exception that ends the script.
    """

    request: Optional[Dict[str, str]] = None
    pid = -1
    sessions: Sequence[Any] = ()
    variables: Optional[int] = None
    is_reported = False
    advice: Sequence[str] = ()

    @classmethod
    def reset(cls, request: Optional[Dict[str, str]] = None) -> None:
        cls.request, cls.pid = request, os.getpid()
        cls.sessions, cls.variables, cls.is_reported, cls.advice = (), None, False, ()

    @classmethod
    def is_due(cls) -> bool:
        return cls.request is not None and cls.pid == os.getpid()


def begin(request: Dict[str, str]) -> None:
    """Have the report written at exit; a second call adds what it knows.

    Args:
        request: ``reason``: why this backend was chosen. ``json``: a file for the report.
            ``replaces_vendor``: ``no`` where the vendor's packages are used. ``child``: whether it
            is a Python that a script has started, which reports nothing if it opens no session.
            ``unread``: lines of the script that open a session with an entry before one of the
            vendor's packages is imported.
    """
    if _RunEnd.request is None:
        _RunEnd.request, _RunEnd.pid = {}, os.getpid()
        on_close("report", finish)
        at_forced_end(_report_if_due)
    _RunEnd.request.update(request)


def begin_in_fork() -> None:
    """Do as `begin` in a process that was forked from one that had opened nothing yet."""
    _RunEnd.reset({"child": "1"})
    on_close("report", finish)
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:  # whose processes end without exit handlers
        multiprocessing.Finalize(None, finish, exitpriority=0)


def fail(error: BaseException, request: Mapping[str, str]) -> None:
    """Report before Python prints what ends the program; what to do about it comes after it.

    Args:
        error: What ends it.
        request: As of `begin`, which may not have been called.
    """
    if isinstance(error, SystemExit) and not error.code:
        return
    advice = advise(error, request)
    if advice is not None:
        _RunEnd.advice = [advice]
        on_close("advice", functools.partial(_show, [f"ascend-session: {advice}"]))
    if not _RunEnd.is_due():
        return
    opened = current_system()
    if opened is not None and has_opened():
        opened.fail(error)  # which tells the other ranks, before anything is closed
    _report_if_due()
    if isinstance(error, Terminated):
        finish()  # the process ends by its signal before it comes to anything else


def record_sessions(sessions: Sequence[Any]) -> None:
    """Write down the sessions so far; for the other ranks of this node, where there are any."""
    _RunEnd.sessions = sessions
    _record()


def record_variables(digest: int) -> None:
    """Write down what stands for the variables before the first step with averaged gradients."""
    _RunEnd.variables = digest
    _record()


def has_no_variables() -> bool:
    """Whether `record_variables` is still to be called in this process."""
    return _RunEnd.variables is None


def _record() -> None:
    folder = os.environ.get(RANK_FOLDER)
    if folder:
        _write_json(os.path.join(folder, SESSIONS_NAME), _own_record())


def _own_record() -> Dict[str, Any]:
    sessions = [session.as_dict() for session in _RunEnd.sessions]
    return {"rank": _rank(), "sessions": sessions, "variables": _RunEnd.variables}


def finish() -> None:
    """Close the system and write the report, once; nothing happens in a forked process."""
    if not _RunEnd.is_due():
        return
    request, _RunEnd.request = _RunEnd.request or {}, None
    _report(request)
    try:
        end()
    except Exception as error:
        log_failures([("closing the system", error)])
    _RunEnd.reset()


def finish_unused(request: Mapping[str, str], has_failed: bool) -> None:
    """Report on a script that has imported neither of the vendor's packages.

    Args:
        request: As of `begin`.
        has_failed: Whether an exception has ended it, which is all that it needs to be told then.
    """
    unread = _describe_unread(request)
    what = (
        "this process has imported neither npu_bridge nor hccl; it would compute on the host even "
        "where there is a device."
    )
    _write_report(request, RunReport([], [what, *unread]), [])
    if unread or not has_failed:
        head = f"ascend-session: {what}"
        _show(report_lines(RunReport([], unread), head, _terminal_width()))


def _describe_unread(request: Mapping[str, str]) -> List[str]:
    """Name each session whose entry nobody reads, and what to write."""
    sentences = []
    for where in dict.fromkeys(request.get("unread", "").splitlines()):
        file, _, number = where.rpartition(":")
        lines = [n for n, text in enumerate(getlines(file), 1) if "NpuOptimizer" in text]
        entry = f" ({UserLine(file, lines[0])})" if lines else ""
        sentences.append(
            f"The NpuOptimizer entry{entry} of the session that is opened at "
            f"{UserLine(file, int(number))} has no effect, because npu_bridge was not imported "
            "before: on a device, too, the session would run on the host. Write `from "
            "npu_bridge.npu_init import *` at the top of the script."
        )
    return sentences


def _report_if_due() -> None:
    if _RunEnd.is_due():
        _report(_RunEnd.request or {})


def _report(request: Mapping[str, str]) -> None:
    """Write the report of rank 0, once."""
    if _RunEnd.is_reported:
        return
    _RunEnd.is_reported = True
    record = _own_record()
    if record["rank"] != 0:
        return
    sessions = record["sessions"]
    others = [*_describe_unread(request), *compare_ranks(record, _read_records())]
    report = build_report(sessions, others)
    _write_report(request, report, sessions)
    if sessions or "child" not in request:
        reason = request.get("reason")
        head = f"ascend-session: this ran on the stub{': ' + reason if reason else ''}."
        _show(report_lines(report, head, _terminal_width()))


def _write_report(
    request: Mapping[str, str], report: RunReport, sessions: Sequence[Mapping[str, Any]]
) -> None:
    if "json" in request:
        rows = [row._asdict() for row in report.rows]
        sentences = [*report.sentences, *_RunEnd.advice]
        contents = {"options": rows, "sentences": sentences, "sessions": sessions}
        _write_json(request["json"], contents)


def _terminal_width() -> Optional[int]:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it any more
        if sys.stderr.isatty():
            return shutil.get_terminal_size().columns
    return None


def _show(lines: Sequence[str]) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()


def _rank() -> int:
    """Give this process's rank: the open system's, else what a variable says."""
    system = current_system()
    if system is not None:
        return system.rank
    rank = read_identity(os.environ).rank
    return 0 if rank is None else rank.value


def _read_records() -> Iterator[Mapping[str, Any]]:
    """Read what the other ranks of this node have written down about their sessions."""
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


def _write_json(path: str, data: Any) -> None:
    text = json.dumps(data, indent=1, default=repr)
    try:
        replace_file(path, f"{text}\n".encode())
    except OSError as error:
        sys.stderr.write(f"ascend-session: {path} could not be written: {error.strerror}.\n")
