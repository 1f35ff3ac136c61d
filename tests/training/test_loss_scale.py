"""Loss scale managers: limits, and how the scale moves, compared with the vendor's rules."""

import random
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any, List, Tuple

import numpy as np
import pytest

from ascend_session import ConfigError
from ascend_session.training import (
    DistributedOptimizer,
    ExponentialUpdateLossScaleManager,
    FixedLossScaleManager,
    LossScaleManager,
)


class Rules:
    """The vendor's rules in plain Python (npu_loss_scale_manager.py), in float32."""

    def __init__(self, scale: float, every: int, bad_every: int, up: float, down: float) -> None:
        self.scale, self.good, self.bad = scale, 0, 0
        self._every, self._bad_every, self._up, self._down = every, bad_every, up, down

    def step(self, finite: bool) -> None:
        """One step."""
        if finite and self.good + 1 >= self._every:
            if self.scale < 3.4e38 / self._up:
                self.scale *= self._up
            self.good = self.bad = 0
        elif finite:
            self.good += 1
        elif self.bad + 1 >= self._bad_every:
            self.scale = max(1.0, self.scale * self._down)
            self.good = self.bad = 0
        else:
            self.good, self.bad = 0, self.bad + 1


def run(tf: Any, manager: Any, steps: List[bool]) -> List[Tuple[float, int, int]]:
    """Scale, good and bad steps after each step."""
    finite = tf.placeholder(tf.bool, [])
    update = manager.update_loss_scale(finite)
    variables = tf.global_variables()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        found = []
        for step in steps:
            sess.run(update, {finite: step})
            found.append(tuple(float(value) for value in sess.run(variables)))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_scale_moves_as_the_vendors(tf: Any, seed: int) -> None:
    chance = random.Random(seed)
    numbers = (1024.0, chance.randint(1, 3), chance.randint(1, 3), 2.0, 0.5)
    steps = [chance.random() < 0.6 for _ in range(40)]
    rules, expected = Rules(*numbers), []
    for step in steps:
        rules.step(step)
        expected.append((rules.scale, rules.good, rules.bad))
    assert run(tf, ExponentialUpdateLossScaleManager(*numbers), steps) == expected


def test_the_scale_stays_inside_float32(tf: Any) -> None:
    manager = ExponentialUpdateLossScaleManager(2.0**126, 1)
    assert [scale for scale, _, _ in run(tf, manager, [True] * 3)] == [2.0**127] * 3


def test_the_scale_is_never_below_one(tf: Any) -> None:
    manager = ExponentialUpdateLossScaleManager(1.5, 10, 1, decr_ratio=0.5)
    assert [scale for scale, _, _ in run(tf, manager, [False] * 2)] == [1.0, 1.0]


def test_the_defaults_are_the_vendors(tf: Any) -> None:
    manager = ExponentialUpdateLossScaleManager(100.0, 2)
    found = run(tf, manager, [True, True, False, False])
    assert [round(scale, 3) for scale, _, _ in found] == [100.0, 200.0, 200.0, 160.0]


def test_a_fixed_scale_stays(tf: Any) -> None:
    manager = FixedLossScaleManager(128)
    with tf.Session() as sess:
        sess.run(manager.update_loss_scale(tf.constant(False)))
        assert sess.run(manager.get_loss_scale()) == 128.0
    assert manager.get_enable_overflow_check() is True
    assert FixedLossScaleManager(1, False).get_enable_overflow_check() is False


def test_its_variables_have_the_vendors_names_and_are_not_trained(tf: Any) -> None:
    manager = ExponentialUpdateLossScaleManager(2.0, 2)
    names = [variable.op.name for variable in tf.global_variables()]
    assert names == ["loss_scale", "good_steps", "bad_steps"]
    assert tf.trainable_variables() == []
    assert isinstance(manager, LossScaleManager)


def test_it_may_be_made_where_something_has_to_run_before(tf: Any) -> None:
    # npu_loss_scale_optimizer_faq.md: the vendor's ends in "Placeholder not support"
    x = tf.placeholder(tf.float32, [])
    with tf.control_dependencies([x + 1]):
        manager = ExponentialUpdateLossScaleManager(8.0, 2)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(manager.get_loss_scale()) == 8.0


@pytest.mark.parametrize("scale", [0.5, 0, -1, float("-inf")])
def test_a_scale_below_one_is_refused(tf: Any, scale: Any) -> None:
    with pytest.raises(ConfigError, match="must be at least 1"):
        FixedLossScaleManager(scale)
    with pytest.raises(ConfigError, match="must be at least 1"):
        ExponentialUpdateLossScaleManager(scale, 2)
    assert tf.global_variables() == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"incr_every_n_steps": 0}, "incr_every_n_steps=0 must be at least 1"),
        ({"decr_every_n_nan_or_inf": 0}, "decr_every_n_nan_or_inf=0 must be at least 1"),
        ({"incr_ratio": 0.5}, "incr_ratio=0.5 must be at least 1"),
        ({"decr_ratio": 1.5}, "decr_ratio=1.5 must be above 0 and at most 1"),
        ({"decr_ratio": 0}, "decr_ratio=0 must be above 0"),
    ],
)
def test_numbers_that_would_move_it_the_wrong_way_are_refused(
    tf: Any, wrong: Any, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        ExponentialUpdateLossScaleManager(
            **{"init_loss_scale": 8, "incr_every_n_steps": 2, **wrong}
        )


@pytest.mark.parametrize(
    "value",
    ["8", b"8", None, True, float("inf"), float("nan"), 1e39, 10**400, Decimal("sNaN"), [8]],
)
def test_a_scale_that_is_no_number_of_float32_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^loss_scale=.* must be a number that float32 holds\."):
        FixedLossScaleManager(value)
    with pytest.raises(ConfigError, match=r"^init_loss_scale=.* must be a number that float32"):
        ExponentialUpdateLossScaleManager(value, 10)


@pytest.mark.parametrize(
    "name", ["incr_every_n_steps", "decr_every_n_nan_or_inf", "incr_ratio", "decr_ratio"]
)
@pytest.mark.parametrize("value", ["2", float("inf"), float("nan"), True])
def test_a_count_or_ratio_that_is_no_number_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name}=.* must be a finite number"):
        ExponentialUpdateLossScaleManager(
            **{"init_loss_scale": 8, "incr_every_n_steps": 2, name: value}
        )


@pytest.mark.parametrize("digits", [100, 5000])
def test_a_very_long_number_is_not_shown_whole(digits: int) -> None:
    with pytest.raises(ConfigError, match=r"\.\.\. must be") as refused:
        FixedLossScaleManager(10**digits)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize("kind", [np.array, np.float32, np.int64, Decimal, Fraction])
def test_numbers_may_be_of_other_types_than_pythons(tf: Any, kind: Any) -> None:
    fixed = FixedLossScaleManager(kind(8)).get_loss_scale()
    assert tf.get_static_value(fixed) == 8
    manager = ExponentialUpdateLossScaleManager(kind(8), kind(1), kind(1), kind(2), kind(1))
    assert run(tf, manager, [True]) == [(16, 0, 0)]


def _warn_about(tf: Any, scale: float, finite: List[bool]) -> List[str]:
    """Train steps of which some overflow, and return what is warned of."""
    weight = tf.get_variable("weight", initializer=1.0)
    factor = tf.placeholder(tf.float32, [])
    own = tf.train.GradientDescentOptimizer(0.0)
    manager = FixedLossScaleManager(scale)
    train = DistributedOptimizer(own, manager).minimize(weight * factor)
    with warnings.catch_warnings(record=True) as seen, tf.Session() as sess:
        warnings.simplefilter("always")
        sess.run(tf.global_variables_initializer())
        for is_finite in finite:
            sess.run(train, {factor: 1.0 if is_finite else np.inf})
    return [str(each.message) for each in seen if "skipped" in str(each.message)]


def test_overflows_now_and_then_are_never_warned_of(tf: Any) -> None:
    assert _warn_about(tf, 1.0, ([False] * 9 + [True]) * 14) == []


@pytest.mark.parametrize(("scale", "most"), [(1.0, 10), (2.0, 100)])
def test_overflows_in_a_row_are_warned_of_once(tf: Any, scale: float, most: int) -> None:
    (text,) = _warn_about(tf, scale, [False, True, *[False] * most, True, *[False] * most])
    assert text.startswith(f"The last {most} steps were skipped, because gradients were not finite")
