"""``npu_bridge.image.image_ops``: the device's units for JPEG, which are not here.

Source: image_ops.py.
"""

from ascend_session.compat.vendor_modules import mirror

__getattr__, __all__ = mirror(globals(), "gen_npu_image_ops")
