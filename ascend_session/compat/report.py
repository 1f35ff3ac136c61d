"""The report at the end of a run.

The report lists the options of the script's sessions with their effects. It is written at exit,
when the script's own exit handlers have run, and then the system is closed. If the script fails,
the report comes before the traceback, which people and the launcher look for at the end, and the
advice after it.
"""

import contextlib
import functools
import json
import linecache
import os
import re
import shutil
import sys
import textwrap
from itertools import groupby
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ascend_session.backends import outside
from ascend_session.backends.stub import StubBackend
from ascend_session.compat.advice import advise
from ascend_session.compat.sessions import (
    SessionLog,
    close_system,
    owns_system,
    session_log,
    watch_sessions,
    watch_sessions_on_device,
    write_json,
)
from ascend_session.process import on_close
from ascend_session.rank_folder import RANK_FOLDER, SESSIONS_NAME
from ascend_session.session.signals import (
    SignalGuard,
    Terminated,
    at_forced_end,
    log_failures,
)
from ascend_session.session.system import current_system, has_opened_system, interrupt
from ascend_session.text import format_ranges
from ascend_session.user_code import UserLine

# The text -----------------------------------------------------------------------------------------


# Sections of the report in their order, with their headings
_SECTIONS = (
    ("refused", "Errors, which end the run on a device:"),
    ("host", "Errors on a device whose host has the files of this machine:"),
    ("differs", "Trains otherwise than the script suggests:"),
    ("silent", "Ignored:"),
    ("warning", "Accepted on a device, with a warning:"),
    ("stub", "Without effect on the stub:"),
    ("unused", "Not used:"),
    ("device", "Correct; in effect only on a device:"),
    ("here", "Correct, and in effect here:"),
)
_LONGEST_VALUE = 40  # characters


class ReportRow(NamedTuple):
    """One option with one value, and the sessions that have it.

    Attributes:
        key: The vendor's key.
        value: Its value as text.
        sessions: Their numbers, like ``1-3,5``.
        why: The reason for its effect, in a sentence.
        effect: The effect, as in `verdicts.SessionOption`.
    """

    key: str
    value: str
    sessions: str
    why: str
    effect: str

    @property
    def section(self) -> str:
        """The section: the effect, or ``here`` if a correct option is in force on the stub."""
        return "here" if self.effect == "device" and "in force: " in self.why else self.effect


class RunReport(NamedTuple):
    """The report of one process.

    Attributes:
        rows: The options.
        sentences: Everything else.
        sessions: The numbers of the sessions with an entry, like ``1-3,5``.
        headed: Those of the sentences that belong to a section, by its effect.
    """

    rows: List[ReportRow]
    sentences: List[str]
    sessions: str = ""
    headed: Mapping[str, Sequence[str]] = {}


def build_report(
    sessions: Sequence[Mapping[str, Any]], differs: Sequence[str] = (), has_own: bool = False
) -> RunReport:
    """Build the report on sessions.

    Args:
        sessions: What `sessions.WatchedSession.as_dict` returns of each, in the order of opening.
        differs: Sentences about what trains otherwise than the script suggests.
        has_own: Whether the script has also opened sessions of this package.
    """
    rows: Dict[Tuple[str, str, str, str], List[int]] = {}
    notes: Dict[str, List[int]] = {}
    of_graph: Dict[Tuple[str, str], List[int]] = {}
    for session in sessions:
        number, settings = session["number"], session["settings"]
        default_count = sum(each["effect"] == "default" for each in settings)
        if default_count:
            note = f"{default_count} options have the defaults that NPUEstimator writes."
            notes.setdefault(note, []).append(number)
        for each in settings:
            if each["effect"] != "default":
                row = each["key"], _format_value(each["value"]), each["why"], each["effect"]
                rows.setdefault(row, []).append(number)
        for effect, sentences in session.get("graph", {}).items():
            for sentence in sentences:
                of_graph.setdefault((effect, sentence), []).append(number)
        for note in session["notes"]:
            notes.setdefault(note, []).append(number)
    headed: Dict[str, List[str]] = {"differs": list(differs)} if differs else {}
    for (effect, sentence), numbers in of_graph.items():
        headed.setdefault(effect, []).append(f"{_name('Session', numbers)}: {sentence}")
    ordered = sorted(rows.items(), key=lambda item: (item[0][0], item[1]))
    return RunReport(
        [
            ReportRow(key, value, format_ranges(numbers, ","), why, effect)
            for (key, value, why, effect), numbers in ordered
        ],
        [
            *_list_sessions(sessions, has_own),
            *(f"{_name('Session', numbers)}: {note}" for note, numbers in notes.items()),
            *(sentence for sentences in headed.values() for sentence in sentences),
        ],
        format_ranges([each["number"] for each in sessions if each["has_entry"]], ","),
        headed,
    )


def _list_sessions(sessions: Sequence[Mapping[str, Any]], has_own: bool) -> List[str]:
    opened = [each for each in sessions if not each.get("is_refused")]
    sentences = []
    if has_own:
        sentences = ["The sessions of ascend_session are not listed: it has checked their options."]
    elif not sessions:
        sentences = ["The script has opened no session."]
    entry = "one" if any(each["has_entry"] for each in opened) else "an NpuOptimizer entry"
    for has_entry, words in (
        (True, "with an NpuOptimizer entry"),
        (False, f"without {entry}, which a device leaves on the host, too"),
    ):
        some = [each for each in opened if each["has_entry"] is has_entry]
        if some:
            places = ", ".join(dict.fromkeys(str(each["where"]) for each in some))
            sentences.append(f"{_name('Session', [s['number'] for s in some])} {words}: {places}")
    for each in sessions:
        if each.get("is_refused"):
            name = _name("Session", [each["number"]])
            sentences.append(f"{name} was refused for its options: {each['where']}")
    return sentences


def compare_ranks(own: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> List[str]:
    """Return sentences about options that differ in sessions that two ranks have opened.

    Args:
        own: The record of this rank (`sessions.SessionLog.as_dict`).
        others: The records of other ranks, as far as they have come.
    """
    differences: Dict[Tuple[str, str, Tuple[int, ...]], Dict[int, str]] = {}
    for record in others:
        rank = record["rank"]
        places: Dict[Tuple[str, str, str], List[int]] = {}
        for session, other in zip(own["sessions"], record["sessions"]):
            here, there = (
                {each["key"]: _format_value(each["value"]) for each in opened["settings"]}
                for opened in (session, other)
            )
            for key in sorted({*here, *there} - {"session_device_id"}):  # each rank has its own
                pair = here.get(key, "not set"), there.get(key, "not set")
                if pair[0] != pair[1]:
                    places.setdefault((key, *pair), []).append(session["number"])
        for (key, value, their_value), numbers in places.items():
            values = differences.setdefault((key, value, tuple(numbers)), {})
            values[rank] = their_value
    sentences = []
    for (key, value, sessions), by_rank in differences.items():
        ranks = sorted(by_rank)
        verb = "differ" if len(ranks) > 1 else "differs"
        where = "there" if len(set(by_rank.values())) == 1 else f"on rank {ranks[0]}"
        sentences.append(
            f"{_name('Rank', ranks)} {verb} in {_name('session', sessions)}: {key} is "
            f"{by_rank[ranks[0]]} {where} and {value} here."
        )
    return sentences


def report_lines(report: RunReport, head: str, width: Optional[int] = None) -> List[str]:
    """Lay the report out as lines of text.

    Args:
        report: The report.
        head: The first line.
        width: Characters in a line; None leaves each sentence on one line.
    """
    lines = [head]
    is_in_all = all(row.sessions == report.sessions for row in report.rows)
    for section, title in _SECTIONS:
        rows = [row for row in report.rows if row.section == section]
        texts = [*report.headed.get(section, ()), *_join_rows(rows, is_in_all)]
        if texts:
            lines += [f"  {title}", *(f"    {text}" for text in texts)]
    headed = {sentence for sentences in report.headed.values() for sentence in sentences}
    lines += [f"  {sentence}" for sentence in report.sentences if sentence not in headed]
    if width is None:
        return lines
    wrapped = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapped += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return wrapped


def _join_rows(rows: Iterable[ReportRow], is_in_all: bool) -> List[str]:
    """Write one line for all rows whose sentences differ in key and value only.

    Args:
        rows: The options.
        is_in_all: Whether all sessions with an entry have each option; they are not named then.
    """
    alike: Dict[str, List[ReportRow]] = {}
    for row in rows:
        pattern = row.why
        if _is_named(row):
            pattern = pattern.replace(row.key, "KEY").replace(row.value, "VALUE")
        alike.setdefault(pattern, []).append(row)
    lines = []
    for group in alike.values():
        first, others = group[0], group[1:]
        if not _is_named(first):
            count = f" ({len(group)} options)" if others else ""
            lines.append(f"{_list_options(group, is_in_all)}{count}: {first.why}")
            continue
        line = first.why if is_in_all else f"{_name_sessions(first)}: {first.why}"
        if others:
            more = f"{len(others)} more: {_list_options(others, is_in_all)}"
            line = f"{line.rstrip('.')}. The same holds for {more}."
        lines.append(line)
    return lines


def _is_named(row: ReportRow) -> bool:
    """Return whether the sentence about an option contains its key."""
    return re.search(rf"\b{re.escape(row.key)}\b", row.why) is not None


def _list_options(rows: Iterable[ReportRow], is_in_all: bool) -> str:
    parts = []
    for _, group in groupby(sorted(rows, key=_name_sessions), key=_name_sessions):
        some = list(group)
        names = ", ".join(f"{row.key}={row.value}" for row in some)
        parts.append(names if is_in_all else f"{names} ({_name_sessions(some[0]).lower()})")
    return ", ".join(parts)


def _name_sessions(row: ReportRow) -> str:
    return f"Session{'' if row.sessions.isdigit() else 's'} {row.sessions}"


def _name(what: str, numbers: Sequence[int]) -> str:
    return f"{what}{'s' if len(numbers) > 1 else ''} {format_ranges(numbers, ',')}"


def _format_value(value: Any) -> str:
    text = value if isinstance(value, str) and value else repr(value)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[: _LONGEST_VALUE - 12]}...{text[-9:]}"
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


# The end of the run -------------------------------------------------------------------------------


class _RunEnd:
    """The state of the end of this process.

    Attributes:
        pid: The process that has a report to write; -1 if there is none, or all is done.
        request: The arguments of `watch_run`.
        is_reported: Whether the report is written.
        guard: Has signals end the script by an exception, so that the report is written.
        advice: The advice on the exception that ends the script.
    """

    pid = -1
    request: Mapping[str, str] = {}
    is_reported = False
    guard: Optional[SignalGuard] = None
    advice: Sequence[str] = ()

    @classmethod
    def reset(cls, request: Optional[Mapping[str, str]] = None) -> None:
        cls.pid = -1 if request is None else os.getpid()
        cls.request, cls.is_reported, cls.advice = request or {}, False, ()
        guard, cls.guard = cls.guard, None
        if guard is not None:
            guard.remove()

    @classmethod
    def is_due(cls) -> bool:
        return cls.pid == os.getpid()


def watch_run(request: Mapping[str, str]) -> None:
    """Check the sessions of a script from now on, and report on them at exit; imports TensorFlow.

    A second call adds to the arguments of the first.

    Args:
        request: ``reason``: why this backend was chosen. ``json``: a file for the report.
            ``replaces_vendor``: ``no`` if the vendor's packages are used; then there is no report.
            ``child``: there if a script has started this Python, which then reports nothing unless
            it opens a session. ``unread``: lines of the script that open a session with an entry
            before one of the vendor's packages is imported.
    """
    outside.watch_sessions()  # first: what is set from outside is checked like the script's own
    if request.get("replaces_vendor", "yes") != "yes":
        watch_sessions_on_device()
        return
    if _RunEnd.pid == -1:
        _RunEnd.reset(request)
        on_close("report", finish)
        at_forced_end(_report)
        if "child" not in request:
            _RunEnd.guard = SignalGuard(interrupt, finish)
            _RunEnd.guard.install()
            _RunEnd.guard.watch(StubBackend.interrupted_run_s)
    else:
        _RunEnd.request = {**_RunEnd.request, **request}
    watch_sessions(begin_in_fork)


def begin_in_fork() -> None:
    """Have a report written by a process that was forked before the first session was opened."""
    _RunEnd.reset({"child": "1"})
    on_close("report", finish)
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None:  # its processes run no exit handlers
        multiprocessing.Finalize(None, finish, exitpriority=0)


def fail(error: BaseException, request: Mapping[str, str]) -> None:
    """Write the report of a script that an exception ends, before the traceback; advise after it.

    Args:
        error: The exception.
        request: The arguments of `watch_run`, which may not have been called.
    """
    if isinstance(error, SystemExit) and not error.code:
        return
    advice = advise(error, request)
    if advice is not None:
        _RunEnd.advice = [advice]
        on_close("advice", functools.partial(_show, f"ascend-session: {advice}"))
    if not _RunEnd.is_due():
        return
    system = current_system()
    if system is not None and owns_system():
        system.fail(error)  # tells the other ranks before anything is closed
    _report()
    if isinstance(error, Terminated):
        finish()  # the signal ends the process before exit handlers run


def finish() -> None:
    """Write the report and close the system, once; do nothing in a forked process."""
    if not _RunEnd.is_due():
        return
    _report()
    if _RunEnd.guard is not None:
        _RunEnd.guard.begin_unwinding()
    try:
        close_system()
    except Exception as error:
        log_failures([("closing the system", error)])
    _RunEnd.reset()


def finish_unused(request: Mapping[str, str], is_quiet: bool) -> None:
    """Report on a script that has imported neither of the vendor's packages.

    Args:
        request: The arguments of `watch_run`.
        is_quiet: Whether an exception has ended it, and the traceback is enough, or it has not
            imported TensorFlow.
    """
    unread = _describe_unread(request)
    checks_itself = has_opened_system()
    if checks_itself:
        what = "this script uses ascend_session, which checks its sessions itself."
    else:
        what = (
            "this process has imported neither npu_bridge nor hccl; it would compute on the host "
            "even where there is a device."
        )
    _write_report(request, RunReport([], [what, *unread]), [])
    if unread or not (is_quiet or checks_itself):
        _show_report(RunReport([], unread), what)


def _describe_unread(request: Mapping[str, str]) -> List[str]:
    """Report sessions with an entry that nothing reads."""
    sentences = []
    for where in dict.fromkeys(request.get("unread", "").splitlines()):
        file, _, number = where.rpartition(":")
        texts = enumerate(linecache.getlines(file), 1)
        lines = [n for n, text in texts if "NpuOptimizer" in text]
        entry = f" ({UserLine(file, lines[0])})" if lines else ""
        sentences.append(
            f"The NpuOptimizer entry{entry} of the session that is opened at "
            f"{UserLine(file, int(number))} has no effect, because npu_bridge was not imported "
            "before: on a device, too, the session would run on the host. Write `from "
            "npu_bridge.npu_init import *` at the top of the script."
        )
    return sentences


def _describe_eager(log: SessionLog) -> Iterator[str]:
    """Report training that no session runs, for which the script has imported the vendor's names.

    Source: the manual's Porting Principle: options and graphs reach the adapter by ``sess.run``.
    """
    if log.eager_training is not None:
        yield (
            f"The training at {log.eager_training} is eager: no session runs it, so all of it "
            "stays on the host, on a device as well. Turn eager execution off at the top of the "
            "script (`tf.compat.v1.disable_eager_execution()`) and train in a session."
        )


def _report() -> None:
    """Write the report of rank 0, once; do nothing in a forked process."""
    if not _RunEnd.is_due() or _RunEnd.is_reported:
        return
    _RunEnd.is_reported = True
    request, log = _RunEnd.request, session_log()
    record = log.as_dict()
    if record["rank"] != 0:
        return
    sessions = record["sessions"]
    differs = [*_describe_eager(log), *_describe_unread(request), *log.local_gradients]
    differs += compare_ranks(record, _read_records())
    report = build_report(sessions, differs, log.has_own)
    _write_report(request, report, sessions)
    if sessions or "child" not in request:
        reason = request.get("reason")
        _show_report(report, f"this ran on the stub{': ' + reason if reason else ''}.")


def _write_report(
    request: Mapping[str, str], report: RunReport, sessions: Sequence[Mapping[str, Any]]
) -> None:
    if "json" in request:
        rows = [row._asdict() for row in report.rows]
        sentences = [*report.sentences, *_RunEnd.advice]
        contents = {"options": rows, "sentences": sentences, "sessions": sessions}
        write_json(request["json"], contents)


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
