"""Activations and normalisations, element by element or along axes.

Sources: ops/aicore/npu_unary_ops.cc, npu_aicore_ops.cc; the formulas: CANN's operator
specifications and its public gelu, fast_gelu, fast_gelu_grad (TBE) and fast_gelu_v2_proto.h;
npu_aicore_ops.py for centralization.
"""

import math
from typing import Any, List, Sequence

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.kernels._tensors import HALF_OR_FLOAT, checked, without_gradient

__all__ = [
    "centralization",
    "fast_gelu",
    "fast_gelu_grad",
    "fast_gelu_v2",
    "fused_layer_norm",
    "fused_layer_norm_grad",
    "gelu",
    "gelu_grad",
    "p_relu",
    "p_relu_grad",
]

_REAL = ("bfloat16", "float16", "float32", "float64")

_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715
_SIGMOID_SCALE = 1.702


def gelu(features: Any, name: Any = None) -> Any:
    """``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``."""
    x = checked("Gelu", "features", features, _REAL)
    with tf1().name_scope(name or "Gelu"):
        return 0.5 * x * (1.0 + tf1().tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x)))


def gelu_grad(gradients: Any, features: Any, activations: Any, name: Any = None) -> Any:
    """The gradient of `gelu` times ``gradients``; ``activations`` are not needed for it."""
    tf = tf1()
    x = checked("GeluGrad", "features", features, _REAL)
    dy = checked("GeluGrad", "gradients", gradients, _REAL, x.dtype.base_dtype)
    with tf.name_scope(name or "GeluGrad"):
        t = tf.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x))
        slope = _TANH_SCALE * (1.0 + 3.0 * _TANH_CUBIC * x * x)
        return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope)


def fast_gelu(features: Any, name: Any = None) -> Any:
    """``x / (1 + exp(-1.702 x))``."""
    tf = tf1()
    x = checked("FastGelu", "features", features, _REAL)
    with tf.name_scope(name or "FastGelu"):
        return x * tf.sigmoid(_SIGMOID_SCALE * x)


def fast_gelu_grad(gradients: Any, features: Any, name: Any = None) -> Any:
    """The gradient of `fast_gelu` times ``gradients``."""
    tf = tf1()
    x = checked("FastGeluGrad", "features", features, _REAL)
    dy = checked("FastGeluGrad", "gradients", gradients, _REAL, x.dtype.base_dtype)
    with tf.name_scope(name or "FastGeluGrad"):
        s = tf.sigmoid(_SIGMOID_SCALE * x)
        return dy * s * (1.0 + _SIGMOID_SCALE * x * (1.0 - s))


def fast_gelu_v2(features: Any, name: Any = None) -> Any:
    """``x (sgn(x) (-0.1444 (min(|0.7071 x|, 1.769) - 1.769)^2 + 0.5) + 0.5)``; no gradient."""
    tf = tf1()
    x = checked("FastGeluV2", "features", features, _REAL)
    with tf.name_scope(name or "FastGeluV2"):
        shifted = x + 1e-12
        sign = tf.where(tf.equal(shifted, 0), tf.zeros_like(x), tf.sign(shifted))
        clipped = tf.minimum(tf.abs(0.7071 * x), 1.769) - 1.769
        y = x * (sign * (-0.1444 * clipped * clipped + 0.5) + 0.5)
    return without_gradient("FastGeluV2", y)


def p_relu(x: Any, weight: Any, name: Any = None) -> Any:
    """``x`` where it is positive, else ``weight * x``; the weight has x's last dimensions."""
    tf = tf1()
    x = checked("PRelu", "x", x, HALF_OR_FLOAT)
    weight = checked("PRelu", "weight", weight, HALF_OR_FLOAT, x.dtype.base_dtype)
    with tf.name_scope(name or "PRelu"):
        return tf.where(x > 0, x, weight * x)


def p_relu_grad(grads: Any, features: Any, weights: Any, name: Any = None) -> List[Any]:
    """The gradients of `p_relu` by ``features`` and by ``weights``."""
    tf = tf1()
    x = checked("PReluGrad", "features", features, HALF_OR_FLOAT)
    dtype = x.dtype.base_dtype
    weight = checked("PReluGrad", "weights", weights, HALF_OR_FLOAT, dtype)
    dy = checked("PReluGrad", "grads", grads, HALF_OR_FLOAT, dtype)
    with tf.name_scope(name or "PReluGrad"):
        dx = tf.where(x > 0, dy, dy * weight)
        return [dx, _summed_to(dy * tf.minimum(x, 0), weight)]


def _summed_to(tensor: Any, like: Any) -> Any:
    """The sum over the axes along which ``like`` was repeated."""
    tf = tf1()
    extra = tensor.shape.rank - like.shape.rank
    summed = tf.reduce_sum(tensor, axis=list(range(extra))) if extra else tensor
    single = [axis for axis, length in enumerate(like.shape.as_list()) if length == 1]
    return tf.reduce_sum(summed, axis=single, keepdims=True) if single else summed


def centralization(x: Any, axes: Sequence[int], name: Any = None) -> Any:
    """``x - reduce_mean(x, axes)``; no gradient."""
    tf = tf1()
    x = checked("Centralization", "x", x, HALF_OR_FLOAT)
    with tf.name_scope(name or "Centralization"):
        y = x - tf.reduce_mean(x, axis=list(axes), keepdims=True)
    return without_gradient("Centralization", y)


def fused_layer_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    begin_norm_axis: int = 0,
    begin_params_axis: int = 0,
    epsilon: float = 1e-7,
    name: Any = None,
) -> List[Any]:
    """The normalised tensor, the mean and the variance; gradients flow through the first alone.

    Args:
        x: float16 or float32.
        gamma: The scale, of the shape of x from ``begin_params_axis`` on.
        beta: The offset, of the same shape.
        begin_norm_axis: The first of the axes that are normalised together.
        begin_params_axis: See ``gamma``.
        epsilon: Added to the variance.
        name: Of the operator.
    """
    tf = tf1()
    operator = "FusedLayerNorm"
    x = checked(operator, "x", x, HALF_OR_FLOAT)
    dtype = x.dtype.base_dtype
    gamma = checked(operator, "gamma", gamma, HALF_OR_FLOAT, dtype)
    beta = checked(operator, "beta", beta, HALF_OR_FLOAT, dtype)
    rank = x.shape.rank
    first = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
    if not 0 <= first < rank:
        raise ValueError("begin_norm_axis is invalid")
    with tf.name_scope(name or operator):
        axes = list(range(first, rank))
        mean = tf.reduce_mean(x, axis=axes, keepdims=True)
        variance = tf.reduce_mean(tf.square(x - mean), axis=axes, keepdims=True)
        y = (x - mean) * tf.rsqrt(variance + epsilon) * gamma + beta
        return [y, tf.stop_gradient(mean), tf.stop_gradient(variance)]


def fused_layer_norm_grad(
    dy: Any, x: Any, variance: Any, mean: Any, gamma: Any, name: Any = None
) -> List[Any]:
    """The gradients of `fused_layer_norm` by x, gamma and beta, with its default epsilon."""
    tf = tf1()
    with tf.name_scope(name or "FusedLayerNormGrad"):
        scale = tf.rsqrt(variance + 1e-7)
        normal = (x - mean) * scale
        lengths = mean.shape.as_list()
        axes = [axis for axis, length in enumerate(x.shape.as_list()) if lengths[axis] != length]
        inner = dy * gamma
        dx = scale * (
            inner
            - tf.reduce_mean(inner, axis=axes, keepdims=True)
            - normal * tf.reduce_mean(inner * normal, axis=axes, keepdims=True)
        )
        return [dx, _summed_to(dy * normal, gamma), _summed_to(dy, gamma)]
