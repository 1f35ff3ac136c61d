"""GE in a process. Source: guides/facts/process.md#life-of-ge-in-a-process."""

from typing import Any, Callable

import numpy as np
import pytest

from tests.fake_host.vendor import Loaded

UP = ["TdtOutFeedInit", "ParserInitialize", "GEInitialize"]
DOWN = ["GEFinalize", "ParserFinalize", "TdtOutFeedDestroy"]


def test_the_whole_life(
    ge: Loaded, tf: Any, system: Any, proto: Callable[..., Any], product: Any
) -> None:
    system.start()
    with tf.Session(config=proto()) as sess:
        assert sess.run(product) == [[6.0]]
    system.end()
    assert ge.calls == (
        ["NPUInit", *UP, "GESession", "Run", "GESessionDestroy", *DOWN, "NPUShutdown"]
    )


JOB = "ge_plugin.cc:210] [GePlugin] can not find Environment variable : JOB_ID"
DEVICE = (
    "npu_attrs.cc:164] [GePlugin] DEVICE_ID and ASCEND_DEVICE_ID is none, use default device id : 0"
)


@pytest.mark.parametrize(
    ("variables", "warned"),
    [
        ({}, [DEVICE, JOB]),
        ({"JOB_ID": "", "DEVICE_ID": "", "ASCEND_DEVICE_ID": ""}, [DEVICE, JOB]),
        ({"DEVICE_ID": "0"}, [JOB]),
        ({"ASCEND_DEVICE_ID": "0"}, [JOB]),
        ({"JOB_ID": "1"}, [DEVICE]),
        ({"JOB_ID": "1", "DEVICE_ID": "0"}, []),
    ],
)
def test_initialising_warns_of_a_job_and_a_device_that_are_not_named(
    ge: Loaded, system: Any, monkeypatch: Any, capsys: Any, variables: Any, warned: Any
) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    for name in ("JOB_ID", "DEVICE_ID", "ASCEND_DEVICE_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    system.start()
    system.start()
    lines = [line for line in capsys.readouterr().err.splitlines() if ": W tf_adapter/" in line]
    assert len(lines) == len(warned)
    assert all(text in line for line, text in zip(lines, warned))


def test_the_log_level_of_tensorflow_silences_the_warnings(
    ge: Loaded, system: Any, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    monkeypatch.delenv("JOB_ID", raising=False)
    system.start()
    assert "JOB_ID" not in capsys.readouterr().err


def test_initialising_while_it_is_up_does_nothing(ge: Loaded, system: Any) -> None:
    system.start()
    system.start()
    assert ge.calls == ["NPUInit", *UP, "NPUInit"]


def test_closing_the_last_ge_session_finalises_and_the_next_initialises_again(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    for _ in range(2):
        with tf.Session(config=proto()) as first, tf.Session(config=proto()) as second:
            first.run(product)
            second.run(product)
    life = [*UP, "GESession", "Run", "GESession", "Run", *["GESessionDestroy"] * 2, *DOWN]
    assert ge.calls == life * 2


def test_the_ge_goes_with_the_last_ge_session_even_after_initialize_system(
    ge: Loaded, tf: Any, system: Any, proto: Callable[..., Any], product: Any
) -> None:
    system.start()
    with tf.Session(config=proto()) as sess:
        sess.run(product)
    assert ge.calls[-3:] == DOWN
    system.start()
    assert ge.calls[-4:] == ["NPUInit", *UP]


def test_a_session_that_offloaded_nothing_has_no_ge_session(
    ge: Loaded, tf: Any, proto: Callable[..., Any]
) -> None:
    with tf.Session(config=proto()) as sess:
        assert sess.run(tf.constant(7)) == 7
    assert ge.calls == ["Run"]
    assert ge.record[0]["offloaded"] is False


def test_after_shutdown_every_open_session_fails(
    ge: Loaded, tf: Any, system: Any, proto: Callable[..., Any], product: Any
) -> None:
    system.start()
    with tf.Session(config=proto()) as sess:
        sess.run(product)
        system.end()
        with pytest.raises(tf.errors.InternalError, match="RunGraphAsync Failed"):
            sess.run(product)
        assert sess.run(tf.constant(7)) == 7


def test_a_session_from_before_stays_dead_when_ge_comes_up_again(
    ge: Loaded, tf: Any, system: Any, proto: Callable[..., Any], product: Any
) -> None:
    with tf.Session(config=proto()) as old:
        old.run(product)
        system.end()
        system.start()
        with pytest.raises(tf.errors.InternalError):
            old.run(product)
        with tf.Session(config=proto()) as new:
            assert new.run(product) == [[6.0]]


def test_closing_the_session_that_initialised_kills_the_others(
    ge: Loaded, tf: Any, system: Any, proto: Callable[..., Any], product: Any
) -> None:
    system.start()
    with tf.Session(config=proto()) as sess:
        sess.run(product)
        system.session.close()
        assert ge.calls[-3:] == DOWN
        with pytest.raises(tf.errors.InternalError):
            sess.run(product)


def test_ge_lives_until_the_last_initialising_session_is_closed(
    ge: Loaded, tf: Any, system: Any, proto: Callable[..., Any]
) -> None:
    other = type(system)(tf, proto())
    system.start()
    other.start()
    other.session.close()
    assert "GEFinalize" not in ge.calls
    system.session.close()
    assert ge.calls[-3:] == DOWN


def test_init_options_come_from_whoever_starts_ge(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    first = tf.Session(config=proto(precision_mode="force_fp32"))
    second = tf.Session(config=proto(precision_mode="force_fp16"))
    with first, second:
        first.run(product)
        second.run(product)
    (started,) = ge.of("GEInitialize")
    assert started["options"]["precision_mode"] == "force_fp32"
    assert started["sync"] is False


def test_sticky_options_leak_into_the_next_initialisation(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    for options in ({"op_debug_level": 1, "deterministic": 1}, {}):
        with tf.Session(config=proto(**options)) as sess:
            sess.run(product)
    first, second = [entry["options"] for entry in ge.of("GEInitialize")]
    assert (first["op_debug_level"], first["deterministic"]) == (1, 1)
    assert (second["op_debug_level"], second["deterministic"]) == (1, 0)


def test_two_precision_options_meet_in_one_process(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    with tf.Session(config=proto(precision_mode="force_fp32")) as sess:
        sess.run(product)
    with tf.Session(config=proto(precision_mode_v2="fp16")) as sess:
        with pytest.raises(tf.errors.InternalError, match="E10056"):
            sess.run(product)


def test_npu_resource_init_keeps_ge_up_whatever_sessions_do(
    ge: Loaded, tf: Any, system: Any, proto: Callable[..., Any], product: Any
) -> None:
    from npu_bridge.estimator.npu import npu_plugin

    npu_plugin.npu_resource_init(precision_mode="force_fp32", optimization_switch="x:on")
    with tf.Session(config=proto(precision_mode="force_fp16")) as sess:
        sess.run(product)
    system.start()
    system.end()
    assert "GEFinalize" not in ge.calls
    (started,) = ge.of("GEInitialize")
    assert started["options"]["precision_mode"] == "force_fp32"
    # guides/facts/process.md#npu_resource_init
    assert started["options"]["aoe_config_file"] == "None"
    assert "optimization_switch" not in started["options"]
    npu_plugin.npu_resource_shutdown()
    assert ge.calls[-3:] == DOWN


def test_a_parameter_server_initialises_nothing(
    ge: Loaded, tf: Any, system: Any, proto: Callable[..., Any], product: Any, monkeypatch: Any
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TF_CONFIG", '{"task": {"type": "ps", "index": 0}}')
        system.start()
        with tf.Session(config=proto()) as sess:
            with pytest.raises(tf.errors.InternalError, match="Get ge session failed"):
                sess.run(product)
    assert ge.calls == ["NPUInit"]


@pytest.mark.parametrize("way", ["partial_run", "callable", "callable from options"])
def test_other_ways_to_run_are_offloaded_too(
    ge: Loaded, tf: Any, proto: Callable[..., Any], way: str
) -> None:
    from tensorflow.core.protobuf import config_pb2

    x = tf.placeholder(tf.float32, [])
    y = x * 2
    with tf.Session(config=proto()) as sess:
        if way == "partial_run":
            handle = sess.partial_run_setup([y], [x])
            assert sess.partial_run(handle, y, {x: 3.0}) == 6
        elif way == "callable":
            assert sess.make_callable(y, [x])(3.0) == 6
        else:
            options = config_pb2.CallableOptions(feed=[x.name], fetch=[y.name])
            made = sess._make_callable_from_options(options)
            assert made(np.float32(3)) == [6]
            del made
    assert [entry["offloaded"] for entry in ge.of("Run")] == [True]
