"""``npu_bridge.image.image_ops``: the device's units for JPEG, which are not here.

Source: image_ops.py.
"""

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.unavailable import define_unavailable

__all__ = ["gen_npu_image_ops"]

gen_npu_image_ops = helper.get_gen_ops()


define_unavailable(globals())
