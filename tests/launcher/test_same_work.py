"""Real jobs whose ranks do the same in each step, or do not: what their launch says."""

import random
from pathlib import Path
from typing import Callable

import pytest

from ascend_session import LaunchResult
from tests.launched import launched

# What a rank does besides training is the script's first argument, the rank that does it the
# second one, the step from which it does so the third one.
_HEAD = """
import os
import sys
import tempfile
import time
import numpy as np
import tensorflow.compat.v1 as tf
move = None
how, who, begin = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tf.disable_eager_execution()
def run(session, step, rank):
    is_it = rank == who
    for number in range(12 if how not in ("slow", "evaluation", "pipeline") else 70):
        feed = {x: np.random.RandomState(rank).rand(8, 3)}
        if move is not None:
            session.run(move)
            time.sleep(0.02 + 0.03 * is_it)
        if how == "slow":
            time.sleep(0.02 + 0.05 * is_it)
        if how == "evaluation" and is_it and number % 10 == 5:
            time.sleep(0.2)
            session.run([loss, summary], feed)
        if how == "from then on" and is_it and number >= begin:
            session.run([step, loss], feed)
        elif how == "once" and is_it and number == begin:
            session.run([step, summary], feed)
        elif how == "always" and is_it:
            session.run([step, summary], feed)
        elif how == "at other steps" and number > 1 and number % 5 == (2 if is_it else 3):
            session.run([step, loss], feed)
        elif how == "all of them" and number % 5 == 2:
            session.run([loss, step], feed)
        elif how == "global step" and is_it:
            session.run([step, counter], feed)
        else:
            session.run(step, feed)
def build():
    global x, w, loss, summary, counter
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.get_variable("w", [3, 1], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w)), name="mean_loss")
    summary = tf.summary.scalar("curve", loss)
    counter = tf.train.get_or_create_global_step()
"""
_OWN = (
    _HEAD
    + """
from ascend_session import ascend_system, hccl, training
with ascend_system() as system:
    build()
    optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.01))
    step = optimizer.minimize(loss, counter)
    if how == "pipeline" and system.rank == 0:
        move = hccl.send(tf.ones([3]), 1, 1)
    elif how == "pipeline":
        move = hccl.receive([3], tf.float32, 1, 0)
    if how == "checkpoints":
        folder = tempfile.mkdtemp(dir=".") if system.rank == who else None
        hooks = [training.BroadcastGlobalVariablesHook(0)]
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder, save_summaries_steps=None, save_summaries_secs=None,
            save_checkpoint_steps=5, save_checkpoint_secs=None, hooks=hooks,
            config=system.session_config(),
        ) as session:
            run(session, step, system.rank)
    else:
        with system.session() as session:
            session.run(tf.global_variables_initializer())
            run(session, step, system.rank)
"""
)
_VENDOR = (
    _HEAD
    + """
from npu_bridge.npu_init import *
config = tf.ConfigProto()
config.graph_options.rewrite_options.custom_optimizers.add().name = "NpuOptimizer"
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
config = npu_config_proto(config_proto=config)
build()
step = npu_tf_optimizer(tf.train.GradientDescentOptimizer(0.01)).minimize(loss, counter)
with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    run(session, step, int(os.environ["RANK_ID"]))
"""
)
_SCRIPTS = {"own": _OWN, "vendor": _VENDOR}
_CERTAIN = "A device hangs there"
_MANUAL = "The vendor's manual describes such jobs as hanging on devices"


Train = Callable[..., LaunchResult]


@pytest.fixture
def train(tmp_path: Path, forking_python: str) -> Train:
    def train(api: str, how: str, who: int = 0, begin: int = 0, size: int = 2) -> LaunchResult:
        script, args = tmp_path / "train.py", (how, str(who), str(begin))
        script.write_text(_SCRIPTS[api])
        result = launched(str(script), size, tmp_path, python=forking_python, args=args)
        assert result.code == 0, result
        return result

    return train


def _line_with(text: str) -> int:
    return next(n for n, line in enumerate(_HEAD.splitlines(), 1) if text in line)


@pytest.mark.parametrize("api", list(_SCRIPTS))
def test_a_summary_of_one_rank_gets_a_note_with_both_lines(train: Train, api: str) -> None:
    result = train(api, "always")
    assert len(result.notes) == 1
    (note,) = result.notes
    with_summary = _line_with('"always"') + 1
    plain = _line_with("session.run(step, feed)")
    assert f"train.py:{with_summary} and rank 1 in " in note
    assert f"train.py:{plain} run different graphs" in note
    assert "(their first run): rank 0 also fetches `curve`" in note
    assert _MANUAL in note


@pytest.mark.parametrize(
    ("api", "how", "size"),
    [("own", "from then on", 8), ("own", "once", 2), ("vendor", "once", 2)],
)
def test_a_fetch_of_one_rank_at_a_later_step_hangs_a_device(
    train: Train, api: str, how: str, size: int
) -> None:
    who, begin = random.randrange(size), random.randrange(1, 12)
    result = train(api, how, who, begin, size)
    assert len(result.notes) == 1, (who, begin)
    (note,) = result.notes
    assert note.startswith(f"Rank {who} in ")
    fetched = "mean_loss" if how == "from then on" else "curve"
    assert f"rank {who} also fetches `{fetched}`" in note
    assert _CERTAIN in note


def test_the_same_graphs_at_different_steps_hang_a_device(train: Train) -> None:
    result = train("own", "at other steps")
    assert [_CERTAIN in note for note in result.notes] == [True]


@pytest.mark.parametrize(
    ("api", "how"),
    [
        ("own", "nothing"),
        ("own", "all of them"),
        ("own", "evaluation"),
        ("own", "global step"),
        ("own", "checkpoints"),
        ("own", "pipeline"),
        ("vendor", "nothing"),
        ("vendor", "evaluation"),
    ],
)
def test_nothing_is_said_about_honest_ranks(train: Train, api: str, how: str) -> None:
    assert train(api, how).notes == ()


@pytest.mark.parametrize("api", list(_SCRIPTS))
def test_a_rank_that_is_slow_in_most_steps_gets_a_note(train: Train, api: str) -> None:
    result = train(api, "slow", who=1)
    assert [note.startswith("The other ranks waited for rank 1 in ") for note in result.notes] == [
        True
    ]
    shares = result.as_dict()["attempts"][0]["late_shares"]
    assert len(shares) == 2
    assert shares[1] > 1 / 3 > shares[0]
