"""Steps of optimizers: LARS scales gradients; Adam and LAMB change variables in place.

Sources: ops/npu_ops.cc; CANN's public lars_v2_update (TBE), its specification of
AdamApplyOneAssign, and the reference functions of AdamApplyOneWithDecayAssign,
LambApplyOptimizerAssign and LambApplyWeightAssign.
"""

from typing import Any, List, Sequence, Tuple

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.kernels._tensors import (
    HALF_OR_FLOAT,
    checked,
    is_variable,
    without_gradient,
)
from ascend_session.compat.refusing import refuse

__all__ = [
    "adam_apply_one_assign",
    "adam_apply_one_with_decay_assign",
    "lamb_apply_optimizer_assign",
    "lamb_apply_weight_assign",
    "lars",
    "lars_v2",
]


def lars(
    inputs_w: Sequence[Any],
    inputs_g: Sequence[Any],
    weight_decay: Any,
    hyperpara: float = 0.001,
    epsilon: float = 0.00001,
    name: Any = None,
) -> List[Any]:
    """As `lars_v2` without clipping, for each pair of a weight and its gradient.

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
    """``c (grad + weight_decay weight)``; no gradient.

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


def adam_apply_one_assign(
    input0: Any,
    input1: Any,
    input2: Any,
    input3: Any,
    input4: Any,
    mul0_x: Any,
    mul1_x: Any,
    mul2_x: Any,
    mul3_x: Any,
    add2_y: Any,
    name: Any = None,
) -> Any:
    """One step of Adam, without correction of its bias; the operation that makes it.

    Args:
        input0: The gradient.
        input1: The variable of the second moment v, becomes ``mul2_x v + mul3_x grad^2``.
        input2: The variable of the first moment m, becomes ``mul0_x m + mul1_x grad``.
        input3: The variable p, becomes ``p - input4 m / (sqrt(v) + add2_y)``.
        input4: The learning rate.
        mul0_x: Of m.
        mul1_x: Of the gradient in m.
        mul2_x: Of v.
        mul3_x: Of the gradient's square in v.
        add2_y: Epsilon.
        name: Of the operator.
    """
    moments = (mul0_x, mul1_x, mul2_x, mul3_x)
    return _adam(
        "AdamApplyOneAssign", (input0, input1, input2, input3, input4), moments, 0.0, add2_y, name
    )


def adam_apply_one_with_decay_assign(
    input0: Any,
    input1: Any,
    input2: Any,
    input3: Any,
    input4: Any,
    mul0_x: Any,
    mul1_x: Any,
    mul2_x: Any,
    mul3_x: Any,
    mul4_x: Any,
    add2_y: Any,
    name: Any = None,
) -> Any:
    """As `adam_apply_one_assign`; ``mul4_x p`` is added to the update before the learning rate."""
    moments = (mul0_x, mul1_x, mul2_x, mul3_x)
    return _adam(
        "AdamApplyOneWithDecayAssign",
        (input0, input1, input2, input3, input4),
        moments,
        mul4_x,
        add2_y,
        name,
    )


def _adam(
    operator: str,
    given: Tuple[Any, ...],
    factors: Tuple[Any, ...],
    decay: Any,
    epsilon: Any,
    name: Any,
) -> Any:
    tf = tf1()
    for variable, which in zip(given[1:4], ("input1", "input2", "input3")):
        _check_variable(operator, which, variable)
    gradient = checked(operator, "input0", given[0], HALF_OR_FLOAT)
    dtype = gradient.dtype.base_dtype
    others = [
        checked(operator, "input", value, HALF_OR_FLOAT, dtype)
        for value in (*given[1:], *factors, decay, epsilon)
    ]
    second, first, parameter, rate, b1, c1, b2, c2, decayed, eps = others
    with tf.name_scope(name or operator) as scope:
        next_second = second * b2 + tf.square(gradient) * c2
        next_first = first * b1 + gradient * c1
        update = next_first / (tf.sqrt(next_second) + eps) + parameter * decayed
        values = [next_second, next_first, parameter - update * rate]
        return _assigned(given[1:4], values, scope)


def _assigned(variables: Sequence[Any], values: Sequence[Any], name: str) -> Any:
    """The operation that assigns, after all values are known."""
    tf = tf1()
    with tf.control_dependencies(list(values)):
        return tf.group(*[tf.assign(v, value) for v, value in zip(variables, values)], name=name)


def lamb_apply_optimizer_assign(
    input0: Any,
    input1: Any,
    input2: Any,
    input3: Any,
    mul0_x: Any,
    mul1_x: Any,
    mul2_x: Any,
    mul3_x: Any,
    add2_y: Any,
    steps: Any,
    do_use_weight: Any,
    weight_decay_rate: Any,
    name: Any = None,
) -> Tuple[Any, Any, Any]:
    """LAMB's update, and the moments, which are assigned when one of the three is computed.

    Args:
        input0: The gradient.
        input1: The second moment v, becomes ``mul2_x v + mul3_x grad^2``.
        input2: The first moment m, becomes ``mul0_x m + mul1_x grad``.
        input3: The parameter p.
        mul0_x: Of m.
        mul1_x: Of the gradient in m.
        mul2_x: Of v.
        mul3_x: Of the gradient's square in v.
        add2_y: Epsilon.
        steps: The number of this step t.
        do_use_weight: 1 or 0: with weight decay or without.
        weight_decay_rate: Its rate.
        name: Of the operator.

    Returns:
        ``(m / (1 - mul0_x^t)) / (sqrt(v / (1 - mul2_x^t)) + add2_y) + p rate do_use_weight``, v, m.
    """
    tf = tf1()
    operator = "LambApplyOptimizerAssign"
    gradient = checked(operator, "input0", input0, HALF_OR_FLOAT)
    given = (input1, input2, input3, mul0_x, mul1_x, mul2_x, mul3_x, add2_y, steps)
    dtype = gradient.dtype.base_dtype
    second, first, parameter, b1, c1, b2, c2, eps, step, use, decay = (
        checked(operator, "input", value, HALF_OR_FLOAT, dtype)
        for value in (*given, do_use_weight, weight_decay_rate)
    )
    with tf.name_scope(name or operator):
        next_second = second * b2 + tf.square(gradient) * c2
        next_first = first * b1 + gradient * c1
        root = tf.sqrt(next_second / (1 - tf.pow(b2, step))) + eps
        update = next_first / (1 - tf.pow(b1, step)) / root + parameter * decay * use
        return _after_assigning(input1, input2, update, next_second, next_first)


def _after_assigning(
    second: Any, first: Any, update: Any, next_second: Any, next_first: Any
) -> Tuple[Any, Any, Any]:
    """The update and the moments, after those that are variables are assigned."""
    tf = tf1()
    moments = [(second, next_second), (first, next_first)]
    held = [(variable, value) for variable, value in moments if is_variable(variable)]
    done = _assigned([one for one, _ in held], [value for _, value in held], "assigned")
    with tf.control_dependencies([update, done]):
        made = [tf.identity(value) for value in (update, next_second, next_first)]
    return (made[0], made[1], made[2])


def lamb_apply_weight_assign(
    input0: Any, input1: Any, input2: Any, input3: Any, input4: Any, name: Any = None
) -> Any:
    """The parameter after LAMB's step; the variable is assigned when it is computed.

    Args:
        input0: The norm of the weight.
        input1: The norm of the update.
        input2: The learning rate.
        input3: The update.
        input4: The variable p, becomes ``p - rate ratio update``; the ratio is that of the norms
            if both are positive, else 1.
        name: Of the operator.
    """
    tf = tf1()
    operator = "LambApplyWeightAssign"
    update = checked(operator, "input3", input3, HALF_OR_FLOAT)
    dtype = update.dtype.base_dtype
    weight_norm, update_norm, rate, parameter = (
        checked(operator, "input", value, HALF_OR_FLOAT, dtype)
        for value in (input0, input1, input2, input4)
    )
    with tf.name_scope(name or operator):
        one = tf.ones_like(weight_norm)
        divisor = tf.where(update_norm > 0, update_norm, one)
        ratio = tf.where((weight_norm > 0) & (update_norm > 0), weight_norm / divisor, one)
        value = parameter - rate * ratio * update
        if not is_variable(input4):
            return value
        with tf.control_dependencies([value]):
            assigned = tf.assign(input4, value)
        with tf.control_dependencies([assigned]):
            return tf.identity(value)


def _check_variable(operator: str, which: str, value: Any) -> None:
    """Raises UnsupportedError for what is no variable: nothing would remember the step."""
    if not is_variable(value):
        raise refuse(
            f"npu_bridge: {operator}",
            f"its {which} is changed in place, and {value!r} is no variable",
            hint="Give the variable itself, not a tensor made of it.",
        )
