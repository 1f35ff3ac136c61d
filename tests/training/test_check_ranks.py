"""After which steps the hook that compares the models of the ranks does so."""

from typing import Any, List

import pytest

from ascend_session.training import (
    CheckRanksHook,
    DistributedOptimizer,
    IterationsPerLoopHook,
    iterations_per_loop,
)
from tests.training.conftest import Equals, install


class Watched(Equals):
    """Equal ranks that note the global step at each comparison."""

    def __init__(self) -> None:
        super().__init__(2)
        self.compared: List[int] = []

    def allgather(self, tensor: Any, *arguments: Any, **named: Any) -> Any:
        """Exchange, and note the step."""
        import tensorflow.compat.v1 as tf

        def note(step: Any) -> Any:
            self.compared.append(int(step))
            return step

        step = tf.train.get_global_step()
        with tf.control_dependencies([tf.py_func(note, [step.read_value()], step.dtype)]):
            return super().allgather(tf.identity(tensor), *arguments, **named)


def compare_in(tf: Any, monkeypatch: Any, runs: int, every: int, steps: int) -> List[int]:
    """Train so many runs of so many steps, and return the steps after which ranks are compared."""
    watched = Watched()
    install(monkeypatch, watched, 2)
    with tf.Graph().as_default():
        collections = [tf.GraphKeys.GLOBAL_STEP, tf.GraphKeys.GLOBAL_VARIABLES]
        step = tf.get_variable(
            "global_step",
            initializer=tf.constant(0, tf.int64),
            trainable=False,
            collections=collections,
            use_resource=True,
        )
        weight = tf.get_variable("weight", initializer=[1.0], use_resource=True)
        # What the hook fetches beside a step is the number before it, at all ranks or at some.
        with tf.control_dependencies([tf.get_default_graph().as_graph_element(step)]):
            loss = tf.reduce_sum(weight * tf.ones([1]))
            optimizer = DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1))
            train_op = optimizer.minimize(loss, step)
        hooks: List[Any] = [CheckRanksHook(every)]
        if steps > 1:
            train_op = iterations_per_loop(None, train_op, steps)
            hooks.insert(0, IterationsPerLoopHook())
        with tf.train.MonitoredSession(hooks=hooks) as session:
            for _ in range(runs):
                session.run(train_op)
    return watched.compared


@pytest.mark.filterwarnings("ignore:The configuration of this session does not set")
@pytest.mark.parametrize(
    ("every", "steps", "compared"),
    [
        (1, 1, [1, 2, 3, 4, 5, 6, 7]),
        (3, 1, [1, 3, 6]),
        (100, 1, [1]),
        (10, 5, [5, 10, 20, 30]),
        (7, 5, [5, 10, 15, 25, 30, 35]),
    ],
)
def test_after_the_first_step_and_then_as_often_as_is_asked_for(
    tf: Any, monkeypatch: Any, every: int, steps: int, compared: List[int]
) -> None:
    assert compare_in(tf, monkeypatch, 7, every, steps) == compared
