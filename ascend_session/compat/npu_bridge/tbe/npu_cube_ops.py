"""``npu_bridge.tbe.npu_cube_ops``: the deformable convolution.

Sources: npu_cube_ops.py of the newest release, ``bias`` of that of 2020 is taken by name; CANN's
specification of DeformableOffsets, and the reference function in the tests of its public
npu_deformable_conv2d.
"""

from typing import Any, Sequence

from ascend_session.compat.operators import HALF_OR_FLOAT, checked, graph_only
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.unavailable import refuse
from ascend_session.compat.vendor_modules import mirror


@graph_only("tf.deformable_conv2d")
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
            (`_deformable_offsets`).
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
    if not modulated:
        raise RuntimeError("tf.deformable_conv2d() only supports modulated is True currently")
    if groups != 1:
        raise RuntimeError("tf.deformable_conv2d() only supports groups is 1 currently")
    weights = tf.convert_to_tensor(filter)
    kh, kw = weights.shape.as_list()[:2]
    read = _deformable_offsets(
        x, offsets, strides, pads, [kh, kw], dilations, data_format, deformable_groups
    )
    result = tf.nn.conv2d(
        read, weights, strides=[1, kh, kw, 1], padding="VALID", data_format=data_format, name=name
    )
    return result if bias is None else tf.nn.bias_add(result, bias)


def _deformable_offsets(
    x: Any,
    offsets: Any,
    strides: Sequence[int],
    pads: Sequence[int],
    ksize: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1),
    data_format: str = "NHWC",
    deformable_groups: int = 1,
) -> Any:
    """Read what a deformable convolution reads, as an image of ``ksize`` pixels for each output.

    Args:
        x: float16 or float32 ``[batch, height, width, channels]``.
        offsets: ``[batch, out_height, out_width, 3 * groups * kh * kw]``: those of x, those of y,
            then the masks.
        strides: Of the output's pixels, four numbers as ``data_format``.
        pads: Top, bottom, left and right of the image; 0 is read there.
        ksize: kh and kw.
        dilations: Between the pixels of the kernel, four numbers.
        data_format: NHWC.
        deformable_groups: Into how many groups the channels are cut, each with its offsets.

    Returns:
        ``[batch, out_height * kh, out_width * kw, channels]``.
    """
    operator = "DeformableOffsets"
    if data_format != "NHWC":
        raise refuse(
            f"npu_bridge: {operator}",
            f"data_format={data_format!r} and modulated=True are not computed here",
            hint="Use NHWC and modulated=True, the ones that all devices take.",
        )
    x = checked(operator, "x", x, HALF_OR_FLOAT)
    offsets = checked(operator, "offsets", offsets, HALF_OR_FLOAT, x.dtype.base_dtype)
    with tf.name_scope(operator):
        kh, kw = ksize
        _, height, width, channels = x.shape.as_list()
        out_height, out_width = offsets.shape.as_list()[1:3]
        groups = deformable_groups
        cut = tf.reshape(offsets, [-1, out_height, out_width, 3, groups, kh, kw])
        rows = _grid(out_height, strides[1], pads[0], kh, dilations[1])
        columns = _grid(out_width, strides[2], pads[2], kw, dilations[2])
        y = cut[:, :, :, 1] + tf.cast(rows[:, None, None, :, None], x.dtype)
        at_x = cut[:, :, :, 0] + tf.cast(columns[None, :, None, None, :], x.dtype)
        image = tf.reshape(x, [-1, height, width, groups, channels // groups])
        read = _read_groups(image, y, at_x, height, width) * cut[:, :, :, 2][..., tf.newaxis]
        # [b, oh, ow, g, kh, kw, c] -> [b, oh, kh, ow, kw, g, c]
        ordered = tf.transpose(read, [0, 1, 4, 2, 5, 3, 6])
        return tf.reshape(ordered, [-1, out_height * kh, out_width * kw, channels])


def _grid(outputs: int, stride: int, pad: int, kernel: int, dilation: int) -> Any:
    """Give the pixel that each output reads for each of the kernel, without offsets."""
    begins = tf.range(outputs) * stride - pad
    return begins[:, tf.newaxis] + tf.range(kernel)[tf.newaxis, :] * dilation


def _read_groups(image: Any, y: Any, x: Any, height: int, width: int) -> Any:
    """Read ``image`` at fractional places, bilinear; 0 outside.

    Args:
        image: ``[batch, height, width, groups, channels]``.
        y: ``[batch, oh, ow, groups, kh, kw]``.
        x: As y.
        height: Of the image.
        width: Of the image.
    """
    low_y, low_x = tf.floor(y), tf.floor(x)
    part_y, part_x = y - low_y, x - low_x
    total: Any = None
    for step_y in (0, 1):
        for step_x in (0, 1):
            row = tf.cast(low_y, tf.int32) + step_y
            column = tf.cast(low_x, tf.int32) + step_x
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            share = (part_y if step_y else 1 - part_y) * (part_x if step_x else 1 - part_x)
            share *= tf.cast(inside, share.dtype)
            value = _at_groups(
                image,
                tf.clip_by_value(row, 0, height - 1),
                tf.clip_by_value(column, 0, width - 1),
            )
            part = value * share[..., tf.newaxis]
            total = part if total is None else total + part
    return total


def _at_groups(image: Any, rows: Any, columns: Any) -> Any:
    zeros = tf.zeros_like(rows)
    batch = tf.reshape(tf.range(tf.shape(image)[0]), [-1, 1, 1, 1, 1, 1]) + zeros
    group = tf.reshape(tf.range(tf.shape(image)[3]), [1, 1, 1, -1, 1, 1]) + zeros
    return tf.gather_nd(image, tf.stack([batch, rows, columns, group], axis=-1))


__getattr__, __all__ = mirror(globals(), "gen_npu_ops")
