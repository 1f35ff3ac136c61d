"""Which operators are offloaded, and what becomes of their errors.

Source: npu_ops_identifier.cc; om_partition_subgraphs_pass.cc; geop_npu.cc, RunGraph.
"""

import json
from typing import Any, Callable

import pytest

from tests.fake_host.vendor import Loaded


def test_an_error_of_an_offloaded_operator_is_internal(
    ge: Loaded, tf: Any, proto: Callable[..., Any]
) -> None:
    x = tf.placeholder(tf.float32, [])
    checked = tf.raw_ops.Assert(condition=x > 0, data=[x])
    for config, error in ((proto(), "Internal"), (proto(use_off_line=False), "InvalidArgument")):
        with tf.Session(config=config) as sess:
            with pytest.raises(getattr(tf.errors, f"{error}Error")) as caught:
                sess.run(checked, {x: -1.0})
        assert ("DoRunAsync Failed" in str(caught.value)) is (error == "Internal")


def test_an_error_of_the_host_stays_what_it_is(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    absent = tf.read_file("/no/such/file")
    with tf.Session(config=proto()) as sess:
        with pytest.raises(tf.errors.NotFoundError, match="/no/such/file"):
            sess.run([product, absent])


def test_a_queue_is_on_the_device_and_its_end_is_out_of_range(
    ge: Loaded, tf: Any, proto: Callable[..., Any]
) -> None:
    queue = tf.FIFOQueue(2, tf.float32, shapes=[[]])
    fill, ended, take = queue.enqueue(3.0), queue.close(), queue.dequeue()
    with tf.Session(config=proto()) as sess:
        sess.run(fill)
        sess.run(ended)
        assert sess.run(take) == 3
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(take)
    assert {entry["offloaded"] for entry in ge.of("Run")} == {True}


def test_these_are_never_offloaded_and_a_later_list_overwrites(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    # npu_ops_identifier.cc, constructor and IsNpuSupported; om_partition_subgraphs_pass.cc,
    # IsWhiteListSupport
    opp = ge.host.root / "usr/local/Ascend/opp"
    folder = opp / "vendors/mine/framework/tensorflow"
    folder.mkdir(parents=True)
    (opp / "vendors/config.ini").write_text("load_priority=mine\n")
    mine = {"Const": {}, "StringJoin": {}, "TensorDataset": {}, "MatMul": None, "ZerosLike": {}}
    (folder / "npu_supported_ops.json").write_text(json.dumps(mine))
    x = tf.placeholder(tf.float32, [1])
    text = tf.placeholder(tf.string, [])
    dataset = tf.data.Dataset.from_tensors(1)
    with tf.Session(config=proto()) as sess:
        sess.run(tf.constant(7))
        sess.run(tf.raw_ops.StringJoin(inputs=[text, text]), {text: "a"})
        sess.run(tf.data.make_one_shot_iterator(dataset).get_next())
        sess.run(product)
        assert [entry["offloaded"] for entry in ge.of("Run")] == [False] * 4
        sess.run(tf.raw_ops.ZerosLike(x=x), {x: [1.0]})
    assert ge.of("Run")[-1]["offloaded"] is True


def test_a_partial_run_runs_once_for_each_set_up(
    ge: Loaded, tf: Any, proto: Callable[..., Any]
) -> None:
    # direct_session.cc, PRunSetup: the executors start then, and wait for what is fed
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    double = x * tf.constant(2.0)
    total = double + y
    with tf.Session(config=proto()) as sess:
        for _ in range(2):
            handle = sess.partial_run_setup([double, total], [x, y])
            assert sess.partial_run(handle, double, {x: 3.0}) == 6
            assert sess.partial_run(handle, total, {y: 1.0}) == 7
    assert [entry["offloaded"] for entry in ge.of("Run")] == [True, True]
