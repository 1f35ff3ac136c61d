"""``npu_bridge.estimator.npu_aicore_ops``: operators of the device's cores.

What has a formula that is public computes it; the rest is refused when it is called. Source:
npu_aicore_ops.py.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from ascend_session.compat import formulas
from ascend_session.compat.npu_bridge.estimator.npu.npu_common import NPUBasics
from ascend_session.compat.npu_bridge.estimator.npu_ops import DEFAULT_GRAPH_SEED, get_seed
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.unavailable import define_unavailable

__all__ = [
    "DEFAULT_GRAPH_SEED",
    "NPUBasics",
    "centralization",
    "dropout_v3",
    "dropout_v4",
    "fast_gelu_v2",
    "get_seed",
    "layer_norm",
    "nonzero",
    "npu_aicore_ops",
]

npu_aicore_ops = helper.get_gen_ops()


def fast_gelu_v2(x: Any, name: Any = None) -> Any:
    """An approximation of gelu without exponents (`formulas.fast_gelu_v2`)."""
    return formulas.fast_gelu_v2(x, name)


def centralization(x: Any, axes: Any, name: Any = None) -> Any:
    """``x - reduce_mean(x, axes)``."""
    return formulas.centralization(x, axes, name)


def dropout_v3(
    x: Any, keep_prob: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> Any:
    """As `npu_ops.dropout`; only the layout of the mask on the device differs."""
    return formulas.dropout(x, keep_prob, noise_shape, seed, name)


def dropout_v4(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: Any = None,
    output_dtype: Any = tf.bool,
    name: Any = None,
) -> Any:
    """As `npu_ops.dropout`; ``output_dtype`` is the mask's, always bool."""
    if tf.as_dtype(output_dtype) != tf.bool:
        raise TypeError(
            f"Value passed to parameter 'dtype' has DataType {tf.as_dtype(output_dtype).name} not "
            "in list of allowed values: bool"
        )
    return formulas.dropout(x, keep_prob, noise_shape, seed, name)


def nonzero(x: Any, transpose: Any = False, output_type: Any = tf.int64, name: Any = None) -> Any:
    """The indices of what is not zero; ``transpose`` gives a row for each dimension."""
    return formulas.non_zero(x, transpose, output_type, name)


def layer_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    begin_norm_axis: Any = 0,
    begin_params_axis: Any = 0,
    epsilon: Any = 0.0000001,
    name: Any = None,
) -> Any:
    """The normalised tensor, the mean and the variance."""
    return formulas.fused_layer_norm(
        x, gamma, beta, begin_norm_axis, begin_params_axis, epsilon, name
    )


define_unavailable(globals())
