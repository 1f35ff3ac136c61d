"""Each training run is recorded, and two recorded trainings differ where they were made to."""

import fcntl
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from click.testing import CliRunner

from ascend_session.cli.compare import compare
from ascend_session.cluster.records import clear_records
from ascend_session.errors import ConfigError
from ascend_session.witness import RECORD_VARIABLE
from tests.compat.run_scripts import PREFACE, environment, run_script
from tests.launched import launched

STEPS = 20
SCRIPT = (
    PREFACE
    + """
import numpy as np
from npu_bridge.npu_init import *
rank, size = int(os.environ.get("RANK_ID") or 0), int(os.environ.get("RANK_SIZE") or 1)
planted = int(os.environ.get("PLANTED") or 0)
w = tf.get_variable("w", initializer=[1.0, 2.0, 3.0])
x = tf.placeholder(tf.float32, [None, 3])
loss = tf.reduce_mean(tf.square(tf.reduce_sum(x * w, 1) - 1.0), name="loss")
optimizer = npu_tf_optimizer(tf.train.GradientDescentOptimizer(0.05))
with tf.control_dependencies([loss]):
    step = optimizer.minimize(loss)
data = np.random.RandomState(1).rand(20, 8, 3).astype(np.float32)
with tf.Session(config=options(precision_mode="force_fp32")) as session:
    session.run(tf.global_variables_initializer())
    for number, batch in enumerate(data, 1):
        if number == planted:
            batch = batch * 1.01
        session.run(loss, {x: batch})  # no training run
        session.run({"a": [step, (loss,)]}, {x: batch[rank::size]})
        if "EACH_STEP" in os.environ:
            exec(os.environ["EACH_STEP"])
"""
)


def record(folder: Path, name: str, python: str, **variables: str) -> Any:
    """Runs the script on one rank, recorded in a file of that name."""
    path = str(folder / name)
    given = {RECORD_VARIABLE: path, **variables}
    return run_script(folder, SCRIPT, python=python, variables=given)


def read(path: Path) -> List[Dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def call(*paths: Path) -> Any:
    return CliRunner().invoke(compare, [str(path) for path in paths])


def test_a_script_that_imports_npu_bridge_before_tensorflow_is_recorded(
    tmp_path: Path, forking_python: str
) -> None:
    given = {RECORD_VARIABLE: str(tmp_path / "record.jsonl")}
    first = "from npu_bridge.npu_init import *\n"
    ended = run_script(tmp_path, first + SCRIPT, python=forking_python, variables=given)
    assert ended.returncode == 0, ended.stderr
    assert len(read(tmp_path / "record.jsonl")) == STEPS + 1


def test_whole_numbers_are_recorded_but_for_the_global_step(
    tmp_path: Path, forking_python: str
) -> None:
    script = (
        PREFACE
        + """
from npu_bridge.npu_init import *
steps = tf.Variable(0, trainable=False, name="global_step")
w = tf.get_variable("w", initializer=4.0)
train = tf.train.GradientDescentOptimizer(1.0).minimize(w * w, global_step=steps)
correct = tf.constant(7, name="correct")
with tf.Session(config=options(precision_mode="force_fp32")) as session:
    session.run(tf.global_variables_initializer())
    session.run([train, correct, steps])
"""
    )
    given = {RECORD_VARIABLE: str(tmp_path / "record.jsonl")}
    ended = run_script(tmp_path, script, python=forking_python, variables=given)
    assert ended.returncode == 0, ended.stderr
    _, line = read(tmp_path / "record.jsonl")
    assert line["values"] == {"correct": 7.0}


def test_equal_trainings_agree_and_a_planted_step_is_named(
    tmp_path: Path, forking_python: str
) -> None:
    planted = random.randint(1, STEPS)
    for name, variables in (("a", {}), ("b", {}), ("c", {"PLANTED": str(planted)})):
        ended = record(tmp_path, name, forking_python, **variables)
        assert ended.returncode == 0, ended.stderr
    header, *steps = read(tmp_path / "a")
    assert header["options"] == {"precision_mode": "force_fp32"}
    assert (header["ranks"], header["backend"]) == (1, "stub")
    assert [line["step"] for line in steps] == list(range(1, STEPS + 1))
    assert all(list(line["values"]) == ["loss"] for line in steps)
    equal = call(tmp_path / "a", tmp_path / "b")
    assert equal.exit_code == 0, equal.output
    differ = call(tmp_path / "a", tmp_path / "c")
    assert differ.exit_code == 1
    assert differ.output.startswith(f"Step {planted}, rank 0: loss is "), (planted, differ.output)


def test_one_rank_and_two_train_the_same_and_gradients_have_norms(
    tmp_path: Path, forking_python: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    assert record(tmp_path, "one.jsonl", forking_python).returncode == 0
    planted = random.randint(1, STEPS)
    for name, env in (("two", {}), ("other", {"PLANTED": str(planted)})):
        path = str(tmp_path / f"{name}.jsonl")
        result = launched(str(script), 2, tmp_path, python=forking_python, record=path, env=env)
        assert result.ok, result
    of_ranks = [read(tmp_path / f"two{rank}.jsonl")[1:] for rank in ("", ".rank1")]
    assert [line["norms"] for line in of_ranks[0]] == [line["norms"] for line in of_ranks[1]]
    assert list(of_ranks[0][0]["norms"]) == ["w"]
    assert call(tmp_path / "one.jsonl", tmp_path / "two.jsonl").exit_code == 0
    differ = call(tmp_path / "two.jsonl", tmp_path / "other.jsonl").output
    assert differ.startswith(f"Step {planted}, rank 0: loss is "), (planted, differ)
    assert f"Step {planted}, rank 1: the norm of the gradient of w is " in differ


def test_a_process_that_is_ended_has_recorded_all_steps_until_then(
    tmp_path: Path, forking_python: str
) -> None:
    end = "if number == 7: os.kill(os.getpid(), 15)"
    ended = record(tmp_path, "a", forking_python, EACH_STEP=end)
    assert ended.returncode != 0
    assert [line["step"] for line in read(tmp_path / "a")[1:]] == list(range(1, 8))


def test_a_full_disk_ends_the_record_and_not_the_training(
    tmp_path: Path, forking_python: str
) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))"
    ended = record(tmp_path, "a", forking_python, EACH_STEP=limit)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("The training continues.") == 1
    assert record(tmp_path, "b", forking_python).returncode == 0
    partial = call(tmp_path / "a", tmp_path / "b")
    assert "recorded steps in common agree" in partial.output, partial.output
    assert partial.exit_code == 1


def test_a_second_process_of_a_rank_leaves_the_file_to_the_first(
    tmp_path: Path, forking_python: str
) -> None:
    (tmp_path / "other.py").write_text(SCRIPT)
    other = "subprocess.run([sys.executable, 'other.py'], stderr=open('other.log', 'w'))"
    start = f"if number == 3: import subprocess; os.environ.pop('EACH_STEP'); {other}"
    ended = record(tmp_path, "a", forking_python, EACH_STEP=start)
    assert ended.returncode == 0, ended.stderr
    assert [line["step"] for line in read(tmp_path / "a")[1:]] == list(range(1, STEPS + 1))
    log = (tmp_path / "other.log").read_text()
    assert "another process of this rank records its training there" in log, log


@pytest.mark.parametrize("place", ["missing/a", ".", "/proc/a", "/dev/full"])
@pytest.mark.parametrize("command", ["run", "launch"])
def test_a_file_that_cannot_be_written_starts_nothing(
    tmp_path: Path, command: str, place: str
) -> None:
    (tmp_path / "train.py").write_text("open('started', 'w')")
    ended = subprocess.run(
        [sys.executable, "-m", "ascend_session.cli", command, "--record", place, "train.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert f"--record={(tmp_path / place).resolve()} cannot be written" in ended.stderr
    assert not (tmp_path / "started").exists()


def test_a_file_in_which_a_training_is_being_recorded_is_left_to_it(tmp_path: Path) -> None:
    record = tmp_path / "a"
    record.write_text("of another training")
    with open(record) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="cannot be written: another training is being rec"):
            clear_records(str(record), [0])
        assert record.read_text() == "of another training"
    clear_records(str(record), [0])
    assert record.read_text() == ""


def test_without_the_variable_nothing_is_recorded(tmp_path: Path, forking_python: str) -> None:
    ended = run_script(tmp_path, SCRIPT, python=forking_python)
    assert ended.returncode == 0
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]
