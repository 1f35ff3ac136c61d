"""Images read between their pixels: warping by a flow, and the offsets of deformable convolutions.

Sources: npu_cpu_ops.py, npu_cube_ops.py; CANN's specifications of DenseImageWarp (TensorFlow's
dense_image_warp) and DeformableOffsets, and the reference function in the tests of its public
npu_deformable_conv2d.
"""

from typing import Any, Sequence

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.formulas import HALF_OR_FLOAT, checked
from ascend_session.compat.unavailable import refuse


def dense_image_warp(image: Any, flow: Any, name: Any = None) -> Any:
    """Read ``image[y - flow_y, x - flow_x]``, bilinear; outside, the nearest pixels inside.

    Args:
        image: float16 or float32 ``[batch, height, width, channels]``, 2 by 2 at least.
        flow: float16 or float32 ``[batch, height, width, 2]``, y first.
        name: Of the operator.
    """
    tf = tf1()
    image = checked("DenseImageWarp", "image", image, HALF_OR_FLOAT)
    flow = checked("DenseImageWarp", "flow", flow, HALF_OR_FLOAT)
    dtype = image.dtype.base_dtype
    with tf.name_scope(name or "DenseImageWarp"):
        shape = tf.shape(image)
        rows, columns = tf.meshgrid(tf.range(shape[1]), tf.range(shape[2]), indexing="ij")
        corners, parts = [], []
        for axis, grid in enumerate((rows, columns)):
            place = tf.cast(grid, tf.float32)[tf.newaxis] - tf.cast(flow[..., axis], tf.float32)
            last = tf.cast(shape[axis + 1] - 2, tf.float32)
            low = tf.minimum(tf.maximum(0.0, tf.floor(place)), last)
            parts.append(tf.cast(tf.clip_by_value(place - low, 0.0, 1.0), dtype)[..., tf.newaxis])
            corners.append(tf.cast(low, tf.int32))
        low_y, low_x = corners
        part_y, part_x = parts
        top = _between(_at(image, low_y, low_x), _at(image, low_y, low_x + 1), part_x)
        bottom = _between(_at(image, low_y + 1, low_x), _at(image, low_y + 1, low_x + 1), part_x)
        warped = _between(top, bottom, part_y)
        warped.set_shape(image.shape)
        return warped


def _between(first: Any, second: Any, part: Any) -> Any:
    return first + part * (second - first)


def _at(image: Any, rows: Any, columns: Any) -> Any:
    """Read ``image[b, rows, columns]`` for each b; rows and columns are ``[batch, ...]``."""
    tf = tf1()
    batch = tf.range(tf.shape(image)[0])
    extra = rows.shape.rank - 1
    batch = tf.reshape(batch, [-1] + [1] * extra) + tf.zeros_like(rows)
    return tf.gather_nd(image, tf.stack([batch, rows, columns], axis=-1))


def deformable_offsets(
    x: Any,
    offsets: Any,
    strides: Sequence[int],
    pads: Sequence[int],
    ksize: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1),
    data_format: str = "NHWC",
    deformable_groups: int = 1,
    modulated: bool = True,
    name: Any = None,
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
        modulated: True.
        name: Of the operator.

    Returns:
        ``[batch, out_height * kh, out_width * kw, channels]``.
    """
    operator = "DeformableOffsets"
    if data_format != "NHWC" or not modulated:
        raise refuse(
            f"npu_bridge: {operator}",
            f"data_format={data_format!r} and modulated={modulated!r} are not computed here",
            hint="Use NHWC and modulated=True, the ones that all devices take.",
        )
    x = checked(operator, "x", x, HALF_OR_FLOAT)
    offsets = checked(operator, "offsets", offsets, HALF_OR_FLOAT, x.dtype.base_dtype)
    with tf1().name_scope(name or operator):
        return _all_offsets(x, offsets, strides, pads, ksize, dilations, deformable_groups)


def _all_offsets(
    x: Any,
    offsets: Any,
    strides: Sequence[int],
    pads: Sequence[int],
    ksize: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> Any:
    tf = tf1()
    kh, kw = ksize
    _, height, width, channels = x.shape.as_list()
    out_height, out_width = offsets.shape.as_list()[1:3]
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
    tf = tf1()
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
    tf = tf1()
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
    tf = tf1()
    zeros = tf.zeros_like(rows)
    batch = tf.reshape(tf.range(tf.shape(image)[0]), [-1, 1, 1, 1, 1, 1]) + zeros
    group = tf.reshape(tf.range(tf.shape(image)[3]), [1, 1, 1, -1, 1, 1]) + zeros
    return tf.gather_nd(image, tf.stack([batch, rows, columns, group], axis=-1))
