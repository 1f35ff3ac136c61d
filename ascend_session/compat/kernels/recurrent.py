"""An LSTM over all steps, and one step of it.

Sources: ops/aicore/npu_aicore_ops.cc, ops/npu_ops.cc; CANN's public dynamic_rnn and
basic_lstm_cell (TBE); npu_ops.py for the gradients: those by the states count for the last step
alone, those by the gates not at all.
"""

from typing import Any, List

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.kernels._steps import (
    all_steps,
    check_common,
    masked,
    masks_of,
    take_only,
)
from ascend_session.compat.kernels._tensors import HALF_OR_FLOAT, checked, last_only

__all__ = ["basic_lstm_cell", "dynamic_rnn", "dynamic_rnn_v2"]


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
    """One step; the gates are in the order i, j, f, o.

    Returns:
        The new c and h, the gates i, j, f, o, and tanh(c); gradients flow through c and h alone.
    """
    tf = tf1()
    operator = "BasicLSTMCell"
    take_only(operator, keep_prob=(keep_prob, 1.0), activation=(activation, "tanh"))
    take_only(operator, state_is_tuple=(state_is_tuple, True))
    x = checked(operator, "x", x, HALF_OR_FLOAT)
    dtype = x.dtype.base_dtype
    h, c, w, b = (
        checked(operator, which, value, HALF_OR_FLOAT, dtype)
        for which, value in (("h", h), ("c", c), ("w", w), ("b", b))
    )
    with tf.name_scope(name or operator):
        made = _lstm_step(x, h, c, w, b, forget_bias)
        return [made[1], made[0], *(tf.stop_gradient(gate) for gate in made[2:])]


def _lstm_step(x: Any, h: Any, c: Any, w: Any, b: Any, forget_bias: float) -> List[Any]:
    """h, c, the gates i, j, f, o and tanh(c)."""
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
    """An LSTM over all steps; behind ``seq_length`` y is 0, and the states stay.

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
    take_only(operator, cell_type=(cell_type, "LSTM"), use_peephole=(use_peephole, False))
    check_common(
        operator, direction, cell_depth, keep_prob, cell_clip, num_proj, time_major, activation
    )
    x = checked(operator, "x", x, HALF_OR_FLOAT)
    dtype = x.dtype.base_dtype
    w, b, init_h, init_c = (
        checked(operator, which, value, HALF_OR_FLOAT, dtype)
        for which, value in (("w", w), ("b", b), ("init_h", init_h), ("init_c", init_c))
    )
    with tf1().name_scope(name or operator):
        return _lstm(x, w, b, seq_length, init_h[0], init_c[0], forget_bias, direction)


def _lstm(
    x: Any,
    w: Any,
    b: Any,
    seq_length: Any,
    first_h: Any,
    first_c: Any,
    forget_bias: float,
    direction: str,
) -> List[Any]:
    tf = tf1()
    masks = masks_of(x, seq_length)

    def step(before: Any, now: Any) -> Any:
        made = _lstm_step(now[0], before[1], before[2], w, b, forget_bias)
        if masks is None:
            return (made[0], *made)
        # The state c is masked first: tanh(c) and y are of the masked one.
        c = masked(made[1], before[2], now[1])
        tanhc = tf.tanh(c)
        y = tanhc * made[5] * now[1]
        h = masked(y, before[1], now[1])
        return (y, h, c, *made[2:6], tanhc)

    zero = tf.zeros_like(first_h)
    first = (zero, first_h, first_c, zero, zero, zero, zero, zero)
    made = all_steps(step, x, masks, first, direction)
    states = [last_only(state) for state in made[1:3]]
    return [made[0], *states, *(tf.stop_gradient(gate) for gate in made[3:])]


def dynamic_rnn_v2(
    x: Any,
    w: Any,
    b: Any,
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
    """As `dynamic_rnn`, always over all steps."""
    return dynamic_rnn(
        x,
        w,
        b,
        None,
        init_h,
        init_c,
        cell_type,
        direction,
        activation,
        cell_depth,
        use_peephole,
        keep_prob,
        cell_clip,
        num_proj,
        time_major,
        forget_bias,
        is_training,
        name,
    )
