"""Launches of the past: those that a folder has, and what their launchers left in `result.json`.

The guardian completes the result of its launcher, if this was killed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar

from ascend_session.failures.failure import Definition, Failure, FailureClass
from ascend_session.failures.record import ErrorRecord, Frame
from ascend_session.failures.scanner import look_up
from ascend_session.files import read_end
from ascend_session.launcher.job.attempt import Attempt, Cause, Pace
from ascend_session.launcher.job.events import EVENTS
from ascend_session.launcher.job.reports import Reports
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.verdict.result import (
    RESULT_NAME,
    LaunchResult,
    judge_ranks,
    note_event,
    write_result,
)

LATEST_NAME = "latest"
"""Link to the newest of several launches, unless the user has a file or folder of that name."""

_ATTEMPT = re.compile(r"attempt_([0-9]{1,6})")
_NODE = re.compile(r"\.node_[0-9]+")
_MOST_BYTES = 64 << 20  # of a result; one of 1000 ranks that all failed has less than 10 MB
_LEVELS_ABOVE, _LEVELS_BELOW = 5, 2  # where launches are looked for, around the folder of one

_Record = TypeVar("_Record")


class SavedLaunch(NamedTuple):
    """A launch whose folder was found.

    Attributes:
        folder: Its folder.
        logs: The folder with the logs in question: that of an attempt, or one below it.
        result: What its launcher said, up to the attempt in question; None if that is not known.
        values: The object in `result.json`; empty without ``result``.
        trouble: Why there is no ``result``, in one sentence; else empty.
    """

    folder: str
    logs: str
    result: Optional[LaunchResult]
    values: Dict[str, Any]
    trouble: str = ""


def find_launches(folder: str) -> List[SavedLaunch]:
    """Find the launch to which a folder belongs, or the newest one in it.

    If the newest launch is one node's part of a job, the parts of the other nodes beside it belong
    to it; so do the newest launches in several folders, as if each came from a node.

    Args:
        folder: The folder of a launch, one below it, or one that has such folders.

    Returns:
        The launches, each of which may lack a result; empty for a folder of any other kind.
    """
    above = find_launch_of(folder)
    return [above] if above is not None else _find_below(folder, _LEVELS_BELOW)


def find_launch_of(path: str) -> Optional[SavedLaunch]:
    """Find the launch to which a file or folder below that of an attempt belongs."""
    place = os.path.abspath(path)
    for _ in range(_LEVELS_ABOVE):
        parent, name = os.path.split(place)
        match = _ATTEMPT.fullmatch(name)
        if match is not None:
            saved = _read_launch(parent, int(match[1]))
            if saved is not None and saved.result is not None:
                return saved._replace(logs=path if os.path.isdir(path) else os.path.dirname(path))
        place = parent
    return None


def find_beside(path: str) -> List[SavedLaunch]:
    """Find the newest launch beside a file or folder ``latest`` that is none; else return []."""
    parent, name = os.path.split(os.path.abspath(path))
    return _find_below(parent, 0) if name == LATEST_NAME and os.path.isdir(parent) else []


def _find_below(folder: str, levels: int) -> List[SavedLaunch]:
    own = _read_launch(folder)
    if own is not None:
        return [own]
    folders = _list_folders(folder)
    jobs = [path for path in folders if _list_attempts(path) or _read_values(path)[0] is not None]
    jobs = [path for path in jobs if os.path.basename(path) != LATEST_NAME] or jobs
    if jobs:
        newest = _NODE.sub("", max(jobs, key=lambda path: os.stat(path).st_mtime))
        parts = [path for path in jobs if _NODE.sub("", path) == newest]
        return [saved for saved in map(_read_launch, parts) if saved is not None]
    if not levels:
        return []
    return [saved for path in folders for saved in _find_below(path, levels - 1)]


def _list_attempts(folder: str) -> List[Tuple[int, str]]:
    matches = [(_ATTEMPT.fullmatch(os.path.basename(path)), path) for path in _list_folders(folder)]
    return [(int(match[1]), path) for match, path in matches if match is not None]


def _list_folders(folder: str) -> List[str]:
    """List the folders in a folder, without links to others of these."""
    try:
        paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:  # not the user's own
        return []
    own = os.path.realpath(folder)
    return [
        path
        for path in paths
        if os.path.isdir(path)
        and not (os.path.islink(path) and os.path.dirname(os.path.realpath(path)) == own)
    ]


def _read_launch(folder: str, number: Optional[int] = None) -> Optional[SavedLaunch]:
    """Read the result in the folder of a launch; None if the folder is not one.

    Args:
        folder: The folder.
        number: The attempt in question; None for the last.
    """
    values, trouble = _read_values(folder)
    attempts = dict(_list_attempts(folder))
    if values is not None:
        try:
            result = _restore_result(values)
        except (AttributeError, KeyError, TypeError, ValueError):
            values, trouble = None, "is not one that this version can read"
        else:
            done = [attempt for attempt in result.attempts if number in (None, attempt.number)]
            if done:
                last = done[-1]
                if last is not result.attempts[-1]:
                    code = 0 if last.cause is None else last.cause.exit_code
                    result = dataclasses.replace(result, code=code, attempts=(last,), notes=())
                logs = attempts.get(last.number, os.path.join(folder, f"attempt_{last.number}"))
                return SavedLaunch(folder, logs, result, values)
            trouble = f"does not have attempt {number}"
    if not attempts:
        return None
    logs = attempts.get(max(attempts) if number is None else number, folder)
    trouble = f"{os.path.join(folder, RESULT_NAME)} {trouble}, so only the logs are read."
    return SavedLaunch(folder, logs, None, {}, trouble)


def _read_values(folder: str) -> Tuple[Optional[Dict[str, Any]], str]:
    """Read `result.json`, with the paths of today if the folder was moved; or say why not."""
    path = os.path.join(folder, RESULT_NAME)
    if not os.path.exists(path):
        return None, "is not there (the job may still run, or its launcher was killed)"
    content = read_end(path, _MOST_BYTES)
    if not content:
        return None, "is empty"
    try:
        values = json.loads(content.decode("utf-8"))
        before = os.path.dirname(values["attempts"][-1]["folder"])
        if not isinstance(values["code"], int) or not isinstance(values["run"], str):
            return None, "is not the result of a launch"
    except (IndexError, KeyError, RecursionError, TypeError, ValueError):
        return None, "is not the result of a launch, or only a part of it"
    now = os.path.abspath(folder)
    if os.path.isabs(before) and os.path.realpath(before) != os.path.realpath(now):
        values = _move(values, before, now)
    return values, ""


def _move(value: Any, before: str, now: str) -> Any:
    """Replace the path of a folder in all texts of an object of JSON."""
    if isinstance(value, str):
        return re.sub(re.escape(before) + r"(?![\w.-])", lambda _: now, value)
    if isinstance(value, list):
        return [_move(each, before, now) for each in value]
    if isinstance(value, dict):
        return {key: _move(each, before, now) for key, each in value.items()}
    return value


def write_result_of_killed(
    text: str, folders: Sequence[str], events: Iterable[Any], reports: Reports
) -> None:
    """Write the result of a launcher that was killed; `guardian` does that when its job is over.

    Args:
        text: The result that the launcher would have had if it had been killed at the start of
            this attempt, as `format_result` gives it.
        folders: Those of the ranks, in order.
        events: What the guardian has noticed, as it reports it.
        reports: What the ranks have reported.

    Raises:
        OSError: If it cannot be written.
    """
    result = _restore_result(json.loads(text))
    attempt = result.attempts[-1]
    attempt.reports = reports
    for rank, folder in zip(attempt.ranks, folders):
        rank.folder = folder
    for name, *values in events:
        note_event(attempt, EVENTS[name](*values))
    judge_ranks(attempt)
    replaced = reports.replaced.get(attempt.ranks[0].rank, ()) if result.set else ()
    write_result(dataclasses.replace(result, replaced=tuple(replaced)))


def _restore_result(values: Dict[str, Any]) -> LaunchResult:
    """Make a result of the object in `result.json`.

    Raises:
        AttributeError: If the object is of another shape; KeyError, TypeError and ValueError, too.
    """
    attempts = tuple(map(_restore_attempt, values["attempts"]))
    options = values.get("set", {})
    return _restore(LaunchResult, values, attempts=attempts, set=options, replaced=())


def _restore_attempt(values: Dict[str, Any]) -> Attempt:
    ranks = tuple(map(_restore_rank, values["ranks"]))
    numbers = [rank.rank for rank in ranks]
    if not numbers or numbers[0] < 0 or numbers != [*range(numbers[0], numbers[0] + len(ranks))]:
        raise ValueError("An attempt has ranks, which are numbered without a gap.")
    cause = values["cause"] and _restore_cause(values["cause"])
    if cause is not None and cause.rank not in (None, *numbers):
        raise ValueError("The cause is a rank of another attempt.")
    pace = values.get("pace")
    pace = pace and _restore(Pace, pace)
    return _restore(Attempt, values, ranks=ranks, cause=cause, pace=pace)


def _restore_rank(values: Dict[str, Any]) -> LaunchRank:
    error = values["error"]
    if error is not None:
        frames = tuple(Frame(*frame) for frame in error["frames"])
        known = {name: error[name] for name in ErrorRecord._fields if name in error}
        error = ErrorRecord(**{**known, "frames": frames})
    return _restore(LaunchRank, values, error=error)


def _restore_cause(values: Dict[str, Any]) -> Cause:
    failure, kind = values["failure"], values["failure_class"]
    if kind is not None:
        kind = FailureClass(kind)
    if failure is not None:
        known = look_up(failure["code"])
        unlisted = Definition(kind or FailureClass.PERMANENT, "", "", is_listed=False)
        definition = unlisted if known is None else known.definition
        failure = Failure(failure["code"], failure["line"], definition)
    return _restore(Cause, values, failure=failure, failure_class=kind)


def _restore(kind: Type[_Record], values: Dict[str, Any], **made: Any) -> _Record:
    """Make an object of plain values, except for the fields that are made already.

    What a newer version has added is left out; so is a field whose value is no plain one.
    """
    fields: Any = dataclasses.fields(kind)  # type: ignore[arg-type, unused-ignore]
    for field in fields:
        if field.name in values and field.name not in made:
            value = values[field.name]
            value = tuple(value) if isinstance(value, list) else value
            if not _fits(value, field.type):
                raise TypeError(f"{field.name} is {field.type}, not {value!r}.")
            made[field.name] = value
    return kind(**made)


_TYPES: Dict[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool}


def _fits(value: Any, annotation: str) -> bool:
    """Return whether a value is of a type as in ``int``, ``Optional[int]``, ``Tuple[str, ...]``."""
    outer, _, inner = annotation.rstrip("]").partition("[")
    if outer == "Optional":
        return value is None or _fits(value, inner)
    if outer == "Tuple":
        within = inner.replace(", ...", "")
        return isinstance(value, tuple) and all(_fits(each, within) for each in value)
    if isinstance(value, float) and not math.isfinite(value):
        return False
    is_bool = isinstance(value, bool)
    return isinstance(value, _TYPES[annotation]) and is_bool == (annotation == "bool")
