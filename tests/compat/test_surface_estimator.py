"""NPUEstimator on the CPU: it trains, evaluates, predicts and exports; and its hooks."""

import functools
import json
import os
import warnings
from typing import Any, Dict, List, Optional

import numpy as np
import pytest

from ascend_session import AscendConfigWarning, UnsupportedError
from tests.compat.run_scripts import run_script
from tests.compat.surface import has_estimators, of_estimator

estimators = of_estimator("npu_estimator")
hooks = of_estimator("npu_hook")
common = of_estimator("npu_common")
NPURunConfig = of_estimator("npu_config").NPURunConfig


@pytest.fixture(autouse=True)
def job(monkeypatch: Any) -> None:
    """A job of one, as a start script describes it."""
    monkeypatch.setattr(common.NPUBasics, "_only", None)
    monkeypatch.setenv("JOB_ID", "10087")


class Line:
    """A line through points, whose training can be looked at."""

    def __init__(self, tf: Any, with_host_call: bool = False) -> None:
        self.tf = tf
        self.with_host_call = with_host_call
        self.told: List[int] = []
        self.configs: List[Any] = []

    def model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        tf = self.tf
        self.configs.append(config)
        slope = tf.get_variable("slope", [], tf.float32, tf.zeros_initializer())
        found = features["x"] * slope
        if mode == "infer":
            return tf.estimator.EstimatorSpec(mode, predictions={"y": found})
        loss = tf.reduce_mean(tf.square(found - labels))
        step = tf.train.get_global_step()
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        host_call = (self.on_host, {"step": step}) if self.with_host_call else None
        return estimators.NPUEstimatorSpec(mode, loss=loss, train_op=train, host_call=host_call)

    def on_host(self, step: Any) -> Any:
        self.beside = self.tf.no_op("beside")
        return [self.tf.py_func(self.tell, [step], self.tf.int64)]

    def tell(self, step: Any) -> Any:
        self.told.append(int(step))
        return step

    def points(self) -> Any:
        x = np.ones([4], "float32")
        return self.tf.data.Dataset.from_tensors(({"x": x}, 3 * x)).repeat()


def folder_of(tmp_path: Any) -> str:
    return str(tmp_path / "model")


@has_estimators
def test_it_trains_evaluates_predicts_and_exports(tf: Any, tmp_path: Any) -> None:
    line, folder = Line(tf), folder_of(tmp_path)
    config = NPURunConfig(
        model_dir=folder, save_checkpoints_steps=10, precision_mode="allow_mix_precision"
    )
    estimator = estimators.NPUEstimator(line.model_fn, config=config)
    assert isinstance(estimator, tf.estimator.Estimator)
    estimator.train(line.points, max_steps=20)
    assert estimator.evaluate(line.points, steps=1)["global_step"] == 20
    slope = estimator.get_variable_value("slope")
    np.testing.assert_allclose(slope, 3 * (1 - 0.8**20), rtol=1e-5)
    predicted = next(estimator.predict(lambda: line.points().take(1)))
    np.testing.assert_allclose(predicted["y"], slope)
    serving = tf.estimator.export.build_raw_serving_input_receiver_fn(
        {"x": tf.placeholder(tf.float32, [None])}
    )
    exported = estimator.export_saved_model(str(tmp_path / "exported"), serving)
    assert os.path.exists(os.path.join(exported, b"saved_model.pb"))
    saved = [name for name in os.listdir(folder) if name.endswith(".index")]
    assert sorted(saved) == ["model.ckpt-0.index", "model.ckpt-10.index", "model.ckpt-20.index"]
    assert all(one is line.configs[0] for one in line.configs)
    assert isinstance(line.configs[0], NPURunConfig)


@has_estimators
def test_its_sessions_have_the_configurations_options(tf: Any, tmp_path: Any) -> None:
    line, seen = Line(tf), []

    class Looks(tf.train.SessionRunHook):  # type: ignore[misc,name-defined]
        def after_create_session(self, session: Any, coord: Any) -> None:
            seen.append(session._config.graph_options.rewrite_options.custom_optimizers)

    config = NPURunConfig(model_dir=folder_of(tmp_path), session_device_id=2)
    estimator = estimators.NPUEstimator(line.model_fn, config=config)
    estimator.train(line.points, max_steps=1, hooks=[Looks()])
    ((entry,),) = seen
    assert (entry.name, entry.parameter_map["session_device_id"].i) == ("NpuOptimizer", 2)


@has_estimators
def test_the_report_says_of_each_session_how_its_loop_ended(
    tmp_path: Any, forking_python: str
) -> None:
    script = """
import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import *
tf.disable_eager_execution()

def model(features, labels, mode):
    step = tf.train.get_global_step()
    loss = tf.reduce_sum(tf.get_variable("v", []) * tf.cast(features, tf.float32))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.assign_add(step, 1))

def data():
    return tf.data.Dataset.range(8).batch(2)

config = NPURunConfig(model_dir="out", iterations_per_loop=2)
estimator = NPUEstimator(model, config=config)
estimator.train(data, max_steps=2)
estimator.evaluate(data)
estimator.train(data, max_steps=3)
"""
    ended = run_script(
        tmp_path, script, python=forking_python, asked="backend=stub\njson=report.json"
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    rows = [row for row in report["options"] if row["key"] == "iterations_per_loop"]
    assert [(row["sessions"], row["effect"], row["why"]) for row in rows] == [
        ("1", "device", "iterations_per_loop=2 was in force: 1 run made 2 steps."),
        (
            "2",
            "device",
            "iterations_per_loop=2 is for training; this session makes one step a run.",
        ),
        (
            "3",
            "differs",
            "Training from step 2 is to stop at step 3, but each run makes 2 "
            "(iterations_per_loop=2): it stops at 4. Use 4, or another iterations_per_loop.",
        ),
    ]


@has_estimators
@pytest.mark.parametrize(
    ("end", "warning"),
    [
        ({"max_steps": 9}, "Training from step 0 is to stop at step 9, but each run makes 4 "),
        ({"steps": 3}, "Training is to make 3 steps, but each run makes 4 "),
        ({"max_steps": 8}, None),
        ({"steps": 4}, None),
    ],
)
def test_a_training_that_ends_within_a_loop_is_warned_of(
    tf: Any, tmp_path: Any, end: Dict[str, int], warning: Optional[str]
) -> None:
    config = NPURunConfig(model_dir=folder_of(tmp_path), iterations_per_loop=4)
    estimator = estimators.NPUEstimator(Line(tf).model_fn, config=config)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        estimator.train(Line(tf).points, **end)
    found = [each for each in warned if "Training " in str(each.message)]
    steps = next(iter(end.values()))
    assert estimator.get_variable_value("global_step") == steps + -steps % 4
    if warning is None:
        assert not found
    else:
        [only] = found
        assert only.filename == __file__
        assert str(only.message).startswith(warning)


@has_estimators
def test_a_loop_makes_its_steps_and_each_has_its_host_call(tf: Any, tmp_path: Any) -> None:
    line = Line(tf, with_host_call=True)
    config = NPURunConfig(model_dir=folder_of(tmp_path), iterations_per_loop=4)
    runs: List[int] = []

    class Counts(tf.train.SessionRunHook):  # type: ignore[misc,name-defined]
        def after_run(self, run_context: Any, run_values: Any) -> None:
            runs.append(1)

    estimator = estimators.NPUEstimator(line.model_fn, config=config)
    estimator.train(line.points, max_steps=8, hooks=[Counts()])
    assert (len(runs), line.told) == (2, list(range(1, 9)))
    np.testing.assert_allclose(estimator.get_variable_value("slope"), 3 * (1 - 0.8**8), rtol=1e-5)
    estimator.evaluate(line.points, steps=1)
    assert line.told[8:] == [8]
    assert not line.beside.control_inputs  # it would make a step


@has_estimators
def test_a_job_without_an_id_is_warned_where_a_device_would_end(
    tf: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.delenv("JOB_ID")
    config = NPURunConfig(model_dir=folder_of(tmp_path))
    with pytest.warns(AscendConfigWarning, match="JOB_ID, which is not set"):
        estimators.NPUEstimator(Line(tf).model_fn, config=config)
    monkeypatch.setenv("RANK_SIZE", "2")
    with pytest.raises(ValueError, match="export JOB_ID"):
        estimators.NPUEstimator(Line(tf).model_fn, config=config)


@has_estimators
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"config": None}, "NPURunConfig"),
        ({"model_dir": "other"}, "different values"),
    ],
)
def test_what_the_vendors_refuses_is_refused(
    tf: Any, tmp_path: Any, given: Dict[str, Any], said: str
) -> None:
    config = NPURunConfig(model_dir=folder_of(tmp_path))
    with pytest.raises(ValueError, match=said):
        estimators.NPUEstimator(Line(tf).model_fn, **{"config": config, **given})


@has_estimators
def test_a_model_that_gives_no_specification_is_refused(tf: Any, tmp_path: Any) -> None:
    estimator = estimators.NPUEstimator(
        lambda features, labels: features, config=NPURunConfig(model_dir=folder_of(tmp_path))
    )
    with pytest.raises(RuntimeError, match="estimator_spec used by NPU train must have type"):
        estimator.train(Line(tf).points, max_steps=1)


@has_estimators
def test_what_is_bound_to_a_model_stays_bound(tf: Any, tmp_path: Any) -> None:
    line, own = Line(tf), object()
    model = functools.partial(line.model_fn, config=own)
    config = NPURunConfig(model_dir=folder_of(tmp_path))
    estimators.NPUEstimator(model, config=config).train(line.points, max_steps=1)
    assert line.configs == [own]


@has_estimators
def test_a_host_call_may_have_arguments_bound_to_it(tf: Any) -> None:
    host_call = (functools.partial(lambda step, name: name, name="loss"), [tf.constant(1)])
    spec = estimators.NPUEstimatorSpec("eval", loss=tf.constant(1.0), host_call=host_call)
    assert spec._host_call is host_call


@has_estimators
@pytest.mark.parametrize(
    ("host_call", "error"),
    [
        (5, ValueError),
        ([len], ValueError),
        ((5, []), TypeError),
        ((len, 5), ValueError),
        ((lambda a, b: None, [1]), RuntimeError),
    ],
)
def test_a_host_call_is_a_function_and_its_tensors(tf: Any, host_call: Any, error: Any) -> None:
    with pytest.raises(error):
        estimators.NPUEstimatorSpec("eval", loss=tf.constant(1.0), host_call=host_call)


@pytest.mark.skipif(hasattr(NPURunConfig, "replace"), reason="this TensorFlow has tf.estimator")
def test_without_estimators_that_is_said_when_they_are_used(tf: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"NPUEstimatorSpec needs tf\.estimator"):
        estimators.NPUEstimatorSpec("eval", loss=tf.constant(1.0))
    with pytest.raises(UnsupportedError, match=r"NPUEstimator needs tf\.estimator"):
        estimators.NPUEstimator(None)


def test_a_hook_loops_what_the_script_has_called_so(tf: Any) -> None:
    value = tf.get_variable("value", [], tf.int64, tf.zeros_initializer(), use_resource=True)
    looped = tf.group(tf.assign_add(value, 1), name="IterationOp")
    read = value.read_value()
    hook = hooks.SetIterationsVarHook(10)
    with pytest.warns(AscendConfigWarning, match="10 steps, but .* iterations_per_loop=1"):
        sess = tf.train.MonitoredTrainingSession(hooks=[hook])
    with sess:
        sess.run([read, [looped]])
        assert sess.run(read) == 10
        sess.run({"train": looped})
        assert sess.run(read) == 20


@pytest.mark.parametrize(("offloaded", "expected"), [(False, 3), (True, 15)])
def test_its_steps_share_a_batch_unless_the_device_draws_it(
    tf: Any, offloaded: bool, expected: int
) -> None:
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(100))
    total = tf.get_variable("total", [], tf.int64, tf.zeros_initializer())
    looped = tf.group(tf.assign_add(total, iterator.get_next()), name="IterationOp")
    proto = tf.ConfigProto()
    entry = proto.graph_options.rewrite_options.custom_optimizers.add()
    entry.name = "NpuOptimizer"
    entry.parameter_map["iterations_per_loop"].i = 3
    entry.parameter_map["enable_data_pre_proc"].b = offloaded
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    with tf.train.MonitoredTrainingSession(
        config=proto, hooks=[hooks.SetIterationsVarHook(3)]
    ) as sess:
        sess.run(looped)
        sess.run(looped)
        assert sess.run(total) == expected


def test_sessions_of_one_graph_can_follow_one_another_with_such_a_hook(tf: Any) -> None:
    value = tf.get_variable("value", [], tf.int64, tf.zeros_initializer(), use_resource=True)
    looped = tf.group(tf.assign_add(value, 1), name="IterationOp")
    proto = tf.ConfigProto()
    entry = proto.graph_options.rewrite_options.custom_optimizers.add()
    entry.name = "NpuOptimizer"
    entry.parameter_map["iterations_per_loop"].i = 3
    again = hooks.SetIterationsVarHook(3)
    for hook in (again, again, hooks.SetIterationsVarHook(3)):
        with tf.train.MonitoredTrainingSession(config=proto, hooks=[hook]) as sess:
            sess.run(looped)
            assert sess.run(value) == 3


def test_tensors_are_handed_over_several_runs_at_a_time(tf: Any) -> None:
    number = tf.placeholder(tf.float32, [], name="number")
    got: List[Any] = []
    hook = hooks.NPUOutputTensorHook(
        {"twice": number * 2}, number, lambda values: got.append(list(values)), 2
    )
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        for value in (1, 2, 3):
            sess.run(number, {number: value})
    assert got == [[{"twice": 2.0}, {"twice": 4.0}], [{"twice": 6.0}]]


def test_the_step_and_the_loss_are_said_in_the_environment(tf: Any, monkeypatch: Any) -> None:
    for name in ("STEP_NOW", "TOTAL_STEP", "LOSS_NOW", "TARGET_LOSS"):
        monkeypatch.setenv(name, "")
    step = tf.train.get_or_create_global_step()
    grow = tf.assign_add(step, 3)
    hook = hooks.TellMeStepOrLossHook(step=grow, total_step=100)
    assert (os.environ["STEP_NOW"], os.environ["TOTAL_STEP"]) == ("0", "100")
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        sess.run(grow)
    assert os.environ["STEP_NOW"] == "3"
    assert os.environ["LOSS_NOW"] == ""
    with pytest.raises(ValueError, match="One of step or loss"):
        hooks.TellMeStepOrLossHook()


def test_a_broadcast_hook_in_a_job_of_one_adds_nothing(tf: Any) -> None:
    tf.get_variable("value", [])
    before = len(tf.get_default_graph().get_operations())
    hooks.NPUBroadcastGlobalVariablesHook(0, 0).begin()
    assert len(tf.get_default_graph().get_operations()) == before
