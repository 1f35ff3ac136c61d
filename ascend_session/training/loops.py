"""Several training steps in one ``session.run``.

On the device the vendor's loop makes them (npu/util.py, ``set_iteration_per_loop``), on the stub
the host does. All steps get the same ``feed_dict``, and the same batch unless the device draws it
(``enable_data_pre_proc``). Other fetches of the run have the values of the last step.
"""

import functools
import sys
import weakref
from typing import Any, Callable, MutableMapping, NamedTuple, Optional, Tuple

from ascend_session.backends._tensorflow import tf1, walk_inputs
from ascend_session.backends.base import Loop
from ascend_session.backends.tf_sessions import list_fetched
from ascend_session.config.proto import read_entry
from ascend_session.errors import ConfigError, LifecycleError, warn, warn_at
from ascend_session.session.conditions import LOOPS_APPLIED, refuse_one_shot
from ascend_session.session.graphs import graph_backend
from ascend_session.text import join_words
from ascend_session.training.step_hook import StepHook
from ascend_session.user_code import user_line
from ascend_session.vendor import ITERATION_OP

_ATTRIBUTE = "_ascend_session_loop"  # of a graph, and of the method that is replaced

# Sessions whose loop has not run yet: the looped operation, the steps of a run, who hears of it.
# Nothing in it may refer to the session, which would live as long as the process.
_Note = Callable[[Any, str], None]
_loops: MutableMapping[Any, Tuple[Any, int, Optional[_Note]]] = weakref.WeakKeyDictionary()


class _LoopOfGraph(NamedTuple):
    """The looped operation of a graph.

    Attributes:
        train_op: Name of the operation that makes one step.
        n: Number of steps per run.
        loop: The backend's loop in the graph.
    """

    train_op: str
    n: int
    loop: Loop


def iterations_per_loop(session: Any, train_op: Any, n: int) -> Any:
    """Return an operation that makes ``n`` training steps per run.

    After k runs the global step is k times n. All steps of a run share a batch, unless the session
    has ``enable_data_pre_proc=True`` and the batch comes from an initializable iterator: then each
    step draws its own. If the data end during a run, it raises OutOfRangeError after the steps that
    had data. A graph has one such operation; for another session call this function again.

    Args:
        session: The ``tf.Session`` that will run it; its variables must be initialised. None for a
            MonitoredTrainingSession, which finalizes its graph: call this function before, and give
            the session an `IterationsPerLoopHook`.
        train_op: The operation, or a tensor, that makes one step.
        n: Number of steps, the same as ``AscendConfig(iterations_per_loop=...)``. The total number
            of steps has to be a multiple of it.

    Raises:
        TypeError: If an argument has the wrong type.
        ConfigError: If ``n`` is not positive, or the session was opened for another number.
        LifecycleError: For a finalized graph, one with another looped operation, or one that reads
            from a one-shot iterator.
        UnsupportedError: On the stub, for a step that cannot be repeated in a run, or a batch that
            cannot be kept for the next step.

    Warns:
        AscendConfigWarning: If the session's configuration does not set iterations_per_loop; before
            the first run, if a StopAtStepHook stops the training within a run.
    """
    operation = _as_operation(train_op, n)
    graph = operation.graph
    if session is not None:
        _check_session(session, graph, n)
    looped: Optional[_LoopOfGraph] = getattr(graph, _ATTRIBUTE, None)
    if looped is None and n > 1:
        refuse_one_shot(graph, n)
        _check_addable(graph)
        loop = graph_backend().make_loop(operation, n, session)
        looped = _LoopOfGraph(operation.name, n, loop)
        setattr(graph, _ATTRIBUTE, looped)
    elif looped is not None:
        if (operation.name, n) != (looped.train_op, looped.n):
            raise LifecycleError(
                f"The graph has {looped.train_op!r} in a loop of {looped.n} steps already. The "
                f"adapter finds a loop by its name {ITERATION_OP}, so that {operation.name!r} in a "
                f"loop of {n} would be a second one.",
                hint="Use another graph.",
            )
        if session is not None:
            looped.loop.load(session)
    if looped is not None and session is not None:
        watch_stop(session, looped.loop.operation, n)
    if n not in graph.get_collection(LOOPS_APPLIED):
        graph.add_to_collection(LOOPS_APPLIED, n)
    return operation if looped is None else looped.loop.operation


def watch_stop(session: Any, operation: Any, n: int, note: Optional[_Note] = None) -> None:
    """Warn before the first run of a loop if the session is to stop within one of its runs.

    A StopAtStepHook stops it, which estimators make of ``steps`` and ``max_steps``, too. By then
    all hooks are ready, and the variables are restored, so that the first step is known.

    Args:
        session: The ``tf.Session`` behind the one with hooks.
        operation: The looped operation.
        n: Steps of a run.
        note: Called with the session and the warning's text, too.
    """
    _loops[session] = (weakref.ref(operation), n, note)
    hook = tf1().train.StopAtStepHook
    original = hook.before_run
    if getattr(original, _ATTRIBUTE, False):
        return

    @functools.wraps(original)
    def before_run(self: Any, run_context: Any) -> Any:
        running = run_context.session
        if running in _loops:
            looped, steps, note = _loops[running]
            fetched = list_fetched(running.graph, run_context.original_args.fetches)
            if any(each is looped() for each in walk_inputs(*fetched)):
                del _loops[running]
                first = int(running.run(self._global_step_tensor))
                text = _describe_part(self, first, steps)
                if text:
                    warn_at(user_line(sys._getframe()), text)
                    if note is not None:
                        note(running, text)
        return original(self, run_context)

    setattr(before_run, _ATTRIBUTE, True)
    hook.before_run = before_run


def _describe_part(hook: Any, first: int, n: int) -> str:
    """Say that a hook stops a training that begins with step ``first`` within a run, or ``""``."""
    steps = hook._last_step - first
    most = steps + -steps % n
    if steps <= 0 or steps == most:
        return ""
    if hook._num_steps is None:
        how, stops, begin = (
            f"from step {first} is to stop at step {hook._last_step}",
            "stops at",
            first,
        )
    else:
        how, stops, begin = f"is to make {steps} steps", "makes", 0
    better = join_words([str(begin + each) for each in (most - n, most) if each], "or")
    return (
        f"Training {how}, but each run makes {n} (iterations_per_loop={n}): it {stops} "
        f"{begin + most}. Use {better}, or another iterations_per_loop."
    )


def _as_operation(train_op: Any, n: Any) -> Any:
    """Return the operation that makes one step, after checking both arguments."""
    tf = tf1()
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"n must be an int, this is {n!r}.")
    if n < 1:
        raise ConfigError(f"n={n} must be at least 1: it is a number of steps.")
    operation = train_op.op if tf.is_tensor(train_op) else train_op
    if not isinstance(operation, tf.Operation):
        raise TypeError(
            f"train_op must be an operation or a tensor, as minimize() gives one; this is "
            f"{train_op!r}. Put several together with tf.group(...)."
        )
    return operation


def _check_session(session: Any, graph: Any, n: int) -> None:
    """Refuse anything but a ``tf.Session`` with this graph and number of steps."""
    if not isinstance(session, (tf1().Session, tf1().InteractiveSession)):
        raise TypeError(
            f"session must be a tf.Session, this is {type(session).__name__}. For a session with "
            "hooks give None, and IterationsPerLoopHook() among its hooks."
        )
    if session.graph is not graph:
        raise LifecycleError("train_op is in another graph than the session's.")
    _check_configured(session, n)


def _check_configured(session: Any, n: int) -> None:
    """Refuse a session that was opened for another number of steps; warn if for none.

    Source: set_iteration_per_loop.md, "Must be equal to iterations_per_loop".
    """
    config = session._config
    entry = {} if config is None else read_entry(config)
    configured = entry.get("iterations_per_loop")
    if configured is None and n > 1:
        if entry.get("mix_compile_mode"):
            raise ConfigError(
                f"mix_compile_mode=True needs iterations_per_loop=1, not {n}.",
                hint="Leave one of them out.",
            )
        warn(
            f"The configuration of this session does not set iterations_per_loop={n}; the vendor "
            "requires the same number in both."
        )
    if configured is not None and configured != n:
        raise ConfigError(
            f"This session was opened with iterations_per_loop={configured}, but the loop is to "
            f"make {n} steps.",
            hint="Use the same number in both places.",
        )


def _check_addable(graph: Any) -> None:
    """Refuse a graph to which no looped operation can be added."""
    if graph.finalized:
        raise LifecycleError(
            "The graph is finalized; iterations_per_loop has to add an operation.",
            hint="Call iterations_per_loop(None, train_op, n) before the session is created, and "
            "give IterationsPerLoopHook() to MonitoredTrainingSession.",
        )
    if ITERATION_OP in [operation.name for operation in graph.get_operations()]:
        raise LifecycleError(
            f"The graph has an operation {ITERATION_OP} already, by which name the adapter finds a "
            "loop; iterations_per_loop did not add it."
        )


class IterationsPerLoopHook(StepHook):
    """Sets the number of steps per run in a MonitoredTrainingSession.

    For an operation from ``iterations_per_loop(None, train_op, n)``.
    """

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Set the number, also when the session is created again.

        Raises:
            LifecycleError: If the graph has no looped operation.
            ConfigError: If the session was opened for another number of steps.
        """
        looped: Optional[_LoopOfGraph] = getattr(session.graph, _ATTRIBUTE, None)
        if looped is not None:
            _check_configured(session, looped.n)
            looped.loop.load(session)
            watch_stop(session, looped.loop.operation, looped.n)
        elif not session.graph.get_collection(LOOPS_APPLIED):  # not even of one step each
            raise LifecycleError(
                "The graph has no looped operation.",
                hint="Call iterations_per_loop(None, train_op, n) while you build the graph.",
            )
