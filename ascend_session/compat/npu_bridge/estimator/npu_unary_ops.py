"""``npu_bridge.estimator.npu_unary_ops``: the library, in which ``gelu`` is.

Source: npu_unary_ops.py.
"""

from ascend_session.compat.npu_bridge.helper import helper

__all__ = ["npu_unary_ops"]

npu_unary_ops = helper.get_gen_ops()
