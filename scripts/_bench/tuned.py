"""Knows what results of tuning are compared with: the same JSON, of which nothing is looked at."""

import contextlib
import io
import json
import tempfile
from pathlib import Path
from time import process_time
from typing import Any, Dict, Iterator, List

from ascend_session.aoe import read_results
from ascend_session.cli._aoe_report import View, show_view
from timing import Row, best

OPERATORS = 10_000


def tuned(repeat: int) -> Iterator[Row]:
    """Compare reading and showing a result file of 10,000 operators with ``json.load`` of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "aoe_result_opat_20240315_101530123_1.json")
        Path(path).write_text(json.dumps(result(OPERATORS), indent=1), encoding="utf-8")
        found = best(
            {
                "read": lambda: _read(path),
                "report": lambda: _report(path),
                "theirs": lambda: _load(path),
            },
            repeat,
        )
    count = f"{OPERATORS:,} operators"
    without = "json.load, with nothing looked at"
    yield Row(f"{count}: read and checked", found["read"], without, found["theirs"], 12.0)
    yield Row(
        f"{count}: the whole report",
        found["report"],
        without,
        found["theirs"],
        1000.0,
        limits_ratio=False,
    )


def result(number: int) -> Dict[str, Any]:
    """Make the content of a result file, in which all is in order."""
    operators = [_operator(place) for place in range(number)]
    summary = {
        "repo_add_num": number,
        "repo_hit_num": 0,
        "repo_reserved_num": 0,
        "repo_unsatisfied_num": 0,
        "repo_update_num": 0,
        "total_num": number,
    }
    tuning = {
        "opat_tuning_result": "tuning successful",
        "repo_modified_operators": operators,
        "repo_summary": summary,
    }
    basic = {"tuning_name": "net", "tuning_time(s)": 44}
    return {"report_20240315_101530123_1": [{"basic": basic}, {"OPAT": tuning}]}


def _operator(place: int) -> Dict[str, Any]:
    before, after = 20.5 + place % 97, 10.25 + place % 7
    times = {
        "performance_after_tune(us)": after,
        "performance_before_tune(us)": before,
        "performance_improvement": f"{100 * (before / after - 1):.2f}%",
        "update_mode": "add",
    }
    name = f"bert/encoder/layer_{place}/attention/output/dense/MatMul"
    return {"op_name": name, "op_type": "MatMulV2", "tune_performance": {"Schedule": times}}


def _read(path: str) -> List[float]:
    begin = process_time()
    read_results([path])
    return [process_time() - begin]


def _report(path: str) -> List[float]:
    begin = process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        show_view(View.choose(read_results([path])))
    return [process_time() - begin]


def _load(path: str) -> List[float]:
    begin = process_time()
    with open(path, encoding="utf-8") as file:
        json.load(file)
    return [process_time() - begin]
