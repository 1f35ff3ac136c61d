"""The JSON form of ``ascend-session aoe report``."""

from typing import Any, Dict, List, Optional, Sequence

from ascend_session.aoe.result_files import ResultFile, TunedItem, Tuning
from ascend_session.aoe.results import Change, Comparison, Results, totals
from ascend_session.cli._aoe_view import MICRO, MILLI, View, unit_of
from ascend_session.cli._file_report import place_as_dict

__all__ = ["as_dict"]


def as_dict(view: View) -> Dict[str, Any]:
    """The report as JSON can hold it; times of operators in microseconds, else milliseconds."""
    results = view.results
    made = {
        "ok": results.ok,
        "files": [_file(file) for file in results.files],
        "unread": _unread(results),
        "summary": results.summary._asdict(),
        "failed": list(results.failed),
        "totals": {
            "operators": _totals(view.operators, MICRO),
            "subgraphs": _totals(view.subgraphs, MILLI),
        },
        "operators": [_operator(one) for one in view.operators[: view.top]],
        "subgraphs": [_subgraph(one) for one in view.subgraphs[: view.top]],
    }
    if view.comparison is not None and view.other is not None:
        made["against"] = {
            "files": [file.name for file in view.other.files],
            "damage": [
                {"file": file.name, **place_as_dict(file.damage)}
                for file in view.other.files
                if file.damage is not None
            ],
            "unread": _unread(view.other),
            "summary": view.other.summary._asdict(),
            "totals": {
                "operators": _totals(view.other.operators, MICRO),
                "subgraphs": _totals(view.other.subgraphs, MILLI),
            },
            **_comparison(view.comparison, view.top),
        }
    return made


def _unread(results: Results) -> List[Dict[str, Optional[str]]]:
    return [{"message": one.message, "hint": one.hint} for one in results.unread]


def _file(file: ResultFile) -> Dict[str, Any]:
    tasks = [
        {
            **task._asdict(),
            "outcomes": file.outcomes(task),
            "tunings": [_tuning(tuning) for tuning in task.tunings],
        }
        for task in file.tasks
    ]
    return {
        "file": file.name,
        "damage": [] if file.damage is None else [place_as_dict(file.damage)],
        "doubts": [place_as_dict(one) for one in file.doubts],
        "tasks": tasks,
    }


def _tuning(tuning: Tuning) -> Dict[str, Any]:
    model = tuning.model
    return {
        "kind": tuning.kind,
        "outcome": tuning.outcome or None,
        "operators": len(tuning.operators),
        "subgraphs": len(tuning.subgraphs),
        "summary": tuning.summary and tuning.summary._asdict(),
        "failed": list(tuning.failed),
        "model": model and {"before": model.before, "after": model.after, "said": model.reported},
    }


def _totals(items: Sequence[TunedItem], unit: str) -> Dict[str, Any]:
    found = totals(items)
    return {
        "unit": unit,
        "number": len(items),
        "known": found.number,
        "before": found.before,
        "after": found.after,
        "saved": found.saved,
    }


def _operator(item: TunedItem) -> Dict[str, Any]:
    ways = [way._asdict() for way in item.tuned]
    return {"name": item.name, "types": item.types, **_times(item), "tuned": ways}


def _subgraph(item: TunedItem) -> Dict[str, Any]:
    (way,) = item.tuned
    percent, mode = way.improvement, way.update_mode
    return {"name": item.name, **_times(item), "said": percent, "update_mode": mode}


def _times(item: TunedItem) -> Dict[str, Optional[float]]:
    return {name: getattr(item, name) for name in ("before", "after", "saved", "improvement")}


def _comparison(found: Comparison, top: Optional[int]) -> Dict[str, Any]:
    made: Dict[str, Any] = {"same": found.same}
    for name in ("faster", "slower", "only_here", "only_there"):
        changes: Sequence[Change] = getattr(found, name)
        made[name] = [_change(one) for one in changes[:top]]
    made["failed_here"] = list(found.failed_here)
    made["failed_there"] = list(found.failed_there)
    return made


def _change(one: Change) -> Dict[str, Any]:
    return {**one._asdict(), "difference": one.difference, "unit": unit_of(one.kind)}
