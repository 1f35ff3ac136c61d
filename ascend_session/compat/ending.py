"""The end of a run: the system is closed in order, and one report is written.

That is after the script's own exit handlers. The report says which options were set and what became
of them. That of a script that fails comes before its traceback, which is what people and the
launcher look for at the end; a name that only TensorFlow 1 has is explained after it.
"""

import atexit
import contextlib
import importlib
import json
import os
import re
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster.schedulers import read_identity
from ascend_session.compat import life
from ascend_session.files import replace_file
from ascend_session.session import current_system
from ascend_session.session.signals import Terminated, at_forced_end
from ascend_session.session.teardown import log_failures

_HEADERS = ("OPTION", "VALUE", "SESSIONS", "WHAT BECOMES OF IT")
_WIDEST = 40  # characters of a value


class Row(NamedTuple):
    """One option with one value, and the sessions that have it."""

    key: str
    value: str
    sessions: str
    why: str


class Report(NamedTuple):
    """What one process has to say.

    Attributes:
        rows: The options.
        sentences: What else there is to say.
    """

    rows: List[Row]
    sentences: List[str]


def made(sessions: Sequence[Mapping[str, Any]], others: Sequence[str] = ()) -> Report:
    """The report on sessions, given as `watching.Watched.as_dict` makes them.

    Args:
        sessions: They, in the order of opening.
        others: How other ranks differ.
    """
    found: Dict[Tuple[str, str, str], List[int]] = {}
    notes: Dict[str, List[int]] = {}
    for session in sessions:
        defaults = [each["key"] for each in session["settings"] if each["effect"] == "default"]
        if defaults:
            said = f"{len(defaults)} options have the defaults that NPUEstimator writes."
            notes.setdefault(said, []).append(session["number"])
        for setting in session["settings"]:
            if setting["effect"] == "default":
                continue
            key = (setting["key"], _text(setting["value"]), setting["why"])
            found.setdefault(key, []).append(session["number"])
        for note in session["notes"]:
            notes.setdefault(note, []).append(session["number"])
    ordered = sorted(found.items(), key=lambda item: (item[0][0], item[1]))
    rows = [Row(key, value, _numbers(of), why) for (key, value, why), of in ordered]
    sentences = _about(sessions)
    sentences += [f"{_named(of)}: {note}" for note, of in notes.items()]
    return Report(rows, [*sentences, *others])


def _about(sessions: Sequence[Mapping[str, Any]]) -> List[str]:
    refused = [each for each in sessions if each.get("is_refused")]
    sessions = [each for each in sessions if each not in refused]
    said = [] if sessions else ["The script has opened no session."]
    for has_entry, words in (
        (True, "with an NpuOptimizer entry"),
        (False, "without one, which a device leaves on the host, too"),
    ):
        some = [each for each in sessions if each["has_entry"] is has_entry]
        if some:
            places = ", ".join(dict.fromkeys(str(each["where"]) for each in some))
            said.append(f"{_named([each['number'] for each in some])} {words}: {places}")
    for each in refused:
        said.append(f"{_named([each['number']])} was refused for its options: {each['where']}")
    return said


def differences(own: Sequence[Mapping[str, Any]], rank: int, theirs: Any) -> List[str]:
    """How the sessions of another rank differ from this one's, as far as both have opened them.

    Args:
        own: This rank's sessions.
        rank: The other one's number.
        theirs: Its sessions.
    """
    said = []
    for mine, other in zip(own, theirs):
        pairs = [{s["key"]: _text(s["value"]) for s in each["settings"]} for each in (mine, other)]
        for key in sorted({*pairs[0], *pairs[1]}):
            here, there = (pair.get(key, "not set") for pair in pairs)
            if here != there and key != "session_device_id":  # each rank has its own
                said.append(
                    f"Rank {rank} differs in session {mine['number']}: {key} is {there} there and "
                    f"{here} here."
                )
    return said


def lines(report: Report, head: str) -> List[str]:
    """The report as lines of text."""
    found = [head]
    if report.rows:
        rows = [_HEADERS, *report.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        found += [
            "  " + "  ".join([*(c.ljust(w) for c, w in zip(row, widths)), row[3]]).rstrip()
            for row in rows
        ]
    return found + [f"  {sentence}" for sentence in report.sentences]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) and value else repr(value)
    short = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 12]}...{text[-9:]}"
    return short.encode("unicode_escape").decode("ascii") if not short.isprintable() else short


def _named(numbers: Sequence[int]) -> str:
    return f"Session{'s' if len(numbers) > 1 else ''} {_numbers(numbers)}"


def _numbers(numbers: Sequence[int]) -> str:
    """``1-3,5``."""
    runs: List[List[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


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


def advice(error: BaseException) -> Optional[str]:
    """A sentence if it is TensorFlow 1 that the script misses; None for other errors."""
    tensorflow: Any = sys.modules.get("tensorflow")
    version = str(getattr(tensorflow, "__version__", ""))
    if not version or version.startswith("1."):
        return None
    here = f"this is TensorFlow {version}"
    name = _missing(error)
    if name is not None:
        which, has_new_name = name
        remedy = f"{_OLD}, {_RENAMED}." if has_new_name else f"{_OLD}: TensorFlow 2 has not got it."
        return f"{_place(error)} needs {which}, which is TensorFlow 1's; {here}. {remedy}"
    if isinstance(error, (RuntimeError, ValueError)) and _GRAPH_ONLY.search(str(error)):
        return (
            f"{_place(error)} builds a graph, but eager execution is on; {here}. Call "
            "`tf.compat.v1.disable_v2_behavior()` before anything is built."
        )
    return None


def _missing(error: BaseException) -> Optional[Tuple[str, bool]]:
    """The name that TensorFlow 2 has not got, and whether ``tensorflow.compat.v1`` has it."""
    if isinstance(error, AttributeError):
        found = _ATTRIBUTE.search(str(error))
        if found is None:
            return None
        inside = [part for part in found.group(1).split(".") if part not in ("", "_api", "v2")]
        parts = [*inside, found.group(2)]
        return ".".join(["tf", *parts]), _is_in_v1(parts)
    if isinstance(error, ModuleNotFoundError):
        module = _MODULE.search(str(error))
        if module is not None:
            return module.group(1), False
    return None


def _is_in_v1(parts: List[str]) -> bool:
    found: Any = sys.modules.get("tensorflow")
    for part in ("compat", "v1", *parts):
        found = getattr(found, part, None)
    return found is not None


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if "tensorflow" in str(trace.tb_next.tb_frame.f_globals.get("__name__", "")):
            break
        trace = trace.tb_next
    if trace is None:
        return "The script"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


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
    from ascend_session.compat.ending import advice

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
    said = read_identity(os.environ).rank
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
    text = json.dumps(data, indent=1, default=repr)
    try:
        replace_file(path, f"{text}\n".encode())
    except OSError as error:
        sys.stderr.write(f"ascend-session: {path} could not be written: {error.strerror}.\n")
