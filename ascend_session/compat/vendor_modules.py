"""What mirrors of the vendor's modules are made with: names from elsewhere, signatures as text.

Names that only a device runs are placeholders; calling one raises an error. A script imports more
than it calls, and another release has more names than this package; so no import of ``npu_bridge``
and ``hccl`` fails. ``try: import npu_bridge.x`` succeeds, too: the script then goes on as on a
device, and ends where it needs one, instead of silently testing a fallback that a device never
runs.

``from npu_bridge.estimator.npu.npu_loss_scale_optimizer import FixedLossScaleManager`` is seen in
public scripts; such names are looked up when they are asked for.
"""

import functools
import importlib
import importlib.util
import inspect
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

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
_ON_DEVICE = {
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
    return _ON_DEVICE.get(module, "").split()


_COMPAT = "ascend_session.compat."
_NPU = f"{_COMPAT}npu_bridge."
_NAMES = "ascend_session.compat.tensorflow_names:"
_PY = "tensorflow.python."

# place -> names of it: modules, or attributes of a module that ends with a colon
_PLACES = {
    "": "atexit os sys json time random string collections threading six",
    "enum:": "Enum",
    "inspect:": "signature",
    "ascend_session.compat.hccl.manage.api:": (
        "create_group destroy_group get_group_rank_from_world_rank get_local_rank_id "
        "get_local_rank_size get_rank_id get_rank_size get_world_rank_from_group_rank"
    ),
    "ascend_session.compat.hccl.split.api:": (
        "set_split_strategy_by_idx set_split_strategy_by_size"
    ),
    f"{_NPU}npu_init:": (
        "npu_config_proto npu_graph_options npu_optimizer_options npu_run_config_init "
        "npu_session_config_init"
    ),
    _NPU: "tf_adapter",
    f"{_NPU}estimator.": "npu_ops",
    f"{_NPU}estimator.npu.": ("npu_plugin npu_rnn npu_scope npu_strategy util"),
    f"{_NPU}estimator.npu.npu_callbacks:": "NPUBroadcastGlobalVariablesCallback",
    f"{_NPU}estimator.npu.npu_common:": "NPUBasics",
    f"{_NPU}estimator.npu.npu_config:": (
        "DumpConfig DynamicInputConfig ExperimentalConfig GraphMemoryOptimizeConfig MemoryConfig "
        "NPURunConfig NpuExecutePlacement ProfilingConfig decorator_tf_session"
    ),
    f"{_NPU}estimator.npu.npu_estimator:": "NPUEstimator NPUEstimatorSpec",
    f"{_NPU}estimator.npu.npu_hook:": (
        "NPUBroadcastGlobalVariablesHook NPUCheckpointSaverHook NPUInfeedOutfeedSessionHook "
        "NPULogOutfeedSessionHook NPUOutputTensorHook NPUShutDownHook SetIterationsVarHook "
        "TellMeStepOrLossHook broadcast_global_variables"
    ),
    f"{_NPU}estimator.npu.npu_loss_scale_manager:": (
        "ExponentialUpdateLossScaleManager FixedLossScaleManager"
    ),
    f"{_NPU}estimator.npu.npu_loss_scale_optimizer:": "NPULossScaleOptimizer",
    f"{_NPU}estimator.npu.npu_optimizer:": (
        "KerasDistributeOptimizer NPUDistributedOptimizer NPUOptimizer npu_allreduce "
        "npu_distributed_optimizer_wrapper"
    ),
    f"{_NPU}estimator.npu.npu_plugin:": "npu_close",
    f"{_NPU}estimator.npu_ops:": "DEFAULT_GRAPH_SEED",
    f"{_NPU}hccl.": "hccl_ops",
    f"{_NPU}helper.": "helper",
    f"{_NPU}npu_cpu.": "npu_cpu_ops",
    f"{_PY}distribute.": "distribute_lib one_device_strategy",
    f"{_PY}eager.": "context",
    f"{_PY}framework.": "ops dtypes constant_op",
    f"{_PY}keras.": "optimizers",
    f"{_PY}keras.optimizer_v2.": "optimizer_v2",
    f"{_PY}ops.": (
        "array_ops control_flow_ops gen_control_flow_ops gen_math_ops init_ops math_ops "
        "resource_variable_ops state_ops variable_scope"
    ),
    f"{_PY}training.": (
        "optimizer server_lib session_run_hook basic_session_run_hooks training_util"
    ),
    f"{_PY}util.": "compat function_utils tf_inspect",
    "tensorflow.compat.v1:": "keras",
    "tensorflow.core.framework.": "attr_value_pb2 variable_pb2",
    "tensorflow.core.protobuf.": "config_pb2 rewriter_config_pb2",
    "tensorflow.core.protobuf.rewriter_config_pb2:": "RewriterConfig",
}

_LIBRARIES = ("gen_hccl_ops", "gen_npu_cpu_ops", "gen_npu_ops", "npu_unary_ops")

# name -> module, or module:attribute
_HOMES: Dict[str, str] = {
    **{name: place + name for place, names in _PLACES.items() for name in names.split()},
    **dict.fromkeys(_LIBRARIES, f"{_NPU}helper.helper:npu_bridge_handle"),
    "Queue": "queue",
    "backend": f"{_NAMES}keras_backend",
    "contrib_summary": f"{_PY}ops.summary_ops_v2",
    "estimator_lib": "tensorflow_estimator.python.estimator.estimator",
    "logging": f"{_PY}platform.tf_logging",
    "model_fn_lib": "tensorflow_estimator.python.estimator.model_fn",
    "run_config_lib": "tensorflow_estimator.python.estimator.run_config",
    "tf": f"{_NAMES}AS_SCRIPTS",
    "util_lib": f"{_NPU}estimator.npu.util",
}


def mirror(namespace: Dict[str, Any], names: str = "") -> Tuple[Callable[[str], Any], List[str]]:
    """Complete a mirrored module, at its end: make its ``__getattr__`` (PEP 562) and ``__all__``.

    A package finds its modules that way, too. Whatever there is not is a placeholder. ``import *``
    gives what the vendor's does, but for modules that not every TensorFlow has: functions and
    classes that the module defines, these names, and what only a device runs. Exceptions are left
    out, for the vendor's modules define none.

    Args:
        namespace: Its ``globals()``, where what was looked up stays.
        names: What else the vendor's has, its constants and imports, with blanks between.
    """
    module, others = namespace["__name__"], names.split()
    vendors_module = module[len(_COMPAT) :]

    def load(name: str) -> Any:
        home = _HOMES.get(name, "") if name in others else ""
        if "__path__" in namespace and importlib.util.find_spec(f"{module}.{name}"):
            home = f"{module}.{name}"
        value = _import_from(home) if home else absent_attribute(vendors_module, name)
        namespace[name] = value
        return value

    defined = [name for name, value in namespace.items() if _is_vendors(name, value, module)]
    late = (_PY, "tensorflow_estimator")
    others_at_once = [name for name in others if not _HOMES.get(name, "").startswith(late)]
    return load, [*defined, *others_at_once, *names_of(vendors_module)]


def _import_from(home: str) -> Any:
    """Import ``module`` or ``module:attribute``; what this TensorFlow has not says so when used."""
    module, _, attribute = home.partition(":")
    try:
        value: Any = importlib.import_module(module)
    except ImportError as error:
        from ascend_session.compat.tensorflow_names import absent_class

        return absent_class(attribute or module, f"{error}.")
    return getattr(value, attribute) if attribute else value


def _is_vendors(name: str, value: Any, module: str) -> bool:
    """Return whether ``value`` is a function or class of the vendor's that ``module`` defines."""
    if name.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
        return False
    is_error = inspect.isclass(value) and issubclass(value, Exception)
    return value.__module__ == module and not is_error


# A signature of ninety arguments is data, not code; `help` and `inspect` show it all the same.


def signature_of(text: str) -> inspect.Signature:
    """Parse a signature like ``(x, keep_prob, noise_shape=None)``; defaults are literals."""
    names: Dict[str, Any] = {}
    exec(f"def function{text}: pass", names)
    return inspect.signature(names["function"])


def bind_arguments(
    called: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Dict[str, Any]:
    """Return all arguments of a call by their names, in their order.

    Args:
        called: The name of what is called, for the error.
        signature: What it takes.
        args: What was given by position.
        kwargs: What was given by name.

    Raises:
        TypeError: If the arguments do not fit the signature; names ``called``.
    """
    try:
        given = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{called}() {error}") from None
    given.apply_defaults()
    return dict(given.arguments)


def with_signature(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function a signature that is data; it gets all arguments by name.

    Args:
        text: The signature without ``self`` or ``cls``.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        first = next(iter(inspect.signature(function).parameters), "")
        is_method = first in ("self", "cls")
        signature = signature_of(f"({first}, {text[1:]}" if is_method else text)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            called = function.__name__
            if is_method:
                called = getattr(args[0], "__name__", type(args[0]).__name__)
            return function(**bind_arguments(called, signature, args, kwargs))

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def keep_arguments(text: str, public: Sequence[str] = ()) -> Any:
    """Make an ``__init__`` that keeps each argument behind an underscore.

    Args:
        text: The signature without ``self``.
        public: Arguments that are kept under their own names.
    """

    @with_signature(text)
    def __init__(self: Any, **given: Any) -> None:  # noqa: N807  (it is one)
        """Keep the arguments."""
        for name, value in given.items():
            setattr(self, name if name in public else f"_{name}", value)

    return __init__
