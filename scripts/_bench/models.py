"""Knows what it costs to compare the models of ranks: at the end, and in each step before it."""

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Iterator, List

import numpy as np
import tensorflow.compat.v1 as tf

from ascend_session.backends.averaging import note_averaged
from ascend_session.backends.exchange.group import ProcessGroup, Rank
from ascend_session.backends.exchange.models import summarize
from ascend_session.backends.model_report import ModelObserver
from ascend_session.backends.stub_job import StubGroups
from ascend_session.backends.tf_sessions import add_observer, remove_observer
from collectives import launch_of, read_seconds
from timing import Row, best, best_parts

RANKS = 2
STEPS = 100
VARIABLES = 25  # of 4 MB
JOBS = 3  # turns, at most; each starts the ranks twice

_TRAINING = str(Path(__file__).resolve().parent / "training.py")


def models(repeat: int) -> Iterator[Row]:
    """Compare with a copy of the variables, and with the same job of independent ranks."""
    values = np.random.RandomState(1).rand(VARIABLES, 1_000_000).astype(np.float32)

    def summarize_all() -> List[float]:
        begin = perf_counter()
        for number, value in enumerate(values):
            summarize(f"v{number}", "float32", (0, 1), value)
        return [perf_counter() - begin]

    def copy() -> List[float]:
        begin = perf_counter()
        values.copy()
        return [perf_counter() - begin]

    found = best({"ours": summarize_all, "theirs": copy}, min(repeat, 10))
    what = "summaries of 100 MB of variables"
    yield Row(what, found["ours"], "a copy of them", found["theirs"], 500, limits_ratio=False)
    yield step(repeat)
    yield from jobs(repeat)


def step(repeat: int) -> Row:
    """Compare steps of a small network that averages gradients, as one rank of two sees them."""
    with tf.Graph().as_default():
        x = tf.constant(np.random.RandomState(2).rand(128, 256).astype(np.float32))
        for number in range(6):
            kernel = tf.get_variable(f"kernel_{number}", [256, 256], use_resource=True)
            x = tf.nn.tanh(tf.matmul(x, kernel))
        optimizer = tf.train.GradientDescentOptimizer(0.01)
        pairs = optimizer.compute_gradients(tf.reduce_mean(x * x))
        note_averaged(*zip(*pairs))
        train_op = optimizer.apply_gradients(pairs)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())

            def run() -> List[float]:
                begin = perf_counter()
                for _ in range(STEPS):
                    session.run(train_op)
                return [(perf_counter() - begin) / STEPS]

            observer = ModelObserver(ProcessGroup(Rank(0)), StubGroups(0, ["", ""]))

            def observed() -> List[float]:
                add_observer(observer)
                try:
                    session.run(train_op)  # analysed once
                    return run()
                finally:
                    remove_observer(observer)

            found = best({"ours": observed, "theirs": run}, repeat)
    without = "the same step, which nobody observes"
    return Row("a step that is observed", found["ours"], without, found["theirs"], 1.05)


def jobs(repeat: int) -> Iterator[Row]:
    """Compare a job with the same one whose ranks are independent, as rank 0 measures them.

    Of a step the ratio says little if ranks wait for CPUs, so that `step` has the limit.
    """
    with tempfile.TemporaryDirectory() as folder:
        launch = launch_of(Path(folder), RANKS)
        script = [_TRAINING, str(STEPS), str(VARIABLES)]
        works = {
            "ours": lambda: read_seconds([*launch, *script]),
            "theirs": lambda: read_seconds([*launch, "--independent", *script]),
        }
        found = best_parts(works, min(repeat, JOBS))
    without = "the same with --independent"
    pairs = list(zip(found["ours"], found["theirs"]))
    yield Row(f"a step of {RANKS} ranks", pairs[0][0], without, pairs[0][1])
    yield Row("the first step with 100 MB", pairs[1][0], without, pairs[1][1])
    yield Row("closing after it", pairs[2][0], without, pairs[2][1], 500, limits_ratio=False)
