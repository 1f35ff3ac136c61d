"""How often GE runs a graph in one run: training loops on the device.

Source: geop_npu.cc, AddNodeAttrs (an operator of the name "IterationOp") and SetNeedIteration;
graph.h: "it means this graph need to be run iteration some times(according variant
"npu_runconfig/iterations_per_loop")"; npu/util.py, which loads one less than the number of steps.
What is fetched is the last iteration's, for one graph has everything in it.
"""

from typing import Any

__all__ = ["ITERATION_OP", "times"]

ITERATION_OP = "IterationOp"

_COUNTER = "npu_runconfig/iterations_per_loop"


def times(real: Any, session: Any, graph: Any) -> int:
    """The number of iterations, as the session's variable has it.

    Args:
        real: The module with TensorFlow's C functions.
        session: The handle of the session.
        graph: Its graph, which has an IterationOp.
    """
    if _COUNTER not in [one.op.name for one in graph.get_collection("local_variables")]:
        return 1  # a name that GE does not look for
    value = graph.get_tensor_by_name(f"{_COUNTER}/Read/ReadVariableOp:0")._as_tf_output()
    return int(real.TF_SessionRun_wrapper(session, None, {}, [value], [], None)[0]) + 1
