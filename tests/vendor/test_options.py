"""What the adapter makes of an entry.

Source: guides/facts/adapter.md#reading-the-entry,
guides/facts/adapter.md#defaults-of-an-empty-entry,
guides/facts/process.md#values-that-stay-in-the-process.
"""

import json
from typing import Any, Callable

import pytest

from tests.fake_host import FakeHost
from tests.fake_host.vendor import Loaded, recorded, run_on


@pytest.mark.parametrize("missing", ["list", "folder"])
def test_without_the_operator_list_everything_is_on_the_cpu_without_a_word(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, monkeypatch: Any, missing: str
) -> None:
    path = ge.host.root / "usr/local/Ascend/opp/built-in/framework/tensorflow"
    if missing == "list":
        (path / "npu_supported_ops.json").unlink()
    with monkeypatch.context() as patch:
        if missing == "folder":
            patch.setenv("ASCEND_OPP_PATH", str(ge.host.root / "nowhere"))
        with tf.Session(config=proto()) as sess:
            assert sess.run(product) == [[6.0]]
    assert [entry["offloaded"] for entry in ge.record] == [False]


def test_the_default_place_of_the_list_is_below_the_host(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, monkeypatch: Any
) -> None:
    with monkeypatch.context() as patch:
        patch.delenv("ASCEND_OPP_PATH")
        with tf.Session(config=proto()) as sess:
            sess.run(product)
    assert ge.of("Run")[0]["offloaded"] is True


@pytest.mark.parametrize("place", ["vendors/mine", "custom"])
def test_operators_of_others_are_found_too(
    ge: Loaded, tf: Any, proto: Callable[..., Any], monkeypatch: Any, place: str
) -> None:
    opp = ge.host.root / "usr/local/Ascend/opp"
    (opp / place / "framework/tensorflow").mkdir(parents=True)
    mine = json.dumps({"ZerosLike": {}, "OnesLike": None})
    (opp / place / "framework/tensorflow/npu_supported_ops.json").write_text(mine)
    if place == "custom":
        monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"/nowhere:{opp / place}")
    else:
        (opp / "vendors/config.ini").write_text("load_priority=mine, yours\n")
    x = tf.placeholder(tf.float32, [1])
    with tf.Session(config=proto()) as sess:
        for value in (tf.raw_ops.ZerosLike(x=x), tf.raw_ops.OnesLike(x=x)):
            sess.run(value, {x: [1.0]})
    assert [entry["offloaded"] for entry in ge.of("Run")] == [True, False]


@pytest.mark.parametrize(
    ("key", "field", "value"),
    [
        ("use_off_line", "b", False),
        ("use_off_line", "i", 1),
        ("use_off_line", "s", b"True"),
        ("job", "s", b"ps"),
        ("job", "s", b"default"),
    ],
)
def test_these_run_on_the_cpu(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, key: str, field: str, value: Any
) -> None:
    config = proto()
    setattr(entry_of(config).parameter_map[key], field, value)
    with tf.Session(config=config) as sess:
        assert sess.run(product) == [[6.0]]
    assert [entry["offloaded"] for entry in ge.record] == [False]


def test_a_value_in_the_wrong_field_reads_as_zero(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    config = proto()
    entry_of(config).parameter_map["session_device_id"].s = b"3"
    entry_of(config).parameter_map["graph_run_mode"].s = b"1"
    entry_of(config).parameter_map["no_such_option"].s = b"x"
    with tf.Session(config=config) as sess:
        sess.run(product)
    assert ge.of("GESession")[0]["device"] == 0
    assert ge.of("GEInitialize")[0]["options"]["graph_run_mode"] == 0
    # graph_run_mode 0 forces enable_small_channel 1
    assert ge.of("GESession")[0]["options"]["enable_small_channel"] == 1


def test_a_device_above_int32_is_dropped(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    with tf.Session(config=proto(session_device_id=2**31)) as sess:
        sess.run(product)
    assert ge.of("GESession")[0]["device"] == 0
    assert "session_device_id" not in ge.of("GESession")[0]["options"]


def test_of_two_entries_the_later_one_counts(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    config = proto(session_device_id=3, deterministic=1)
    config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
    with tf.Session(config=config) as sess:
        sess.run(product)
    assert ge.of("GESession")[0]["device"] == 0
    assert ge.of("GEInitialize")[0]["options"]["deterministic"] == 0


def test_the_defaults_of_an_empty_entry(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    with tf.Session(config=proto()) as sess:
        sess.run(product)
    options = ge.of("GEInitialize")[0]["options"]
    wanted = {
        "graph_run_mode": 1,
        "oo_level": "O3",
        "enable_exception_dump": 2,
        "graph_exec_timeout": 600000,
    }
    assert {key: options[key] for key in wanted} == wanted
    assert "session_device_id" not in ge.of("GESession")[0]["options"]


# Each case is a process of its own, forked from one that has TensorFlow.
_TRIES = """
import json, os, sys
import npu_bridge, tensorflow.compat.v1 as tf
from npu_bridge.estimator import npu_ops
from ascend_session.config.proto import add_to_entry
tf.disable_eager_execution()
for variables in json.loads(sys.argv[1]):
    pid = os.fork()
    if not pid:
        os.environ.update(variables)
        proto = tf.ConfigProto()
        add_to_entry(proto, {})
        with tf.Session(config=proto) as sess:
            sess.run(npu_ops.initialize_system())
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status), flush=True)
"""
BAD_VARIABLES = {
    "ASCEND_DEVICE_ID is invalid, should be int": {"ASCEND_DEVICE_ID": "x"},
    "ASCEND_DEVICE_ID should be >= 0": {"ASCEND_DEVICE_ID": "-1", "DEVICE_ID": "0"},
    "ASCEND_DEVICE_ID is invalid": {"ASCEND_DEVICE_ID": "+1"},
    "ASCEND_DEVICE_ID is": {"ASCEND_DEVICE_ID": str(2**63)},
    "DEVICE_ID is invalid, should be int": {"DEVICE_ID": "1.5"},
    "get logic device id by DEVICE_ID failed": {"DEVICE_ID": "8"},
}


def test_a_variable_that_names_no_device_aborts_the_process(host: FakeHost) -> None:
    cases = list(BAD_VARIABLES.values())
    ended = run_on(host, _TRIES, json.dumps(cases), fatal_sleep=60)
    assert ended.stdout.split() == ["6"] * len(cases), ended.stderr
    assert ended.stderr.count("F tf_adapter/util/") == len(cases)
    aborted = [entry for entry in recorded(host) if entry["call"] == "abort"]
    # guides/facts/process.md#a-failed-initialisation: a bad device id is fatal at once
    assert [entry["sleep"] for entry in aborted] == [0] * len(cases)
    messages = [entry["message"] for entry in aborted]
    assert all(message.startswith(text) for message, text in zip(messages, BAD_VARIABLES))


def entry_of(config: Any) -> Any:
    """The NpuOptimizer entry of a proto."""
    return config.graph_options.rewrite_options.custom_optimizers[0]
