"""``npu_bridge.estimator.npu_unary_ops``: the library, in which ``gelu`` is.

Source: npu_unary_ops.py.
"""

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.vendor_modules import mirror

npu_unary_ops = helper.get_gen_ops()

__getattr__, __all__ = mirror(globals(), "npu_unary_ops")
