"""``npu_bridge.tbe.npu_cube_ops``: the deformable convolution.

Source: npu_cube_ops.py of the newest release; ``bias`` of that of 2020 is taken by name.
"""

from typing import Any

from ascend_session.compat import image_formulas
from ascend_session.compat.formulas import refuse_eager
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.unavailable import define_unavailable

__all__ = [
    "deformable_conv2d",
    "gen_npu_ops",
]

gen_npu_ops = helper.get_gen_ops()


def deformable_conv2d(
    x: Any,
    filter: Any,
    offsets: Any,
    strides: Any = None,
    pads: Any = None,
    data_format: Any = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    groups: Any = 1,
    deformable_groups: Any = 1,
    modulated: Any = True,
    name: Any = None,
    *,
    bias: Any = None,
) -> Any:
    """A convolution whose pixels are read at offsets, each times a mask.

    Args:
        x: float16 or float32 ``[batch, height, width, channels]``.
        filter: ``[kh, kw, channels, outputs]``.
        offsets: ``[batch, out_height, out_width, 3 * groups * kh * kw]``
            (`image_formulas.deformable_offsets`).
        strides: Four numbers.
        pads: Top, bottom, left and right.
        data_format: NHWC.
        dilations: Four numbers.
        groups: 1.
        deformable_groups: Into how many groups the channels are cut, each with its offsets.
        modulated: True.
        name: Of the operator.
        bias: Added to the outputs.

    Raises:
        RuntimeError: As the vendor's, eagerly, for other groups and for unmodulated offsets.
        UnsupportedError: For NCHW.
    """
    refuse_eager("tf.deformable_conv2d")
    if not modulated:
        raise RuntimeError("tf.deformable_conv2d() only supports modulated is True currently")
    if groups != 1:
        raise RuntimeError("tf.deformable_conv2d() only supports groups is 1 currently")
    weights = tf.convert_to_tensor(filter)
    kh, kw = weights.shape.as_list()[:2]
    read = image_formulas.deformable_offsets(
        x, offsets, strides, pads, [kh, kw], dilations, data_format, deformable_groups, True
    )
    result = tf.nn.conv2d(
        read, weights, strides=[1, kh, kw, 1], padding="VALID", data_format=data_format, name=name
    )
    return result if bias is None else tf.nn.bias_add(result, bias)


define_unavailable(globals())
