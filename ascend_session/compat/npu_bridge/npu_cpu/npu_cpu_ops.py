"""``npu_bridge.npu_cpu.npu_cpu_ops``: operators of the device's own CPU.

Source: npu_cpu_ops.py of the newest release and of the old ones.
"""

from typing import Any

from ascend_session.compat.kernels import choosing, warping
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.npu_bridge.npu_cpu._tables import (
    TABLE,
    deinit_embedding_hashmap_v2,
    device_feature_mapping,
    embedding_hash_table_export,
    embedding_hash_table_import,
    embedding_hashmap_export_v2,
    embedding_hashmap_file_size_v2,
    embedding_hashmap_import_v2,
    embedding_hashmap_table_size_v2,
    embedding_hashtable_apply_adam_w,
    embedding_hashtable_lookup_or_insert,
    host_feature_mapping,
    init_embedding_hashmap_v2,
    init_embedding_hashtable,
    table_to_resource_v2,
)
from ascend_session.compat.refusing import device_only_class, refused

__all__ = [
    "ESWorker",
    "RandomChoiceWithMask",
    "batch_dilate_polys",
    "batch_enqueue",
    "deinit_embedding_hashmap_v2",
    "dense_image_warp",
    "dense_image_warp_grad",
    "dequeue",
    "device_feature_mapping",
    "embedding_hash_table_export",
    "embedding_hash_table_import",
    "embedding_hashmap_export_v2",
    "embedding_hashmap_file_size_v2",
    "embedding_hashmap_import_v2",
    "embedding_hashmap_table_size_v2",
    "embedding_hashtable_apply_adam_w",
    "embedding_hashtable_lookup_or_insert",
    "embedding_local_index",
    "embeddingrankid",
    "gen_npu_cpu_ops",
    "host_feature_mapping",
    "init_embedding_hashmap_v2",
    "init_embedding_hashtable",
    "non_zero_with_value_shape",
    "non_zero_with_value_shape_v2",
    "ocr_detection_post_handle",
    "ocr_detection_pre_handle",
    "ocr_find_contours",
    "ocr_identify_pre_handle",
    "ocr_recognition_pre_handle",
    "randomchoicewithmask",
    "resize_and_clip_polys",
    "resize_v2",
    "stateless_dropout",
    "stateless_random_choice_with_mask",
    "table_to_resource_v2",
    "warp_affine_v2",
]

gen_npu_cpu_ops = helper.get_gen_ops()

_QUEUE = "it is a channel between the host and a device"
_IMAGE = "it is a kernel of the device, whose rounding is not public"
_ADDRESS = "it is about where in the memory of all devices an embedding is"
_GENERATOR = "it draws from the device's own generator of random numbers"

ESWorker = device_only_class("npu_bridge.npu_cpu.npu_cpu_ops.ESWorker", TABLE)


@refused(_ADDRESS)
def embeddingrankid(addr_tensor: Any, index: Any, row_memory: Any = 320, mode: Any = "mod") -> Any:
    """Where embeddings are."""


@refused(_ADDRESS)
def embedding_local_index(
    addr_tensor: Any, index: Any, row_memory: Any = 320, mode: Any = "mod"
) -> Any:
    """Where embeddings are, sorted by rank."""


def randomchoicewithmask(x: Any, count: Any, seed: Any = 0, seed2: Any = 0) -> Any:
    """The indices of what is True, shuffled (`kernels.choosing.random_choice_with_mask`)."""
    return choosing.random_choice_with_mask(x, count, seed, seed2)


def RandomChoiceWithMask(x: Any, count: Any, seed: Any = 0, seed2: Any = 0) -> Any:  # noqa: N802
    """`randomchoicewithmask` in the releases of 2021."""
    return randomchoicewithmask(x, count, seed, seed2)


def dense_image_warp(image: Any, flow: Any, name: Any = None) -> Any:
    """``image[y - flow_y, x - flow_x]``, bilinear (`kernels.warping.dense_image_warp`)."""
    return warping.dense_image_warp(image, flow, name)


@refused(_GENERATOR)
def stateless_dropout(x: Any, noise_shape: Any, p: Any, seed: Any, offset: Any) -> Any:
    """Dropout by a seed and an offset."""


@refused("TensorFlow makes the gradient of the operator's formula here")
def dense_image_warp_grad(op: Any, grad: Any) -> Any:
    """The gradient of DenseImageWarp."""


@refused(_QUEUE)
def batch_enqueue(
    x: Any,
    queue_id: Any = 0,
    batch_size: Any = 8,
    queue_name: Any = "",
    queue_depth: Any = 100,
    pad_mode: Any = "REPLICATE",
) -> Any:
    """Puts images into a queue, in batches."""


@refused(_IMAGE)
def ocr_recognition_pre_handle(
    imgs_data: Any,
    imgs_offset: Any,
    imgs_size: Any,
    langs: Any,
    langs_score: Any,
    batch_size: Any = 8,
    data_format: Any = "NHWC",
    pad_mode: Any = "REPLICATE",
) -> Any:
    """Images of text before recognition."""


@refused(_IMAGE)
def ocr_detection_pre_handle(img: Any, data_format: Any = "NHWC") -> Any:
    """An image before detection."""


@refused(_IMAGE)
def ocr_identify_pre_handle(
    imgs_data: Any, imgs_offset: Any, imgs_size: Any, size: Any, data_format: Any = "NHWC"
) -> Any:
    """Images of text before identification."""


@refused(_IMAGE)
def batch_dilate_polys(
    polys_data: Any,
    polys_offset: Any,
    polys_size: Any,
    score: Any,
    min_border: Any,
    min_area_thr: Any,
    score_thr: Any,
    expand_scale: Any,
) -> Any:
    """Polygons made larger."""


@refused(_IMAGE)
def ocr_find_contours(img: Any, value_mode: Any = 0) -> Any:
    """The polygons around what is in an image."""


@refused(_QUEUE)
def dequeue(queue_id: Any, output_type: Any, output_shape: Any, queue_name: Any = "") -> Any:
    """Takes out of a queue."""


@refused(_IMAGE)
def ocr_detection_post_handle(
    img: Any, polys_data: Any, polys_offset: Any, polys_size: Any, data_format: Any = "NHWC"
) -> Any:
    """Parts of an image after detection."""


@refused(_IMAGE)
def warp_affine_v2(
    x: Any,
    matrix: Any,
    dst_size: Any,
    interploation: Any = "INTEL_BILINEAR",
    border_type: Any = "BORDER_CONSTANT",
    border_value: Any = 0,
) -> Any:
    """An image under an affine map."""


@refused(_IMAGE)
def resize_v2(x: Any, dst_size: Any, interploation: Any = "INTEL_BILINEAR") -> Any:
    """An image of another size."""


@refused(_IMAGE)
def resize_and_clip_polys(
    polys_data: Any,
    polys_offset: Any,
    polys_size: Any,
    h_scale: Any,
    w_scale: Any,
    img_h: Any,
    img_w: Any,
) -> Any:
    """Polygons of another size, cut at the image's border."""


@refused("how it lays out its results is not public")
def non_zero_with_value_shape(value: Any, index: Any, count: Any) -> Any:
    """The results of NonZeroWithValue without what is behind their count."""


@refused("how it lays out its results is not public")
def non_zero_with_value_shape_v2(value: Any, index: Any, count: Any) -> Any:
    """The same."""


@refused(_GENERATOR)
def stateless_random_choice_with_mask(x: Any, count: Any, seed: Any, offset: Any) -> Any:
    """The indices of what is True, shuffled by a seed and an offset."""
