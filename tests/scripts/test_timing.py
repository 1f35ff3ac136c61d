"""How durations are compared."""

import os
import runpy
from pathlib import Path
from typing import Any, Dict, List

import pytest

TIMING = Path(__file__).resolve().parents[2] / "scripts" / "_bench" / "timing.py"
timing: Dict[str, Any] = runpy.run_path(str(TIMING))


def test_the_best_time_of_each_part_counts_after_the_warming_up() -> None:
    times = iter([[0.001, 0.001], [2.0, 0.25], [0.5, 1.0], [3.0, 3.0]])
    assert timing["best"]({"work": lambda: next(times)}, 3) == {"work": 750.0}


def test_the_sides_take_turns_to_and_fro() -> None:
    order: List[str] = []

    def note(name: str) -> List[float]:
        order.append(name)
        return [1.0]

    timing["best"]({"a": lambda: note("a"), "b": lambda: note("b")}, 3)
    assert "".join(order) == "ab" + "ab" + "ba" + "ab"


def test_each_part_of_a_work_that_warms_up_itself_is_told_apart() -> None:
    times = iter([[0.5, 0.25], [0.25, 1.0]])
    assert timing["best_parts"]({"work": lambda: next(times)}, 2) == {"work": [250.0, 250.0]}


def test_calls_are_made_as_often_as_asked_and_their_mean_is_one_part() -> None:
    done: List[int] = []
    (mean,) = timing["calls"](lambda: done.append(1), 7)()
    assert len(done) == 7
    assert mean > 0


def test_a_new_process_reports_the_time_of_its_statements() -> None:
    code = "import os\nassert os.environ['WORD'] == 'x'"
    (seconds,) = timing["fresh"](code, {**os.environ, "WORD": "x"})()
    assert 0 < seconds < 60


@pytest.mark.parametrize(
    ("ours", "limit", "limits_ratio", "is_ok"),
    [
        (2.0, 1.0, True, True),
        (2.2, 1.0, True, False),
        (0.9, 1.0, False, True),
        (1.1, 1.0, False, False),
    ],
)
def test_a_limit_is_for_the_ratio_or_for_ours(
    ours: float, limit: float, limits_ratio: bool, is_ok: bool
) -> None:
    row = timing["Row"]("this", ours, "that", 2.0, limit, limits_ratio)
    assert row.is_ok is is_ok
