"""gelu and dropout on the CPU, with the vendor's types, errors and formulas.

`ascend_session.ops` uses them on the stub, and so does this package's npu_bridge under
``ascend-session run``. Sources: ops/aicore/npu_unary_ops.cc, ops/npu_ops.cc and npu_ops.py; for
the formula of gelu, CANN's public kernel (TBE).
"""

import math
import numbers
from typing import Any, Optional, Sequence

from ascend_session.backends._tensorflow import tf1

REAL = ("bfloat16", "float16", "float32", "float64")
"""Types of operators with one tensor of real numbers, such as gelu."""

HALF_OR_FLOAT = ("float16", "float32")
"""Types of most operators on the device's cores."""

_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715


def gelu(features: Any, name: Optional[str] = None) -> Any:
    """Add the operator Gelu; see `ascend_session.ops.gelu`."""
    features = check_input("Gelu", "features", features, REAL)
    with tf1().name_scope(name or "Gelu"):
        return compute_gelu(features)


def compute_gelu(features: Any) -> Any:
    """Compute ``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``."""
    x = features
    return 0.5 * x * (1.0 + tf1().tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x)))


def dropout(
    x: Any, keep_prob: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> Any:
    """Add dropout; see `ascend_session.ops.dropout`."""
    tf = tf1()
    x = tf.convert_to_tensor(x, name="x")
    if not x.dtype.is_floating:
        raise ValueError(f"x must be a floating point tensor. Got a {x.dtype} tensor instead.")
    if isinstance(keep_prob, numbers.Real) and not 0 < float(keep_prob) <= 1.0:
        raise ValueError(
            "keep_prob must be a float value or a scalar tensor in the range (0, 1], "
            f"got {float(keep_prob):g}"
        )
    if isinstance(keep_prob, float) and keep_prob == 1.0:
        return x
    x = check_input("DropOutDoMask", "x", x, HALF_OR_FLOAT)
    if not isinstance(keep_prob, numbers.Real):
        # The vendor registers no gradient for it.
        keep_prob = tf.stop_gradient(
            check_input("DropOutDoMask", "keep_prob", keep_prob, HALF_OR_FLOAT, x.dtype.base_dtype)
        )
    return tf.nn.dropout(x, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=name)


def check_input(
    operator: str, name: str, value: Any, types: Sequence[str], dtype: Optional[Any] = None
) -> Any:
    """Convert an input to a tensor of a type that the operator takes.

    Args:
        operator: The operator's type, such as ``PRelu``.
        name: The input's name, such as ``weight``.
        value: The argument.
        types: The names of the types that the operator takes.
        dtype: The ``tf.DType`` of the other inputs, which this one must have.

    Raises:
        TypeError: For another type; the message is TensorFlow's for registered operators.
    """
    # A number or a list takes the type of the other inputs.
    is_plain = isinstance(value, (bool, int, float, list, tuple))
    tensor = tf1().convert_to_tensor(value, name=name, dtype=dtype if is_plain else None)
    given = tensor.dtype.base_dtype
    if given.name not in types:
        raise TypeError(
            f"Value passed to parameter '{name}' of {operator} has DataType {given.name} not in "
            f"list of allowed values: {', '.join(types)}"
        )
    if dtype is not None and given != dtype:
        raise TypeError(
            f"Input '{name}' of '{operator}' Op has type {given.name} that does not match type "
            f"{dtype.name} of the other inputs."
        )
    return tensor
