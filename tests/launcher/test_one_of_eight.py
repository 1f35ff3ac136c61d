"""One rank of eight, whichever it is, that does something else from some step on: it is named."""

import random
from pathlib import Path
from typing import Callable

import pytest

from ascend_session import LaunchResult
from ascend_session.text import format_ordinal
from tests.launched import launched

# The arguments: what one rank does, which one it is, and in which step, counted from 1.
_SCRIPT = """
import sys
import time
import numpy as np
import tensorflow.compat.v1 as tf
from ascend_session import ascend_system, hccl, training
tf.disable_eager_execution()
how, who, begin = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with ascend_system() as system:
    is_it = system.rank == who
    x, y = tf.placeholder(tf.float32, [4, 3]), tf.placeholder(tf.float32, [None])
    w, b = tf.get_variable("w", [3, 1]), tf.get_variable("b", initializer=0.0)
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1)) + tf.reduce_mean(b * y)
    summary = tf.summary.scalar("curve", loss)
    optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.01))
    train = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    total = hccl.allreduce(tf.ones_like(y), "sum")
    saver = tf.train.Saver()
    steps = 70 if how in ("slow", "nothing") else begin + 5
    if how == "nothing":
        steps = training.common_steps(steps + system.rank)
    with system.session() as sess:
        training.initialize(sess)
        for step in range(1, steps + 1):
            feed = {x: np.random.RandomState(step).rand(4, 3), y: np.ones(2)}
            begins = is_it and step == begin
            time.sleep(0.1 if how == "slow" and is_it else 0.02)
            if how in ("nan", "inf") and begins:
                feed[x if begin % 2 else y] = np.full([4, 3] if begin % 2 else [2], float(how))
            if how == "data" and begins:
                break
            if how == "shape" and begins:
                feed[y] = np.ones(3)
            if how == "nothing" and system.rank == 0 and step % 20 == 0:
                sess.run([loss, summary], feed)
                saver.save(sess, "model/model", step)
            if not (how == "skip" and begins):
                sess.run(total, feed)
            sess.run([train, summary] if how == "summary" and begins else train, feed)
            if how in ("nan", "inf") and not all(np.isfinite(v).all() for v in sess.run([w, b])):
                raise ValueError("the weights are not finite")
"""


Train = Callable[..., LaunchResult]


@pytest.fixture
def train(tmp_path: Path, forking_python: str) -> Train:
    def train(how: str, who: int, begin: int) -> LaunchResult:
        script, args = tmp_path / "train.py", (how, str(who), str(begin))
        script.write_text(_SCRIPT)
        return launched(str(script), 8, tmp_path, python=forking_python, args=args)

    return train


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("skip", "Rank {who} waits for another collective than the others, and none of these "),
        ("shape", "Rank {who} disagrees with the others about "),
        ("data", "Rank {who} has left (it closed its system), but "),
        ("nan", "The first gradient of '{variable}' that was seen not to be finite came from "),
        ("inf", "The first gradient of '{variable}' that was seen not to be finite came from "),
    ],
)
def test_a_rank_that_brings_the_job_down_is_named_with_its_step(
    train: Train, how: str, says: str
) -> None:
    who, begin = random.randrange(8), random.randrange(2, 30)
    result = train(how, who, begin)
    assert result.cause is not None
    said = result.cause.said
    assert says.format(who=who, variable="bw"[begin % 2]) in said, (who, begin)
    step = f" rank {who}, in step {begin} " if how in ("nan", "inf") else format_ordinal(begin)
    assert step in said, (who, begin)
    assert result.cause.rank == who


def test_a_rank_that_fetches_more_gets_a_note_with_its_run(train: Train) -> None:
    who, begin = random.randrange(8), random.randrange(2, 30)
    result = train("summary", who, begin)
    (note,) = result.notes
    assert note.startswith(f"Rank {who} in "), (who, begin)
    assert f"(their {format_ordinal(begin)} run): rank {who} also fetches `curve`" in note


def test_a_rank_that_takes_five_times_as_long_gets_a_note(train: Train) -> None:
    who = random.randrange(8)
    (note,) = train("slow", who, 1).notes
    assert note.startswith(f"The other ranks waited for rank {who} in ")


def test_nothing_is_said_of_eight_ranks_that_do_the_same(train: Train) -> None:
    result = train("nothing", 0, 1)
    assert (result.code, result.notes) == (0, ())
    assert [Path(rank.stderr).read_text() for rank in result.ranks] == [""] * 8
