"""Opening and closing: in one process, in several, and whichever way a process ends."""

import signal
import sys
from typing import Any

import pytest

from ascend_session import ascend_session, ascend_system
from hardware_tests.graphs import product
from hardware_tests.running import run, started

ORDERLY = ["initialize", "bring up", "session open", "session close", "shutdown"]


def right(sess: Any, tf: Any) -> bool:
    """Whether the device computes a product as it should."""
    with sess.graph.as_default():
        fetch, feed, expected = product(tf)
    return bool((sess.run(fetch, feed) == expected).all())


def test_the_device_opens_several_times_in_a_process(tf: Any) -> None:
    for _ in range(3):
        with ascend_session(backend="npu") as sess:
            assert right(sess, tf)


def test_nested_and_sequential_sessions_compute(tf: Any) -> None:
    with ascend_system(backend="npu") as system:
        with system.session(tf.Graph()) as outer, system.session(tf.Graph()) as inner:
            assert right(inner, tf)
            assert right(outer, tf)
        with system.session(tf.Graph()) as later:
            assert right(later, tf)


def test_processes_follow_one_another(tf: Any) -> None:
    for _ in range(2):
        ended = run("leaving", "by_the_end_of_the_block")
        assert (ended.code, ended.said) == (0, [True, ORDERLY]), ended.log


def test_another_process_gets_the_device_after_the_block(tf: Any) -> None:
    with ascend_session(backend="npu") as sess:
        assert right(sess, tf)
    # This process goes on, and may well have the node open still: no reference says when it closes.
    ended = run("leaving", "by_the_end_of_the_block")
    assert (ended.code, ended.said) == (0, [True, ORDERLY]), ended.log


def test_another_process_gets_the_device_after_a_raising_body(tf: Any) -> None:
    def body() -> None:
        with ascend_session(backend="npu") as sess:
            assert right(sess, tf)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    ended = run("leaving", "by_the_end_of_the_block")
    assert (ended.code, ended.said) == (0, [True, ORDERLY]), ended.log


def test_a_process_that_ends_inside_the_block_shuts_down() -> None:
    ended = run("leaving", "without_leaving_the_block")
    assert (ended.code, ended.said) == (0, [True, ORDERLY]), ended.log
    assert "left open" in ended.log


def test_an_interrupted_process_shuts_down() -> None:
    with started("leaving", "by_an_interrupt") as program:
        program.await_word(True)
        program.await_word("computing")
        program.send(signal.SIGINT)
        ended = program.end()
    assert (ended.code, ended.said) == (0, ["interrupted", ORDERLY]), ended.log


def test_no_session_is_patched(tf: Any) -> None:
    with ascend_session(backend="npu"):
        assert "npu_bridge.npu_init" not in sys.modules
        for made in (tf.Session.__init__, tf.InteractiveSession.__init__, tf.Session.run):
            assert made.__module__.split(".")[0] in ("tensorflow", "tensorflow_core")
