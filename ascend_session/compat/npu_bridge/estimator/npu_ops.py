"""``npu_bridge.estimator.npu_ops``: the system's operators, dropout, LSTM, and optimizers' steps.

Names and signatures are those of the newest release, and of the old ones where those had more.
Source: npu_ops.py.
"""

from typing import Any

from tensorflow.python.framework import random_seed

from ascend_session.compat import formulas, recurrent
from ascend_session.compat.formulas import refuse_eager
from ascend_session.compat.npu_bridge.estimator.npu.npu_common import NPUBasics
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.unavailable import define_unavailable

__all__ = [
    "DEFAULT_GRAPH_SEED",
    "LARS",
    "LARSV2",
    "NPUBasics",
    "NPUInit",
    "NPUShutdown",
    "basic_lstm_cell",
    "dropout",
    "gen_npu_ops",
    "get_seed",
    "initialize_system",
    "shutdown_system",
]

gen_npu_ops = helper.get_gen_ops()

DEFAULT_GRAPH_SEED = 87654321


def NPUInit(name: Any = None) -> Any:  # noqa: N802
    """The operation that initialises the system; RuntimeError under eager execution."""
    refuse_eager("tf.NPUInit")
    return gen_npu_ops.npu_init(name=name)


def NPUShutdown(name: Any = None) -> Any:  # noqa: N802
    """The operation that ends it: sessions that are open then cannot run any more."""
    refuse_eager("tf.NPUShutdown")
    return gen_npu_ops.npu_shutdown(name=name)


def initialize_system(name: Any = None) -> Any:
    """As `NPUInit`: ranks and groups are known when it has run."""
    return NPUInit(name)


def shutdown_system(name: Any = None) -> Any:
    """As `NPUShutdown`."""
    return NPUShutdown(name)


def LARS(  # noqa: N802
    inputs_w: Any,
    inputs_g: Any,
    weight_decay: Any,
    hyperpara: Any = 0.001,
    epsilon: Any = 0.00001,
    name: Any = None,
) -> Any:
    """Scales gradients by the norms of their weights; lists of both."""
    refuse_eager("tf.LARS")
    return formulas.lars(inputs_w, inputs_g, weight_decay, hyperpara, epsilon, name)


def LARSV2(  # noqa: N802
    input_weight: Any,
    input_grad: Any,
    weight_decay: Any,
    learning_rate: Any,
    hyperpara: Any = 0.001,
    epsilon: Any = 0.00001,
    use_clip: Any = False,
    name: Any = None,
) -> Any:
    """Scales a gradient by the norm of its weight (`formulas.lars_v2`)."""
    refuse_eager("tf.LARSV2")
    return formulas.lars_v2(
        input_weight, input_grad, weight_decay, learning_rate, hyperpara, epsilon, use_clip, name
    )


def get_seed(op_seed: Any) -> Any:
    """The two seeds of a random operator; in releases before 2022."""
    return random_seed.get_seed(op_seed)


def dropout(
    x: Any, keep_prob: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> Any:
    """``x / keep_prob`` with that probability, else 0.

    Args:
        x: float16 or float32.
        keep_prob: A number in (0, 1], or a scalar tensor.
        noise_shape: The shape in which positions are drawn.
        seed: With one, the positions are the same in each run; others than on a device.
        name: Of the operator.

    Raises:
        RuntimeError: Under eager execution.
        ValueError: If x is no floating point tensor, or ``keep_prob`` no probability.
    """
    refuse_eager("npu_ops.dropout")
    return formulas.dropout(x, keep_prob, noise_shape, seed, name)


def basic_lstm_cell(
    x: Any,
    h: Any,
    c: Any,
    w: Any,
    b: Any,
    keep_prob: Any,
    forget_bias: Any,
    state_is_tuple: Any,
    activation: Any,
    name: Any = None,
) -> Any:
    """One step of an LSTM (`recurrent.basic_lstm_cell`)."""
    refuse_eager("tf.basic_lstm_cell")
    return recurrent.basic_lstm_cell(
        x, h, c, w, b, keep_prob, forget_bias, state_is_tuple, activation, name
    )


define_unavailable(globals())
