"""A result that was written as JSON, as objects again.

`saved` reads those of launches of the past, and the guardian completes that of its launcher, if
this is killed.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Dict, Iterable, Sequence, Type, TypeVar

from ascend_session.failures.failure import Definition, Failure, FailureClass
from ascend_session.failures.record import ErrorRecord, Frame
from ascend_session.failures.scanner import look_up
from ascend_session.launcher.job.attempt import Attempt, Cause, Pace
from ascend_session.launcher.job.events import EVENTS
from ascend_session.launcher.job.reports import Reports
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.verdict.result import (
    LaunchResult,
    judge_ranks,
    note_event,
    write_result,
)

_Record = TypeVar("_Record")


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
    result = restore_result(json.loads(text))
    attempt = result.attempts[-1]
    attempt.reports = reports
    for rank, folder in zip(attempt.ranks, folders):
        rank.folder = folder
    for name, *values in events:
        note_event(attempt, EVENTS[name](*values))
    judge_ranks(attempt)
    replaced = reports.replaced.get(attempt.ranks[0].rank, ()) if result.set else ()
    write_result(dataclasses.replace(result, replaced=tuple(replaced)))


def restore_result(values: Dict[str, Any]) -> LaunchResult:
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
