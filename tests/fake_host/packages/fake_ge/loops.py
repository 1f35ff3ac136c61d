"""How often GE runs a graph in one run: training loops on the device.

Source: geop_npu.cc, AddNodeAttrs (an operator of the name "IterationOp") and SetNeedIteration;
graph.h: "it means this graph need to be run iteration some times(according variant
"npu_runconfig/iterations_per_loop")"; npu/util.py, which loads one less than the number of steps.
What is fetched is the last iteration's, for one graph has everything in it. What the host feeds is
the first's (guides/facts/options.md#iterations-per-loop).
"""

from typing import Any, Callable, Dict, List, Tuple

from fake_ge.graphs import Output

__all__ = ["ITERATION_OP", "run", "shared", "times"]

ITERATION_OP = "IterationOp"

_COUNTER = "npu_runconfig/iterations_per_loop"


def shared(needed: List[Any], is_offloaded: bool) -> Tuple[Output, ...]:
    """The outputs of iterators that the host reads.

    Args:
        needed: The operators that must run.
        is_offloaded: Whether ``enable_data_pre_proc`` offloads the reading.
    """
    # om_partition_subgraphs_pass.cc, FindNpuSupportCandidates
    on_host = [
        one
        for one in needed
        if one.type == "IteratorGetNext"
        and not (is_offloaded and one.inputs[0].op.type in ("Iterator", "IteratorV2"))
    ]
    return tuple(
        (one.name, number)
        for one in on_host
        for number, output in enumerate(one.outputs)
        if output.dtype.base_dtype.name not in ("resource", "variant")
    )


def run(
    compute: Callable[[Dict[Any, Any], List[Any], bool], List[Any]],
    count: int,
    fetches: List[Any],
    inputs: Dict[Output, Any],
    key: Callable[[Any], Output],
) -> List[Any]:
    """The last iteration's values of the fetches.

    Args:
        compute: Runs the graph with more that is fed, and these fetches; is told if it is the last.
        count: How many iterations.
        fetches: What is wanted.
        inputs: What all iterations get from the host.
        key: The operator's name and the number of an output, of a fetch.
    """
    if count == 1:
        return compute({}, fetches, True)
    import numpy as np

    values = dict(zip(inputs, compute({}, list(inputs.values()), False)))
    fed = {output: np.asarray(values[name]) for name, output in inputs.items()}
    wanted = [one for one in fetches if key(one) not in values]
    found: List[Any] = []
    for left in reversed(range(count - 1)):
        found = compute(fed, wanted, left == 0)
    computed = iter(found)
    return [values[key(one)] if key(one) in values else next(computed) for one in fetches]


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
