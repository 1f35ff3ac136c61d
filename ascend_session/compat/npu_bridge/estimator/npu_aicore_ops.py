"""``npu_bridge.estimator.npu_aicore_ops``: operators of the device's cores.

What has a formula that is public computes it; the rest is refused when it is called. Source:
npu_aicore_ops.py.
"""

from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import random_seed

from ascend_session.compat.kernels import activations, choosing, dropping
from ascend_session.compat.npu_bridge.estimator.npu.npu_common import NPUBasics
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.refusing import refused

__all__ = [
    "DEFAULT_GRAPH_SEED",
    "NPUBasics",
    "centralization",
    "dropout_v3",
    "dropout_v4",
    "fast_gelu_v2",
    "get_seed",
    "layer_norm",
    "lru_cache_v2",
    "nonzero",
    "nonzerowithvalue",
    "npu_aicore_ops",
    "prelu",
    "prelu_grad",
    "prod_env_mat_a",
    "prodforcesea",
    "prodvirialsea",
    "tabulatefusion",
    "tabulatefusiongrad",
    "tabulatefusionsea",
    "tabulatefusionseagrad",
]

npu_aicore_ops = helper.get_gen_ops()

DEFAULT_GRAPH_SEED = 87654321


def fast_gelu_v2(x: Any, name: Any = None) -> Any:
    """An approximation of gelu without exponents (`kernels.activations.fast_gelu_v2`)."""
    return activations.fast_gelu_v2(x, name)


def centralization(x: Any, axes: Any, name: Any = None) -> Any:
    """``x - reduce_mean(x, axes)``."""
    return activations.centralization(x, axes, name)


@refused("TensorFlow makes the gradient of the operator's formula here")
def prelu_grad(op: Any, grad: Any) -> Any:
    """The gradient of PRelu."""


def prelu(x: Any, weight: Any) -> Any:
    """``x`` where it is positive, else ``weight * x``."""
    return activations.p_relu(x, weight)


def get_seed(op_seed: Any) -> Any:
    """The two seeds of a random operator; in releases before 2022."""
    return random_seed.get_seed(op_seed)


def dropout_v3(
    x: Any, keep_prob: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> Any:
    """As `npu_ops.dropout`; only the layout of the mask on the device differs."""
    return dropping.dropout(x, keep_prob, noise_shape, seed, name)


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
    return dropping.dropout(x, keep_prob, noise_shape, seed, name)


@refused("which entry of its cache on the device is given up is not public")
def lru_cache_v2(
    index_list: Any,
    data: Any,
    cache: Any,
    tag: Any,
    is_last_call: Any,
    pre_route_count: Any,
    name: Any = None,
) -> Any:
    """A cache of embeddings on the device."""


def nonzero(x: Any, transpose: Any = False, output_type: Any = tf.int64, name: Any = None) -> Any:
    """The indices of what is not zero; ``transpose`` gives a row for each dimension."""
    return choosing.non_zero(x, transpose, output_type, name)


def nonzerowithvalue(
    x: Any, transpose: Any = False, output_type: Any = tf.int64, name: Any = None
) -> Any:
    """What is not zero in a matrix, with ``transpose`` (`kernels.choosing.non_zero_with_value`)."""
    return choosing.non_zero_with_value(x, transpose, output_type, name)


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
    return activations.fused_layer_norm(
        x, gamma, beta, begin_norm_axis, begin_params_axis, epsilon, name
    )


@refused()
def prod_env_mat_a(
    coord: Any,
    types: Any,
    natoms: Any,
    box: Any,
    mesh: Any,
    davg: Any,
    dstd: Any,
    rcut_a: Any = 0.0,
    rcut_r: Any = 0.0,
    rcut_r_smth: Any = 0.0,
    sel_a: Any = None,
    sel_r: Any = None,
    name: Any = None,
) -> Any:
    """The environment matrix of molecular dynamics."""


@refused()
def prodvirialsea(
    net_deriv: Any,
    in_deriv: Any,
    rij: Any,
    nlist: Any,
    natoms: Any,
    n_a_sel: Any = 0,
    n_r_sel: Any = 0,
    name: Any = None,
) -> Any:
    """The virial of molecular dynamics."""


@refused()
def prodforcesea(
    net_deriv: Any,
    in_deriv: Any,
    nlist: Any,
    natoms: Any,
    n_a_sel: Any = 0,
    n_r_sel: Any = 0,
    name: Any = None,
) -> Any:
    """The forces of molecular dynamics."""


@refused()
def tabulatefusionsea(
    table: Any, table_info: Any, em_x: Any, em: Any, last_layer_size: Any = 128, name: Any = None
) -> Any:
    """An embedding of molecular dynamics, from a table."""


@refused()
def tabulatefusionseagrad(
    table: Any,
    table_info: Any,
    em_x: Any,
    em: Any,
    dy_dem_x: Any,
    dy_dem: Any,
    name: Any = None,
) -> Any:
    """Its gradient."""


@refused()
def tabulatefusion(
    table: Any, table_info: Any, em_x: Any, em: Any, last_layer_size: Any = 128, name: Any = None
) -> Any:
    """An embedding of molecular dynamics, from a table."""


@refused()
def tabulatefusiongrad(
    table: Any,
    table_info: Any,
    em_x: Any,
    em: Any,
    dy_dem_x: Any,
    dy_dem: Any,
    name: Any = None,
) -> Any:
    """Its gradient."""
