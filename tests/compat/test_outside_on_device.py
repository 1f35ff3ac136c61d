"""Options from outside and records where there is a device: vendor packages on a fake host."""

import json
import random
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
from click.testing import CliRunner

from ascend_session.cli.compare import compare
from ascend_session.witness import RECORD_VARIABLE, SET_VARIABLE
from tests.compat.run_scripts import PREFACE, run_script
from tests.fake_host.vendor import environment, live_host, recorded

ESTIMATOR = Path(__file__).parents[1] / "examples" / "vendor_estimator"

STEP = """
w = tf.get_variable("w", initializer=[1.0, 2.0])
loss = tf.reduce_sum(w * w, name="loss")
with tf.control_dependencies([loss]):
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
"""
TRAINING = """
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run([step, loss])
"""
PLAIN = f"""{PREFACE}
from npu_bridge.npu_init import *
{STEP}
with tf.Session(config=options(**OPTIONS)) as session:
{TRAINING}"""
OWN = f"""
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import AscendConfig, ascend_session
{STEP}
one = OPTIONS.pop("hcom_parallel")
with ascend_session(AscendConfig(**OPTIONS).replace(hcom_parallel=one)) as session:
{TRAINING}"""
ESTIMATED = f"""
import os, tempfile
import tensorflow.compat.v1 as tf
import npu_bridge.estimator.npu
from npu_bridge.npu_init import *
npu_bridge.estimator.npu.__path__.append({str(ESTIMATOR)!r})
from npu_bridge.estimator.npu.npu_config import NPURunConfig
from npu_bridge.estimator.npu.npu_estimator import NPUEstimator
def model(features, labels, mode):
    w = tf.get_variable("w", initializer=[1.0, 2.0])
    loss = tf.reduce_sum(w * w * features, name="loss")
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    step = optimizer.minimize(loss, tf.train.get_global_step())
    scaffold = tf.train.Scaffold(saver=tf.train.Saver())  # not sharded
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step, scaffold=scaffold)
data = lambda: tf.data.Dataset.from_tensors(([1.0, 1.0], [0.0])).repeat()
os.environ["JOB_ID"] = "1"
NPUEstimator(model, tempfile.mkdtemp(dir="."), NPURunConfig(**OPTIONS)).train(data, max_steps=3)
"""
OF_SCRIPT = {
    "precision_mode": "allow_mix_precision",
    "hcom_parallel": False,
    "op_execute_timeout": 100,
}
SETTINGS: Dict[str, Any] = {
    "precision_mode": "force_fp32",  # read as the device is initialised
    "op_wait_timeout": 600,
    "hcom_parallel": True,  # read by each session
    "enable_small_channel": 1,
    "op_execute_timeout": None,
}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Any]:
    if sys.version_info >= (3, 8):
        pytest.skip("the vendor's adapter is built for TensorFlow 1.15, which Python 3.7 has")
    host = live_host(tmp_path)
    yield host
    host.close()


def run(host: Any, python: str, text: str, **variables: str) -> Any:
    given = environment(host, variables=variables)
    ended = run_script(
        host.root.parent, text, python=python, asked="replaces_vendor=no", variables=given
    )
    assert ended.returncode == 0, ended.stderr
    return ended


def list_options(host: Any) -> List[Any]:
    calls = ("GEInitialize", "GESession")
    return [each["options"] for each in recorded(host) if each["call"] in calls]


@pytest.mark.parametrize(
    ("text", "of_script", "settings"),
    [
        (PLAIN, OF_SCRIPT, SETTINGS),
        (OWN, OF_SCRIPT, SETTINGS),
        (
            ESTIMATED,
            {"precision_mode": "allow_mix_precision", "graph_run_mode": 1},
            {"precision_mode": "force_fp32"},
        ),
    ],
    ids=["npu_bridge", "ascend_session", "NPUEstimator"],
)
def test_the_device_and_its_sessions_get_what_they_would_get_of_the_edited_script(
    host: Any, forking_python: str, text: str, of_script: Any, settings: Any
) -> None:
    merged = {**of_script, **settings}
    edited = {name: value for name, value in merged.items() if value is not None}
    run(host, forking_python, f"OPTIONS = {edited!r}\n{text}")
    of_edited = list_options(host)
    assert of_edited[0]["precision_mode"] == "force_fp32"
    record = host.root.parent / "record.jsonl"
    variables = {SET_VARIABLE: json.dumps(settings), RECORD_VARIABLE: str(record)}
    ended = run(host, forking_python, f"OPTIONS = {of_script!r}\n{text}", **variables)
    assert list_options(host)[len(of_edited) :] == of_edited
    assert ended.stderr.count("ascend-session: Set from outside: ") == 1
    assert "precision_mode=force_fp32 (in the script 'allow_mix_precision')" in ended.stderr
    header, *steps = map(json.loads, record.read_text().splitlines())
    assert header["backend"] == "npu"
    assert header["options"]["precision_mode"] == "force_fp32"
    assert header["set"] == settings
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert all("loss" in line["values"] for line in steps)


RUNS, STEPS_A_RUN = 6, 4
LOOP = f"""{PREFACE}
from npu_bridge.npu_init import *
from npu_bridge.estimator.npu import util
{STEP}
with tf.Session(config=options(iterations_per_loop={STEPS_A_RUN})) as session:
    session.run(tf.global_variables_initializer())
    looped = util.set_iteration_per_loop(session, step, {STEPS_A_RUN})
    for number in range(1, {RUNS} + 1):
        if number == int(os.environ.get("PLANTED", 0)):
            w.load(session.run(w) * 1.01, session)
        session.run([looped, loss])
"""


def test_loops_of_the_device_are_compared_with_the_stubs_steps(
    host: Any, tmp_path: Path, forking_python: str
) -> None:
    planted = random.randint(1, RUNS)
    device, other, stub = (str(tmp_path / f"{name}.jsonl") for name in ("device", "other", "stub"))
    run(host, forking_python, LOOP, **{RECORD_VARIABLE: device})
    run(host, forking_python, LOOP, **{RECORD_VARIABLE: other, "PLANTED": str(planted)})
    on_stub = {RECORD_VARIABLE: stub}
    ended = run_script(tmp_path, LOOP, python=forking_python, variables=on_stub)
    assert ended.returncode == 0, ended.stderr
    steps = [json.loads(line)["step"] for line in Path(device).read_text().splitlines()[1:]]
    assert steps == [STEPS_A_RUN * number for number in range(1, RUNS + 1)]
    same = CliRunner().invoke(compare, [device, stub])
    assert same.exit_code == 0, same.output
    assert f"All {RUNS} recorded steps in common agree" in same.output
    assert f"Of {RUNS * STEPS_A_RUN} steps, A has recorded {RUNS} " in same.output
    differ = CliRunner().invoke(compare, [stub, other])
    assert differ.exit_code == 1
    assert differ.output.startswith(f"Step {planted * STEPS_A_RUN}, rank 0: loss is "), planted


def test_sessions_that_stay_on_the_host_have_no_use_of_them(host: Any, forking_python: str) -> None:
    variables = {SET_VARIABLE: '{"precision_mode": "force_fp32"}'}
    training = f"with tf.Session() as session:\n{TRAINING}"
    ended = run(host, forking_python, f"{PREFACE}{STEP}{training}", **variables)
    assert ended.stderr.count("precision_mode=force_fp32 (set from outside) had no effect") == 1
    # Its children may have used them.
    ended = run(host, forking_python, f"{PREFACE}{STEP}", **variables)
    assert "set from outside" not in ended.stderr
