"""DynamicRNN: an LSTM over all steps.

Sources: ops/aicore/npu_aicore_ops.cc, ops/npu_ops.cc; CANN's public dynamic_rnn (TBE); npu_ops.py
for the gradients: those by the states count for the last step alone, those by the gates not at all.
"""

from typing import Any, Dict, List, Optional

from ascend_session.backends.training_operators import HALF_OR_FLOAT
from ascend_session.compat.operators import SAME, last_only, operator
from ascend_session.compat.tensorflow_names import tf
from ascend_session.errors import UnsupportedError

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
