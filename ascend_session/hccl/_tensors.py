"""Checks of tensors, before an operator is built with them.

Sources: hccl_ops.cc (the types of each operator); the documentation of hccl_ops (8 GB, variables);
hcom_op_utils.cc (the types that HCCL can broadcast, where TensorFlow's operator takes any).
"""

from typing import Any, List, Optional, Sequence

from ascend_session.backends._tensorflow import tf1
from ascend_session.config.checking import warn
from ascend_session.errors import LifecycleError

__all__ = [
    "BROADCAST",
    "MOVED",
    "MULTIPLIED",
    "REDUCED",
    "as_tensor",
    "check_dtype",
    "check_size",
    "counts",
    "graph_mode",
    "shape_of",
    "warn_of_variable",
]

REDUCED = ("int8", "int16", "int32", "int64", "float16", "float32", "bfloat16")
MULTIPLIED = ("int8", "int32", "int64", "float16", "float32")  # no product has others
MOVED = (*REDUCED, "uint8", "uint16", "uint32", "uint64", "float64")
BROADCAST = (*MOVED, "bool")

_MOST_BYTES = 8 * 1024**3

# What stands between a variable and what reads it.
_READS = frozenset(["Identity", "ReadVariableOp"])
_VARIABLES = frozenset(["Variable", "VariableV2", "VarHandleOp"])


def graph_mode(call: str) -> Any:
    """``tensorflow.compat.v1``.

    Raises:
        LifecycleError: If eager execution is on; collectives are operators of a graph.
    """
    tf = tf1()
    if tf.executing_eagerly():
        raise LifecycleError(
            f"hccl.{call} adds an operator to a graph, but eager execution is on here.",
            hint="Call tf.disable_eager_execution() (tf.compat.v1 in TensorFlow 2) before building "
            "the model.",
        )
    return tf


def as_tensor(call: str, name: str, value: Any, known: Sequence[str]) -> Any:
    """``value`` as a tensor of one of the ``known`` types.

    Raises:
        TypeError: If its type is another; of TensorFlow also for what is no tensor.
        ValueError: Of TensorFlow, for what is no tensor.
    """
    tensor = tf1().convert_to_tensor(value)
    check_dtype(call, name, tensor.dtype, known)
    return tensor


def check_dtype(call: str, name: str, dtype: Any, known: Sequence[str]) -> None:
    """Raises TypeError unless ``dtype``, a `tf.DType`, is one of the ``known`` ones."""
    given = dtype.base_dtype.name
    if given not in known:
        raise TypeError(
            f"hccl.{call}: {name} is {given}, but HCCL takes {', '.join(known)} here. Cast it: "
            "tf.cast(x, tf.float32)."
        )


def shape_of(tensor: Any) -> Optional[List[Optional[int]]]:
    """The shape as far as the graph knows it; None if not even the number of dimensions."""
    return None if tensor.shape.rank is None else list(tensor.shape.as_list())


def check_size(call: str, tensor: Any) -> None:
    """Raises ValueError if the tensor is known to have more than 8 GB."""
    elements = tensor.shape.num_elements()
    if elements is not None and elements * tensor.dtype.size > _MOST_BYTES:
        raise ValueError(
            f"hccl.{call}: a tensor of the shape {shape_of(tensor)} has "
            f"{elements * tensor.dtype.size} bytes; HCCL reduces at most {_MOST_BYTES} (8 GB) in "
            "one operator. Split it: tf.split(x, n)."
        )


def warn_of_variable(call: str, tensor: Any) -> None:
    """Warns if the tensor comes straight from a variable."""
    operator = tensor.op
    while operator.type in _READS and len(operator.inputs) == 1:
        operator = operator.inputs[0].op
    if operator.type in _VARIABLES:
        warn(
            f"hccl.{call}: its input is the variable {operator.name!r}, and the vendor's "
            'documentation says that "the upstream node of allreduce must not be variable". HCCL '
            "may reduce in place; a release that makes no copy before it would change the "
            "variable. Reduce something that is computed from it."
        )


def counts(call: str, name: str, value: Any) -> Any:
    """``value`` as an int64 tensor.

    Raises:
        TypeError: If it is a tensor of another type, or is made of something else than ints.
    """
    tf = tf1()
    try:
        return tf.convert_to_tensor(value, tf.int64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"hccl.{call}: {name} must be ints or an int64 tensor, this is {value!r}. Cast a "
            "tensor: tf.cast(x, tf.int64)."
        ) from error
