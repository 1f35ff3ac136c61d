"""Average gradients over all ranks as the vendor does, find overflows and what nobody averaged.

A dense gradient is summed and divided by the number of ranks in its own dtype. Of IndexedSlices the
values are gathered and divided, and the indices gathered. Source: npu_optimizer.py, ``allreduce``.
"""

import enum
import os
from typing import Any, Dict, List, Optional, Sequence

from ascend_session import hccl
from ascend_session.backends._tensorflow import is_marked, tf1, walk_inputs
from ascend_session.backends.averaging import note_averaged
from ascend_session.cluster.variables import is_independent
from ascend_session.errors import UnsupportedError
from ascend_session.session.graphs import graph_backend, job_size, note_size

# hccl_ops.cc, attribute T of HcomAllReduce, without integers, whose mean need not be an integer.
_AVERAGED = ("float16", "float32", "bfloat16")


def distributed_gradients(gradients: Sequence[Any], *, name: Optional[str] = None) -> List[Any]:
    """Average gradients over all ranks; call it with the same list on each of them.

    Dense gradients must have the same shape on all ranks, and so must the values of IndexedSlices.
    In a job of one rank nothing is added to the graph.

    Args:
        gradients: The result of ``compute_gradients`` (pairs of a gradient and its variable) or of
            ``tf.gradients`` (gradients). A gradient is a tensor, IndexedSlices or None.
        name: Prefix of the operators' scope.

    Returns:
        The same list with the averages; None stays None.

    Raises:
        UnsupportedError: For integers, for a dtype that HCCL does not sum, and in a job with
            parameter servers.
        JobError: If the number of ranks is unknown.
    """
    gradients, scope = list(gradients), name or "distributed_gradients"
    pairs = [isinstance(each, (tuple, list)) and len(each) == 2 for each in gradients]
    if not any(pairs):
        return average(gradients, scope)
    if not all(pairs):
        raise TypeError("gradients must be all gradients, or all pairs of gradient and variable.")
    variables = [variable for _, variable in gradients]
    means = average([gradient for gradient, _ in gradients], scope, variables=variables)
    return list(zip(means, variables))


def average(
    gradients: Sequence[Any],
    name: str,
    last_after: Sequence[Any] = (),
    variables: Sequence[Any] = (),
) -> List[Any]:
    """Return the averages of gradients over all ranks; None stays None.

    Args:
        gradients: Tensors, IndexedSlices or None.
        name: The scope of the operators is ``{name}_Allreduce``: older adapters recognise graphs
            that train by such names (geop_npu.cc, AddNodeAttrs).
        last_after: Operations that the exchange of the last dense gradient waits for.
        variables: The variables of the gradients, if they are known.
    """
    tf, size = tf1(), job_size("The mean of gradients")
    means = [
        gradient if gradient is None or is_slices(gradient) else tf.convert_to_tensor(gradient)
        for gradient in gradients
    ]
    for gradient in means:
        if gradient is not None:
            _check_dtype(gradient, size)
    note_size(tf.get_default_graph(), size)
    if size == 1 or all(gradient is None for gradient in means):
        return list(gradients)
    places = [n for n, mean in enumerate(means) if mean is not None and not is_slices(mean)]
    parts = [(places[:-1], ()), (places[-1:], last_after)] if last_after else [(places, ())]
    with tf.name_scope(f"{name}_Allreduce"):
        for part, waits in parts:
            with tf.control_dependencies(list(waits)):
                sums = hccl.allreduce_many([means[place] for place in part], "sum") if part else []
            for place, total in zip(part, sums):
                means[place] = total / tf.cast(size, total.dtype)
        means = [_mean_slices(mean, size) if is_slices(mean) else mean for mean in means]
    note_averaged(means, variables)
    return means


def _mean_slices(slices: Any, size: int) -> Any:
    tf = tf1()
    values = hccl.allgather(slices.values, size)
    indices = hccl.allgather(slices.indices, size)
    mean = values / tf.cast(size, values.dtype)
    return tf.IndexedSlices(mean, indices, dense_shape=slices.dense_shape)


def is_slices(gradient: Any) -> bool:
    """Return whether a gradient is ``tf.IndexedSlices``, as that of an embedding."""
    return isinstance(gradient, tf1().IndexedSlices)


def _check_dtype(gradient: Any, size: int) -> None:
    dtype = gradient.dtype.base_dtype
    if dtype.is_integer or dtype.is_bool:
        raise UnsupportedError(
            f"The gradient {gradient.name!r} is of dtype {dtype.name}: a mean of integers need not "
            "be one, and the vendor's division silently truncates it.",
            hint="tf.cast it to float32 first, or sum it with hccl.allreduce.",
        )
    if size > 1 and dtype.name not in _AVERAGED:
        raise UnsupportedError(
            f"The gradient {gradient.name!r} is of dtype {dtype.name}, which HCCL does not sum: "
            f"it takes {', '.join(_AVERAGED)}.",
            hint="Train in float32, or tf.cast the gradient.",
        )


class Overflow:
    """Adds operators that find out whether a training step overflowed on any rank.

    A device in saturation mode has an overflow status, and its values stay finite. A device in
    Inf/NaN mode shows overflows in the values, and so does the stub. If the mode is not known yet,
    both are checked. Source: npu_optimizer.py, ``_reduce_all``; npu_loss_scale_optimizer.py,
    ``apply_gradients``.

    Args:
        name: Prefix of the operators' scope.
    """

    def __init__(self, name: str) -> None:
        self._scope = f"{name}_overflow"
        self._early: Optional[Any] = None

    def look_early(self, gradients: Sequence[Any], size: int) -> List[Any]:
        """Read the device's overflow status before the last exchange of gradients.

        Returns:
            Tensors that this exchange has to wait for; empty if only values show overflows.
        """
        if graph_backend().has_inf_and_nan() is True:
            return []
        with tf1().name_scope(self._scope):
            self._early = _sum_over_ranks(_from_status(gradients), size)
        return [self._early]

    def none_anywhere(self, gradients: Sequence[Any], size: int) -> Any:
        """Return a scalar bool tensor: True if no rank had an overflow in this step."""
        tf = tf1()
        has_inf_and_nan = graph_backend().has_inf_and_nan()
        early, self._early = self._early, None
        counts = []
        with tf.name_scope(self._scope):
            if has_inf_and_nan is not True and early is None:
                counts.append(_from_status(gradients))
            if has_inf_and_nan is not False:
                counts.append(_from_values(gradients))
            everywhere = [_sum_over_ranks(tf.add_n(counts), size)] if counts else []
            if early is not None:
                everywhere.append(early)
            return tf.reduce_all(tf.equal(tf.add_n(everywhere), 0), name="none_anywhere")


def _from_status(gradients: Sequence[Any]) -> Any:
    """Read and clear the device's overflow status after these gradients: 1 or 0, int32 [1]."""
    return graph_backend().read_overflow([value for value in gradients if value is not None])


def _from_values(gradients: Sequence[Any]) -> Any:
    """Return whether a gradient has Inf or NaN: 1 or 0, int32 [1].

    Values are compared, because not every device has IsFinite (tf_finite_manual_port.md).
    """
    tf = tf1()
    finite = []
    for gradient in gradients:
        if gradient is None:
            continue
        values = gradient.values if is_slices(gradient) else gradient
        if values.dtype.base_dtype == tf.bfloat16:
            values = tf.cast(values, tf.float32)
        finite.append(tf.reduce_all(tf.abs(values) <= values.dtype.max))
    all_finite = tf.reduce_all(tf.stack(finite)) if finite else tf.constant(True)
    return tf.reshape(tf.cast(tf.logical_not(all_finite), tf.int32), [1])


def _sum_over_ranks(count: Any, size: int) -> Any:
    return count if size == 1 else hccl.allreduce(count, "sum", fusion=0)


# Gradients that reach an optimizer although no rank has averaged them. Gradients flow from the
# ``grad_ys`` that ``tf.gradients`` makes of the loss. The walk follows them through the graph. A
# gradient that arrives without any exchange on its way is local, unless a part of the way is
# hidden: in a function, a condition, a loop, a Python function or a variable, or if it is added to
# something that did not come from the loss, such as gradients kept in a variable.

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
