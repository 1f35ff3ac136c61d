"""``npu_bridge.tbe.npu_vector_ops``: LAMB's steps and PReLU, which are refused here.

Source: npu_vector_ops.py.
"""

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.unavailable import define_unavailable

__all__ = ["gen_npu_ops"]

gen_npu_ops = helper.get_gen_ops()

define_unavailable(globals())
