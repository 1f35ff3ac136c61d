"""``npu_bridge.tbe.npu_vector_ops``: LAMB's steps and PReLU, which are refused here.

Source: npu_vector_ops.py.
"""

from ascend_session.compat.vendor_modules import mirror

__getattr__, __all__ = mirror(globals(), "gen_npu_ops")
