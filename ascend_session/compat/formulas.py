"""The formulas of the vendor's operators, computed by TensorFlow on the CPU.

Each function is one operator of the adapter's library: the same inputs, outputs and types, and the
gradient that the vendor registers for it. The numbers are those of the formula, not those of a
device's rounding. `ascend_session.ops` has gelu and dropout, too; `backends.training_operators`
defines them.

Sources: ops/aicore/npu_unary_ops.cc and ops/npu_ops.cc; npu_cpu_ops.py and npu_ops.py. For the
formulas CANN's operator specifications (that of DenseImageWarp is TensorFlow's dense_image_warp)
and its public fast_gelu and lars_v2_update (TBE).
"""

from typing import Any, List, Optional, Sequence

from ascend_session.backends.training_operators import HALF_OR_FLOAT, REAL, compute_gelu
from ascend_session.compat.operators import SAME, operator
from ascend_session.compat.tensorflow_names import tf

_FLOAT = ("float32",)

_SIGMOID_SCALE = 1.702

gelu = operator("Gelu", features=REAL)(compute_gelu)


@operator("FastGelu", features=REAL)
def fast_gelu(features: Any) -> Any:
    """Compute ``x / (1 + exp(-1.702 x))``."""
    return features * tf.sigmoid(_SIGMOID_SCALE * features)


@operator("LARS")
def lars(
    inputs_w: Sequence[Any],
    inputs_g: Sequence[Any],
    weight_decay: Any,
    hyperpara: float = 0.001,
    epsilon: float = 0.00001,
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
    return [
        lars_v2(weight, gradient, weight_decay, 1.0, hyperpara, epsilon)
        for weight, gradient in zip(inputs_w, inputs_g)
    ]


@operator(
    "LarsV2",
    has_gradient=False,
    input_weight=_FLOAT,
    input_grad=_FLOAT,
    weight_decay=_FLOAT,
    learning_rate=_FLOAT,
)
def lars_v2(
    input_weight: Any,
    input_grad: Any,
    weight_decay: Any,
    learning_rate: Any,
    hyperpara: float = 0.001,
    epsilon: float = 0.00001,
    use_clip: bool = False,
) -> Any:
    """Compute ``c (grad + weight_decay weight)``; no gradient.

    ``c`` is ``hyperpara |weight| / (|grad| + weight_decay |weight| + epsilon)``; with ``use_clip``
    it is divided by the learning rate and kept between 0 and 1.
    """
    weight_norm = tf.sqrt(tf.reduce_sum(tf.square(input_weight)))
    gradient_norm = tf.sqrt(tf.reduce_sum(tf.square(input_grad)))
    scale = hyperpara * weight_norm / (gradient_norm + weight_decay * weight_norm + epsilon)
    if use_clip:
        scale = tf.clip_by_value(scale / learning_rate, 0.0, 1.0)
    return scale * (input_grad + weight_decay * input_weight)


# ops/npu_ops.cc, DropOutGenMask: a bit for each element, in whole groups of so many
_GROUP = 128
_BITS = (1, 2, 4, 8, 16, 32, 64, 128)


def _joined_seed(seed: int, seed2: int) -> Optional[int]:
    """Make one seed of two; None, which draws anew in each run, if both are 0."""
    return None if (seed, seed2) == (0, 0) else (seed * 1000003 + seed2) % (2**31 - 1)


@operator("DropOutGenMask", prob=HALF_OR_FLOAT)
def drop_out_gen_mask(shape: Any, prob: Any, seed: int = 0, seed2: int = 0) -> Any:
    """Draw bits that are 1 with the probability ``prob``, packed into uint8.

    Args:
        shape: Of what the mask is for, int32 or int64 [rank].
        prob: float16 or float32, a scalar.
        seed: With ``seed2`` not both 0: the same bits in each run.
        seed2: See ``seed``.
    """
    size = tf.reduce_prod(tf.convert_to_tensor(shape))
    groups = (size + _GROUP - 1) // _GROUP
    drawn = tf.random.uniform([groups * _GROUP], seed=_joined_seed(seed or 0, seed2 or 0))
    kept = tf.cast(drawn < tf.cast(prob, tf.float32), tf.int32)
    # what is beyond the last element
    kept *= tf.cast(tf.range(groups * _GROUP) < size, tf.int32)
    return tf.cast(tf.reduce_sum(tf.reshape(kept, [-1, 8]) * _BITS, axis=1), tf.uint8)


@operator("DropOutDoMask", x=HALF_OR_FLOAT, mask=("uint8",), keep_prob=SAME)
def drop_out_do_mask(x: Any, mask: Any, keep_prob: Any) -> Any:
    """Return ``x / keep_prob`` where the mask of `drop_out_gen_mask` has a 1, else 0."""
    bits = tf.bitwise.bitwise_and(tf.cast(mask, tf.int32)[:, tf.newaxis], [list(_BITS)])
    flat = tf.reshape(tf.cast(bits > 0, x.dtype.base_dtype), [-1])[: tf.size(x)]
    return x / tf.stop_gradient(keep_prob) * tf.reshape(flat, tf.shape(x))


@operator("RandomChoiceWithMask", x=("bool",))
def random_choice_with_mask(x: Any, count: int = 0, seed: int = 0, seed2: int = 0) -> List[Any]:
    """Return the indices of True elements, shuffled, and which of them are valid.

    Args:
        x: bool, of 5 dimensions at most.
        count: How many rows to give; all there are if 0.
        seed: With ``seed2`` not both 0: the same choice in each run.
        seed2: See ``seed``.

    Returns:
        ``y`` int32 ``[count, rank]``, 0 where there are not enough; ``mask`` bool ``[count]``.
    """
    if count < 0:
        raise ValueError(f"input count must greater or equal to 0 but instead is {count}")
    places = tf.cast(tf.where(x), tf.int32)
    indices = tf.random.shuffle(places, seed=_joined_seed(seed, seed2))
    is_there = tf.ones([tf.shape(indices)[0]], tf.bool)
    if count == 0:
        return [indices, is_there]
    indices, is_there = indices[:count], is_there[:count]
    rest = [0, count - tf.shape(indices)[0]]
    y = tf.reshape(tf.pad(indices, [rest, [0, 0]]), [count, x.shape.rank or -1])
    return [y, tf.reshape(tf.pad(is_there, [rest]), [count])]


@operator("DenseImageWarp", image=HALF_OR_FLOAT, flow=HALF_OR_FLOAT)
def dense_image_warp(image: Any, flow: Any) -> Any:
    """Read ``image[y - flow_y, x - flow_x]``, bilinear; outside, the nearest pixels inside.

    Args:
        image: float16 or float32 ``[batch, height, width, channels]``, 2 by 2 at least.
        flow: float16 or float32 ``[batch, height, width, 2]``, y first.
    """
    shape = tf.shape(image)
    rows, columns = tf.meshgrid(tf.range(shape[1]), tf.range(shape[2]), indexing="ij")
    corners, parts = [], []
    for axis, grid in enumerate((rows, columns)):
        place = tf.cast(grid, tf.float32)[tf.newaxis] - tf.cast(flow[..., axis], tf.float32)
        last = tf.cast(shape[axis + 1] - 2, tf.float32)
        low = tf.minimum(tf.maximum(0.0, tf.floor(place)), last)
        part = tf.cast(tf.clip_by_value(place - low, 0.0, 1.0), image.dtype.base_dtype)
        parts.append(part[..., tf.newaxis])
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
    batch = tf.range(tf.shape(image)[0])
    extra = rows.shape.rank - 1
    batch = tf.reshape(batch, [-1] + [1] * extra) + tf.zeros_like(rows)
    return tf.gather_nd(image, tf.stack([batch, rows, columns], axis=-1))
