"""``npu_bridge.npu_cpu.npu_cpu_ops``: operators of the device's own CPU.

Source: npu_cpu_ops.py of the newest release and of the old ones.
"""

from typing import Any

from ascend_session.compat.kernels import choosing, warping
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.refusing import device_only_class, refused

gen_npu_cpu_ops = helper.get_gen_ops()

_TABLE = "its tables are kept on the device or in a parameter service of the vendor's"
_QUEUE = "it is a channel between the host and a device"
_IMAGE = "it is a kernel of the device, whose rounding is not public"
_ADDRESS = "it is about where in the memory of all devices an embedding is"
_GENERATOR = "it draws from the device's own generator of random numbers"

ESWorker = device_only_class("npu_bridge.npu_cpu.npu_cpu_ops.ESWorker", _TABLE)


@refused(_TABLE)
def embedding_hashtable_lookup_or_insert(
    table_handle: Any,
    keys: Any,
    bucket_size: Any,
    embedding_dim: Any,
    filter_mode: Any,
    filter_freq: Any,
    default_key_or_value: Any,
    default_key: Any,
    default_value: Any,
    filter_key_flag: Any,
    filter_key: Any,
) -> Any:
    """Embeddings of keys, new ones for new keys."""


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


@refused(_TABLE)
def host_feature_mapping(
    feature_id: Any, threshold: Any = 1, table_name: Any = "default_table_name"
) -> Any:
    """Numbers for features, on the host."""


@refused(_TABLE)
def device_feature_mapping(feature_id: Any) -> Any:
    """Numbers for features, on the device."""


@refused(_TABLE)
def init_embedding_hashmap_v2(
    table_id: Any, bucket_size: Any, load_factor: Any, embedding_dim: Any, dtype: Any
) -> Any:
    """Makes a table."""


@refused(_TABLE)
def deinit_embedding_hashmap_v2(table_id: Any) -> Any:
    """Ends a table."""


@refused(_TABLE)
def table_to_resource_v2(
    table_id: Any, bucket_size: Any, load_factor: Any, embedding_dim: Any, dtype: Any
) -> Any:
    """The handle of a table."""


@refused(_TABLE)
def embedding_hashmap_table_size_v2(
    table_ids: Any, filter_export_flag: Any, export_mode: Any
) -> Any:
    """The sizes of tables."""


@refused(_TABLE)
def embedding_hashmap_export_v2(
    file_path: Any,
    table_ids: Any,
    table_names: Any,
    global_step: Any,
    keys: Any,
    counters: Any,
    filter_flag: Any,
    values: Any,
    num: Any,
) -> Any:
    """Writes tables to files."""


@refused(_TABLE)
def embedding_hashmap_file_size_v2(
    file_path: Any, table_ids: Any, table_names: Any, global_step: Any, embedding_dims: Any
) -> Any:
    """The sizes of tables in files."""


@refused(_TABLE)
def embedding_hashmap_import_v2(
    file_path: Any,
    table_ids: Any,
    table_sizes: Any,
    table_names: Any,
    global_step: Any,
    embedding_dims: Any,
    num: Any,
) -> Any:
    """Reads tables from files."""


@refused(_TABLE)
def init_embedding_hashtable(
    table_handle: Any,
    sampled_values: Any,
    bucket_size: Any,
    embedding_dim: Any,
    initializer_mode: Any,
    constant_value: Any,
) -> Any:
    """Fills a table."""


@refused(_TABLE)
def embedding_hash_table_import(
    table_handles: Any,
    embedding_dims: Any,
    bucket_sizes: Any,
    keys: Any,
    counters: Any,
    filter_flags: Any,
    values: Any,
) -> Any:
    """Fills tables with given values."""


@refused(_GENERATOR)
def stateless_random_choice_with_mask(x: Any, count: Any, seed: Any, offset: Any) -> Any:
    """The indices of what is True, shuffled by a seed and an offset."""


@refused(_TABLE)
def embedding_hash_table_export(
    table_handles: Any,
    table_sizes: Any,
    embedding_dims: Any,
    bucket_sizes: Any,
    export_mode: Any = "all",
    filter_export_flag: Any = False,
) -> Any:
    """The values of tables."""


@refused(_TABLE)
def embedding_hashtable_apply_adam_w(
    table_handle: Any,
    keys: Any,
    m: Any,
    v: Any,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    weight_decay: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    max_grad_norm: Any,
    embedding_dim: Any,
    bucket_size: Any,
    amsgrad: Any,
    maximize: Any,
) -> Any:
    """One step of AdamW on a table."""
