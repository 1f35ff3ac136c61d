"""Real jobs of two ranks that train one model, or do not: what their launch says."""

from pathlib import Path
from typing import Any, Callable

import pytest

from ascend_session import LaunchResult
from tests.launched import launched

_STARTS_DIFFERENTLY = "Rank 1 started with other variables than rank 0: `w`"
_EXCHANGED_NOTHING = "he ranks exchanged nothing; if they train, they train 2 models"

# Trains `w`; what is left out, or done besides, is the script's argument.
_OWN = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
from ascend_session import ascend_system, training
tf.disable_eager_execution()
how = sys.argv[1]
with ascend_system() as system:
    x = tf.constant(np.random.RandomState(system.rank).rand(8, 3), tf.float32)
    w = tf.get_variable("w", initializer=tf.random.normal([3, 1], seed=1 + system.rank))
    own = tf.get_variable("own", initializer=float(system.rank), trainable=False)
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1))
    optimizer = tf.train.AdamOptimizer(0.1)
    if how != "no averaging":
        optimizer = training.DistributedOptimizer(optimizer)
    train = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    if how == "values of a rank":  # such as batch statistics
        train = tf.group(train, own.assign_add(1))
    broadcast = training.broadcast_global_variables(0)
    with system.session() as sess:
        sess.run(tf.global_variables_initializer())
        if how != "no broadcast":
            sess.run(broadcast)
        if how == "values of a rank":
            sess.run(own.initializer)
        for _ in range(3):
            sess.run(train)
        if how == "evaluation on rank 0" and system.rank == 0:
            sess.run(loss)
    if how == "failure" and system.rank == 1:
        raise ValueError("after training")
"""
_VENDOR = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import *
tf.disable_eager_execution()
how = sys.argv[1]
config = tf.ConfigProto()
config.graph_options.rewrite_options.custom_optimizers.add().name = "NpuOptimizer"
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
config = npu_config_proto(config_proto=config)
rank = int(os.environ["RANK_ID"])
x = tf.constant(np.random.RandomState(rank).rand(8, 3), tf.float32)
w = tf.get_variable("w", initializer=tf.random.normal([3, 1], seed=1 + rank))
optimizer = tf.train.AdamOptimizer(0.1)
if how != "no averaging":
    optimizer = npu_tf_optimizer(optimizer)
train = optimizer.minimize(tf.reduce_mean(tf.square(tf.matmul(x, w) - 1)))
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    if how != "no broadcast":
        sess.run(hccl_ops.broadcast(tf.trainable_variables(), 0))
    for _ in range(3):
        sess.run(train)
"""
_SCRIPTS = {"own": _OWN, "vendor": _VENDOR}


Train = Callable[..., LaunchResult]


@pytest.fixture
def train(tmp_path: Path, forking_python: str) -> Train:
    def train(api: str, how: str, **asked: Any) -> LaunchResult:
        script = tmp_path / "train.py"
        script.write_text("import os\n" + _SCRIPTS[api])
        return launched(str(script), 2, tmp_path, python=forking_python, args=(how,), **asked)

    return train


@pytest.mark.parametrize("api", list(_SCRIPTS))
def test_ranks_that_do_not_begin_with_the_same_variables_fail(train: Train, api: str) -> None:
    result = train(api, "no broadcast", max_restarts=1)
    assert result.code == 1, result
    assert result.cause is not None
    assert result.cause.kind == "different_models"
    error = "The 2 ranks hold 2 different models: `w` differs first, by roughly "
    assert result.cause.said.startswith(error)
    assert [note.startswith(_STARTS_DIFFERENTLY) for note in result.notes] == [True]
    assert len(result.attempts) == 1


@pytest.mark.parametrize("api", list(_SCRIPTS))
def test_ranks_that_average_nothing_get_a_note(train: Train, api: str) -> None:
    result = train(api, "no averaging")
    assert result.code == 0, result
    assert "one model in" not in str(result)
    assert [_EXCHANGED_NOTHING in note for note in result.notes] == [True]


@pytest.mark.parametrize(
    ("api", "how"),
    [
        ("own", "right"),
        ("own", "values of a rank"),
        ("own", "evaluation on rank 0"),
        ("vendor", "right"),
    ],
)
def test_honest_scripts_hold_one_model_without_a_note(train: Train, api: str, how: str) -> None:
    result = train(api, how)
    assert result.code == 0, result
    assert result.notes == ()
    [line] = str(result).splitlines()
    assert line.startswith("ascend-session: all 2 ranks succeeded and hold one model in ")
    for rank in result.ranks:
        written = Path(rank.stderr).read_text() + Path(rank.stdout).read_text()
        assert "AscendConfigWarning" not in written
        assert "Rank" not in written
        assert "model" not in written


@pytest.mark.parametrize("how", ["no broadcast", "no averaging"])
def test_independent_ranks_are_not_compared(train: Train, how: str) -> None:
    result = train("own", how, independent=True)
    assert result.code == 0, result
    assert result.notes == ()
    assert "one model" not in str(result)


def test_a_rank_that_fails_after_training_is_the_cause(train: Train) -> None:
    result = train("own", "failure")
    assert result.code == 1
    assert result.cause is not None
    assert result.cause.kind is None
    assert "Rank 1 raised ValueError: after training." in result.cause.said
