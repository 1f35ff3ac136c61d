"""Python functions as operators that may block for long, without holding up the rest of a graph.

A Python function occupies one of the threads in which a session runs its operators. Two ranks of
which each has one such thread, and begins with another of two collectives that are ready, would
wait for each other for ever. The function therefore runs inside a dataset of one element that has a
thread of its own, and the operator that takes the element out leaves its thread while it waits
(``DatasetToSingleElement`` is asynchronous in TensorFlow 1.15 and 2.x).
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.ranks.turns import Turn
from ascend_session.backends.stub_order import iteration, one_by_one, turn_of

__all__ = ["NO_GRADIENT", "Result", "blocking_op"]

Result = Tuple[Any, Any]
"""dtype and shape (`tf.TensorShape`) of what an operator gives."""

Function = Callable[[str, Sequence[Any], Optional[Turn]], Sequence[Any]]

# TensorFlow says "No gradient defined for operation", as for the vendor's own.
NO_GRADIENT = "HcomHasNoGradient"


def blocking_op(
    kind: str,
    inputs: Sequence[Any],
    function: Function,
    results: Sequence[Result],
    gradient: str = NO_GRADIENT,
) -> List[Any]:
    """Adds an operator to the default graph that calls ``function`` in a thread of its own.

    Args:
        kind: What it is called in the graph, ``HcomAllReduce``.
        inputs: Its tensors.
        function: Gets the operator's name, the inputs as arrays and which iteration of a loop this
            is; returns an array for each of ``results``. What it raises fails the run of the graph.
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
    with tf.name_scope(kind) as scope, graph.device("/device:CPU:0"):
        name = scope.rstrip("/")
        one_by_one(graph)
        values = _element(name, list(inputs), iteration(graph), function, dtypes)
        if not results:
            done: List[Any] = [tf.group(*values, name=scope)]
            return done
        for value, (_, shape) in zip(values, results):
            value.set_shape(shape)
        with graph.gradient_override_map({"IdentityN": gradient}):
            passed = tf.identity_n([*values, *inputs], name=scope)
    return list(passed[: len(results)])


def _element(
    name: str,
    inputs: List[Any],
    counters: List[Any],
    function: Function,
    dtypes: List[Any],
) -> List[Any]:
    tf = tf1()

    def called(*arrays: Any) -> List[Any]:
        own, numbers = arrays[: len(inputs)], arrays[len(inputs) : len(inputs) + len(counters)]
        return list(function(name, own, turn_of(numbers))) or [True]

    def mapped(*tensors: Any) -> Tuple[Any, ...]:
        return tuple(tf.numpy_function(called, tensors, dtypes))

    given = (*inputs, *counters) or (tf.constant(0),)
    as_it_is = tf.autograph.experimental.do_not_convert(mapped)
    dataset = tf.data.Dataset.from_tensors(given).map(as_it_is)
    types = {"output_types": dtypes, "output_shapes": [tf.TensorShape(None)] * len(dtypes)}
    alone = _raw("PrivateThreadPoolDataset")(
        input_dataset=dataset._variant_tensor, num_threads=tf.constant(1, tf.int64), **types
    )
    return list(_raw("DatasetToSingleElement")(dataset=alone, **types))


def _raw(name: str) -> Any:
    """A raw operator; TensorFlow 1.15 has some of them as experimental ones only."""
    raw = tf1().raw_ops
    return getattr(raw, name, None) or getattr(raw, f"Experimental{name}")
