"""Loops of the user's graph: their iterations have to run a collective in order.

Ten iterations of a loop may be on their way at once, and what does not depend on the one before
begins in an order that differs between ranks.
"""

from typing import Any, Optional

from ascend_session.backends._tensorflow import tf1

__all__ = ["iteration", "one_by_one"]

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


def iteration(graph: Any) -> Optional[Any]:
    """The counter of the loop around what is built now, from 0, under control flow version 2.

    The number of iterations that such loops run at once can no longer be changed when their body
    is built. None for what may not run in each iteration, or in several loops at once: inside a
    condition, and in loops within loops.
    """
    if type(graph).__name__ != _BODY or type(graph.outer_graph).__name__ == _BODY:
        return None
    return graph.inputs[0]


def _name(text: Any) -> str:
    return str(tf1().compat.as_text(text))
