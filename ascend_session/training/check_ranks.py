"""Compare the variables of all ranks during a training, on devices as well."""

import math
from typing import Any, List, Optional

from ascend_session import hccl
from ascend_session.backends._tensorflow import find_global_step, tf1
from ascend_session.backends.averaging import Variable, plan_run
from ascend_session.backends.exchange.models import (
    RankReport,
    VariableSummary,
    compare_models,
    random_signs,
)
from ascend_session.backends.exchange.outcome import current_advice
from ascend_session.errors import CollectiveError, ConfigError, warn
from ascend_session.session.conditions import LOOPS_APPLIED
from ascend_session.session.graphs import job_size
from ascend_session.training.step_hook import StepHook
from ascend_session.vendor import WORLD_GROUP

_ROW = 256  # elements that share a row of signs


class CheckRanksHook(StepHook):
    """Compares the variables whose gradients all ranks average, and fails if they differ.

    It compares after the first step and then every so many steps, by one allgather of five numbers
    for each variable of a known shape. All ranks need the hook. The steps are those of the global
    step, which all ranks have to increase alike.

    Args:
        every: Number of steps between two comparisons, at least 1.
    """

    def __init__(self, every: int = 1000) -> None:
        if every < 1:
            raise ConfigError(f"every={every} must be at least 1: it is a number of steps.")
        self._every = every
        self._variables: List[Variable] = []
        self._statistics: Any = None
        self._step: Any = None
        self._next = 0
        self._stride = 1  # steps of a run
        self._size = 1

    def begin(self) -> None:
        """Add the operators, before the graph is finalized."""
        super().begin()
        tf = tf1()
        self._statistics, self._next, self._size = None, 0, job_size("CheckRanksHook")
        if self._size == 1:
            return
        graph = tf.get_default_graph()
        self._step = find_global_step(graph)
        self._stride = max([1, *graph.get_collection(LOOPS_APPLIED)])
        plan = plan_run(graph, graph.get_operations())
        self._variables = [
            each
            for each in plan.averaged
            if each.group == WORLD_GROUP and each.read.shape.is_fully_defined()
        ]
        if self._step is None or not self._variables:
            what = "no global step" if self._step is None else "no gradient that all ranks average"
            warn(f"CheckRanksHook compares nothing: the graph has {what}.")
            return
        with tf.name_scope("check_ranks"):
            statistics = tf.stack([_statistics(each.read) for each in self._variables])
            self._statistics = hccl.allgather(statistics[tf.newaxis], self._size)

    def before_run(self, run_context: Any) -> Any:
        """Fetch the global step, which the run may or may not have increased by then."""
        if self._statistics is None:
            return super().before_run(run_context)
        return tf1().train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Compare, if this run has made the step at which it is due.

        Raises:
            CollectiveError: If the ranks hold different models.
        """
        super().after_run(run_context, run_values)
        if self._statistics is None or run_values.results + self._stride < self._next:
            return
        session = run_context.session
        step = int(session.run(self._step))  # exact, so that all ranks come to the same decision
        if step < max(self._next, 1):
            return
        self._next = step - step % self._every + self._every
        error = self._compare(session.run(self._statistics))
        if error is not None:
            raise CollectiveError(
                f"after step {step} {error}",
                hint="Broadcast the variables of one rank after they are initialised or restored: "
                f"{current_advice().broadcast}.",
            )

    def _compare(self, statistics: Any) -> Optional[str]:
        """Return a sentence about the first variable that differs; None if none does."""
        reports, ranks = {}, tuple(range(self._size))
        for rank, rows in enumerate(statistics):
            reports[rank] = RankReport()
            for variable, (square, *sums) in zip(self._variables, rows.tolist()):
                dtype = variable.read.dtype.base_dtype.name
                if dtype == "float64":
                    dtype = "float32"  # in which the numbers were computed
                size = variable.read.shape.num_elements() or 1
                # NaN and Inf show in all of these numbers: only whether they do is compared.
                is_finite = all(map(math.isfinite, (square, *sums)))
                numbers = (math.sqrt(square), tuple(sums)) if is_finite else (0.0, (0.0,) * 4)
                summary = VariableSummary(
                    variable.name, dtype, ranks, size, 0, not is_finite, *numbers
                )
                reports[rank].averaged.append(summary)
        return compare_models(reports, self._size, True, current_advice()).error


def _statistics(value: Any) -> Any:
    """Add operators for the sum of squares and four projections of a tensor: float32 [5]."""
    tf = tf1()
    flat = tf.reshape(tf.cast(value, tf.float32), [-1])
    count = value.shape.num_elements()
    rows = tf.reshape(tf.pad(flat, [[0, -count % _ROW]]), [-1, _ROW])
    number = tf.range(-(-count // _ROW), dtype=tf.float32)[:, tf.newaxis]
    sums = [tf.reduce_sum(tf.square(flat))]
    for index, signs in enumerate(random_signs(0, _ROW).T):
        weights = tf.cos(number * (index + 1.3)) * math.sqrt(2.0)
        by_column = tf.reduce_sum(rows * weights, axis=0)
        sums.append(tf.reduce_sum(by_column * tf.constant(signs, tf.float32)))
    return tf.stack(sums)
