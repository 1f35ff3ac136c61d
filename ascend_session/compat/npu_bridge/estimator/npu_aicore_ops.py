"""``npu_bridge.estimator.npu_aicore_ops``: operators of the device's cores.

What has a formula that is public computes it; the rest is refused when it is called. Source:
npu_aicore_ops.py.
"""

from typing import Any

from ascend_session.compat import formulas
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.vendor_modules import mirror

centralization = formulas.centralization
dropout_v3 = formulas.dropout  # only the layout of the mask on the device differs
layer_norm = formulas.fused_layer_norm
nonzero = formulas.non_zero


def fast_gelu_v2(x: Any, name: Any = None) -> Any:
    """An approximation of gelu without exponents (`formulas.fast_gelu_v2`)."""
    return formulas.fast_gelu_v2(x, name)


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


__getattr__, __all__ = mirror(
    globals(),
    "DEFAULT_GRAPH_SEED NPUBasics centralization dropout_v3 get_seed layer_norm nonzero "
    "npu_aicore_ops",
)
