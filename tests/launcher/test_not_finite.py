"""Jobs whose numbers stop being finite: what their launch says, and honest ones, of which it says
nothing."""

from pathlib import Path
from typing import Callable

import pytest

from ascend_session import LaunchResult
from tests.launched import launched

_OWN = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
from ascend_session import ascend_system, training
tf.disable_eager_execution()
how, who, begin = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
steps = {"skips": 45, "skips once": 45, "skips with a fixed scale": 105}.get(how, begin + 5)
with ascend_system() as system:
    x = tf.placeholder(tf.float32, [4, 3])
    w = tf.get_variable("w", [3, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1))
    manager = None
    if how == "skips with a fixed scale":
        manager = training.FixedLossScaleManager(128.0)
    elif "skips" in how:
        manager = training.ExponentialUpdateLossScaleManager(2.0, 1000, 2, 2.0, 0.5)
    optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.01), manager)
    pairs = optimizer.compute_gradients(loss)
    if how.startswith("masked"):
        pairs = [(tf.where(tf.is_finite(g), g, tf.zeros_like(g)), v) for g, v in pairs]
    train = optimizer.apply_gradients(pairs, tf.train.get_or_create_global_step())
    broadcast = training.broadcast_global_variables(0)
    with system.session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(broadcast)
        for step in range(1, steps + 1):
            batch = np.ones([4, 3])
            bad = step >= begin if how in ("skips", "skips with a fixed scale") else step == begin
            if system.rank == who and bad:
                batch[0, 0] = 1e30
            sess.run(train, {x: batch})
            if how == "fails of it" and np.isnan(sess.run(w)).any():
                raise ValueError("the weights are NaN")
            if how == "raises alike" and step == begin:
                raise ValueError("no such folder: data")
            if how == "raises alone" and step == begin and system.rank == who:
                raise ValueError("no such folder: data")
        if how == "masked, then another failure":
            raise ValueError("no such NaN file")
"""
_VENDOR = """
import os
import sys
import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import *
tf.disable_eager_execution()
config = tf.ConfigProto()
config.graph_options.rewrite_options.custom_optimizers.add().name = "NpuOptimizer"
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
config = npu_config_proto(config_proto=config)
x = tf.placeholder(tf.float32, [4, 3])
w = tf.get_variable("w", [3, 1])
optimizer = npu_tf_optimizer(tf.train.GradientDescentOptimizer(0.01))
if "skips" in sys.argv[1]:
    manager = ExponentialUpdateLossScaleManager(2.0, 1000, 2, 2.0, 0.5)
    optimizer = NPULossScaleOptimizer(optimizer, manager, is_distributed=True)
train = optimizer.minimize(tf.reduce_mean(tf.square(tf.matmul(x, w) - 1)))
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(hccl_ops.broadcast(tf.trainable_variables(), 0))
    for step in range(1, 46):
        batch = np.ones([4, 3])
        bad = step == 3 if sys.argv[1] == "skips once" else step >= 3
        if os.environ["RANK_ID"] == "1" and bad:
            batch[0, 0] = 1e30
        sess.run(train, {x: batch})
        if sys.argv[1] == "fails of it" and np.isnan(sess.run(w)).any():
            raise ValueError("the weights are NaN")
"""
_FIRST = "The first gradient of 'w' that was seen not to be finite came from rank 1, in step 3 "
_FIXED = (
    "The last 100 steps were skipped, because gradients were not finite; the loss scale is 128. "
)
_SKIPPED = "steps were skipped, because gradients were not finite; the loss scale is 1, its minimum"
_PROGRAMS = {"own": _OWN, "vendor": _VENDOR}


Train = Callable[..., LaunchResult]


@pytest.fixture
def train(tmp_path: Path, forking_python: str) -> Train:
    """Launch a script whose rank ``who`` has a batch with an overflow in step ``begin``."""

    def train(api: str, how: str, size: int = 2, who: int = 1, begin: int = 3) -> LaunchResult:
        script, args = tmp_path / "train.py", (how, str(who), str(begin))
        script.write_text(_PROGRAMS[api])
        return launched(str(script), size, tmp_path, python=forking_python, args=args)

    return train


def written(result: LaunchResult) -> str:
    return "".join(Path(rank.stderr).read_text() for rank in result.ranks)


@pytest.mark.parametrize("api", list(_PROGRAMS))
def test_a_failure_names_who_brought_the_first_numbers_that_are_not_finite(
    train: Train, api: str
) -> None:
    result = train(api, "fails of it")
    assert result.cause is not None
    assert result.cause.said.startswith("All 2 ranks raised ValueError: the weights are NaN. ")
    assert _FIRST in result.cause.said
    assert result.cause.rank == 1


@pytest.mark.parametrize(
    ("how", "beginning"),
    [("raises alike", "All 4 ranks raised "), ("raises alone", "Rank 2 raised ")],
)
def test_an_exception_of_all_ranks_is_not_that_of_one(
    train: Train, how: str, beginning: str
) -> None:
    result = train("own", how, 4, who=2)
    assert result.cause is not None
    assert result.cause.said.startswith(f"{beginning}ValueError: no such folder: data")


def test_a_fixed_loss_scale_that_skips_a_hundred_steps_is_warned_of_once(train: Train) -> None:
    result = train("own", "skips with a fixed scale")
    assert result.code == 0
    assert written(result).count(_FIXED) == 1


@pytest.mark.parametrize("api", list(_PROGRAMS))
def test_a_loss_scale_at_its_minimum_that_skips_each_step_is_warned_of_once(
    train: Train, api: str
) -> None:
    result = train(api, "skips")
    assert result.code == 0
    assert written(result).count(_SKIPPED) == 1


@pytest.mark.parametrize(
    ("api", "how"), [("own", "masked"), ("own", "skips once"), ("vendor", "skips once")]
)
def test_overflows_that_a_script_handles_are_not_spoken_of(
    train: Train, api: str, how: str
) -> None:
    result = train(api, how)
    assert result.code == 0
    assert "not finite" not in written(result)
    assert result.notes == ()


def test_a_later_failure_does_not_blame_a_masked_overflow(train: Train) -> None:
    result = train("own", "masked, then another failure")
    assert result.cause is not None
    assert "finite" not in result.cause.said
