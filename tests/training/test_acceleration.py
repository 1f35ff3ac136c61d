"""TellMeStepOrLossHook: what it tells the device, and what it refuses."""

import os
import warnings
from typing import Any, Dict, Iterator

import numpy as np
import pytest

from ascend_session import AscendConfig, ConfigError, ExperimentalConfig, ascend_session
from ascend_session.training import TellMeStepOrLossHook

NAMES = ("STEP_NOW", "TOTAL_STEP", "LOSS_NOW", "TARGET_LOSS")


@pytest.fixture(autouse=True)
def cleared() -> Iterator[None]:
    """The variables stay set until the process ends; here until the test does."""
    yield
    for name in NAMES:
        os.environ.pop(name, None)


def told() -> Dict[str, str]:
    """What the device would read."""
    return {name: os.environ[name] for name in NAMES if name in os.environ}


def test_the_step_is_told_from_the_beginning_and_after_each_run(tf: Any) -> None:
    hook = TellMeStepOrLossHook(step="global_step:0", total_step=100)
    assert told() == {"STEP_NOW": "0", "TOTAL_STEP": "100"}
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        for _ in range(3):
            sess.run(train)
    # The run may show the step before or after its own increment.
    assert int(told()["STEP_NOW"]) in (2, 3)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("by_name", [False, True])
def test_tensors_and_variables_are_found_by_name_too(
    tf: Any, resource: bool, by_name: bool
) -> None:
    loss = tf.get_variable("loss", initializer=2.5, use_resource=resource)
    train = tf.no_op()
    hook = TellMeStepOrLossHook(loss="loss:0" if by_name else loss, final_loss=np.float32(0.5))
    assert told() == {"LOSS_NOW": "0.0", "TARGET_LOSS": "0.5"}
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        sess.run(train)
    assert told()["LOSS_NOW"] == "2.5"


def test_a_loss_of_zero_is_not_taken_for_none(tf: Any) -> None:
    # geop_npu.cc, for which 0 is "not known yet": guides/facts/precision.md#accelerated-training
    loss = tf.constant(0.0, name="loss")
    with tf.train.MonitoredSession(hooks=[TellMeStepOrLossHook(loss=loss, final_loss=1)]) as sess:
        sess.run(loss)
    assert float(told()["LOSS_NOW"]) != 0
    assert np.float32(told()["LOSS_NOW"]) <= np.float32(1e-37)


@pytest.mark.parametrize(
    ("mode", "arguments"),
    [
        ("fast|step", {"step": "global_step:0", "total_step": 10}),
        ("fast1|loss|1.2", {"loss": "loss:0", "final_loss": 1.5}),
    ],
)
def test_a_session_that_opens_after_it_says_nothing(tf: Any, mode: str, arguments: Any) -> None:
    TellMeStepOrLossHook(**arguments)
    config = AscendConfig(experimental_config=ExperimentalConfig(accelerate_train_mode=mode))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ascend_session(config) as sess:
            assert sess.run(tf.constant(1)) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "One of step and loss must be given"),
        ({"total_step": 10}, "One of step and loss must be given"),
        ({"step": "s:0"}, "step was given without total_step"),
        ({"loss": "l:0"}, "loss was given without final_loss"),
        ({"step": "s:0", "total_step": 10, "final_loss": 1.0}, "final_loss was given without loss"),
        ({"loss": "l:0", "final_loss": 1.0, "total_step": 3}, "total_step was given without step"),
        ({"step": "s:0", "total_step": 1e4}, "must be a whole number"),
        ({"step": "s:0", "total_step": 0}, "from 1 to 4294967295"),
        ({"step": "s:0", "total_step": 2**32}, "from 1 to 4294967295"),
        ({"step": "s:0", "total_step": True}, "must be a whole number"),
        ({"loss": "l:0", "final_loss": "low"}, "final_loss='low' must be a number"),
        (
            {"step": "s:0", "total_step": 10, "loss": "l:0", "final_loss": "low"},
            "final_loss='low' must be a number",
        ),
        ({"loss": "l:0", "final_loss": float("nan")}, "final_loss=nan must be a number"),
    ],
)
def test_what_the_device_could_not_read_is_refused(arguments: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TellMeStepOrLossHook(**arguments)
    assert told() == {}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("nothing:0", "'nothing:0' is not a tensor of the graph"),
        ("vector", "'vector' is not a tensor of the graph"),
        ("vector:0", r"shape \(2,\): the device could not read it"),
        ("words:0", "of dtype string"),
    ],
)
def test_what_is_no_number_is_refused_before_the_first_run(tf: Any, asked: str, said: str) -> None:
    tf.constant([1.0, 2.0], name="vector")
    tf.constant("a", name="words")
    with pytest.raises(ConfigError, match=said):
        tf.train.MonitoredSession(hooks=[TellMeStepOrLossHook(loss=asked, final_loss=1.0)])
