"""One collective as an operator of a CPU graph: what all of them have in common."""

from typing import Any, Callable, List, Optional, Sequence

from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.collective_shapes import Shape
from ascend_session.backends.ranks.exchange import Channel
from ascend_session.backends.ranks.operation import Operation
from ascend_session.backends.ranks.turns import Turn
from ascend_session.backends.stub_job import current_job
from ascend_session.backends.stub_ops import NO_GRADIENT, blocking_op
from ascend_session.backends.stub_places import Place
from ascend_session.vendor import WORLD_GROUP

__all__ = ["Work", "as_bits", "as_list", "collective", "from_bits", "signature", "with_bits"]

Work = Callable[[Channel, Sequence[Any]], Sequence[Any]]
"""What a collective does: gets the ranks and this rank's arrays, gives this rank's results."""

_SHOWN = 4  # arrays that a signature spells out


def collective(
    kind: str,
    place: Place,
    what: str,
    inputs: Sequence[Any],
    work: Work,
    shapes: Sequence[Shape],
    gradient: str = NO_GRADIENT,
    of_shape: bool = True,
) -> List[Any]:
    """Adds one to the default graph.

    Args:
        kind: The vendor's name of the operator.
        place: Where it stands.
        what: Beginning of its signature, the same on all ranks: ``allreduce sum``; see `with_bits`.
        inputs: Its tensors.
        work: What it does.
        shapes: Of what it gives; the dtypes are those of the inputs, in their order.
        gradient: See `blocking_op`.
        of_shape: Whether all ranks have to give the same shapes.
    """
    tf = tf1()

    def function(name: str, arrays: Sequence[Any], turn: Optional[Turn]) -> Sequence[Any]:
        job = current_job(f'The collective "{name}"')
        ranks = job.groups.members(place.group)
        signed = signature(what, arrays if of_shape else arrays[:0])
        key = place.key if place.group == WORLD_GROUP else f"{place.key} of {list(ranks)}"
        operation = Operation(key, name, ranks, signed)
        found: Sequence[Any] = job.exchange.run(
            operation, lambda channel: work(channel, arrays), turn
        )
        return found

    results = [(one.dtype, tf.TensorShape(shape)) for one, shape in zip(inputs, shapes)]
    return blocking_op(kind, inputs, function, results, gradient)


def signature(what: str, arrays: Sequence[Any]) -> str:
    """``allreduce sum float32 [4, 3]``; of many arrays the first are spelt out."""
    forms = [f"{array.dtype.name} {list(array.shape)}" for array in arrays]
    if len(forms) <= _SHOWN:
        return " ".join([what, ", ".join(forms)]).strip()
    import hashlib

    digest = hashlib.sha256("".join(forms).encode()).hexdigest()[:8]
    more = len(forms) - _SHOWN
    return f"{what} {', '.join(forms[:_SHOWN])} and {more} more ({digest})"


def with_bits(what: str, dtypes: Sequence[Any]) -> str:
    """``what``, and that it is bfloat16, which travels as something else."""
    names = [dtype.base_dtype.name for dtype in dtypes]
    return f"{what} of {', '.join(names)} as" if "bfloat16" in names else what


def as_list(shape: Any) -> Shape:
    """A `tf.TensorShape` as plain numbers."""
    return None if shape.rank is None else list(shape.as_list())


def as_bits(tensor: Any) -> Any:
    """``tensor`` in a dtype of NumPy's own, bit by bit; `from_bits` is the way back."""
    tf = tf1()
    return tf.bitcast(tensor, tf.int16) if tensor.dtype.base_dtype == tf.bfloat16 else tensor


def from_bits(tensor: Any, dtype: Any) -> Any:
    """The way back from `as_bits`."""
    tf = tf1()
    return tf.bitcast(tensor, dtype) if dtype.base_dtype == tf.bfloat16 else tensor
