"""Operators on trial; the vendor's own file cannot be imported for a misspelt module name."""

from ascend_session.compat.npu_bridge.experimental.get_shape import getshape
from ascend_session.compat.npu_bridge.experimental.image import decode_image

__all__ = ["decode_image", "getshape"]
