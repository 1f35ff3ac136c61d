"""Gradients averaged over the ranks of the job, in the vendor's way.

Source: npu_optimizer.py, ``allreduce``: a dense gradient is summed and divided by the number of
ranks in its own dtype; of IndexedSlices the values are gathered and divided, the indices gathered.
"""

from typing import Any, List, NamedTuple, Optional, Sequence

from ascend_session import hccl
from ascend_session.backends._tensorflow import tf1
from ascend_session.errors import UnsupportedError
from ascend_session.hccl.reducing import allreduce_many
from ascend_session.training.ranks import job_size, note_size

__all__ = ["averaged", "distributed_gradients", "is_slices"]

# hccl_ops.cc, attribute T of HcomAllReduce, without the integers: an average of those is none.
_AVERAGED = ("float16", "float32", "bfloat16")


def distributed_gradients(gradients: Sequence[Any], *, name: Optional[str] = None) -> List[Any]:
    """Averages gradients over all ranks; to be given the same list on each of them.

    Dense gradients must have the same shape on all ranks, and so must the values of IndexedSlices.
    In a job of one rank nothing is added to the graph.

    Args:
        gradients: What ``compute_gradients`` or ``tf.gradients`` gives: pairs of a gradient and its
            variable, or gradients alone; tensors, IndexedSlices or None.
        name: Begins the names of the operators.

    Returns:
        The same list with the averages in it; what is None stays None.

    Raises:
        UnsupportedError: For a dtype that has no average (integers) or that HCCL does not sum, and
            in a job with parameter servers.
        JobError: If the environment does not say how many ranks there are.
    """
    listed = list(gradients)
    pairs = [isinstance(one, tuple) and len(one) == 2 for one in listed]
    if any(pairs) and not all(pairs):
        raise TypeError("gradients must be all gradients, or all pairs of gradient and variable.")
    if not any(pairs):
        return averaged(listed, name or "distributed_gradients")
    means = averaged([gradient for gradient, _ in listed], name or "distributed_gradients")
    return [(mean, variable) for mean, (_, variable) in zip(means, listed)]


def averaged(gradients: Sequence[Any], name: str, last_after: Sequence[Any] = ()) -> List[Any]:
    """The gradients' averages, None where there is none.

    Args:
        gradients: Tensors, IndexedSlices or None.
        name: The scope of the operators is ``{name}_Allreduce``; older adapters know a graph that
            trains by such names (geop_npu.cc, AddNodeAttrs).
        last_after: What the last dense gradient's exchange waits for.
    """
    size = job_size("The mean of gradients")
    dense = [n for n, one in enumerate(gradients) if one is not None and not is_slices(one)]
    converted = list(gradients)
    for number in dense:
        converted[number] = tf1().convert_to_tensor(gradients[number])
    for one in converted:
        _check_dtype(one, size)
    if size == 1 or all(one is None for one in converted):
        note_size(tf1().get_default_graph(), size)
        return list(gradients)
    with tf1().name_scope(f"{name}_Allreduce"):
        return _exchanged(_Exchange(converted, dense, last_after), size)


class _Exchange(NamedTuple):
    """The gradients, the places of the dense ones among them, what the last of these waits for."""

    gradients: List[Any]
    dense: List[int]
    last_after: Sequence[Any]


def _exchanged(exchange: _Exchange, size: int) -> List[Any]:
    tf = tf1()
    note_size(tf.get_default_graph(), size)
    means = list(exchange.gradients)
    parts = [exchange.dense]
    if exchange.last_after:
        parts = [exchange.dense[:-1], exchange.dense[-1:]]
    for part, waits in zip(parts, ((), exchange.last_after)):
        if not part:
            continue
        with tf.control_dependencies(list(waits)):
            sums = allreduce_many([means[number] for number in part], "sum")
        for number, total in zip(part, sums):
            means[number] = total / tf.cast(size, total.dtype)
    return [_mean_slices(one, size) if is_slices(one) else one for one in means]


def _mean_slices(slices: Any, size: int) -> Any:
    tf = tf1()
    values = hccl.allgather(slices.values, size)
    indices = hccl.allgather(slices.indices, size)
    mean = values / tf.cast(size, values.dtype)
    return tf.IndexedSlices(mean, indices, dense_shape=slices.dense_shape)


def is_slices(gradient: Any) -> bool:
    """Whether it is ``tf.IndexedSlices``, the gradient of an embedding."""
    return isinstance(gradient, tf1().IndexedSlices)


def _check_dtype(gradient: Any, size: int) -> None:
    if gradient is None:
        return
    dtype = gradient.dtype.base_dtype
    if dtype.is_integer or dtype.is_bool:
        raise UnsupportedError(
            f"The gradient {gradient.name!r} is of dtype {dtype.name}: the mean of integers is "
            "none, and the vendor's division cuts it off without a word.",
            hint="tf.cast it to float32 first, or sum it with hccl.allreduce.",
        )
    if size > 1 and dtype.name not in _AVERAGED:
        raise UnsupportedError(
            f"The gradient {gradient.name!r} is of dtype {dtype.name}, which HCCL does not sum: "
            f"it takes {', '.join(_AVERAGED)}.",
            hint="Train in float32, or tf.cast the gradient.",
        )
