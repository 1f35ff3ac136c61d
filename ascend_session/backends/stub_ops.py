"""Collectives as operators, which wait for other ranks without holding up the rest of a graph.

A Python function occupies one of the threads in which a session runs its operators. Two ranks of
which each has one such thread, and begins with another of two collectives that are ready, would
wait for each other for ever. An operator therefore enters its collective in the session's thread,
but waits there for some hundredths of a second at most, and only if no other one does: ranks that
share a processor are that far apart in any step. What has not begun by then, or is large, goes to
an iterator, which has a thread of its own and leaves the session's while it waits
(``IteratorGetNext`` is asynchronous in TensorFlow 1.15 and 2.x). To wake it takes longer than an
exchange for which all ranks are ready. What has begun also ends: runs take turns, and the ranks
that left one to their iterators do their part there. An iterator is made once for each session: a
run costs a tenth of what a dataset made anew for each would.
"""

import contextlib
import importlib
import itertools
import threading
import time
from concurrent import futures
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ascend_session.backends._tensorflow import mark_operators, tf1
from ascend_session.backends.exchange.communicator import Collective
from ascend_session.backends.exchange.group import SHORT_BYTES, NotYetError
from ascend_session.backends.exchange.order import Iteration, overlap
from ascend_session.backends.stub_job import current_job
from ascend_session.errors import CollectiveError

__all__ = ["NO_GRADIENT", "Result", "blocking_op"]

Result = Tuple[Any, Any]
"""dtype and shape (`tf.TensorShape`) of what an operator gives."""

Function = Callable[[str, Sequence[Any], Optional[Iteration]], Collective]

# TensorFlow says "No gradient defined for operation", as for the vendor's own.
NO_GRADIENT = "HcomHasNoGradient"

# TensorFlow's graph of a loop's body under control flow version 2; its first input is the counter.
_BODY = "WhileBodyFuncGraph"
_FOREVER = 1 << 60  # elements of an iterator
_ATTEMPT_TIMEOUT_S = 0.05  # how long a thread of the session waits for other ranks
_REST_S = 0.1  # pause after an attempt that timed out, in which there is no other

_loop_numbers = itertools.count()


def blocking_op(
    kind: str,
    inputs: Sequence[Any],
    function: Function,
    results: Sequence[Result],
    gradient: str = NO_GRADIENT,
) -> List[Any]:
    """Add an operator to the default graph that does a collective.

    Args:
        kind: What it is called in the graph, ``HcomAllReduce``.
        inputs: Its tensors.
        function: Gets the operator's name, the inputs as arrays and which iteration of a loop this
            is; returns the collective, which gives an array for each of ``results``. What either
            raises fails the run of the graph.
        results: What it gives.
        gradient: Under which name its gradient is registered: a function of an operator whose
            inputs are the results and then ``inputs``.

    Returns:
        A tensor for each of ``results``, or the operation alone if there are none.
    """
    tf = tf1()
    graph = tf.get_default_graph()
    dtypes = [dtype for dtype, _ in results] or [tf.bool]
    # The CPU, wherever the user's scope puts the rest: there is no other kernel.
    with tf.name_scope(kind) as scope, graph.device("/device:CPU:0"), mark_operators(graph):
        calls = _Calls(scope.rstrip("/"), function, dtypes)
        _run_one_by_one(graph)
        counters = _iteration(graph)
        if not counters:
            forms = [tf.bool, *dtypes]
            iterator = _iterator(calls.run, dtypes)
            # Threads of the session make it, so it has to be there before they may be waited for.
            with tf.control_dependencies([tf.identity(iterator._iterator_resource)]):
                begun = tf.numpy_function(calls.begin, inputs or [tf.constant(0)], forms)
            is_over, *values = begun
            is_over.set_shape([])
            values = tf.cond(is_over, lambda: tuple(values), iterator.get_next, strict=True)
        else:
            number = tf.numpy_function(calls.begin_iteration, [*counters, *inputs], tf.int64)
            iterator = _iterator(calls.wait, [tf.int64])
            with tf.control_dependencies([number]):
                done = iterator.get_next()
            with tf.control_dependencies(done):
                values = tf.numpy_function(calls.end, [number], dtypes)
        if not results:
            return [tf.group(*values, name=scope)]
        for value, (_, shape) in zip(values, results):
            value.set_shape(shape)
        with graph.gradient_override_map({"IdentityN": gradient}):
            passed = tf.identity_n([*values, *inputs], name=scope)
    return list(passed[: len(results)])


# Held by the operator that waits for other ranks in a thread of a session: only one does at a time.
_attempt_lock = threading.Lock()
_rests_until = 0.0


class _Calls:
    """The runs of one operator, whose methods TensorFlow calls."""

    def __init__(self, name: str, function: Function, dtypes: Sequence[Any]) -> None:
        import numpy as np

        self._name = name
        self._function = function
        self._no_results = [np.empty(0, dtype.as_numpy_dtype) for dtype in dtypes]
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._is_attempting = False
        self._begun: List[Collective] = []  # for the iterator
        self._taken = 0  # by it, and not over
        self._running: Dict[int, futures.Future[Sequence[Any]]] = {}

    def begin(self, *arrays: Any) -> List[Any]:
        """Begin a run; give whether it is over already, and then its results."""
        collective = self._function(self._name, arrays, None)
        is_short = sum(array.nbytes for array in arrays) <= SHORT_BYTES
        with self._lock:
            if self._is_attempting:
                raise self._fail_for_overlap()
            # What was cancelled before its turn is gone, and so is what its system left undone.
            self._begun = [earlier for earlier in self._begun if earlier.is_entered]
            is_alone = not self._begun and not self._taken
            may_wait = is_short and is_alone and time.monotonic() >= _rests_until
            is_attempt = may_wait and _attempt_lock.acquire(blocking=False)
            self._is_attempting = is_attempt
            if not is_attempt:
                self._begun.append(collective)
        results = self._attempt(collective) if is_attempt else None
        if results is None:
            return [False, *self._no_results]
        return [True, *(results or [True])]

    def _attempt(self, collective: Collective) -> Optional[Sequence[Any]]:
        """Do a run in the session's thread; None if it is left to the iterator."""
        global _rests_until
        unfinished: List[Collective] = []
        begun = time.monotonic()
        try:
            results: Sequence[Any] = collective.run(_ATTEMPT_TIMEOUT_S)
            return results
        except NotYetError:
            unfinished = [collective]
            if time.monotonic() - begun >= _ATTEMPT_TIMEOUT_S:
                _rests_until = time.monotonic() + _REST_S
            return None
        finally:
            _attempt_lock.release()
            with self._lock:
                self._is_attempting, self._begun = False, unfinished

    def run(self, element: Any) -> List[Any]:
        """Do the run that was begun last, after others that were cancelled, and give its results.

        Nothing is left to do if two sessions run it at once, and the other one has taken it.
        """
        with self._lock:
            begun, self._begun = self._begun, []
            if not begun:
                raise self._fail_for_overlap()
            self._taken += 1
        try:
            return list([collective.run() for collective in begun][-1]) or [True]
        finally:
            with self._lock:
                self._taken -= 1

    def _fail_for_overlap(self) -> CollectiveError:
        error = overlap(self._name)
        group = current_job(self._name).process_group
        group.fail(f'in "{self._name}": {error.message}', error)
        return error

    def begin_iteration(self, loop: Any, counter: Any, *arrays: Any) -> Any:
        """Begin a run in a loop whose iterations begin in any order, in a thread of its own."""
        running: futures.Future[Sequence[Any]] = futures.Future()
        number = next(self._numbers)
        self._running[number] = running
        iteration = Iteration(int(loop), int(counter))
        if not iteration.number:  # a step that was cancelled has left its results
            for earlier, other in list(self._running.items()):
                if other.done() and earlier != number:
                    self._running.pop(earlier, None)

        def run() -> None:
            try:
                running.set_result(self._function(self._name, arrays, iteration).run())
            except BaseException as error:
                running.set_exception(error)

        threading.Thread(target=run, name="ascend-session-collective", daemon=True).start()
        return _number(number)

    def wait(self, element: Any) -> List[Any]:
        """Wait until all runs that have begun are over."""
        futures.wait(list(self._running.values()))
        return [_number(0)]

    def end(self, number: Any) -> List[Any]:
        """Give the results of a run in a loop."""
        return list(self._running.pop(int(number)).result()) or [True]


def _number(value: int) -> Any:
    import numpy as np

    return np.int64(value)


def _iterator(function: Callable[[Any], List[Any]], dtypes: List[Any]) -> Any:
    """Make an iterator whose thread calls a function, outside of all loops and conditions."""
    tf = tf1()
    with contextlib.ExitStack() as scopes:
        scopes.enter_context(tf.init_scope())
        graph = tf.get_default_graph()
        scopes.enter_context(graph.device("/device:CPU:0"))
        scopes.enter_context(mark_operators(graph))
        run = tf.autograph.experimental.do_not_convert(
            lambda element: tuple(tf.numpy_function(function, [element], dtypes))
        )
        options = tf.data.Options()
        options.experimental_optimization.apply_default_optimizations = False
        if hasattr(options, "autotune"):  # TensorFlow 2
            options.autotune.enabled = False
            options.threading.private_threadpool_size = 1
        else:
            options.experimental_optimization.autotune = False
            options.experimental_threading.private_threadpool_size = 1
        dataset = _map_in_place(tf.data.Dataset.range(_FOREVER), run).with_options(options)
        return tf.data.make_one_shot_iterator(dataset)


def _map_in_place(dataset: Any, function: Callable[[Any], Any]) -> Any:
    """Map a dataset in the thread that asks for its elements, where TensorFlow lets us say so.

    Elsewhere the private thread of `_iterator` does it, which costs one change of threads more.
    """
    for module in ("map_op", "dataset_ops"):
        with contextlib.suppress(ImportError, AttributeError, TypeError):
            ops = importlib.import_module(f"tensorflow.python.data.ops.{module}")
            kind = getattr(ops, "_MapDataset", None) or ops.MapDataset
            return kind(dataset, function, use_inter_op_parallelism=False)
    return dataset.map(function)


def _run_one_by_one(graph: Any) -> None:
    """Make the loops of control flow version 1 around what is built now wait for each iteration.

    They consist of operators that are there already, and more that come later.
    """
    tf = tf1()
    context = graph._get_control_flow_context()
    while context is not None:
        if getattr(context, "parallel_iterations", 1) != 1:
            context._parallel_iterations = 1
            frame = tf.compat.as_bytes(context.name)
            for op in graph.get_operations():
                if op.type == "Enter" and tf.compat.as_bytes(op.get_attr("frame_name")) == frame:
                    op._set_attr("parallel_iterations", tf.AttrValue(i=1))
        context = context.outer_context


def _iteration(graph: Any) -> List[Any]:
    """Return tensors that tell which iteration of the loop around runs, of control flow version 2.

    Ten iterations of a loop may run at once, and what does not depend on the one before begins in
    an order that differs between ranks. How many run at once can no longer be changed when the
    loop's body is built.

    Returns:
        Two tensors, the members of an `Iteration`; none of them for what may not run in each
        iteration, or in several loops at once: inside a condition, in loops within loops and their
        gradients.
    """
    if type(graph).__name__ != _BODY or type(graph.outer_graph).__name__ == _BODY:
        return []
    outer = graph.outer_graph
    with outer.as_default(), tf1().control_dependencies(None), mark_operators(outer):
        # Made once in each run of the outer graph, and the same for all iterations.
        loop = tf1().numpy_function(lambda: _number(next(_loop_numbers)), [], tf1().int64)
    return [loop, graph.inputs[0]]
