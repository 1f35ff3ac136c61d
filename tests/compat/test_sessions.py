"""Every session of a script is looked at, whoever opens it."""

import concurrent.futures
import re
import tempfile
import threading
import warnings
from typing import Any, Callable, Iterator

import pytest

from ascend_session import AscendConfigWarning, ConfigError, ascend_session, current_system
from ascend_session.compat.npu_bridge.estimator.npu.npu_scope import without_npu_compile_scope
from ascend_session.config.proto import add_to_entry
from ascend_session.errors import DeviceError, LifecycleError
from tests.compat.surface import of_estimator
from tests.compat.watching import session_log, unwatch_sessions, watch_sessions


@pytest.fixture(autouse=True)
def watch(tf: Any, monkeypatch: Any) -> Iterator[None]:
    monkeypatch.setenv("ASCEND_SESSION_BACKEND", "stub")
    watch_sessions()
    yield
    unwatch_sessions()


@pytest.fixture
def proto(tf: Any) -> Callable[..., Any]:
    def made(**options: Any) -> Any:
        config = tf.ConfigProto()
        rewriter = config.graph_options.rewrite_options
        rewriter.memory_optimization = rewriter.remapping = rewriter.OFF
        add_to_entry(config, options)
        return config

    return made


def monitored(tf: Any, config: Any) -> None:
    tf.train.get_or_create_global_step()
    with tf.train.MonitoredTrainingSession(config=config) as session:
        session.run(tf.train.get_global_step())


def supervised(tf: Any, config: Any) -> None:
    tf.get_variable("v", [])
    with tf.train.Supervisor(logdir=None).managed_session(config=config):
        pass


def interactive(tf: Any, config: Any) -> None:
    tf.InteractiveSession(config=config).close()


def estimated(tf: Any, config: Any) -> None:
    if not hasattr(tf, "estimator") or not hasattr(tf.estimator, "Estimator"):
        pytest.skip("this TensorFlow has no estimators")

    def model(features: Any, labels: Any, mode: Any) -> Any:
        step = tf.train.get_global_step()
        loss = tf.reduce_sum(tf.get_variable("v", []) * tf.cast(features, tf.float32))
        spec: Any = tf.estimator.EstimatorSpec
        return spec(mode, loss=loss, train_op=tf.assign_add(step, 1))

    with tempfile.TemporaryDirectory() as folder:
        run = tf.estimator.RunConfig(session_config=config, save_checkpoints_steps=10)
        estimator = tf.estimator.Estimator(model, folder, run)
        estimator.train(lambda: tf.data.Dataset.range(4).batch(2), steps=1)


@pytest.mark.parametrize(
    "options",
    [
        {"enable_dump": True, "dump_path": "1", "job": "default"},
        {"iterations_per_loop": 2**32 + 1},
        {"task_index": 2**40},
    ],
    ids=str,
)
def test_a_session_opens_with_options_that_the_adapter_ignores(
    tf: Any, proto: Callable[..., Any], options: Any
) -> None:
    with tf.Session(config=proto(**options)) as session:
        assert session.run(tf.constant(6)) == 6
    assert not session_log().sessions[0].is_refused


OWNERS = [monitored, supervised, interactive, estimated]


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.__name__)
def test_whoever_opens_it(tf: Any, proto: Any, owner: Any) -> None:
    owner(tf, proto(precision_mode="allow_mix_precision"))
    [session] = session_log().sessions
    assert [setting.key for setting in session.settings] == ["precision_mode"]
    assert session.verdict.has_entry
    assert current_system() is not None


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.__name__)
def test_what_ends_the_run_on_a_device_is_refused_before_the_session_is_made(
    tf: Any, proto: Any, owner: Any
) -> None:
    config = proto()
    entry = config.graph_options.rewrite_options.custom_optimizers[0]
    entry.parameter_map["graph_run_mode"].i = 2
    with pytest.raises(ConfigError, match="graph_run_mode"):
        owner(tf, config)
    assert [each.is_refused for each in session_log().sessions] == [True]
    assert current_system() is None


def test_threads_open_their_sessions_at_once(tf: Any, proto: Any) -> None:
    config, together = proto(precision_mode="allow_mix_precision"), threading.Barrier(4)

    def work(number: int) -> Any:
        together.wait()
        with tf.Session(config=config, graph=tf.Graph()) as session:
            return session.run(tf.constant(number))

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [0, 1, 2, 3]
    assert len(session_log().sessions) == 4


def test_the_place_is_the_scripts(tf: Any, proto: Any) -> None:
    tf.Session(config=proto()).close()
    [session] = session_log().sessions
    assert session.where.split(":")[0].endswith("test_sessions.py")


def test_a_session_without_an_entry_opens_nothing(tf: Any) -> None:
    with tf.Session() as session:
        assert session.run(tf.constant(3)) == 3
    [seen] = session_log().sessions
    assert (seen.verdict.has_entry, seen.settings) == (False, [])
    assert current_system() is None


def test_init_options_of_a_later_session_are_without_effect(tf: Any, proto: Any) -> None:
    with tf.Session(config=proto(precision_mode="allow_mix_precision")):
        # The second one is at its default, with which the first session has initialised as well.
        tf.Session(config=proto(precision_mode="force_fp16", deterministic=0)).close()
    first, second = (
        {each.key: each.effect for each in session.settings} for session in session_log().sessions
    )
    assert first == {"precision_mode": "device"}
    assert second == {"precision_mode": "silent", "deterministic": "device"}


@pytest.mark.parametrize(
    ("options", "effect"),
    [
        ({"dump_step": "1"}, "silent"),
        ({"graph_run_mode": 0, "enable_small_channel": 0}, "silent"),
        ({"compile_dynamic_mode": True, "shape_generalization_mode": "FULL"}, "silent"),
        ({"hccl_timeout": 0}, "warning"),
        ({"fusion_switch_file": "/does/not/exist"}, "host"),
        ({"fusion_switch_file": "/dev/null"}, "host"),
        ({"fusion_switch_file": "missing.cfg"}, "host"),
    ],
    ids=str,
)
def test_an_option_is_honoured_only_if_it_does_what_it_says(
    tf: Any, proto: Any, options: Any, effect: str
) -> None:
    tf.Session(config=proto(**options)).close()
    [session] = session_log().sessions
    effects = {each.key: each.effect for each in session.settings}
    assert effects[list(options)[-1]] == effect


@pytest.mark.parametrize(("folder", "effect"), [("/does/not/exist", "warning"), ("/", "device")])
def test_a_folder_for_profiling_is_correct_only_if_it_exists(
    tf: Any, proto: Any, folder: str, effect: str
) -> None:
    config = proto(profiling_mode=True, profiling_options=f'{{"output":"{folder}"}}')
    with pytest.warns(AscendConfigWarning, match="no profiling data"):
        tf.Session(config=config).close()
    [session] = session_log().sessions
    assert {each.key: each.effect for each in session.settings} == {
        "profiling_mode": "stub",
        "profiling_options": effect,
    }


def test_the_last_session_takes_the_device_down_and_the_next_one_decides_anew(
    tf: Any, proto: Any
) -> None:
    for mode in ("allow_mix_precision", "force_fp16"):
        tf.Session(config=proto(precision_mode=mode)).close()
    effects = [session.settings[0].effect for session in session_log().sessions]
    assert effects == ["device", "device"]


def test_the_two_precision_modes_meet_in_the_adapter(tf: Any, proto: Any) -> None:
    tf.Session(config=proto(precision_mode="allow_mix_precision")).close()
    with pytest.raises(ConfigError, match="precision_mode_v2"):
        tf.Session(config=proto(precision_mode_v2="mixed_float16", deterministic=1))
    effects = {each.key: each.effect for each in session_log().sessions[-1].settings}
    assert effects == {"precision_mode_v2": "refused", "deterministic": "unused"}


@pytest.mark.parametrize(
    "wrong", ["unknown", "deprecated", "late"], ids=lambda wrong: f"what is {wrong}"
)
def test_strict_refuses_what_the_adapter_ignores(
    tf: Any, proto: Any, monkeypatch: Any, wrong: str
) -> None:
    config = proto(op_debug_level=3) if wrong == "deprecated" else proto(precision_mode="fp16")
    if wrong == "unknown":
        config = proto()
        entry = config.graph_options.rewrite_options.custom_optimizers[0]
        entry.parameter_map["no_such_key"].i = 2
    elif wrong == "late":
        config = proto(precision_mode="force_fp16")
    with tf.Session(config=proto(precision_mode="allow_mix_precision")):
        if wrong == "unknown":
            tf.Session(config=config).close()
        monkeypatch.setenv("ASCEND_SESSION_STRICT", "1")
        with pytest.raises(ConfigError):
            tf.Session(config=config)


def test_what_the_stub_cannot_do_is_warned_of_and_noted(tf: Any, proto: Any) -> None:
    with pytest.warns(AscendConfigWarning, match="no profiling data") as caught:
        tf.Session(config=proto(profiling_mode=True)).close()
    assert caught[0].filename == __file__
    [setting] = session_log().sessions[0].settings
    assert setting.effect == "stub"


def test_a_device_that_the_stub_has_not_got_is_refused(tf: Any, proto: Any) -> None:
    with pytest.raises(DeviceError, match="99"):
        tf.Session(config=proto(session_device_id=99))


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_variable_that_an_operator_on_the_host_changes_is_noted_with_mixed_computing(
    tf: Any, proto: Any, use_resource: bool
) -> None:
    variable = tf.get_variable("v", [], use_resource=use_resource)
    value = variable.read_value()
    with without_npu_compile_scope():
        tf.square(value, name="of_its_value")
        tf.assign_add(variable, 1.0, name="count")

    def notes(**options: Any) -> str:
        tf.Session(config=proto(**options)).close()
        return " ".join(session_log().sessions[-1].verdict.graph.get("refused", ()))

    assert not notes()
    assert not notes(mix_compile_mode=True, variable_placement="Host")
    note = notes(mix_compile_mode=True)
    assert re.search("On a device, running '(count|AssignAddVariableOp)'", note)
    assert "unless the whole run stays on the host" in note
    assert "of_its_value" not in note


def test_an_operator_whose_first_resource_is_no_variable_is_on_the_host(
    tf: Any, proto: Any
) -> None:
    variable = tf.get_variable("v", [], use_resource=True)
    table = tf.raw_ops.HashTableV2(key_dtype=tf.int64, value_dtype=tf.int64)
    tf.raw_ops.Pack(values=[variable.handle, table], name="variable_first")
    tf.raw_ops.Pack(values=[table, variable.handle], name="table_first")
    tf.Session(config=proto(mix_compile_mode=True)).close()
    [note] = session_log().sessions[0].verdict.graph["refused"]
    assert "running 'table_first' fails" in note


def test_a_one_shot_iterator_in_a_loop_is_refused_as_the_adapter_aborts(
    tf: Any, proto: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = tf.data.Dataset.range(3)
        (data.make_one_shot_iterator() if hasattr(data, "make_one_shot_iterator") else
         tf.data.make_one_shot_iterator(data)).get_next()  # fmt: skip
    if not any(op.type == "OneShotIterator" for op in tf.get_default_graph().get_operations()):
        pytest.skip("this TensorFlow makes another operator of it")
    with pytest.raises(LifecycleError, match="one-shot"):
        tf.Session(config=proto(iterations_per_loop=10))


def test_after_a_shutdown_open_sessions_do_not_run_and_new_ones_do(tf: Any, proto: Any) -> None:
    three = tf.constant(3)
    old = tf.Session(config=proto())
    of_estimator("npu_plugin").npu_close()
    with pytest.raises(LifecycleError, match="NPUShutdown"):
        old.run(three)
    old.close()
    with tf.Session(config=proto()) as new:
        assert new.run(three) == 3


def test_sessions_of_this_package_are_its_own(tf: Any) -> None:
    with ascend_session() as session:
        assert session.run(tf.constant(3)) == 3
    assert session_log().sessions == []


def test_a_session_is_not_looked_at_once_nothing_watches(tf: Any, proto: Any) -> None:
    unwatch_sessions()
    with tf.Session(config=proto(precision_mode="unknown")) as session:
        assert session.run(tf.constant(3)) == 3
    assert session_log().sessions == []
