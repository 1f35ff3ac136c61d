"""What the operators have in common: types that are taken, gradients that are not there."""

from typing import Any, Optional, Sequence

from ascend_session.backends._tensorflow import tf1

__all__ = [
    "HALF_OR_FLOAT",
    "checked",
    "is_variable",
    "last_only",
    "refuse_eager",
    "static_length",
    "without_gradient",
]

HALF_OR_FLOAT = ("float16", "float32")
"""Attribute T of most operators for the device's cores."""


def refuse_eager(call: str) -> None:
    """Raises RuntimeError, as the vendor's functions, under eager execution."""
    if tf1().executing_eagerly():
        raise RuntimeError(f"{call}() is not compatible with eager execution.")


def checked(
    operator: str, name: str, value: Any, types: Sequence[str], dtype: Optional[Any] = None
) -> Any:
    """The value as a tensor.

    Args:
        operator: The operator's type, ``PRelu``.
        name: Its input, ``weight``.
        value: What was given.
        types: The types that it takes.
        dtype: The type that it must have because another input has it.

    Raises:
        TypeError: If it takes no such type, as TensorFlow of its registered operators.
    """
    tf = tf1()
    hint = {} if dtype is None else {"dtype": dtype} if _is_plain(value) else {}
    tensor = tf.convert_to_tensor(value, name=name, **hint)
    found = tensor.dtype.base_dtype
    if found.name not in types:
        raise TypeError(
            f"Value passed to parameter '{name}' of {operator} has DataType {found.name} not in "
            f"list of allowed values: {', '.join(types)}"
        )
    if dtype is not None and found != dtype:
        raise TypeError(
            f"Input '{name}' of '{operator}' Op has type {found.name} that does not match type "
            f"{dtype.name} of the other inputs."
        )
    return tensor


def _is_plain(value: Any) -> bool:
    """Whether a number or a list, which takes the type of the other inputs."""
    return isinstance(value, (bool, int, float, list, tuple))


def is_variable(value: Any) -> bool:
    """Whether something can be assigned to: a variable, or the reference that an old one gives."""
    # Neither class of variables covers all of them in every TensorFlow.
    if hasattr(value, "assign") and hasattr(value, "initializer"):
        return True
    return bool(getattr(getattr(value, "dtype", None), "_is_ref_dtype", False))


def without_gradient(operator: str, tensor: Any) -> Any:
    """The same tensor; a gradient through it is refused as TensorFlow does for the vendor's own.

    The vendor registers no gradient for these operators.
    """
    tf = tf1()
    graph = tf.get_default_graph()
    with graph.gradient_override_map({"Identity": f"NoGradientOf{operator}"}):
        return tf.identity(tensor, name=operator)


def last_only(steps: Any) -> Any:
    """The same tensor; gradients flow through its last step alone, as the vendor registers it."""
    tf = tf1()
    return tf.concat([tf.stop_gradient(steps[:-1]), steps[-1:]], axis=0)


def static_length(tensor: Any, axis: int) -> Optional[int]:
    """The number of elements along an axis; None if the graph does not know it."""
    shape = tensor.shape
    if shape.rank is None:
        return None
    length = shape.as_list()[axis]
    return None if length is None else int(length)
