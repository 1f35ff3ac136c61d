"""Placeholders for names of the vendor's that only a device runs; calling one raises an error.

A script imports more than it calls, and another release has more names than this package; so no
import of ``npu_bridge`` and ``hccl`` fails. ``try: import npu_bridge.x`` succeeds, too: the script
then goes on as on a device, and ends where it needs one, instead of silently testing a fallback
that a device never runs.
"""

from typing import Any, Dict, List

from ascend_session.errors import UnsupportedError

_WITHOUT = (
    "run this part of the script on a machine with an Ascend processor, or leave it out here."
)
_INSTEAD = {
    "model_to_npu_estimator": (
        "Train the Keras model with its own fit, after set_keras_session_npu_config(), or write "
        "its layers in a model_fn for NPUEstimator."
    ),
}


def _hint(full_name: str) -> str:
    """Return what to do instead of using a name."""
    owner, _, name = full_name.rpartition(".")
    if name not in names_of(owner):
        return f"Check the name. Then {_WITHOUT}"
    instead = f"{_INSTEAD[name]} Or {_WITHOUT}" if name in _INSTEAD else f"R{_WITHOUT[1:]}"
    page = "`ascend-session guide migrate` lists all such names."
    return f"The name is right, and not supported here. {instead} {page}"


class Placeholder(type):
    """The class of all placeholders: for modules, classes, functions and their attributes.

    Each is a class, so that a script can derive from it and ask ``isinstance``, and an exception
    class, so that it can stand behind ``except``.
    """

    full_name: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Raise an error; also for classes that a script derives from a placeholder.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            f"{cls.full_name} was used, but only a device runs it, and there is no Ascend "
            "processor here.",
            hint=_hint(cls.full_name),
        )

    def __getattr__(cls, name: str) -> Any:
        return absent_attribute(cls.full_name, name)


_made: Dict[str, Placeholder] = {}  # for good, as modules are: scripts ask isinstance


def placeholder(full_name: str) -> Placeholder:
    """Return the placeholder for a name such as ``npu_bridge.foo.bar``; there is one for each."""
    if full_name not in _made:
        owner, _, name = full_name.rpartition(".")
        namespace = {
            "__module__": owner,
            "__doc__": "Raise UnsupportedError: only a device runs it.",
            "__all__": names_of(full_name),
            "full_name": full_name,
        }
        _made.setdefault(full_name, Placeholder(name, (Exception,), namespace))
    return _made[full_name]


def absent_attribute(owner: str, name: str) -> Placeholder:
    """Return what stands for an attribute that a module or placeholder does not have.

    Raises:
        AttributeError: For a name that begins with an underscore: Python and TensorFlow ask any
            object for such names, to learn what it is.
    """
    if name.startswith("_"):
        raise AttributeError(f"{owner!r} has no attribute {name!r}")
    return placeholder(f"{owner}.{name}")


# What ``import *`` gives of the vendor's modules beside what runs here; the modules of which
# nothing does stand behind the others.
_NAMES = {
    "npu_bridge.estimator.npu.npu_dynamic_rnn": "DynamicAUGRU DynamicGRUV2",
    "npu_bridge.estimator.npu.npu_optimizer": "reduce",
    "npu_bridge.estimator.npu.npu_plugin": (
        "init_rdma_pool rdma_remote_register rdma_remote_init get_var_addr_and_size "
        "malloc_shared_memory"
    ),
    "npu_bridge.estimator.npu.npu_scope": (
        "npu_stage_scope npu_weight_prefetch_scope op_specified_engine_scope npu_qos_label_scope "
        "subgraph_multi_dims_scope npu_optimizer_scope npu_recompute_scope npu_graph_slice_scope "
        "disable_autofuse limit_core_num_scope"
    ),
    "npu_bridge.estimator.npu.util": (
        "GradDivisionItem add_grads_and_vars fair_division get_all_grad_item get_gid_by_grad "
        "get_gid_by_weight"
    ),
    "npu_bridge.estimator.npu_ops": (
        "outfeed_dequeue_op outfeed_enqueue_op stop_outfeed_dequeue_op channel_get_next "
        "basic_lstm_cell basic_lstm_cell_grad dynamic_gru_v2_grad dynamic_augru_grad "
        "dynamic_rnn_grad dynamic_rnn_v2_grad npu_onnx_graph_op npu_test adam_apply_one_assign "
        "adam_apply_one_with_decay_assign k_means_centroids scatter_elements"
    ),
    "npu_bridge.hccl.hccl_ops": (
        "remote_read remote_ref_read remote_write remote_scatter_write gather_all_to_all_v"
    ),
    "npu_bridge.npu_cpu.npu_cpu_ops": (
        "embedding_hashtable_lookup_or_insert host_feature_mapping device_feature_mapping "
        "init_embedding_hashmap_v2 deinit_embedding_hashmap_v2 table_to_resource_v2 "
        "embedding_hashmap_table_size_v2 embedding_hashmap_export_v2 "
        "embedding_hashmap_file_size_v2 embedding_hashmap_import_v2 "
        "init_embedding_hashtable embedding_hash_table_import "
        "embedding_hash_table_export embedding_hashtable_apply_adam_w ESWorker embeddingrankid "
        "embedding_local_index stateless_dropout stateless_random_choice_with_mask "
        "dense_image_warp_grad batch_enqueue dequeue ocr_recognition_pre_handle "
        "ocr_detection_pre_handle ocr_identify_pre_handle batch_dilate_polys ocr_find_contours "
        "ocr_detection_post_handle warp_affine_v2 resize_v2 resize_and_clip_polys "
        "non_zero_with_value_shape non_zero_with_value_shape_v2"
    ),
    "npu_bridge.tf_adapter": (
        "InitRdmaPool RegistRdmaRemoteAddr RdmaInitAndRegister GetVarAddrAndSize MallocSharedMem "
        "ProfilerStart ProfilerStop EnableControl Clear"
    ),
    "npu_bridge._api.experimental": "decode_image getshape",
    "npu_bridge.estimator.npu.keras_to_npu": "model_to_npu_estimator",
    "npu_bridge.estimator.npu.npu_saver": "NPUBulkSaverBuilder NPUSaver",
    "npu_bridge.estimator.npu_aicore_ops": (
        "centralization dropout_v3 dropout_v4 fast_gelu_v2 layer_norm lru_cache_v2 nonzero "
        "nonzerowithvalue prelu prelu_grad prod_env_mat_a prodvirialsea prodforcesea "
        "tabulatefusion tabulatefusiongrad tabulatefusionsea tabulatefusionseagrad"
    ),
    "npu_bridge.experimental.file_constant": "file_constant",
    "npu_bridge.experimental.get_shape": "getshape",
    "npu_bridge.experimental.hccl": (
        "c_str get_actual_rank_size get_user_rank_id get_user_rank_size"
    ),
    "npu_bridge.experimental.image": "decode_image",
    "npu_bridge.image.image_ops": "decode_and_resize_jpeg decode_and_crop_and_resize_jpeg",
    "npu_bridge.npu_cpu.lru_cache": "LruCache",
    "npu_bridge.profiler.profiler": "Profiler",
    "npu_bridge.scoped_graph_manager.scoped_graph_manager": "ScopedGraphManager",
    "npu_bridge.tbe.npu_cube_ops": "deformable_conv2d deformable_offsets_grad",
    "npu_bridge.tbe.npu_vector_ops": (
        "PReLU lamb_apply_optimizer_assign lamb_apply_weight_assign prelu"
    ),
}


def names_of(module: str) -> List[str]:
    """List what ``import *`` gives of a module of the vendor's beside what runs here."""
    return _NAMES.get(module, "").split()
