"""Dropout: what is kept is divided by the probability of keeping it.

The positions are random: with a seed they are the same in each run here, but other ones than a
device draws with the same seed.

Sources: npu_ops.py and npu_aicore_ops.py, ``dropout``; ops/npu_ops.cc, DropOutGenMask and
DropOutDoMask; docs, npu_ops/dropout.md ("the same functionality as tf.nn.dropout").
"""

import numbers
from typing import Any

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.kernels._tensors import HALF_OR_FLOAT, checked

__all__ = ["drop_out_do_mask", "drop_out_gen_mask", "dropout"]

# ops/npu_ops.cc, DropOutGenMask: a bit for each element, in whole groups of so many
_GROUP = 128
_BITS = (1, 2, 4, 8, 16, 32, 64, 128)


def dropout(x: Any, keep_prob: Any, noise_shape: Any, seed: Any, name: Any) -> Any:
    """``x / keep_prob`` where a random number is below ``keep_prob``, else 0.

    Args:
        x: float16 or float32.
        keep_prob: A number in (0, 1] or a scalar tensor.
        noise_shape: The shape in which positions are drawn, broadcast to x; that of x if None.
        seed: As of TensorFlow's random operators.
        name: Of the operator.

    Raises:
        ValueError: If x is no floating point tensor, or ``keep_prob`` no probability.
        TypeError: If x is of another floating type.
    """
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
    x = checked("DropOutDoMask", "x", x, HALF_OR_FLOAT)
    kept = keep_prob
    if not isinstance(keep_prob, numbers.Real):
        # the vendor registers no gradient by it
        kept = tf.stop_gradient(
            checked("DropOutDoMask", "keep_prob", keep_prob, HALF_OR_FLOAT, x.dtype.base_dtype)
        )
    return tf.nn.dropout(x, rate=1 - kept, noise_shape=noise_shape, seed=seed, name=name)


def drop_out_gen_mask(
    shape: Any, prob: Any, seed: int = 0, seed2: int = 0, name: Any = None
) -> Any:
    """Random bits that are 1 with the probability ``prob``, packed into uint8.

    Args:
        shape: Of what the mask is for, int32 or int64 [rank].
        prob: float16 or float32, a scalar.
        seed: With ``seed2`` not both 0: the same bits in each run.
        seed2: See ``seed``.
        name: Of the operator.
    """
    tf = tf1()
    prob = checked("DropOutGenMask", "prob", prob, HALF_OR_FLOAT)
    with tf.name_scope(name or "DropOutGenMask"):
        size = tf.reduce_prod(tf.convert_to_tensor(shape))
        groups = (size + _GROUP - 1) // _GROUP
        pair = (seed or 0, seed2 or 0)
        one_seed = None if pair == (0, 0) else (pair[0] * 1000003 + pair[1]) % (2**31 - 1)
        drawn = tf.random.uniform([groups * _GROUP], seed=one_seed)
        kept = tf.cast(drawn < tf.cast(prob, tf.float32), tf.int32)
        # what is beyond the last element
        kept *= tf.cast(tf.range(groups * _GROUP) < size, tf.int32)
        return tf.cast(tf.reduce_sum(tf.reshape(kept, [-1, 8]) * _BITS, axis=1), tf.uint8)


def drop_out_do_mask(x: Any, mask: Any, keep_prob: Any, name: Any = None) -> Any:
    """``x / keep_prob`` where the mask of `drop_out_gen_mask` has a 1, else 0."""
    tf = tf1()
    operator = "DropOutDoMask"
    x = checked(operator, "x", x, HALF_OR_FLOAT)
    mask = checked(operator, "mask", mask, ("uint8",))
    dtype = x.dtype.base_dtype
    kept = tf.stop_gradient(checked(operator, "keep_prob", keep_prob, HALF_OR_FLOAT, dtype))
    with tf.name_scope(name or operator):
        bits = tf.bitwise.bitwise_and(tf.cast(mask, tf.int32)[:, tf.newaxis], [list(_BITS)])
        flat = tf.reshape(tf.cast(bits > 0, dtype), [-1])[: tf.size(x)]
        return x / kept * tf.reshape(flat, tf.shape(x))
