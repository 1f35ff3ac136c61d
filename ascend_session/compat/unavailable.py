"""What exists on a device only: one table, and the refusal of each of its names when it is used.

The stub never pretends. An operator whose formula is not public, or that is about the device
itself, has no result here; nor has one that no public script calls. All can be imported.

Sources: the signatures are those of the vendor's newest release, see each module's own docstring;
the operators are those of tf_adapter/ops/*.cc.
"""

import inspect
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Tuple

from ascend_session.compat.signatures import signature_of
from ascend_session.errors import UnsupportedError

DEVICE_ONLY = "it is a kernel of the device, and its mathematics is not public"
"""The usual reason."""

_CACHE = "which entry of its cache on the device is given up is not public"
_CHANNEL = "it is a channel between the host and a device"
_GENERATOR = "it draws from the device's own generator of random numbers"
_GRADIENT = "TensorFlow makes the gradient of the operator's formula here"
_GRAPH = "it runs a graph built for a device"
_IMAGE = "it is a kernel of the device's image units, whose rounding is not public"
_LAYOUT = "how it lays out its results is not public"
_MASK = "its mask has a layout that only the device's own operators read"
_MEMORY = "it is about memory that devices reach in one another"
_NO_OPERATOR = "no release of the adapter's library has such an operator"
_NOT_COMPUTED = "this package does not compute it on the CPU"
_ONNX = "it is a model in ONNX that the device's compiler builds"
_QUANTISED = "it stands in a model that the vendor's tools have quantised for a device"
_STATUS = (
    "it reads a register of the device; on the CPU an overflow shows in the values, as inf or nan"
)
_TABLE = "its tables are kept on the device or in a parameter service of the vendor's"

_ROOM = "ascend_session.compat."
_HINT = "Run this part of the script on a machine with an Ascend processor, or leave it out here."

# Functions and classes, by the vendor's module and the reason; defaults that are types of
# TensorFlow are None here.
_FUNCTIONS: Dict[str, Dict[str, Sequence[str]]] = {
    "npu_bridge._api.experimental": {
        _NOT_COMPUTED: ("decode_image(contents, channels=0, dtype=None, expand_animations=True)",),
    },
    "npu_bridge.estimator.npu.npu_plugin": {
        _MEMORY: (
            "init_rdma_pool(mem_size)",
            "rdma_remote_register(remote_var_list)",
            "rdma_remote_init(remote_var_list, mem_size)",
            "get_var_addr_and_size(var_name)",
            "malloc_shared_memory(var_name, shape, data_type)",
        ),
    },
    "npu_bridge.estimator.npu_aicore_ops": {
        _CACHE: (
            "lru_cache_v2(index_list, data, cache, tag, is_last_call, pre_route_count, name=None)",
        ),
        DEVICE_ONLY: (
            "prod_env_mat_a(coord, types, natoms, box, mesh, davg, dstd, rcut_a=0.0, "
            "rcut_r=0.0, rcut_r_smth=0.0, sel_a=None, sel_r=None, name=None)",
            "prodvirialsea(net_deriv, in_deriv, rij, nlist, natoms, n_a_sel=0, n_r_sel=0, "
            "name=None)",
            "prodforcesea(net_deriv, in_deriv, nlist, natoms, n_a_sel=0, n_r_sel=0, name=None)",
            "tabulatefusionsea(table, table_info, em_x, em, last_layer_size=128, name=None)",
            "tabulatefusionseagrad(table, table_info, em_x, em, dy_dem_x, dy_dem, name=None)",
            "tabulatefusion(table, table_info, em_x, em, last_layer_size=128, name=None)",
            "tabulatefusiongrad(table, table_info, em_x, em, dy_dem_x, dy_dem, name=None)",
        ),
        _NOT_COMPUTED: (
            "nonzerowithvalue(x, transpose=False, output_type=None, name=None)",
            "prelu(x, weight)",
            "prelu_grad(op, grad)",
        ),
    },
    "npu_bridge.estimator.npu_ops": {
        _CHANNEL: (
            "outfeed_dequeue_op(channel_name, output_types, output_shapes, name=None)",
            "outfeed_enqueue_op(channel_name, inputs, name=None)",
            "stop_outfeed_dequeue_op(channel_name, name=None)",
            "channel_get_next(channel_name, output_types, output_shapes)",
        ),
        _GRADIENT: (
            "basic_lstm_cell_grad(op, dct, dht, dit, djt, dft, dot, dtanhct)",
            "dynamic_gru_v2_grad(op, dy, doutput_h, dupdate, dreset, dnew, dhidden_new)",
            "dynamic_augru_grad(op, dy, doutput_h, dupdate, dupdate_att, dreset, dnew, "
            "dhidden_new)",
            "dynamic_rnn_grad(op, dy, dh, dc, di, dj, df, do, dtanhc)",
            "dynamic_rnn_v2_grad(op, dy, dh, dc, di, dj, df, do, dtanhc)",
        ),
        _ONNX: ("npu_onnx_graph_op(inputs, tout, model_path, name=None)",),
        _NO_OPERATOR: ("npu_test()",),
        _NOT_COMPUTED: (
            "adam_apply_one_assign(input0, input1, input2, input3, input4, mul0_x, mul1_x, "
            "mul2_x, mul3_x, add2_y, name=None)",
            "adam_apply_one_with_decay_assign(input0, input1, input2, input3, input4, mul0_x, "
            "mul1_x, mul2_x, mul3_x, mul4_x, add2_y, name=None)",
            "k_means_centroids(x, y, sum_square_y, sum_square_x, use_actual_distance=False, "
            "name=None)",
            "scatter_elements(data, indices, updates, axis=0, name=None)",
        ),
    },
    "npu_bridge.experimental.image": {
        _NOT_COMPUTED: ("decode_image(contents, channels=0, dtype=None, expand_animations=True)",),
    },
    "npu_bridge.hccl.hccl_ops": {
        _MEMORY: (
            "remote_read(tensorRemote, data_type)",
            "remote_ref_read(tensorRemote, cache, offset)",
            "remote_write(tensorRemote, tensorLocal, data_type)",
            "remote_scatter_write(tensorRemote, tensorLocal, offset)",
            "gather_all_to_all_v(addrinfo, addrinfo_count_per_rank, recv_counts, "
            "recv_displacements, dtype, addr_length, group='hccl_world_group')",
        ),
    },
    "npu_bridge.image.image_ops": {
        _IMAGE: (
            "decode_and_resize_jpeg(image, size)",
            "decode_and_crop_and_resize_jpeg(image, crop_size, size)",
        ),
    },
    "npu_bridge.npu_cpu.lru_cache": {
        _CACHE: (
            "LruCache.__init__(self, cache_size=100000, load_factor=1, dtype=None)",
            "LruCache.cache_add(self, ids)",
            "LruCache.cache_remote_index_to_local(self, ids)",
            "LruCache.cache_all_index_to_local(self)",
        ),
    },
    "npu_bridge.npu_cpu.npu_cpu_ops": {
        _TABLE: (
            "embedding_hashtable_lookup_or_insert(table_handle, keys, bucket_size, "
            "embedding_dim, filter_mode, filter_freq, default_key_or_value, default_key, "
            "default_value, filter_key_flag, filter_key)",
            "host_feature_mapping(feature_id, threshold=1, table_name='default_table_name')",
            "device_feature_mapping(feature_id)",
            "init_embedding_hashmap_v2(table_id, bucket_size, load_factor, embedding_dim, dtype)",
            "deinit_embedding_hashmap_v2(table_id)",
            "table_to_resource_v2(table_id, bucket_size, load_factor, embedding_dim, dtype)",
            "embedding_hashmap_table_size_v2(table_ids, filter_export_flag, export_mode)",
            "embedding_hashmap_export_v2(file_path, table_ids, table_names, global_step, keys, "
            "counters, filter_flag, values, num)",
            "embedding_hashmap_file_size_v2(file_path, table_ids, table_names, global_step, "
            "embedding_dims)",
            "embedding_hashmap_import_v2(file_path, table_ids, table_sizes, table_names, "
            "global_step, embedding_dims, num)",
            "init_embedding_hashtable(table_handle, sampled_values, bucket_size, embedding_dim,"
            " initializer_mode, constant_value)",
            "embedding_hash_table_import(table_handles, embedding_dims, bucket_sizes, keys, "
            "counters, filter_flags, values)",
            "embedding_hash_table_export(table_handles, table_sizes, embedding_dims, "
            "bucket_sizes, export_mode='all', filter_export_flag=False)",
            "embedding_hashtable_apply_adam_w(table_handle, keys, m, v, beta1_power, "
            "beta2_power, lr, weight_decay, beta1, beta2, epsilon, grad, max_grad_norm, "
            "embedding_dim, bucket_size, amsgrad, maximize)",
            "ESWorker.__init__(self, *args, **kwargs)",
        ),
        _MEMORY: (
            "embeddingrankid(addr_tensor, index, row_memory=320, mode='mod')",
            "embedding_local_index(addr_tensor, index, row_memory=320, mode='mod')",
        ),
        _GENERATOR: (
            "stateless_dropout(x, noise_shape, p, seed, offset)",
            "stateless_random_choice_with_mask(x, count, seed, offset)",
        ),
        _GRADIENT: ("dense_image_warp_grad(op, grad)",),
        _CHANNEL: (
            "batch_enqueue(x, queue_id=0, batch_size=8, queue_name='', queue_depth=100, "
            "pad_mode='REPLICATE')",
            "dequeue(queue_id, output_type, output_shape, queue_name='')",
        ),
        _IMAGE: (
            "ocr_recognition_pre_handle(imgs_data, imgs_offset, imgs_size, langs, langs_score, "
            "batch_size=8, data_format='NHWC', pad_mode='REPLICATE')",
            "ocr_detection_pre_handle(img, data_format='NHWC')",
            "ocr_identify_pre_handle(imgs_data, imgs_offset, imgs_size, size, data_format='NHWC')",
            "batch_dilate_polys(polys_data, polys_offset, polys_size, score, min_border, "
            "min_area_thr, score_thr, expand_scale)",
            "ocr_find_contours(img, value_mode=0)",
            "ocr_detection_post_handle(img, polys_data, polys_offset, polys_size, "
            "data_format='NHWC')",
            "warp_affine_v2(x, matrix, dst_size, interploation='INTEL_BILINEAR', "
            "border_type='BORDER_CONSTANT', border_value=0)",
            "resize_v2(x, dst_size, interploation='INTEL_BILINEAR')",
            "resize_and_clip_polys(polys_data, polys_offset, polys_size, h_scale, w_scale, "
            "img_h, img_w)",
        ),
        _LAYOUT: (
            "non_zero_with_value_shape(value, index, count)",
            "non_zero_with_value_shape_v2(value, index, count)",
        ),
    },
    "npu_bridge.tbe.npu_cube_ops": {
        _NOT_COMPUTED: ("deformable_offsets_grad(op, grad)",),
    },
    "npu_bridge.tbe.npu_vector_ops": {
        _NOT_COMPUTED: (
            "lamb_apply_optimizer_assign(input0, input1, input2, input3, mul0_x, mul1_x, "
            "mul2_x, mul3_x, add2_y, steps, do_use_weight, weight_decay_rate, name=None)",
            "lamb_apply_weight_assign(input0, input1, input2, input3, input4, name=None)",
            "prelu(x, weight)",
            "PReLU.__init__(self, alpha_initializer='zeros', alpha_regularizer=None, "
            "alpha_constraint=None, shared_axes=None, **kwargs)",
            "PReLU.build(self, input_shape)",
            "PReLU.call(self, inputs)",
        ),
    },
    "npu_bridge.tf_adapter": {
        _MEMORY: (
            "InitRdmaPool(mem_size)",
            "RegistRdmaRemoteAddr(addresses)",
            "RdmaInitAndRegister(addresses, mem_size)",
            "GetVarAddrAndSize(var_name)",
            "MallocSharedMem(var_name, shape, data_type)",
        ),
    },
}

# Operators of the adapter's library, by the reason.
_OPERATORS: Dict[str, str] = {
    _GRADIENT: """
        BasicLSTMCellCStateGrad BasicLSTMCellInputGrad BasicLSTMCellWeightGrad
        DenseImageWarpGrad DynamicAUGRUGrad DynamicGruV2Grad DynamicRnnGrad
    """,
    _STATUS: """
        NpuAllocFloatStatus NpuGetFloatStatus NpuGetFloatStatusV2 NpuClearFloatStatus
        NpuClearFloatStatusV2
    """,
    _MEMORY: """
        HcomRemoteRead HcomRemoteRefRead HcomRemoteWrite HcomRemoteScatterWrite
        HcomGatherAllToAllV EmbeddingRankId EmbeddingLocalIndex
    """,
    _CHANNEL: """
        OutfeedDequeueOp OutfeedEnqueueOp StopOutfeedDequeueOp QueueDataset HostQueueDataset
        DeviceQueueDataset GEOPDataset DPGroupDataset AdpGetNext GetNext DynamicGetNextV2
        GetNextFromQueue QueueData BatchEnqueue Dequeue
    """,
    _TABLE: """
        LruCache CacheAdd CacheRemoteIndexToLocal CacheAllIndexToLocal LRUCacheV2
        InitEmbeddingHashmapV2 DeinitEmbeddingHashmapV2 TableToResourceV2
        EmbeddingHashmapExport EmbeddingHashmapSize EmbeddingHashmapFileSize
        EmbeddingHashmapImport InitEmbeddingHashTable EmbeddingHashTableLookupOrInsert
        EmbeddingHashTableImport EmbeddingHashTableExport EmbeddingHashTableApplyAdamW
        EmbeddingHashTableEvict HostFeatureMapping EmbeddingFeatureMapping InitPartitionMap
        InitEmbeddingHashmap EmbeddingTableImport EmbeddingTableFind EmbeddingTableExport
    """,
    _IMAGE: """
        OCRRecognitionPreHandle OCRDetectionPreHandle OCRIdentifyPreHandle
        OCRDetectionPostHandle BatchDilatePolys OCRFindContours ResizeAndClipPolys
        WarpAffineV2 ResizeV2 DecodeAndResizeJpeg DecodeAndCropAndResizeJpeg DecodeImageV3
    """,
    _MASK: "DropOutGenMaskV3 DropOutGenMaskV4 DropOutDoMaskV3",
    _QUANTISED: "AscendQuant AscendWeightQuant AscendDequant AscendAntiQuant",
    DEVICE_ONLY: """
        ProdEnvMatA ProdVirialSeA ProdForceSeA TabulateFusionSeA TabulateFusionSeAGrad
        TabulateFusion TabulateFusionGrad NonZeroWithValueShape NonZeroWithValueShapeV2
        StatelessDropout StatelessRandomChoiceWithMask ScatterElementsV2 NpuOnnxGraphOp
        FileConstant
    """,
    _GRAPH: "GeOp DPOP LoadAndExecuteOm",
    _NO_OPERATOR: "NpuTest",
    _NOT_COMPUTED: """
        AdamApplyOneAssign AdamApplyOneWithDecayAssign DeformableOffsets
        DeformableOffsetsGrad KMeansCentroids KMeansCentroidsV2 LambApplyOptimizerAssign
        LambApplyWeightAssign NonZeroWithValue PRelu PReluGrad ScatterElements
    """,
}


def refuse(name: str, why: str = DEVICE_ONLY, hint: Optional[str] = None) -> UnsupportedError:
    """Make the error for something that has no meaning on the CPU.

    Args:
        name: The vendor's full name, ``npu_bridge.estimator.npu_ops.outfeed_enqueue_op``.
        why: The reason, as a clause: "it ...".
        hint: What to do instead of going to a device.
    """
    return UnsupportedError(
        f"{name} was used, but there is no Ascend processor here: {why}.", hint=hint or _HINT
    )


def define_unavailable(namespace: Dict[str, Any]) -> None:
    """Add to one of the vendor's modules what it has and cannot do here, if there is anything.

    A call that does not fit the vendor's signature is a TypeError, every other an UnsupportedError.

    Args:
        namespace: The ``globals()`` of the module.
    """
    module = namespace["__name__"][len(_ROOM) :]
    classes: Dict[str, Dict[str, Any]] = {}
    for why, functions in _FUNCTIONS.get(module, {}).items():
        for text in functions:
            name, bracket, rest = text.partition("(")
            owner, _, member = name.rpartition(".")
            used = f"{module}.{owner if member == '__init__' else name}"
            function = refusal(used, why, signature_of(bracket + rest))
            function.__module__ = namespace["__name__"]
            if owner:
                classes.setdefault(owner, {})[member] = function
            else:
                namespace[name] = function
    for name, members in classes.items():
        namespace[name] = type(name, (), {"__module__": namespace["__name__"], **members})


def unavailable_operators() -> Iterator[Tuple[str, str]]:
    """Yield the type of each operator of the library that is refused, and the reason."""
    for why, operators in _OPERATORS.items():
        for operator in operators.split():
            yield operator, why


def refusal(
    name: str, why: str = DEVICE_ONLY, signature: Optional[inspect.Signature] = None
) -> Callable[..., Any]:
    """Make a function that raises UnsupportedError.

    Args:
        name: As of `refuse`.
        why: As of `refuse`.
        signature: What it can be called with; None for whatever it is called with.
    """

    def function(*args: Any, **kwargs: Any) -> Any:
        if signature is not None:
            signature.bind(*args, **kwargs)
        raise refuse(name, why)

    refusing: Any = function
    refusing.__name__ = refusing.__qualname__ = name.rpartition(".")[2]
    refusing.__doc__ = f"Raise UnsupportedError: {why}."
    if signature is not None:
        refusing.__signature__ = signature
    return function
