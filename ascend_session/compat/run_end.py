"""The end of a script's run without a device: its report, advice, and the system's closing.

The report is written at exit, when the script's own exit handlers have run, and then the system is
closed. If the script fails, the report comes before the traceback, which people and the launcher
look for at the end, and the advice after it.
"""

import contextlib
import functools
import json
import os
import shutil
import sys
from typing import Any, Iterator, Mapping, Sequence

from ascend_session.backends import outside
from ascend_session.backends.stub import StubBackend
from ascend_session.compat.advice import advise
from ascend_session.compat.finder import RunRequest
from ascend_session.compat.report import RunReport, report_lines, report_run
from ascend_session.compat.script_run import (
    ReportState,
    ScriptRun,
    current_rank,
    forget_run,
    script_run,
    write_json,
)
from ascend_session.compat.unread import describe_unread
from ascend_session.errors import write_stderr
from ascend_session.process import on_close
from ascend_session.rank_folder import RANK_FOLDER, SESSIONS_NAME
from ascend_session.session.signals import SignalGuard, Terminated, at_forced_end, log_failures
from ascend_session.session.system import has_opened_system, interrupt
from ascend_session.user_code import UserLine


def watch_end(run: ScriptRun) -> None:
    """Have the report written when this process ends."""
    run.report_state = ReportState.DUE
    on_close("report", finish)
    at_forced_end(report)


def watch_end_in_fork(run: ScriptRun) -> None:
    """Do as `watch_end` in a process that was forked before the first session was opened."""
    watch_end(run)
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:  # its processes run no exit handlers
        multiprocessing.Finalize(None, finish, exitpriority=0)


def watch_signals(run: ScriptRun) -> None:
    """Have signals end the script by an exception, so that the report is written."""
    run.guard = SignalGuard(interrupt, finish)
    run.guard.install()
    run.guard.watch(StubBackend.interrupted_run_s)


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
    advice = advise(error, request)
    if advice is not None:
        run.advice = [advice]
        on_close("advice", functools.partial(_show, f"ascend-session: {advice}"))
    run.tell_ranks(error)
    report()
    if isinstance(error, Terminated):
        finish()  # the signal ends the process before exit handlers run


def finish() -> None:
    """Write the report and close the system, once."""
    run = script_run()
    if run.report_state is ReportState.NONE:
        return
    report()
    if run.guard is not None:
        run.guard.begin_unwinding()
    try:
        run.close_system()
    except Exception as error:
        log_failures([("closing the system", error)])
    if run.guard is not None:
        run.guard.remove()
    forget_run()


def finish_unused(request: RunRequest, unread: Sequence[UserLine], is_quiet: bool) -> None:
    """Report on a script that has imported neither of the stand-ins, as all do on a device.

    Args:
        request: What is asked of the run.
        unread: Lines that have opened a session with an entry.
        is_quiet: Whether an exception has ended it, and the traceback is enough, or it has not
            imported TensorFlow.
    """
    unused = "" if is_quiet else outside.find_unused()
    if not request.replaces_vendor:
        if unused:
            _show(f"ascend-session: {unused}")
        return
    run = script_run()
    run.request = request
    sentences = [*describe_unread(unread), *filter(None, [unused])]
    checks_itself = has_opened_system()
    if checks_itself:
        what = "this script uses ascend_session, which checks its sessions itself."
    else:
        what = (
            "this process has imported neither npu_bridge nor hccl; it would compute on the "
            "host even where there is a device."
        )
    _write_report(run, RunReport([], [what, *sentences]), [])
    if sentences or not (is_quiet or checks_itself):
        _show_report(RunReport([], sentences), what)


def report() -> None:
    """Write the report of rank 0, once."""
    run = script_run()
    if run.report_state is not ReportState.DUE:
        return
    run.report_state = ReportState.WRITTEN
    if current_rank() != 0:
        return
    rows = report_run(run, _read_records())
    sessions = run.as_record()["sessions"]
    _write_report(run, rows, sessions)
    if sessions or not run.request.is_child:
        reason = run.request.reason
        _show_report(rows, f"this ran on the stub{': ' + reason if reason else ''}.")


def _read_records() -> Iterator[Mapping[str, Any]]:
    """Read the records that the other ranks of this node have written of their sessions."""
    folder = os.environ.get(RANK_FOLDER)
    if not folder:
        return
    ranks_folder, names = os.path.dirname(folder), []
    with contextlib.suppress(OSError):  # a script may have removed it
        names = sorted(os.listdir(ranks_folder))
    for name in names:
        path = os.path.join(ranks_folder, name, SESSIONS_NAME)
        if os.path.dirname(path) == folder:
            continue
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            yield json.load(file)


def _write_report(run: ScriptRun, report: RunReport, sessions: Sequence[Mapping[str, Any]]) -> None:
    if run.request.json_file:
        rows = [row._asdict() for row in report.rows]
        sentences = [*report.sentences, *run.advice]
        contents = {"options": rows, "sentences": sentences, "sessions": sessions}
        write_json(run.request.json_file, contents)


def _show_report(report: RunReport, head: str) -> None:
    width = None
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it is closed
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    _show(*report_lines(report, f"ascend-session: {head}", width))


def _show(*lines: str) -> None:
    write_stderr("\n".join(lines) + "\n")
