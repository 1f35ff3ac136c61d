"""The formulas of the vendor's operators, computed by TensorFlow on the CPU.

Each function is one operator of the adapter's library: the same inputs, outputs and types, and the
gradient that the vendor registers for it. The numbers are those of the formula, not those of a
device's rounding. The positions that dropout draws are random: with a seed they are the same in
each run here, but other ones than a device draws with the same seed.

Sources: ops/aicore/npu_unary_ops.cc, npu_aicore_ops.cc and ops/npu_ops.cc; npu_aicore_ops.py,
npu_cpu_ops.py and npu_ops.py. For the formulas CANN's operator specifications (that of
DenseImageWarp is TensorFlow's dense_image_warp) and its public gelu, fast_gelu, fast_gelu_grad and
lars_v2_update (TBE) and fast_gelu_v2_proto.h; that ``transpose`` of NonZero gives a row for each
dimension is how CANN reads ONNX's NonZero.
"""

import math
import numbers
from typing import Any, List, Optional, Sequence

from ascend_session.backends._tensorflow import tf1

_REAL = ("bfloat16", "float16", "float32", "float64")

_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715
_SIGMOID_SCALE = 1.702

HALF_OR_FLOAT = ("float16", "float32")
"""Attribute T of most operators for the device's cores."""


def refuse_eager(call: str) -> None:
    """Raise RuntimeError under eager execution, as the vendor's functions do."""
    if tf1().executing_eagerly():
        raise RuntimeError(f"{call}() is not compatible with eager execution.")


def checked(
    operator: str, name: str, value: Any, types: Sequence[str], dtype: Optional[Any] = None
) -> Any:
    """Convert an input to a tensor of a type that the operator takes.

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
    # A number or a list takes the type of the other inputs.
    is_plain = isinstance(value, (bool, int, float, list, tuple))
    tensor = tf.convert_to_tensor(value, name=name, dtype=dtype if is_plain else None)
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


def is_variable(value: Any) -> bool:
    """Whether something can be assigned to: a variable, or the reference that an old one gives."""
    # Neither class of variables covers all of them in every TensorFlow.
    if hasattr(value, "assign") and hasattr(value, "initializer"):
        return True
    return bool(getattr(getattr(value, "dtype", None), "_is_ref_dtype", False))


def without_gradient(operator: str, tensor: Any) -> Any:
    """Refuse a gradient through a tensor, as TensorFlow does for the vendor's own.

    The vendor registers no gradient for these operators.
    """
    tf = tf1()
    graph = tf.get_default_graph()
    with graph.gradient_override_map({"Identity": f"NoGradientOf{operator}"}):
        return tf.identity(tensor, name=operator)


def last_only(steps: Any) -> Any:
    """Let gradients flow through the last step of a tensor alone, as the vendor registers it."""
    tf = tf1()
    return tf.concat([tf.stop_gradient(steps[:-1]), steps[-1:]], axis=0)


def gelu(features: Any, name: Any = None) -> Any:
    """Compute ``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``."""
    x = checked("Gelu", "features", features, _REAL)
    with tf1().name_scope(name or "Gelu"):
        return 0.5 * x * (1.0 + tf1().tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x)))


def gelu_grad(gradients: Any, features: Any, activations: Any, name: Any = None) -> Any:
    """Compute the gradient of `gelu` times ``gradients``; ``activations`` are not needed for it."""
    tf = tf1()
    x = checked("GeluGrad", "features", features, _REAL)
    dy = checked("GeluGrad", "gradients", gradients, _REAL, x.dtype.base_dtype)
    with tf.name_scope(name or "GeluGrad"):
        t = tf.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x))
        slope = _TANH_SCALE * (1.0 + 3.0 * _TANH_CUBIC * x * x)
        return dy * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope)


def fast_gelu(features: Any, name: Any = None) -> Any:
    """Compute ``x / (1 + exp(-1.702 x))``."""
    tf = tf1()
    x = checked("FastGelu", "features", features, _REAL)
    with tf.name_scope(name or "FastGelu"):
        return x * tf.sigmoid(_SIGMOID_SCALE * x)


def fast_gelu_grad(gradients: Any, features: Any, name: Any = None) -> Any:
    """Compute the gradient of `fast_gelu` times ``gradients``."""
    tf = tf1()
    x = checked("FastGeluGrad", "features", features, _REAL)
    dy = checked("FastGeluGrad", "gradients", gradients, _REAL, x.dtype.base_dtype)
    with tf.name_scope(name or "FastGeluGrad"):
        s = tf.sigmoid(_SIGMOID_SCALE * x)
        return dy * s * (1.0 + _SIGMOID_SCALE * x * (1.0 - s))


def fast_gelu_v2(features: Any, name: Any = None) -> Any:
    """Compute ``x (sgn(x) (-0.1444 (min(|0.7071 x|, 1.769) - 1.769)^2 + 0.5) + 0.5)``.

    There is no gradient.
    """
    tf = tf1()
    x = checked("FastGeluV2", "features", features, _REAL)
    with tf.name_scope(name or "FastGeluV2"):
        shifted = x + 1e-12
        sign = tf.where(tf.equal(shifted, 0), tf.zeros_like(x), tf.sign(shifted))
        clipped = tf.minimum(tf.abs(0.7071 * x), 1.769) - 1.769
        y = x * (sign * (-0.1444 * clipped * clipped + 0.5) + 0.5)
    return without_gradient("FastGeluV2", y)


def _summed_to(tensor: Any, like: Any) -> Any:
    """Sum over the axes along which ``like`` was repeated."""
    tf = tf1()
    extra = tensor.shape.rank - like.shape.rank
    summed = tf.reduce_sum(tensor, axis=list(range(extra))) if extra else tensor
    single = [axis for axis, length in enumerate(like.shape.as_list()) if length == 1]
    return tf.reduce_sum(summed, axis=single, keepdims=True) if single else summed


def centralization(x: Any, axes: Sequence[int], name: Any = None) -> Any:
    """Compute ``x - reduce_mean(x, axes)``; no gradient."""
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
    """Give the normalised tensor, mean and variance; gradients flow through the first alone.

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
    """Compute the gradients of `fused_layer_norm` by x, gamma and beta for its default epsilon."""
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


def lars(
    inputs_w: Sequence[Any],
    inputs_g: Sequence[Any],
    weight_decay: Any,
    hyperpara: float = 0.001,
    epsilon: float = 0.00001,
    name: Any = None,
) -> List[Any]:
    """Do as `lars_v2` without clipping, for each pair of a weight and its gradient.

    Raises:
        TypeError: If the two are no lists.
        ValueError: If they are not equally long.
    """
    for given, which in ((inputs_w, "inputs_w"), (inputs_g, "inputs_g")):
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"Expected list for '{which}' argument to 'lars' Op, not {given}.")
    if len(inputs_w) != len(inputs_g):
        raise ValueError(
            f"List argument 'inputs_g' to 'LARS' Op with length {len(inputs_g)} must match length "
            f"{len(inputs_w)} of argument 'inputs_w'."
        )
    with tf1().name_scope(name or "LARS"):
        return [
            lars_v2(weight, gradient, weight_decay, 1.0, hyperpara, epsilon)
            for weight, gradient in zip(inputs_w, inputs_g)
        ]


def lars_v2(
    input_weight: Any,
    input_grad: Any,
    weight_decay: Any,
    learning_rate: Any,
    hyperpara: float = 0.001,
    epsilon: float = 0.00001,
    use_clip: bool = False,
    name: Any = None,
) -> Any:
    """Compute ``c (grad + weight_decay weight)``; no gradient.

    ``c`` is ``hyperpara |weight| / (|grad| + weight_decay |weight| + epsilon)``; with ``use_clip``
    it is divided by the learning rate and kept between 0 and 1.
    """
    tf = tf1()
    given = (input_weight, input_grad, weight_decay, learning_rate)
    names = ("input_weight", "input_grad", "weight_decay", "learning_rate")
    weight, gradient, decay, rate = (
        checked("LarsV2", which, value, ("float32",), tf.float32)
        for which, value in zip(names, given)
    )
    with tf.name_scope(name or "LarsV2"):
        weight_norm = tf.sqrt(tf.reduce_sum(tf.square(weight)))
        gradient_norm = tf.sqrt(tf.reduce_sum(tf.square(gradient)))
        scale = hyperpara * weight_norm / (gradient_norm + decay * weight_norm + epsilon)
        if use_clip:
            scale = tf.clip_by_value(scale / rate, 0.0, 1.0)
        result = scale * (gradient + decay * weight)
    return without_gradient("LarsV2", result)


# ops/npu_ops.cc, DropOutGenMask: a bit for each element, in whole groups of so many
_GROUP = 128
_BITS = (1, 2, 4, 8, 16, 32, 64, 128)


def dropout(x: Any, keep_prob: Any, noise_shape: Any, seed: Any, name: Any) -> Any:
    """Give ``x / keep_prob`` where a random number is below ``keep_prob``, else 0.

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


def _joined_seed(seed: int, seed2: int) -> Optional[int]:
    """Make one seed of two; None, which draws anew in each run, if both are 0."""
    return None if (seed, seed2) == (0, 0) else (seed * 1000003 + seed2) % (2**31 - 1)


def drop_out_gen_mask(
    shape: Any, prob: Any, seed: int = 0, seed2: int = 0, name: Any = None
) -> Any:
    """Draw bits that are 1 with the probability ``prob``, packed into uint8.

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
        drawn = tf.random.uniform([groups * _GROUP], seed=_joined_seed(seed or 0, seed2 or 0))
        kept = tf.cast(drawn < tf.cast(prob, tf.float32), tf.int32)
        # what is beyond the last element
        kept *= tf.cast(tf.range(groups * _GROUP) < size, tf.int32)
        return tf.cast(tf.reduce_sum(tf.reshape(kept, [-1, 8]) * _BITS, axis=1), tf.uint8)


def drop_out_do_mask(x: Any, mask: Any, keep_prob: Any, name: Any = None) -> Any:
    """Give ``x / keep_prob`` where the mask of `drop_out_gen_mask` has a 1, else 0."""
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


def non_zero(x: Any, transpose: bool = False, output_type: Any = None, name: Any = None) -> Any:
    """Give the indices of what is not zero, in row-major order.

    Args:
        x: Numbers.
        transpose: A row for each dimension ``[rank, n]``; else one for each element ``[n, rank]``.
        output_type: int64 if None, or int32.
        name: Of the operator.
    """
    tf = tf1()
    x = tf.convert_to_tensor(x, name="x")
    with tf.name_scope(name or "NonZero"):
        indices = tf.cast(tf.where(tf.not_equal(x, tf.zeros_like(x))), _index_type(output_type))
        return tf.transpose(indices) if transpose else indices


def _index_type(output_type: Any) -> Any:
    tf = tf1()
    dtype = tf.int64 if output_type is None else tf.as_dtype(output_type)
    if dtype not in (tf.int32, tf.int64):
        raise TypeError(
            f"Value passed to parameter 'output_type' has DataType {dtype.name} not in list of "
            "allowed values: int32, int64"
        )
    return dtype


def random_choice_with_mask(
    x: Any, count: int = 0, seed: int = 0, seed2: int = 0, name: Any = None
) -> List[Any]:
    """Give the indices of what is True, shuffled, and which of them mean something.

    Args:
        x: bool, of 5 dimensions at most.
        count: How many rows to give; all there are if 0.
        seed: With ``seed2`` not both 0: the same choice in each run.
        seed2: See ``seed``.
        name: Of the operator.

    Returns:
        ``y`` int32 ``[count, rank]``, 0 where there are not enough; ``mask`` bool ``[count]``.
    """
    tf = tf1()
    if count < 0:
        raise ValueError(f"input count must greater or equal to 0 but instead is {count}")
    x = checked("RandomChoiceWithMask", "x", x, ("bool",))
    with tf.name_scope(name or "RandomChoiceWithMask"):
        places = tf.cast(tf.where(x), tf.int32)
        indices = tf.random.shuffle(places, seed=_joined_seed(seed, seed2))
        is_there = tf.ones([tf.shape(indices)[0]], tf.bool)
        if count == 0:
            return [indices, is_there]
        indices, is_there = indices[:count], is_there[:count]
        rest = [0, count - tf.shape(indices)[0]]
        y = tf.reshape(tf.pad(indices, [rest, [0, 0]]), [count, x.shape.rank or -1])
        return [y, tf.reshape(tf.pad(is_there, [rest]), [count])]


def dense_image_warp(image: Any, flow: Any, name: Any = None) -> Any:
    """Read ``image[y - flow_y, x - flow_x]``, bilinear; outside, the nearest pixels inside.

    Args:
        image: float16 or float32 ``[batch, height, width, channels]``, 2 by 2 at least.
        flow: float16 or float32 ``[batch, height, width, 2]``, y first.
        name: Of the operator.
    """
    tf = tf1()
    image = checked("DenseImageWarp", "image", image, HALF_OR_FLOAT)
    flow = checked("DenseImageWarp", "flow", flow, HALF_OR_FLOAT)
    dtype = image.dtype.base_dtype
    with tf.name_scope(name or "DenseImageWarp"):
        shape = tf.shape(image)
        rows, columns = tf.meshgrid(tf.range(shape[1]), tf.range(shape[2]), indexing="ij")
        corners, parts = [], []
        for axis, grid in enumerate((rows, columns)):
            place = tf.cast(grid, tf.float32)[tf.newaxis] - tf.cast(flow[..., axis], tf.float32)
            last = tf.cast(shape[axis + 1] - 2, tf.float32)
            low = tf.minimum(tf.maximum(0.0, tf.floor(place)), last)
            parts.append(tf.cast(tf.clip_by_value(place - low, 0.0, 1.0), dtype)[..., tf.newaxis])
            corners.append(tf.cast(low, tf.int32))
        low_y, low_x = corners
        part_y, part_x = parts
        top = _between(_at(image, low_y, low_x), _at(image, low_y, low_x + 1), part_x)
        bottom = _between(_at(image, low_y + 1, low_x), _at(image, low_y + 1, low_x + 1), part_x)
        warped = _between(top, bottom, part_y)
        warped.set_shape(image.shape)
        return warped


def _between(first: Any, second: Any, part: Any) -> Any:
    return first + part * (second - first)


def _at(image: Any, rows: Any, columns: Any) -> Any:
    """Read ``image[b, rows, columns]`` for each b; rows and columns are ``[batch, ...]``."""
    tf = tf1()
    batch = tf.range(tf.shape(image)[0])
    extra = rows.shape.rank - 1
    batch = tf.reshape(batch, [-1] + [1] * extra) + tf.zeros_like(rows)
    return tf.gather_nd(image, tf.stack([batch, rows, columns], axis=-1))
