"""Loops of the user's graph: their iterations have to run a collective in order.

Ten iterations of a loop may be on their way at once, and what does not depend on the one before
begins in an order that differs between ranks.
"""

import itertools
from typing import Any, List, Optional, Sequence

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.ranks.turns import Turn

__all__ = ["iteration", "one_by_one", "turn_of"]

# TensorFlow's graph of a loop's body under control flow version 2; its first input is the counter.
_BODY = "WhileBodyFuncGraph"


def one_by_one(graph: Any) -> None:
    """Makes the loops of control flow version 1 around what is built now wait for each iteration.

    They are made by operators that are there already, and more that come later.
    """
    tf = tf1()
    context = graph._get_control_flow_context()
    while context is not None:
        if getattr(context, "parallel_iterations", 1) != 1:
            context._parallel_iterations = 1
            for op in graph.get_operations():
                if op.type == "Enter" and _name(op.get_attr("frame_name")) == _name(context.name):
                    op._set_attr("parallel_iterations", tf.AttrValue(i=1))
        context = context.outer_context


def iteration(graph: Any) -> List[Any]:
    """Which iteration of the loop around what is built now runs, under control flow version 2.

    The number of iterations that such loops run at once can no longer be changed when their body
    is built.

    Returns:
        Two tensors, the members of a `Turn`; none of them for what may not run in each iteration,
        or in several loops at once: inside a condition, in loops within loops and their gradients.
    """
    if type(graph).__name__ != _BODY or type(graph.outer_graph).__name__ == _BODY:
        return []
    with graph.outer_graph.as_default(), tf1().control_dependencies(None):
        # Made once in each run of the outer graph, and the same for all iterations.
        loop = tf1().numpy_function(_next_loop, [], tf1().int64)
    return [loop, graph.inputs[0]]


def turn_of(numbers: Sequence[Any]) -> Optional[Turn]:
    """What the tensors of `iteration` gave."""
    return Turn(int(numbers[0]), int(numbers[1])) if len(numbers) else None


_loops = itertools.count()


def _next_loop() -> Any:
    import numpy as np

    return np.int64(next(_loops))


def _name(text: Any) -> str:
    return str(tf1().compat.as_text(text))
