"""``npu_bridge.experimental.image``: decoding of images, TensorFlow's own.

Source: experimental/image.py; ops/aicpu/npu_cpu_ops.cc, DecodeImageV3.
"""

from typing import Any

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.tensorflow_names import tf

__all__ = ["decode_image", "gen_npu_cpu_ops"]

gen_npu_cpu_ops = helper.get_gen_ops()

_TYPES = ("uint8", "uint16", "float32")


def decode_image(
    contents: Any, channels: Any = 0, dtype: Any = tf.uint8, expand_animations: Any = True
) -> Any:
    """The pixels of a BMP, GIF, JPEG or PNG.

    Args:
        contents: The file's bytes, a scalar string.
        channels: How many; 0: those of the file.
        dtype: uint8, uint16, or float32 between 0 and 1.
        expand_animations: Whether a GIF gives four dimensions.
    """
    kind = tf.as_dtype(dtype)
    if kind.name not in _TYPES:
        raise TypeError(
            f"Value passed to parameter 'dtype' has DataType {kind.name} not in list of allowed "
            f"values: {', '.join(_TYPES)}"
        )
    return tf.image.decode_image(
        contents, channels=channels, dtype=kind, expand_animations=expand_animations
    )
