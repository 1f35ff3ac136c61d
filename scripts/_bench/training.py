"""One rank of a training whose models are compared, or not: ``training.py STEPS VARIABLES``.

Rank 0 prints seconds, as a list: of a step of a small network (the best of a few rounds of so many
steps), of the first step that trains so many variables of 4 MB, and of closing their session.
"""

import json
import sys
from time import perf_counter
from typing import Any, List, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from ascend_session import ascend_system, training

ROUNDS = 3
ELEMENTS = 1_000_000


def main(argv: Sequence[str]) -> None:
    """Train twice, and print."""
    steps, variables = map(int, argv)
    tf.disable_eager_execution()
    tf.logging.set_verbosity("ERROR")
    with ascend_system() as system:
        seconds = [time_step(system, steps), *time_variables(system, variables)]
    if system.rank == 0:
        print("seconds", json.dumps(seconds), flush=True)


def time_step(system: Any, steps: int) -> float:
    """Give the seconds of a step of a small network."""
    with tf.Graph().as_default() as graph:
        x = tf.constant(np.random.RandomState(2).rand(128, 256).astype(np.float32))
        for number in range(6):
            kernel = tf.get_variable(f"kernel_{number}", [256, 256], use_resource=True)
            x = tf.nn.tanh(tf.matmul(x, kernel))
        step = _minimize(tf.reduce_mean(x * x))
        with system.session(graph=graph) as session:
            training.initialize(session)
            session.run(step)
            rounds = []
            for _ in range(ROUNDS):
                begin = perf_counter()
                for _ in range(steps):
                    session.run(step)
                rounds.append((perf_counter() - begin) / steps)
    return min(rounds)


def time_variables(system: Any, count: int) -> List[float]:
    """Give the seconds of a first step, and of closing the session after a second one."""
    with tf.Graph().as_default() as graph:
        values = [
            tf.get_variable(f"v{number}", [ELEMENTS], use_resource=True) for number in range(count)
        ]
        step = _minimize(tf.add_n([tf.reduce_sum(value) for value in values]))
        with system.session(graph=graph) as session:
            training.initialize(session)
            begin = perf_counter()
            session.run(step)
            first = perf_counter() - begin
            session.run(step)
            begin = perf_counter()
        return [first, perf_counter() - begin]


def _minimize(loss: Any) -> Any:
    optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.01))
    return optimizer.minimize(loss)


if __name__ == "__main__":
    main(sys.argv[1:])
