"""Recurrent layers: an LSTM and gated units over all steps, and one step of an LSTM.

Sources: ops/aicore/npu_aicore_ops.cc, ops/npu_ops.cc; CANN's public dynamic_rnn, basic_lstm_cell
and dynamic_gru_v2 (TBE) and the reference function of DynamicAUGRU; npu_ops.py for the gradients:
those by the states count for the last step alone, those by the gates not at all.
"""

from typing import Any, List, Optional

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.formulas import HALF_OR_FLOAT, checked, last_only
from ascend_session.compat.unavailable import refuse

FORWARD, BACKWARD = "UNIDIRECTIONAL", "REDIRECTIONAL"


def _all_steps(step: Any, inputs: Any, first: Any, direction: str) -> List[Any]:
    """Apply ``step`` to each step of the inputs and stack the results; BACKWARD begins at the end.

    Args:
        step: Takes the results of the step before and the inputs of this one.
        inputs: x and what goes with it, step by step.
        first: The results before the first step.
        direction: FORWARD or BACKWARD.
    """
    results = tf1().scan(step, inputs, initializer=first, reverse=direction == BACKWARD)
    for result in results:
        result.set_shape([inputs[0].shape.as_list()[0], *first[0].shape.as_list()])
    return list(results)


def _masks_of(x: Any, seq_length: Any) -> Optional[Any]:
    """Give 1 for each step of its sequence, else 0, ``[steps, batch, 1]``; None for all steps."""
    tf = tf1()
    if seq_length is None:
        return None
    lengths = tf.cast(tf.convert_to_tensor(seq_length), tf.int32)
    mask = tf.range(tf.shape(x)[0])[:, tf.newaxis] < lengths[tf.newaxis, :]
    return tf.cast(mask, x.dtype)[:, :, tf.newaxis]


def _masked(new: Any, old: Any, mask: Any) -> Any:
    return (new - old) * mask + old


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


def _check_attributes(operator: str, **given: Any) -> None:
    """Refuse values of attributes that the device's operators do not take."""
    for name, value in given.items():
        only = _ONLY[name]
        if value != only:
            raise refuse(
                f"npu_bridge: {operator}",
                f"it takes no {name}={value!r}, and neither does the device's, only {only!r}",
                hint=f"Leave {name} at {only!r}.",
            )


def _check_direction(operator: str, direction: str, *known: str) -> None:
    if direction not in known:
        raise refuse(
            f"npu_bridge: {operator}",
            f"direction={direction!r} is not {' or '.join(known)}, which are all that the "
            "device's operator takes",
            hint=f"Write direction={known[0]!r}.",
        )


def _check_types(operator: str, x: Any, **others: Any) -> List[Any]:
    """Give the inputs as tensors of float16 or float32, all of the type of ``x``."""
    x = checked(operator, "x", x, HALF_OR_FLOAT)
    dtype = x.dtype.base_dtype
    tensors = [
        checked(operator, name, value, HALF_OR_FLOAT, dtype) for name, value in others.items()
    ]
    return [x, *tensors]


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
    name: Any = None,
) -> List[Any]:
    """Compute one step; the gates are in the order i, j, f, o.

    Returns:
        The new c and h, the gates i, j, f, o, and tanh(c); gradients flow through c and h alone.
    """
    tf = tf1()
    operator = "BasicLSTMCell"
    _check_attributes(
        operator, keep_prob=keep_prob, activation=activation, state_is_tuple=state_is_tuple
    )
    x, h, c, w, b = _check_types(operator, x, h=h, c=c, w=w, b=b)
    with tf.name_scope(name or operator):
        new_h, new_c, *gates = _lstm_step(x, h, c, w, b, forget_bias)
        return [new_c, new_h, *(tf.stop_gradient(gate) for gate in gates)]


def _lstm_step(x: Any, h: Any, c: Any, w: Any, b: Any, forget_bias: float) -> List[Any]:
    """Give h, c, the gates i, j, f, o and tanh(c)."""
    tf = tf1()
    sums = tf.matmul(tf.concat([x, h], axis=1), w) + b
    i, j, f, o = tf.split(sums, 4, axis=1)
    i, j, f, o = tf.sigmoid(i), tf.tanh(j), tf.sigmoid(f + forget_bias), tf.sigmoid(o)
    c = c * f + j * i
    tanhc = tf.tanh(c)
    return [tanhc * o, c, i, j, f, o, tanhc]


def dynamic_rnn(
    x: Any,
    w: Any,
    b: Any,
    seq_length: Any,
    init_h: Any,
    init_c: Any,
    cell_type: str,
    direction: str,
    activation: str,
    cell_depth: int = 1,
    use_peephole: bool = False,
    keep_prob: float = 1.0,
    cell_clip: float = -1.0,
    num_proj: int = 0,
    time_major: bool = True,
    forget_bias: float = 0.0,
    is_training: bool = True,
    name: Any = None,
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
    operator = "DynamicRnn" if seq_length is not None else "DynamicRnnV2"
    _check_attributes(
        operator,
        cell_type=cell_type,
        use_peephole=use_peephole,
        cell_depth=cell_depth,
        keep_prob=keep_prob,
        cell_clip=cell_clip,
        num_proj=num_proj,
        time_major=time_major,
        activation=activation,
    )
    _check_direction(operator, direction, FORWARD, BACKWARD)
    x, w, b, init_h, init_c = _check_types(operator, x, w=w, b=b, init_h=init_h, init_c=init_c)
    tf = tf1()
    with tf.name_scope(name or operator):
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


def dynamic_rnn_v2(
    x: Any, w: Any, b: Any, init_h: Any, init_c: Any, *attributes: Any, **named: Any
) -> List[Any]:
    """Do as `dynamic_rnn`, always over all steps."""
    return dynamic_rnn(x, w, b, None, init_h, init_c, *attributes, **named)


def dynamic_gru_v2(
    x: Any,
    weight_input: Any,
    weight_hidden: Any,
    bias_input: Any,
    bias_hidden: Any,
    seq_length: Any,
    init_h: Any,
    direction: str,
    activation: str,
    gate_order: str,
    cell_depth: int = 1,
    keep_prob: float = 1.0,
    cell_clip: float = -1.0,
    num_proj: int = 0,
    time_major: bool = True,
    reset_after: bool = True,
    is_training: bool = True,
    name: Any = None,
) -> List[Any]:
    """Compute a GRU over all steps; behind ``seq_length`` y and the state stay.

    ``h = n + z (h - n)``, ``n = tanh(x W_n + b + r (h R_n + c))``. Arguments as of `dynamic_rnn`;
    the weights have three gates in ``gate_order``, zrh or rzh; ``init_h`` is ``[batch, hidden]``.

    Returns:
        y, h, the gates z and r, n, and ``h R_n + c``, each ``[steps, batch, hidden]``.
    """
    operator = "DynamicGruV2"
    _check_attributes(
        operator,
        cell_depth=cell_depth,
        keep_prob=keep_prob,
        cell_clip=cell_clip,
        num_proj=num_proj,
        time_major=time_major,
        activation=activation,
        reset_after=reset_after,
    )
    _check_direction(operator, direction, FORWARD)
    weights = (weight_input, weight_hidden, bias_input, bias_hidden)
    return _gru(operator, x, None, weights, seq_length, init_h, gate_order, name)


def dynamic_augru(
    x: Any,
    weight_input: Any,
    weight_hidden: Any,
    weight_att: Any,
    bias_input: Any,
    bias_hidden: Any,
    seq_length: Any,
    init_h: Any,
    direction: str,
    activation: str,
    gate_order: str,
    cell_depth: int = 1,
    keep_prob: float = 1.0,
    cell_clip: float = -1.0,
    num_proj: int = 0,
    time_major: bool = True,
    reset_after: bool = True,
    is_training: bool = True,
    name: Any = None,
) -> List[Any]:
    """Do as `dynamic_gru_v2` with ``(1 - weight_att) z`` for z.

    ``weight_att`` is ``[steps, batch]``.

    Returns:
        y, h, z, ``(1 - weight_att) z``, r, n, and ``h R_n + c``.
    """
    operator = "DynamicAUGRU"
    _check_attributes(
        operator,
        cell_depth=cell_depth,
        keep_prob=keep_prob,
        cell_clip=cell_clip,
        num_proj=num_proj,
        time_major=time_major,
        activation=activation,
        reset_after=reset_after,
    )
    _check_direction(operator, direction, FORWARD)
    weights = (weight_input, weight_hidden, bias_input, bias_hidden)
    return _gru(operator, x, weight_att, weights, seq_length, init_h, gate_order, name)


def _gru(
    operator: str,
    x: Any,
    attention: Any,
    weights: Any,
    seq_length: Any,
    init_h: Any,
    gate_order: str,
    name: Any,
) -> List[Any]:
    tf = tf1()
    if gate_order not in ("zrh", "rzh"):
        raise refuse(f"npu_bridge: {operator}", f"gate_order={gate_order!r} is neither zrh nor rzh")
    names = ("weight_input", "weight_hidden", "bias_input", "bias_hidden")
    x, wi, wh, bi, bh, init_h = _check_types(
        operator, x, **dict(zip(names, weights)), init_h=init_h
    )
    dtype = x.dtype.base_dtype
    with tf.name_scope(name or operator):
        masks = _masks_of(x, seq_length)
        inputs = [x] if masks is None else [x, masks]
        if attention is not None:
            attention = checked(operator, "weight_att", attention, HALF_OR_FLOAT, dtype)
            inputs.append(attention[:, :, tf.newaxis])

        def step(before: Any, now: Any) -> Any:
            h = before[1]
            from_x = tf.split(tf.matmul(now[0], wi) + bi, 3, axis=1)
            from_h = tf.split(tf.matmul(h, wh) + bh, 3, axis=1)
            gates = [tf.sigmoid(a + b) for a, b in zip(from_x[:2], from_h[:2])]
            z, r = gates if gate_order == "zrh" else gates[::-1]
            n = tf.tanh(from_x[2] + r * from_h[2])
            used = z if attention is None else (1 - now[-1]) * z
            y = n + used * (h - n)
            if masks is not None:
                y = _masked(y, h, now[1])
            gates = [z, r] if attention is None else [z, used, r]
            return (y, y, *gates, n, from_h[2])

        zero = tf.zeros_like(init_h)
        count = 6 if attention is None else 7
        first = (zero, init_h, *[zero] * (count - 2))
        y, h, *gates = _all_steps(step, tuple(inputs), first, FORWARD)
        return [y, last_only(h), *(tf.stop_gradient(gate) for gate in gates)]
