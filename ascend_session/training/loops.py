"""Several training steps in one ``session.run``.

On the device the vendor's loop makes them (npu/util.py, ``set_iteration_per_loop``), on the stub
the host. What is fed is fed to each step. What is fetched beside the operation belongs to the last
step, but on the stub to the first, unless the session has an `IterationsPerLoopHook`; and only what
is fed to placeholders reaches the later steps there.
"""

from typing import Any, Optional

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.npu_training import ITERATION_OP
from ascend_session.errors import LifecycleError
from ascend_session.session.conditions import LOOPS_APPLIED, refuse_one_shot
from ascend_session.training.loop_checks import (
    check_configured,
    check_session,
    checked_operation,
)
from ascend_session.training.machine import on_npu

__all__ = ["IterationsPerLoopHook", "iterations_per_loop"]

_Hook: Any = tf1().train.SessionRunHook

_ATTRIBUTE = "_ascend_session_loop"  # of a graph


def iterations_per_loop(session: Any, train_op: Any, n: int) -> Any:
    """Gives an operation of which each run makes ``n`` steps of training.

    After k runs the global step is k times n; with a dataset each step draws its own batch. If the
    data end in the midst, the run raises OutOfRangeError, and the steps before have been made. A
    graph has one such operation; for another session call this again.

    Args:
        session: The ``tf.Session`` in which it will run, after its variables were initialised. None
            for a MonitoredTrainingSession, which finalizes its graph: call this before, and give
            it an `IterationsPerLoopHook`.
        train_op: The operation, or a tensor, that makes one step.
        n: How many; the same as ``AscendConfig(iterations_per_loop=...)``, of which the total
            number of steps has to be a multiple.

    Raises:
        TypeError: If an argument has the wrong type.
        ConfigError: If ``n`` is not positive, or the session was opened for another number.
        LifecycleError: For a finalized graph, one with another looped operation, or one that reads
            from a one-shot iterator.
        UnsupportedError: For a step that the stub cannot make several times in a run.

    Warns:
        AscendConfigWarning: If the session's configuration does not say the number.
    """
    operation = checked_operation(train_op, n)
    graph = operation.graph
    if session is not None:
        check_session(session, graph, n)
    loop = getattr(graph, _ATTRIBUTE, None)
    if loop is None and n > 1:
        refuse_one_shot(graph, n)
        loop = _new_loop(session, operation, n)
        setattr(graph, _ATTRIBUTE, loop)
    elif loop is not None:
        loop.check(operation, n)
        if session is not None:
            loop.load(session)
    if n not in graph.get_collection(LOOPS_APPLIED):
        graph.add_to_collection(LOOPS_APPLIED, n)
    return operation if loop is None else loop.operation


class _Loop:
    """The looped operation of a graph, on either backend."""

    def __init__(self, train_op: Any, n: int, operation: Any, stub: Optional[Any]) -> None:
        self._train_op = train_op.name
        self.n = n
        self.operation = operation
        self._stub = stub

    def check(self, train_op: Any, n: int) -> None:
        """Raises LifecycleError unless it is the same operation, and as often."""
        if (train_op.name, n) != (self._train_op, self.n):
            raise LifecycleError(
                f"The graph has {self._train_op!r} in a loop of {self.n} steps already, and cannot "
                f"have {train_op.name!r} in one of {n}: the adapter knows one operation of the "
                f"name {ITERATION_OP}.",
                hint="Use another graph.",
            )

    def load(self, session: Any) -> None:
        """Says to the session how many steps a run makes."""
        if self._stub is not None:
            self._stub.load(session)
            return
        from ascend_session.backends.npu_training import load_loop

        load_loop(session, self.n)

    def make_before(self, session: Any, feeds: Any) -> None:
        """Makes all steps but the last now, where it is not the device that makes them."""
        if self._stub is not None:
            self._stub.make_before(session, feeds)


def _new_loop(session: Optional[Any], train_op: Any, n: int) -> _Loop:
    graph = train_op.graph
    if graph.finalized:
        raise LifecycleError(
            "The graph is finalized; iterations_per_loop has to add an operation.",
            hint="Call iterations_per_loop(None, train_op, n) before the session is created, and "
            "give IterationsPerLoopHook() to MonitoredTrainingSession.",
        )
    names = [operation.name for operation in graph.get_operations()]
    if ITERATION_OP in names:
        raise LifecycleError(
            f"The graph has an operation {ITERATION_OP} that was made by others; the adapter knows "
            "only one by this name."
        )
    if on_npu():
        from ascend_session.backends.npu_training import loop_in, loop_later

        made = loop_later(train_op) if session is None else loop_in(session, train_op, n)
        return _Loop(train_op, n, made, None)
    from ascend_session.backends.npu_training import outermost
    from ascend_session.backends.stub_loops import StubLoop

    with outermost(graph):
        stub = StubLoop(train_op, ITERATION_OP, n)
    if session is not None:
        stub.load(session)
    return _Loop(train_op, n, stub.operation, stub)


class IterationsPerLoopHook(_Hook):  # type: ignore[misc]
    """Tells a MonitoredTrainingSession how many steps a run of the looped operation makes.

    For an operation that `iterations_per_loop` has made without a session. On the stub all steps
    but the last are made before the run, so that other hooks see what they would on the device.
    """

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Does it, also when the session is created again.

        Raises:
            LifecycleError: If the graph has no looped operation.
            ConfigError: If the session was opened for another number of steps.
        """
        loop = getattr(session.graph, _ATTRIBUTE, None)
        if loop is None:
            if session.graph.get_collection(LOOPS_APPLIED):
                return  # of one step each
            raise LifecycleError(
                "The graph has no looped operation.",
                hint="Call iterations_per_loop(None, train_op, n) while you build the graph.",
            )
        check_configured(session, loop.n)
        loop.load(session)

    def before_run(self, run_context: Any) -> None:
        """Lets the run make the last step, where it has the looped operation and no device."""
        session, asked = run_context.session, run_context.original_args
        loop = getattr(session.graph, _ATTRIBUTE, None)
        if loop is not None and _has(asked.fetches, loop.operation):
            loop.make_before(session, asked.feed_dict)


def _has(fetches: Any, operation: Any) -> bool:
    if isinstance(fetches, dict):
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        return any(_has(one, operation) for one in fetches)
    return fetches is operation or fetches == operation.name
