"""What a launch says about its pace: one line at its end, the same in JSON and in the events."""

import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest

from ascend_session import LaunchResult
from ascend_session.launcher.job.attempt import Pace
from ascend_session.launcher.verdict.training import describe_pace, measure_pace
from tests.launched import launched
from tests.launcher.situations import Situation

# The first argument is what the ranks do.
_SCRIPT = """
import sys
import time
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl, training
how = sys.argv[1]
with ascend_system() as system:
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", initializer=[3.0, 4.0])
    optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1))
    train_op = optimizer.minimize(tf.reduce_sum(w * w), step)
    if how == "monitored":
        with training.monitored_session(system) as session:
            for _ in range(30):
                time.sleep(0.02)
                session.run(train_op)
        sys.exit()
    with system.session() as session:
        session.run(tf.global_variables_initializer())
        for number in range(1, 2 if how == "one step" else 31):
            time.sleep(0.02)
            session.run(train_op)
            if how == "rank 0 alone" and system.rank == 0:
                training.note_step(number, samples=32)
            elif how in ("by hand", "one step"):
                training.note_step(number, samples=32)
            elif how == "fails":
                training.note_step(number)
                if number == 20 and system.rank == 0:
                    raise ValueError("it fails")
"""


Train = Callable[..., LaunchResult]


@pytest.fixture
def train(tmp_path: Path, forking_python: str) -> Train:
    def train(how: str, **options: Any) -> LaunchResult:
        script = tmp_path / "train.py"
        script.write_text(_SCRIPT)
        return launched(str(script), 2, tmp_path, python=forking_python, args=(how,), **options)

    return train


def _pace(result: LaunchResult) -> Optional[Dict[str, Any]]:
    pace: Optional[Dict[str, Any]] = result.as_dict()["attempts"][-1]["pace"]
    return pace


def _lines(result: LaunchResult) -> List[str]:
    return [line for line in str(result).splitlines() if line.strip().startswith("Pace")]


def test_samples_of_all_ranks_are_added_in_one_line_and_in_all_files(
    tmp_path: Path, train: Train
) -> None:
    result = train("by hand", events=str(tmp_path / "events.jsonl"))
    pace = _pace(result)
    assert pace is not None
    assert pace["steps"] == 29
    assert 0 < pace["steps_per_s"] < 50  # of 20 ms and more
    assert pace["steps_per_s"] == pytest.approx(29 / pace["seconds"], rel=0.01)
    assert pace["samples_per_s"] == pytest.approx(64 * pace["steps_per_s"], rel=0.01)
    assert (pace["sample_ranks"], pace["has_all_samples"]) == ((0, 1), True)
    assert pace["first_step_s"] > 0
    (line,) = _lines(result)
    assert line.startswith("Pace: first step ")
    assert line.endswith(" samples/s over 29 steps.")
    (file,) = (tmp_path / "ascend-logs").glob("job*/result.json")
    events = [json.loads(each) for each in (tmp_path / "events.jsonl").read_text().splitlines()]
    written = json.loads(file.read_text())["attempts"][0]["pace"]
    assert written == json.loads(json.dumps(pace))
    assert events[-1]["result"]["attempts"][0]["pace"] == written


def test_samples_of_one_rank_are_not_taken_for_those_of_the_job(train: Train) -> None:
    result = train("rank 0 alone")
    pace = _pace(result)
    assert pace is not None
    assert (pace["sample_ranks"], pace["has_all_samples"]) == ((0,), False)
    (line,) = _lines(result)
    assert line.endswith(" samples/s of rank 0 over 29 steps.")


def test_monitored_sessions_note_their_steps(train: Train) -> None:
    result = train("monitored")
    pace = _pace(result)
    assert pace is not None
    assert 20 <= pace["steps"] <= 29
    assert pace["samples_per_s"] is None
    assert len(_lines(result)) == 1


def test_a_job_that_failed_has_its_pace_among_the_facts(train: Train) -> None:
    result = train("fails")
    assert result.code == 1
    (line,) = _lines(result)
    assert line.strip().startswith("Pace")


@pytest.mark.parametrize("how", ["no notes", "one step"])
def test_nothing_is_said_where_too_little_is_known(train: Train, how: str) -> None:
    result = train(how)
    assert result.code == 0
    assert _pace(result) is None
    assert _lines(result) == []


def test_independent_ranks_have_no_pace_in_common(train: Train) -> None:
    result = train("by hand", independent=True)
    assert _lines(result) == []


def _pace_of_script(folder: Path, *samples: float) -> Optional[Pace]:
    """Measure the pace of a script that has started ranks, which trained on so many samples."""
    made = Situation(folder, 1)
    for rank, own in enumerate(samples):
        state = {"kind": "state", "pid": 7 + rank, "rank": rank, "state": "open", "error": ""}
        made.attempt.reports.note(0, 7 + rank, {**state, "time": 1.0, "waits": []})
        pace = {"first_step_s": 1.0 + rank, "steps": 10, "seconds": 5.0 + rank, "samples": own}
        step = {"kind": "step", "step": 11, "total": None, "time": 9.0, "pace": pace}
        made.attempt.reports.note(0, 7 + rank, step)
    return measure_pace(made.plan, made.attempt)


def test_the_ranks_of_a_script_are_counted_each_by_its_own_number(tmp_path: Path) -> None:
    pace = _pace_of_script(tmp_path, 80.0, 160.0, 240.0)
    assert pace is not None
    assert (pace.sample_ranks, pace.has_all_samples) == ((0, 1, 2), True)
    # All make the steps together, at the rate of the fastest; the first step is the longest.
    assert (pace.steps_per_s, pace.samples_per_s, pace.first_step_s) == (2.0, 96.0, 3.0)
    some = _pace_of_script(tmp_path / "some", 0.0, 160.0, 240.0)
    assert some is not None
    assert (some.sample_ranks, some.has_all_samples) == ((1, 2), False)
    assert describe_pace(some).endswith("80 samples/s of ranks 1-2 over 10 steps")
