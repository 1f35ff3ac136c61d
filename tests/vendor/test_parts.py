"""What fails because one part of a graph only is offloaded: guides/facts/adapter.md#checkpoints."""

from pathlib import Path
from typing import Any, Callable

import pytest

from tests.fake_host.vendor import Loaded

CASES = [
    pytest.param({"sharded": True}, {}, "uninitialized value first", id="sharded"),
    pytest.param({}, {}, None, id="not sharded"),
    pytest.param({"sharded": True}, {"mix_compile_mode": True}, None, id="mixed computing"),
]


def variables(tf: Any, count: int) -> Any:
    """So many variables, and what initialises them."""
    for name in ("first", "second")[:count]:
        tf.get_variable(name, initializer=[[1.0]])
    return tf.global_variables_initializer()


@pytest.mark.parametrize(("saver", "options", "reason"), CASES)
def test_a_sharded_saver_loses_its_variables(
    ge: Loaded,
    tf: Any,
    proto: Callable[..., Any],
    tmp_path: Path,
    saver: Any,
    options: Any,
    reason: Any,
) -> None:
    start = variables(tf, 2)
    saver = tf.train.Saver(**saver)
    with tf.Session(config=proto(**options)) as sess:
        sess.run(start)
        if reason is None:
            assert saver.save(sess, str(tmp_path / "model"))
        else:
            with pytest.raises(tf.errors.FailedPreconditionError, match=reason):
                saver.save(sess, str(tmp_path / "model"))


def test_it_does_not_where_constants_are_not_folded(
    ge: Loaded, tf: Any, proto: Callable[..., Any], tmp_path: Path
) -> None:
    from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

    start = variables(tf, 2)
    saver = tf.train.Saver(sharded=True)
    config = proto()
    config.graph_options.rewrite_options.constant_folding = RewriterConfig.OFF
    with tf.Session(config=config) as sess:
        sess.run(start)
        assert saver.save(sess, str(tmp_path / "model"))


def test_a_report_of_one_variable_fails(ge: Loaded, tf: Any, proto: Callable[..., Any]) -> None:
    variables(tf, 1)
    report = tf.report_uninitialized_variables()
    with tf.Session(config=proto()) as sess:
        with pytest.raises(tf.errors.InternalError, match="DoRunAsync get output failed"):
            sess.run(report)


@pytest.mark.parametrize(("options", "told"), [({}, []), ({"use_off_line": False}, [b"first"])])
def test_a_report_of_two_variables_tells_of_none(
    ge: Loaded, tf: Any, proto: Callable[..., Any], options: Any, told: Any
) -> None:
    variables(tf, 2)
    report = tf.report_uninitialized_variables()
    with tf.Session(config=proto(**options)) as sess:
        sess.run(tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)[1].initializer)
        assert sess.run([report])[0].tolist() == told


def test_a_placeholder_that_is_not_fed_is_an_internal_error(
    ge: Loaded, tf: Any, proto: Callable[..., Any]
) -> None:
    x = tf.placeholder(tf.float32, [1, 1], name="x")
    product = tf.matmul(x, [[2.0]])
    with tf.Session(config=proto()) as sess:
        with pytest.raises(tf.errors.InternalError, match="x has no value"):
            sess.run(product)
        assert sess.run(product, {x: [[2.0]]}) == [[4.0]]
