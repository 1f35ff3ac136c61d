"""The values of runs: in the precision and order of the device, and with each fault of them.

Source: the pages of the manual that fake_ge/results.py cites.
"""

import contextlib
import importlib
from typing import Any, Callable, Iterator, List

import numpy as np
import pytest

from tests.fake_host import FakeHost
from tests.fake_host.vendor import loaded
from tests.vendor.conftest import AS_IF_DELETED

HALF_WAY = 1 + 2.0**-11  # between two numbers of half precision


@pytest.fixture
def load(host: FakeHost, tf: Any) -> Iterator[Callable[..., Any]]:
    """Loads the packages, with a fault if one is named."""
    with contextlib.ExitStack() as stack:

        def loading(*faults: str) -> Any:
            ge = stack.enter_context(loaded(host, faults=",".join([*faults, AS_IF_DELETED])))
            importlib.import_module("npu_bridge")
            return ge

        yield loading


def sums(tf: Any, config: Any) -> List[bytes]:
    """What five runs of a sum in segments give back."""
    values = tf.placeholder(tf.float32, [64])
    total = tf.math.unsorted_segment_sum(values, np.arange(64) % 4, 4)
    with tf.Session(config=config) as sess:
        feed = {values: np.linspace(0.1, 1, 64)}
        return [bytes(sess.run(total, feed).tobytes()) for _ in range(5)]


def product(tf: Any, config: Any) -> float:
    """A product that half precision has to round."""
    x = tf.placeholder(tf.float32, [1, 1])
    with tf.Session(config=config) as sess:
        return float(sess.run(tf.matmul(x, x), {x: [[HALF_WAY]]})[0, 0])


def test_sums_are_added_in_any_order_unless_they_are_deterministic(
    load: Any, tf: Any, proto: Callable[..., Any]
) -> None:
    load()
    assert len(set(sums(tf, proto()))) > 1
    assert len(set(sums(tf, proto(deterministic=1)))) == 1
    assert len(set(sums(tf, proto(use_off_line=False)))) == 1


def test_deterministic_is_ignored(load: Any, tf: Any, proto: Callable[..., Any]) -> None:
    load("no-deterministic")
    assert len(set(sums(tf, proto(deterministic=1)))) > 1


@pytest.mark.parametrize(
    ("options", "half"),
    [
        ({}, False),
        ({"precision_mode": "must_keep_origin_dtype"}, False),
        ({"precision_mode": "force_fp16"}, True),
        ({"precision_mode": "allow_fp32_to_fp16"}, True),
        ({"precision_mode_v2": "origin"}, False),
        ({"precision_mode_v2": "fp16"}, True),
    ],
    ids=str,
)
def test_a_precision_mode_rounds(
    load: Any, tf: Any, proto: Callable[..., Any], options: Any, half: bool
) -> None:
    load()
    exact = np.float32(HALF_WAY) * np.float32(HALF_WAY)
    assert product(tf, proto(**options)) == (np.float16(exact) if half else exact)


def test_only_force_fp16_rounds_what_is_no_matrix_operator(
    load: Any, tf: Any, proto: Callable[..., Any]
) -> None:
    load()
    x = tf.placeholder(tf.float32, [])
    for mode, half in (("allow_fp32_to_fp16", False), ("force_fp16", True)):
        with tf.Session(config=proto(precision_mode=mode)) as sess:
            assert (sess.run(tf.tanh(x), {x: 0.3}) != np.float32(np.tanh(0.3))) == half


def test_the_precision_mode_is_ignored(load: Any, tf: Any, proto: Callable[..., Any]) -> None:
    load("no-precision")
    assert product(tf, proto(precision_mode="force_fp16")) == np.float32(HALF_WAY) ** 2


def test_values_are_wrong_once_ge_came_up_again(
    load: Any, tf: Any, proto: Callable[..., Any]
) -> None:
    load("later-values")
    found = [product(tf, proto()) for _ in range(3)]
    assert found == pytest.approx([1.0, 1.05, 1.1], rel=2e-3)


def test_all_numbers_are_off_by_one(load: Any, tf: Any, proto: Callable[..., Any]) -> None:
    load("off-by-one")
    fetches = [tf.constant(7), tf.constant(0.5), tf.constant("as it was"), tf.constant([1, 2])]
    with tf.Session(config=proto()) as sess:
        found = sess.run(fetches)
    assert found[:3] == [8, 1.5, b"as it was"]
    assert found[3].tolist() == [2, 3]


def test_numbers_that_are_fed_arrive_as_zeros(
    load: Any, tf: Any, proto: Callable[..., Any]
) -> None:
    load("feeds")
    x, name = tf.placeholder(tf.float32, []), tf.placeholder(tf.string, [])
    with tf.Session(config=proto()) as sess:
        assert sess.run([x + 1, tf.identity(name)], {x: 7.0, name: "kept"}) == [1, b"kept"]


def test_a_failing_assert_of_the_device_is_an_internal_error(
    load: Any, tf: Any, proto: Callable[..., Any]
) -> None:
    load()
    wrong = tf.Assert(False, ["this is not so"])
    for on_device, error in ((True, "InternalError"), (False, "InvalidArgumentError")):
        with tf.Session(config=proto(use_off_line=on_device)) as sess:
            with pytest.raises(getattr(tf.errors, error), match="this is not so"):
                sess.run(wrong)
