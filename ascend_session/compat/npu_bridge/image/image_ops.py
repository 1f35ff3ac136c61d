"""``npu_bridge.image.image_ops``: the device's units for JPEG, which are not here.

Source: image_ops.py.
"""

from typing import Any

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.refusing import refused

__all__ = ["decode_and_crop_and_resize_jpeg", "decode_and_resize_jpeg", "gen_npu_image_ops"]

gen_npu_image_ops = helper.get_gen_ops()

_UNITS = "it runs on the device's units for images, whose way of resizing is not public"


@refused(_UNITS)
def decode_and_resize_jpeg(image: Any, size: Any) -> Any:
    """Decodes and resizes."""


@refused(_UNITS)
def decode_and_crop_and_resize_jpeg(image: Any, crop_size: Any, size: Any) -> Any:
    """Decodes, crops and resizes."""
