"""What is said at the end of a run, and when.

That is which options were set, and what became of them; and what to do about an exception that ends
the script, where its own message does not say it.

At the end of the run the system is closed in order, after the exit handlers that the script has
registered since it was opened, and after all of them one report is written. The report of a script
that fails comes before its traceback, which is what people and the launcher look for at the end;
what to do about it comes after that.
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
from traceback import walk_tb
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

from ascend_session.compat.sessions import (
    close_system,
    owns_system,
    session_log,
    watch_sessions,
    watch_sessions_on_device,
    write_json,
)
from ascend_session.process import on_close
from ascend_session.rank_folder import RANK_FOLDER, SESSIONS_NAME
from ascend_session.requirements import VENDOR_WHEEL_COMMAND
from ascend_session.session.signals import Terminated, at_forced_end, log_failures
from ascend_session.session.system import current_system, has_opened_system
from ascend_session.text import format_ranges
from ascend_session.user_code import UserLine, user_lines

# What ---------------------------------------------------------------------------------------------


# Of a row: its sections, and the heading over each.
_SECTIONS = (
    ("refused", "Errors, which end the run on a device:"),
    ("host", "Errors on a device whose host has the files of this machine:"),
    ("silent", "Ignored:"),
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
        sessions: Their numbers: ``1-3,5``.
        why: What becomes of it, in a sentence.
        effect: As of `verdicts.SessionOption`.
    """

    key: str
    value: str
    sessions: str
    why: str
    effect: str

    @property
    def section(self) -> str:
        """Where it stands: under its effect, or ``here`` if the stub does it, too."""
        is_here = self.effect == "device" and re.search(r"(?<!not )\bin force: ", self.why)
        return "here" if is_here else self.effect


class RunReport(NamedTuple):
    """What one process has to say.

    Attributes:
        rows: The options.
        sentences: What else there is to say.
    """

    rows: List[ReportRow]
    sentences: List[str]


def build_report(
    sessions: Sequence[Mapping[str, Any]], others: Sequence[str] = (), has_own: bool = False
) -> RunReport:
    """Report on sessions, given as `sessions.WatchedSession.as_dict` makes them.

    Args:
        sessions: They, in the order of opening.
        others: More sentences.
        has_own: Whether the script has opened sessions of this package, too.
    """
    rows: Dict[Tuple[str, str, str, str], List[int]] = {}
    notes: Dict[str, List[int]] = {}
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
        for note in session["notes"]:
            notes.setdefault(note, []).append(number)
    ordered = sorted(rows.items(), key=lambda item: (item[0][0], item[1]))
    return RunReport(
        [
            ReportRow(key, value, format_ranges(numbers, ","), why, effect)
            for (key, value, why, effect), numbers in ordered
        ],
        [
            *_list_sessions(sessions, has_own),
            *(f"{_name('Session', numbers)}: {note}" for note, numbers in notes.items()),
            *others,
        ],
    )


def _list_sessions(sessions: Sequence[Mapping[str, Any]], has_own: bool) -> List[str]:
    opened = [each for each in sessions if not each.get("is_refused")]
    sentences = []
    if has_own:
        sentences = ["The sessions of ascend_session are not listed: it has checked their options."]
    elif not opened:
        sentences = ["The script has opened no session."]
    for has_entry, words in (
        (True, "with an NpuOptimizer entry"),
        (False, "without one, which a device leaves on the host, too"),
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
    """Tell how the other ranks differ, in sentences.

    Args:
        own: The record of this rank: ``rank``, its ``sessions``, and ``variables``, which stands
            for its variables before its first averaged step; None if it has made none.
        others: Those of other ranks, as far as they have come.
    """
    ranks = {record["rank"]: record for record in others}
    return [*_compare_variables(own, ranks), *_compare_sessions(own, ranks)]


def _compare_variables(
    own: Mapping[str, Any], others: Mapping[int, Mapping[str, Any]]
) -> List[str]:
    """Tell that ranks that average gradients began with different variables."""
    known = {rank: record.get("variables") for rank, record in others.items()}
    digests = {rank: each for rank, each in known.items() if each is not None}
    different = sorted(rank for rank, each in digests.items() if each != own["variables"])
    if own["variables"] is None or not different:
        return []
    count = len({own["variables"], *digests.values()})
    return [
        f"{_name('Rank', different)} began with other variables than rank 0, and the optimizer "
        f"averages gradients only: this job trains {count} different models. Give the session the "
        "hook NPUBroadcastGlobalVariablesHook(0), or Keras the callback "
        "NPUBroadcastGlobalVariablesCallback(0), or run npu_hook.broadcast_global_variables(0) "
        "once, after the variables' initialisers."
    ]


def _compare_sessions(own: Mapping[str, Any], others: Mapping[int, Mapping[str, Any]]) -> List[str]:
    """Tell which options differ, in the sessions that both ranks have opened."""
    differences: Dict[Tuple[str, str, Tuple[int, ...]], Dict[int, str]] = {}
    for rank, record in others.items():
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
        report: What there is to say.
        head: The first line.
        width: The longest line, in characters; None leaves each sentence on one line.
    """
    lines = [head]
    for section, title in _SECTIONS:
        rows = [row for row in report.rows if row.section == section]
        if rows:
            lines += [f"  {title}", *(f"    {line}" for line in _join_rows(rows, report.rows))]
    lines += [f"  {sentence}" for sentence in report.sentences]
    if width is None:
        return lines
    wrapped = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapped += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return wrapped


def _join_rows(rows: Iterable[ReportRow], all_rows: Sequence[ReportRow]) -> List[str]:
    """Write one line for all rows of which the same is said, but for their keys and values."""
    alike: Dict[str, List[ReportRow]] = {}
    for row in rows:
        pattern = row.why
        if _is_named(row):
            pattern = pattern.replace(row.key, "KEY").replace(row.value, "VALUE")
        alike.setdefault(pattern, []).append(row)
    is_in_all = len({row.sessions for row in all_rows}) == 1
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
    """Whether the sentence about an option names it."""
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


# When ---------------------------------------------------------------------------------------------


class _RunEnd:
    """What is to be done at the end of this process.

    Attributes:
        request: As of `begin`; None if nothing is to be done, or all is done.
        pid: The process; a fork of it does nothing.
        is_reported: Whether the report is written.
        advice: What there is to do about the exception that ends the script.
    """

    request: Optional[Dict[str, str]] = None
    pid = -1
    is_reported = False
    advice: Sequence[str] = ()

    @classmethod
    def reset(cls, request: Optional[Dict[str, str]] = None) -> None:
        cls.request, cls.pid = request, os.getpid()
        cls.is_reported, cls.advice = False, ()

    @classmethod
    def is_due(cls) -> bool:
        return cls.request is not None and cls.pid == os.getpid()


def watch_run(request: Dict[str, str]) -> None:
    """Check the sessions of a script from now on, and report on them; imports TensorFlow.

    Args:
        request: As of `begin`.
    """
    if request.get("replaces_vendor", "yes") != "yes":
        watch_sessions_on_device()
        return
    begin(request)
    watch_sessions(begin_in_fork)


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
    system = current_system()
    if system is not None and owns_system():
        system.fail(error)  # which tells the other ranks, before anything is closed
    _report_if_due()
    if isinstance(error, Terminated):
        finish()  # the process ends by its signal before it comes to anything else


def finish() -> None:
    """Close the system and write the report, once; nothing happens in a forked process."""
    if not _RunEnd.is_due():
        return
    request, _RunEnd.request = _RunEnd.request or {}, None
    _report(request)
    try:
        close_system()
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
    checks_itself = has_opened_system()
    if checks_itself:
        what = "this script uses ascend_session, which checks its sessions itself."
    else:
        what = (
            "this process has imported neither npu_bridge nor hccl; it would compute on the host "
            "even where there is a device."
        )
    _write_report(request, RunReport([], [what, *unread]), [])
    if unread or not (has_failed or checks_itself):
        head = f"ascend-session: {what}"
        _show(report_lines(RunReport([], unread), head, _terminal_width()))


def _describe_unread(request: Mapping[str, str]) -> List[str]:
    """Name each session whose entry nobody reads, and what to write."""
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


def _report_if_due() -> None:
    if _RunEnd.is_due():
        _report(_RunEnd.request or {})


def _report(request: Mapping[str, str]) -> None:
    """Write the report of rank 0, once."""
    if _RunEnd.is_reported:
        return
    _RunEnd.is_reported = True
    record = session_log().as_dict()
    if record["rank"] != 0:
        return
    sessions = record["sessions"]
    others = [*_describe_unread(request), *compare_ranks(record, _read_records())]
    report = build_report(sessions, others, session_log().has_own)
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
        write_json(request["json"], contents)


def _terminal_width() -> Optional[int]:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it any more
        if sys.stderr.isatty():
            return shutil.get_terminal_size().columns
    return None


def _show(lines: Sequence[str]) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()


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


# What to do about an exception --------------------------------------------------------------------


def advise(error: BaseException, request: Mapping[str, str]) -> Optional[str]:
    """Give a sentence or two about what ends a script; None if the error says enough.

    Args:
        error: With its traceback.
        request: What the command was called with (`begin`).
    """
    return (
        _advise_on_environment(error)
        or _advise_on_packages(error, request)
        or _advise_on_layout(error)
        or _advise_on_loss_scale(error)
        or _advise_on_tensorflow1(error)
    )


# The environment ---------------------------------------------------------------------------------

# What every rank of a launch has (launcher/environment.py), with a chief or without.
_SET_BY_LAUNCH = (
    *("RANK_ID", "RANK_SIZE", "DEVICE_ID", "DEVICE_INDEX", "ASCEND_DEVICE_ID"),
    *("JOB_ID", "LOCAL_RANK", "LOCAL_SIZE"),
)

_READS_VARIABLE = re.compile(
    rf"(?:getenv|environ\.get)\(\s*['\"]({'|'.join(_SET_BY_LAUNCH)})['\"]\s*\)"
)


def _advise_on_environment(error: BaseException) -> Optional[str]:
    """Name the variable of a rank that the script reads without a default, and who sets it."""
    for line, name in _find_reads(error):
        if name not in os.environ:
            return (
                f"{line} reads {name}, which is not set here. Start it with "
                "`ascend-session launch -n 1`, which sets it, as all variables of a rank."
            )
    return None


def _find_reads(error: BaseException) -> Iterator[Tuple[UserLine, str]]:
    """Find where the script has read what the error is about, and which variable."""
    is_of_none = isinstance(error, (TypeError, AttributeError)) and "NoneType" in str(error)
    if not is_of_none and not isinstance(error, KeyError):
        return
    trace = list(walk_tb(error.__traceback__))
    lines = user_lines(reversed(trace))
    if isinstance(error, KeyError):  # os.environ's own, however the script writes the name
        # If the script put a plain dictionary there, this is no Python function.
        read_item = type(os.environ).__getitem__
        is_of_environ = trace[-1][0].f_code is getattr(read_item, "__code__", None)
        if is_of_environ and lines and error.args[0] in _SET_BY_LAUNCH:
            yield lines[0], error.args[0]
        return
    for line in lines:
        failing = linecache.getline(line.file, line.number)
        for name in _READS_VARIABLE.findall(failing):
            yield line, name
        for number, text in enumerate(linecache.getlines(line.file), 1):
            # The value may have been kept in a variable before.
            target, _, value = text.partition("=")
            words = re.escape(target.strip())
            if words and re.search(rf"(?<![\w.]){words}(?!\w)", failing):
                for name in _READS_VARIABLE.findall(value):
                    yield UserLine(line.file, number), name


# The vendor's packages ---------------------------------------------------------------------------


def _advise_on_packages(error: BaseException, request: Mapping[str, str]) -> Optional[str]:
    """Tell who needs the vendor's packages, where they are missing and are not replaced."""
    is_replaced = request.get("replaces_vendor", "yes") == "yes"
    if is_replaced or not isinstance(error, ModuleNotFoundError):
        return None
    package = str(error.name).partition(".")[0]
    if package not in ("npu_bridge", "hccl"):
        return None
    return (
        f"The npu backend was chosen because {request.get('reason')}, but {package} cannot be "
        f"found by this Python ({sys.executable}). Source the toolkit's set_env.sh and install the "
        f"vendor's wheel: {VENDOR_WHEEL_COMMAND}. With --backend stub the script runs on the CPU, "
        "without them."
    )


# The graph ---------------------------------------------------------------------------------------

_NHWC_ONLY = re.compile(r"only supports? (?:the )?NHWC|NHWC tensor format on the CPU")
_LOSS_SCALE = re.compile(r"uninitialized value (?:\S*/)?(loss_scale|good_steps|bad_steps)\b")


def _advise_on_layout(error: BaseException) -> Optional[str]:
    """Tell what to do about a layout of images that TensorFlow computes on accelerators only."""
    if not _NHWC_ONLY.search(str(error)):
        return None
    operation = getattr(error, "op", None)
    what = f"The operator {operation.name!r}" if operation is not None else _place(error)
    return (
        f"{what} is in NCHW, which TensorFlow cannot compute on this CPU; that says nothing of a "
        "device. To run it here, give convolutions, poolings and batch normalizations "
        "data_format='NHWC' ('channels_last' in Keras and tf.layers), and the images in that order."
    )


def _advise_on_loss_scale(error: BaseException) -> Optional[str]:
    """Tell how Keras comes to know the variables of a loss scale, which the vendor's leaves out."""
    match = _LOSS_SCALE.search(str(error))
    if match is None:
        return None
    return (
        f"Nothing has initialised {match.group(1)} of ExponentialUpdateLossScaleManager. Keras "
        "initialises only what optimizer.variables() gives, and the vendor's optimizers "
        "(npu_optimizer.py) leave the loss scale out there, on a device, too. After model.compile, "
        "write `tf.keras.backend.get_session().run(tf.variables_initializer(tf.global_variables("
        "'loss_scale|good_steps|bad_steps')))`; without Keras, run the initialisers after the "
        "manager is made."
    )


# TensorFlow 1 ------------------------------------------------------------------------------------

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


def _advise_on_tensorflow1(error: BaseException) -> Optional[str]:
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
    """Give file and line of the script's innermost frame."""
    lines = user_lines(reversed(list(walk_tb(error.__traceback__))))
    return str(lines[0]) if lines else "The script"
