"""The formulas of the vendor's operators, computed by TensorFlow on the CPU.

Each function is one operator of the adapter's library: the same inputs, outputs and types, and the
gradient that the vendor registers for it. The numbers are those of the formula, not those of a
device's rounding. `ascend_session.ops` has gelu and dropout, too; `backends.training_operators`
defines them.

Sources: ops/aicore/npu_unary_ops.cc and ops/npu_ops.cc; npu_cpu_ops.py and npu_ops.py. For the
formulas CANN's operator specifications (that of DenseImageWarp is TensorFlow's dense_image_warp)
and its public fast_gelu and lars_v2_update (TBE).
"""

from typing import Any, Dict, List, Optional, Sequence

from ascend_session.backends.training_operators import HALF_OR_FLOAT, REAL, compute_gelu
from ascend_session.compat.operators import SAME, last_only, operator
from ascend_session.compat.tensorflow_names import tf
from ascend_session.errors import UnsupportedError

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


# DynamicRNN: an LSTM over all steps. Sources: ops/aicore/npu_aicore_ops.cc, ops/npu_ops.cc; CANN's
# public dynamic_rnn (TBE); npu_ops.py for the gradients: those by the states count for the last
# step alone, those by the gates not at all.

FORWARD, BACKWARD = "UNIDIRECTIONAL", "REDIRECTIONAL"

# What the device's operators take, and nothing else (dynamic_rnn, check_attr).
_ONLY = {
    "cell_type": "LSTM",
    "use_peephole": False,
    "cell_depth": 1,
    "keep_prob": 1.0,
    "cell_clip": -1.0,
    "num_proj": 0,
    "time_major": True,
    "activation": "tanh",
}


def _all_steps(step: Any, inputs: Any, first: Any, direction: str) -> List[Any]:
    """Apply ``step`` to each step of the inputs and stack the results; BACKWARD begins at the end.

    Args:
        step: Takes the results of the step before and the inputs of this one.
        inputs: x and what goes with it, step by step.
        first: The results before the first step.
        direction: FORWARD or BACKWARD.
    """
    results = tf.scan(step, inputs, initializer=first, reverse=direction == BACKWARD)
    for result in results:
        result.set_shape([inputs[0].shape.as_list()[0], *first[0].shape.as_list()])
    return list(results)


def _masks_of(x: Any, seq_length: Any) -> Optional[Any]:
    """Return 1 for each step of its sequence, else 0, ``[steps, batch, 1]``; None for all steps."""
    if seq_length is None:
        return None
    lengths = tf.cast(tf.convert_to_tensor(seq_length), tf.int32)
    mask = tf.range(tf.shape(x)[0])[:, tf.newaxis] < lengths[tf.newaxis, :]
    return tf.cast(mask, x.dtype)[:, :, tf.newaxis]


def _masked(new: Any, old: Any, mask: Any) -> Any:
    return (new - old) * mask + old


def _lstm_step(x: Any, h: Any, c: Any, w: Any, b: Any, forget_bias: float) -> List[Any]:
    """Return h, c, the gates i, j, f, o and tanh(c)."""
    sums = tf.matmul(tf.concat([x, h], axis=1), w) + b
    i, j, f, o = tf.split(sums, 4, axis=1)
    i, j, f, o = tf.sigmoid(i), tf.tanh(j), tf.sigmoid(f + forget_bias), tf.sigmoid(o)
    c = c * f + j * i
    tanhc = tf.tanh(c)
    return [tanhc * o, c, i, j, f, o, tanhc]


def _compute_lstm(
    x: Any,
    w: Any,
    b: Any,
    init_h: Any,
    init_c: Any,
    direction: str,
    forget_bias: float,
    seq_length: Any = None,
    **checked: Any,
) -> List[Any]:
    """Compute an LSTM over all steps; behind ``seq_length`` y is 0, and the states stay.

    ``x [steps, batch, inputs]``; ``w [inputs + hidden, 4 * hidden]``, the gates in the order
    i, j, f, o; ``seq_length`` may be None for all steps; ``init_h`` and ``init_c`` have a first
    dimension of 1; REDIRECTIONAL goes from the last step to the first. The gates are always given,
    whatever ``is_training``.

    Returns:
        y, h, c, the gates i, j, f, o and tanh(c), each ``[steps, batch, hidden]``.

    Raises:
        UnsupportedError: For values that no device's operator takes.
    """
    kind = "DynamicRnn" if seq_length is not None else "DynamicRnnV2"
    if direction not in (FORWARD, BACKWARD):
        raise UnsupportedError(
            f"{kind} takes no direction={direction!r}, neither here nor on a device.",
            hint=f"Write direction={FORWARD!r} or {BACKWARD!r}.",
        )
    masks = _masks_of(x, seq_length)

    def step(before: Any, now: Any) -> Any:
        h, c, i, j, f, o, tanhc = _lstm_step(now[0], before[1], before[2], w, b, forget_bias)
        if masks is None:
            return (h, h, c, i, j, f, o, tanhc)
        # The state c is masked first: tanh(c) and y are of the masked one.
        c = _masked(c, before[2], now[1])
        tanhc = tf.tanh(c)
        y = tanhc * o * now[1]
        h = _masked(y, before[1], now[1])
        return (y, h, c, i, j, f, o, tanhc)

    zero = tf.zeros_like(init_h[0])
    first = (zero, init_h[0], init_c[0], zero, zero, zero, zero, zero)
    inputs = (x,) if masks is None else (x, masks)
    y, h, c, *gates = _all_steps(step, inputs, first, direction)
    return [y, last_only(h), last_only(c), *(tf.stop_gradient(gate) for gate in gates)]


_LSTM_ATTRIBUTES = (
    "cell_type, direction, activation, cell_depth=1, use_peephole=False, keep_prob=1.0, "
    "cell_clip=-1.0, num_proj=0, time_major=True, forget_bias=0.0, is_training=True"
)
_LSTM_INPUTS: Dict[str, Any] = {
    "x": HALF_OR_FLOAT,
    "w": SAME,
    "b": SAME,
    "init_h": SAME,
    "init_c": SAME,
}

dynamic_rnn = operator(
    "DynamicRnn",
    f"(x, w, b, seq_length, init_h, init_c, {_LSTM_ATTRIBUTES})",
    only=_ONLY,
    **_LSTM_INPUTS,
)(_compute_lstm)

dynamic_rnn_v2 = operator(
    "DynamicRnnV2", f"(x, w, b, init_h, init_c, {_LSTM_ATTRIBUTES})", only=_ONLY, **_LSTM_INPUTS
)(_compute_lstm)
