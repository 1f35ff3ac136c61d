"""Find gradients that reach an optimizer although no rank has averaged them.

Gradients flow from the ``grad_ys`` that ``tf.gradients`` makes of the loss. The walk follows them
through the graph. A gradient that arrives without any exchange on its way is local, unless a part
of the way is hidden: in a function, a condition, a loop, a Python function or a variable, or if it
is added to something that did not come from the loss, such as gradients kept in a variable.
"""

import enum
import os
from typing import Any, Dict, List, Sequence

from ascend_session.backends._tensorflow import is_marked, walk_inputs
from ascend_session.cluster.variables import is_independent

_EXCHANGES = ("Hcom", "Horovod", "Collective", "Nccl")
_SUMS = ("Add", "AddV2", "AddN", "AccumulateNV2", "Sub")
# Version 1 control flow, and functions of Python; functions of TensorFlow are attributes.
_CONTROL_FLOW = ("Switch", "Merge", "Enter", "Exit", "NextIteration")
_HIDDEN = {
    *("PyFunc", "PyFuncStateless", "EagerPyFunc"),
    *(prefix + kind for kind in _CONTROL_FLOW for prefix in ("", "Ref")),
}


class _Flow(enum.Flag):
    """What is known of the ways from a loss to a tensor."""

    NONE = 0
    FROM_LOSS = 1
    EXCHANGED = 2
    HIDDEN = 4


def describe_local_gradients(pairs: Sequence[Any], size: int, wrapper: str, average: str) -> str:
    """Describe gradients that are about to be applied although they were visibly never averaged.

    Args:
        pairs: Gradients with their variables. What is no tensor of a graph is not followed.
        size: The number of ranks.
        wrapper: The optimizer that got them, as the script calls it.
        average: The function of the script's API that averages gradients.

    Returns:
        A sentence on the mistake and what to do; empty if there is none, or the ranks are meant to
        be independent.
    """
    local = _find_local(pairs) if size > 1 and not is_independent(os.environ) else []
    if not local:
        return ""
    first = local[0].name.partition(":")[0]
    others = f" and {len(local) - 1} more" if len(local) > 1 else ""
    return (
        f"{wrapper} got gradients that were never averaged, of {first!r}{others}: {size} ranks "
        f"would train {size} different models. Average them before clipping, with "
        f"{average}(tf.gradients(...)), or take those of the optimizer's own "
        "compute_gradients(loss), which are averaged."
    )


def _find_local(pairs: Sequence[Any]) -> List[Any]:
    """Return the variables of gradients that were visibly never averaged.

    If any gradient was exchanged there are none: then the script knows which are local.
    """
    operations = [
        getattr(getattr(gradient, "values", gradient), "op", None) for gradient, _ in pairs
    ]
    flows = _follow([operation for operation in operations if operation is not None])
    if any(flow & _Flow.EXCHANGED for flow in map(flows.get, operations) if flow):
        return []
    return [
        variable
        for operation, (_, variable) in zip(operations, pairs)
        if flows.get(operation) == _Flow.FROM_LOSS
    ]


def _follow(targets: Sequence[Any]) -> Dict[Any, _Flow]:
    """Return the flow to each operation that the targets need, by data."""
    needed = set(walk_inputs(*targets, by_control=False))
    flows: Dict[Any, _Flow] = {}
    hides: Dict[str, bool] = {}
    for operation in targets[0].graph.get_operations() if targets else ():
        if operation in needed:  # in the order of creation: inputs first, but for loops, which hide
            flows[operation] = _flow_of(operation, flows, hides)
    return {**dict.fromkeys(targets, _Flow.HIDDEN), **flows}


def _flow_of(operation: Any, flows: Dict[Any, _Flow], hides: Dict[str, bool]) -> _Flow:
    inputs = [flows.get(tensor.op, _Flow.NONE) for tensor in operation.inputs]
    flow = _Flow.NONE
    for each in inputs:
        flow |= each
    if operation.name.rpartition("/")[2].startswith("grad_ys_"):
        return flow | _Flow.FROM_LOSS
    if not flow & _Flow.FROM_LOSS:
        return _Flow.NONE
    kind = operation.type
    if kind not in hides:
        hides[kind] = _is_function(operation)
    if kind.startswith(_EXCHANGES) or _is_stub_collective(operation):
        flow |= _Flow.EXCHANGED
    elif hides[kind] or _changes_variable(operation):
        flow |= _Flow.HIDDEN
    elif kind in _SUMS:
        terms = zip(operation.inputs, inputs)
        if any(not each and tensor.op.type != "Const" for tensor, each in terms):
            flow |= _Flow.HIDDEN
    return flow


def _is_stub_collective(operation: Any) -> bool:
    """Return whether it is what `stub_ops` makes of a collective."""
    name = operation.name.rpartition("/")[2]
    return operation.type == "IdentityN" and name.startswith("Hcom") and is_marked(operation)


def _is_function(operation: Any) -> bool:
    """Return whether operations of this type run other ones, which are not in the graph."""
    calls = any(attr.type in ("func", "list(func)") for attr in operation.op_def.attr)
    return calls or operation.type in _HIDDEN or operation.graph._is_function(operation.type)


def _changes_variable(operation: Any) -> bool:
    """Return whether its result is a variable (of version 1), which may keep earlier values."""
    return any(tensor.dtype != tensor.dtype.base_dtype for tensor in operation.outputs)
