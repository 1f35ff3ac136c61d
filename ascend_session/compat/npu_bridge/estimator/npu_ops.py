"""``npu_bridge.estimator.npu_ops``: the system's operators, dropout, LSTM, and optimizers' steps.

Names and signatures are those of the newest release, and of the old ones where those had more.
Source: npu_ops.py.
"""

from typing import Any

from tensorflow.python.framework import random_seed

from ascend_session.compat.kernels import choosing, dropping, recurrent, updating
from ascend_session.compat.kernels._tensors import refuse_eager
from ascend_session.compat.npu_bridge.estimator.npu.npu_common import NPUBasics
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.refusing import refused

__all__ = [
    "DEFAULT_GRAPH_SEED",
    "LARS",
    "LARSV2",
    "NPUBasics",
    "NPUInit",
    "NPUShutdown",
    "adam_apply_one_assign",
    "adam_apply_one_with_decay_assign",
    "basic_lstm_cell",
    "basic_lstm_cell_grad",
    "channel_get_next",
    "dropout",
    "dynamic_augru_grad",
    "dynamic_gru_v2_grad",
    "dynamic_rnn_grad",
    "dynamic_rnn_v2_grad",
    "gen_npu_ops",
    "get_seed",
    "initialize_system",
    "k_means_centroids",
    "npu_onnx_graph_op",
    "npu_test",
    "outfeed_dequeue_op",
    "outfeed_enqueue_op",
    "scatter_elements",
    "shutdown_system",
    "stop_outfeed_dequeue_op",
]

gen_npu_ops = helper.get_gen_ops()

DEFAULT_GRAPH_SEED = 87654321

_GRADIENT = "TensorFlow makes the gradient of the operator's formula here"
_CHANNEL = "it is a channel between a device and its host"


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
    return updating.lars(inputs_w, inputs_g, weight_decay, hyperpara, epsilon, name)


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
    """Scales a gradient by the norm of its weight (`kernels.updating.lars_v2`)."""
    refuse_eager("tf.LARSV2")
    return updating.lars_v2(
        input_weight, input_grad, weight_decay, learning_rate, hyperpara, epsilon, use_clip, name
    )


@refused(_CHANNEL)
def outfeed_dequeue_op(
    channel_name: Any, output_types: Any, output_shapes: Any, name: Any = None
) -> Any:
    """What the device has put into a channel."""


@refused(_CHANNEL)
def outfeed_enqueue_op(channel_name: Any, inputs: Any, name: Any = None) -> Any:
    """Puts tensors of the device into a channel."""


@refused(_CHANNEL)
def stop_outfeed_dequeue_op(channel_name: Any, name: Any = None) -> Any:
    """Ends a channel."""


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
    return dropping.dropout(x, keep_prob, noise_shape, seed, name)


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
    """One step of an LSTM (`kernels.recurrent.basic_lstm_cell`)."""
    refuse_eager("tf.basic_lstm_cell")
    return recurrent.basic_lstm_cell(
        x, h, c, w, b, keep_prob, forget_bias, state_is_tuple, activation, name
    )


@refused(_GRADIENT)
def basic_lstm_cell_grad(
    op: Any, dct: Any, dht: Any, dit: Any, djt: Any, dft: Any, dot: Any, dtanhct: Any
) -> Any:
    """The gradient of BasicLSTMCell."""


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
    """One step of Adam on variables (`kernels.updating.adam_apply_one_assign`)."""
    refuse_eager("tf.adam_apply_one_assign")
    return updating.adam_apply_one_assign(
        input0, input1, input2, input3, input4, mul0_x, mul1_x, mul2_x, mul3_x, add2_y, name
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
    """The same with weight decay (`kernels.updating.adam_apply_one_with_decay_assign`)."""
    refuse_eager("tf.adam_apply_one_with_decay_assign")
    return updating.adam_apply_one_with_decay_assign(
        input0, input1, input2, input3, input4, mul0_x, mul1_x, mul2_x, mul3_x, mul4_x, add2_y, name
    )


@refused(_GRADIENT)
def dynamic_gru_v2_grad(
    op: Any, dy: Any, doutput_h: Any, dupdate: Any, dreset: Any, dnew: Any, dhidden_new: Any
) -> Any:
    """The gradient of DynamicGruV2."""


@refused(_GRADIENT)
def dynamic_augru_grad(
    op: Any,
    dy: Any,
    doutput_h: Any,
    dupdate: Any,
    dupdate_att: Any,
    dreset: Any,
    dnew: Any,
    dhidden_new: Any,
) -> Any:
    """The gradient of DynamicAUGRU."""


@refused(_GRADIENT)
def dynamic_rnn_grad(
    op: Any, dy: Any, dh: Any, dc: Any, di: Any, dj: Any, df: Any, do: Any, dtanhc: Any
) -> Any:
    """The gradient of DynamicRnn."""


@refused(_GRADIENT)
def dynamic_rnn_v2_grad(
    op: Any, dy: Any, dh: Any, dc: Any, di: Any, dj: Any, df: Any, do: Any, dtanhc: Any
) -> Any:
    """The gradient of DynamicRnnV2."""


def scatter_elements(data: Any, indices: Any, updates: Any, axis: Any = 0, name: Any = None) -> Any:
    """``data`` with ``updates`` where ``indices`` say along ``axis``."""
    return choosing.scatter_elements(data, indices, updates, axis, name)


def k_means_centroids(
    x: Any,
    y: Any,
    sum_square_y: Any,
    sum_square_x: Any,
    use_actual_distance: Any = False,
    name: Any = None,
) -> Any:
    """One step of k-means; the samples' squared lengths, where given, are added to distances."""
    refuse_eager("tf.k_means_centroids")
    return choosing.k_means_centroids(x, y, sum_square_y, sum_square_x, name)


@refused("it is a model in ONNX that the device's compiler builds")
def npu_onnx_graph_op(inputs: Any, tout: Any, model_path: Any, name: Any = None) -> Any:
    """A model in ONNX as an operator."""


@refused(_CHANNEL)
def channel_get_next(channel_name: Any, output_types: Any, output_shapes: Any) -> Any:
    """What the host has put into a channel."""


@refused("no release of the adapter's library has such an operator")
def npu_test() -> Any:
    """An operator of the releases before 2022."""
