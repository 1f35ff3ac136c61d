"""Recurrent layers: an LSTM and gated units over all steps, and one step of an LSTM.

Sources: ops/aicore/npu_aicore_ops.cc, ops/npu_ops.cc; CANN's public dynamic_rnn, basic_lstm_cell
and dynamic_gru_v2 (TBE) and the reference function of DynamicAUGRU; npu_ops.py for the gradients:
those by the states count for the last step alone, those by the gates not at all.
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
    "reset_after": True,
    "state_is_tuple": True,
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


def _check_direction(kind: str, direction: str, *known: str) -> None:
    if direction not in known:
        raise UnsupportedError(
            f"{kind} takes no direction={direction!r}, neither here nor on a device.",
            hint=f"Write direction={' or '.join(map(repr, known))}.",
        )


@operator("BasicLSTMCell", only=_ONLY, x=HALF_OR_FLOAT, h=SAME, c=SAME, w=SAME, b=SAME)
def basic_lstm_cell(
    x: Any,
    h: Any,
    c: Any,
    w: Any,
    b: Any,
    keep_prob: float = 1.0,
    forget_bias: float = 1.0,
    state_is_tuple: bool = True,
    activation: str = "tanh",
) -> List[Any]:
    """Compute one step; the gates are in the order i, j, f, o.

    Returns:
        The new c and h, the gates i, j, f, o, and tanh(c); gradients flow through c and h alone.
    """
    new_h, new_c, *gates = _lstm_step(x, h, c, w, b, forget_bias)
    return [new_c, new_h, *(tf.stop_gradient(gate) for gate in gates)]


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
    _check_direction(kind, direction, FORWARD, BACKWARD)
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


def _compute_gru(
    x: Any,
    weight_input: Any,
    weight_hidden: Any,
    bias_input: Any,
    bias_hidden: Any,
    seq_length: Any,
    init_h: Any,
    direction: str,
    gate_order: str,
    weight_att: Any = None,
    **checked: Any,
) -> List[Any]:
    """Compute a GRU over all steps; behind ``seq_length`` y and the state stay.

    ``h = n + z (h - n)``, ``n = tanh(x W_n + b + r (h R_n + c))``. Arguments as of the LSTM; the
    weights have three gates in ``gate_order``, zrh or rzh; ``init_h`` is ``[batch, hidden]``. With
    ``weight_att [steps, batch]`` there is ``(1 - weight_att) z`` for z.

    Returns:
        y, h, the gates z and r, n, and ``h R_n + c``, each ``[steps, batch, hidden]``; with
        ``weight_att`` there is ``(1 - weight_att) z`` behind z.

    Raises:
        UnsupportedError: For values that no device's operator takes.
    """
    kind = "DynamicGruV2" if weight_att is None else "DynamicAUGRU"
    _check_direction(kind, direction, FORWARD)
    if gate_order not in ("zrh", "rzh"):
        raise UnsupportedError(
            f"{kind} takes no gate_order={gate_order!r}, neither here nor on a device.",
            hint="Write gate_order='zrh' or 'rzh'.",
        )
    masks = _masks_of(x, seq_length)
    inputs = [x] if masks is None else [x, masks]
    if weight_att is not None:
        inputs.append(weight_att[:, :, tf.newaxis])

    def step(before: Any, now: Any) -> Any:
        h = before[1]
        from_x = tf.split(tf.matmul(now[0], weight_input) + bias_input, 3, axis=1)
        from_h = tf.split(tf.matmul(h, weight_hidden) + bias_hidden, 3, axis=1)
        gates = [tf.sigmoid(a + b) for a, b in zip(from_x[:2], from_h[:2])]
        z, r = gates if gate_order == "zrh" else gates[::-1]
        n = tf.tanh(from_x[2] + r * from_h[2])
        used = z if weight_att is None else (1 - now[-1]) * z
        y = n + used * (h - n)
        if masks is not None:
            y = _masked(y, h, now[1])
        gates = [z, r] if weight_att is None else [z, used, r]
        return (y, y, *gates, n, from_h[2])

    zero = tf.zeros_like(init_h)
    count = 6 if weight_att is None else 7
    first = (zero, init_h, *[zero] * (count - 2))
    y, h, *gates = _all_steps(step, tuple(inputs), first, FORWARD)
    return [y, last_only(h), *(tf.stop_gradient(gate) for gate in gates)]


_GRU_ATTRIBUTES = (
    "seq_length, init_h, direction, activation, gate_order, cell_depth=1, keep_prob=1.0, "
    "cell_clip=-1.0, num_proj=0, time_major=True, reset_after=True, is_training=True"
)
_GRU_INPUTS: Dict[str, Any] = {
    "x": HALF_OR_FLOAT,
    "weight_input": SAME,
    "weight_hidden": SAME,
    "bias_input": SAME,
    "bias_hidden": SAME,
    "init_h": SAME,
}

dynamic_gru_v2 = operator(
    "DynamicGruV2",
    f"(x, weight_input, weight_hidden, bias_input, bias_hidden, {_GRU_ATTRIBUTES})",
    only=_ONLY,
    **_GRU_INPUTS,
)(_compute_gru)

dynamic_augru = operator(
    "DynamicAUGRU",
    f"(x, weight_input, weight_hidden, weight_att, bias_input, bias_hidden, {_GRU_ATTRIBUTES})",
    only=_ONLY,
    **_GRU_INPUTS,
    weight_att=SAME,
)(_compute_gru)
