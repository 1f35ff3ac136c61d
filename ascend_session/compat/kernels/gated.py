"""Recurrent layers of gated units over all steps.

Sources: ops/aicore/npu_aicore_ops.cc; CANN's public dynamic_gru_v2 (TBE) and the reference
function of DynamicAUGRU; npu_ops.py for the gradients: those by the state count for the last step
alone, those by the gates not at all.
"""

from typing import Any, List

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.kernels._steps import (
    FORWARD,
    all_steps,
    check_common,
    masked,
    masks_of,
    take_only,
)
from ascend_session.compat.kernels._tensors import HALF_OR_FLOAT, checked, last_only
from ascend_session.compat.refusing import refuse

__all__ = ["dynamic_augru", "dynamic_gru_v2"]


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
    """A GRU over all steps; behind ``seq_length`` y and the state stay.

    ``h = n + z (h - n)``, ``n = tanh(x W_n + b + r (h R_n + c))``. Arguments as of `dynamic_rnn`;
    the weights have three gates in ``gate_order``, zrh or rzh; ``init_h`` is ``[batch, hidden]``.

    Returns:
        y, h, the gates z and r, n, and ``h R_n + c``, each ``[steps, batch, hidden]``.
    """
    return _gru(
        "DynamicGruV2",
        x,
        None,
        (weight_input, weight_hidden, bias_input, bias_hidden),
        seq_length,
        init_h,
        gate_order,
        reset_after,
        (direction, cell_depth, keep_prob, cell_clip, num_proj, time_major, activation),
        name,
    )


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
    """As `dynamic_gru_v2` with ``(1 - weight_att) z`` for z; ``weight_att`` is ``[steps, batch]``.

    Returns:
        y, h, z, ``(1 - weight_att) z``, r, n, and ``h R_n + c``.
    """
    return _gru(
        "DynamicAUGRU",
        x,
        weight_att,
        (weight_input, weight_hidden, bias_input, bias_hidden),
        seq_length,
        init_h,
        gate_order,
        reset_after,
        (direction, cell_depth, keep_prob, cell_clip, num_proj, time_major, activation),
        name,
    )


def _gru(
    operator: str,
    x: Any,
    attention: Any,
    weights: Any,
    seq_length: Any,
    init_h: Any,
    gate_order: str,
    reset_after: bool,
    attributes: Any,
    name: Any,
) -> List[Any]:
    tf = tf1()
    check_common(operator, *attributes)
    take_only(operator, reset_after=(reset_after, True), direction=(attributes[0], FORWARD))
    if gate_order not in ("zrh", "rzh"):
        raise refuse(f"npu_bridge: {operator}", f"gate_order={gate_order!r} is neither zrh nor rzh")
    x = checked(operator, "x", x, HALF_OR_FLOAT)
    dtype = x.dtype.base_dtype
    wi, wh, bi, bh, init_h = (
        checked(operator, "weight", value, HALF_OR_FLOAT, dtype) for value in (*weights, init_h)
    )
    with tf.name_scope(name or operator):
        masks = masks_of(x, seq_length)
        extra = [masks] if masks is not None else []
        if attention is not None:
            attention = checked(operator, "weight_att", attention, HALF_OR_FLOAT, dtype)
            extra.append(attention[:, :, tf.newaxis])

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
                y = masked(y, h, now[1])
            shown = (z, r) if attention is None else (z, used, r)
            return (y, y, *shown, n, from_h[2])

        zero = tf.zeros_like(init_h)
        count = 6 if attention is None else 7
        first = (zero, init_h, *[zero] * (count - 2))
        made = all_steps(step, x, extra or None, first, FORWARD)
        return [made[0], last_only(made[1]), *(tf.stop_gradient(gate) for gate in made[2:])]
