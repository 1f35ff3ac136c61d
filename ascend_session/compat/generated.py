"""The operators of the adapter's library, under the names that TensorFlow makes of them.

``tf.load_op_library`` gives a module with one function for each operator that the library
registers, ``DynamicGruV2`` as ``dynamic_gru_v2``; TensorFlow 1.15 has each a second time under the
operator's own name, for keyword arguments only. Those with a meaning on the CPU compute, the rest
raise UnsupportedError when they are called.

Sources: tf_adapter/ops/*.cc of the newest release and of the old ones.
"""

from typing import Any, Callable, Dict, List, Optional

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat import system_operators
from ascend_session.compat.kernels import (
    activations,
    choosing,
    dropping,
    gated,
    recurrent,
    updating,
    warping,
)
from ascend_session.compat.refusing import DEVICE_ONLY, device_only

__all__ = ["LIBRARY", "GeneratedOperators"]

LIBRARY = "npu_bridge._tf_adapter"


def _get_shape(x: Any, name: Any = None) -> Any:
    return tf1().shape(x, name=name)


def _log_time_stamp(logid: str, notify: bool, name: Any = None) -> Any:
    return tf1().no_op(name=name or "LogTimeStamp")


def _hcom(operator: str) -> Callable[..., Any]:
    """A collective under the names that its operator's inputs and attributes have."""

    def called(**kwargs: Any) -> Any:
        from ascend_session.compat.npu_bridge.hccl import hccl_ops

        function, renamed = _HCOM[operator]
        named = {renamed.get(key, key): value for key, value in kwargs.items() if key != "name"}
        return getattr(hccl_ops, function)(**named)

    called.__name__ = function_name(operator)
    called.__doc__ = f"hccl_ops.{_HCOM[operator][0]}, with the operator's names of the arguments."
    return called


_IN = {"input": "tensor"}
# The operator's type -> the function of hccl_ops, and its names of the operator's arguments
_HCOM: Dict[str, Any] = {
    "HcomAllGather": ("allgather", _IN),
    "HcomAllReduce": ("allreduce", _IN),
    "HcomAllToAllV": ("all_to_all_v", {}),
    "HcomAllToAllVC": ("all_to_all_v_c", {}),
    "HcomBroadcast": ("broadcast", _IN),
    "HcomReceive": ("receive", {"T": "data_type"}),
    "HcomReduce": ("reduce", _IN),
    "HcomReduceScatter": ("reduce_scatter", _IN),
    "HcomSend": ("send", _IN),
}

# The operator's type -> what computes it
_COMPUTED: Dict[str, Callable[..., Any]] = {
    "AdamApplyOneAssign": updating.adam_apply_one_assign,
    "AdamApplyOneWithDecayAssign": updating.adam_apply_one_with_decay_assign,
    "BasicLSTMCell": recurrent.basic_lstm_cell,
    "Centralization": activations.centralization,
    "DeformableOffsets": warping.deformable_offsets,
    "DenseImageWarp": warping.dense_image_warp,
    "DropOutDoMask": dropping.drop_out_do_mask,
    "DropOutGenMask": dropping.drop_out_gen_mask,
    "DynamicAUGRU": gated.dynamic_augru,
    "DynamicGruV2": gated.dynamic_gru_v2,
    "DynamicRnn": recurrent.dynamic_rnn,
    "DynamicRnnV2": recurrent.dynamic_rnn_v2,
    "FastGelu": activations.fast_gelu,
    "FastGeluGrad": activations.fast_gelu_grad,
    "FastGeluV2": activations.fast_gelu_v2,
    "FusedLayerNorm": activations.fused_layer_norm,
    "FusedLayerNormGrad": activations.fused_layer_norm_grad,
    "Gelu": activations.gelu,
    "GeluGrad": activations.gelu_grad,
    "GetShape": _get_shape,
    "LARS": updating.lars,
    "LambApplyOptimizerAssign": updating.lamb_apply_optimizer_assign,
    "LambApplyWeightAssign": updating.lamb_apply_weight_assign,
    "LarsV2": updating.lars_v2,
    "LogTimeStamp": _log_time_stamp,
    "NPUInit": system_operators.npu_init,
    "NPUShutdown": system_operators.npu_shutdown,
    "NonZero": choosing.non_zero,
    "NonZeroWithValue": choosing.non_zero_with_value,
    "PRelu": activations.p_relu,
    "PReluGrad": activations.p_relu_grad,
    "RandomChoiceWithMask": choosing.random_choice_with_mask,
    "ScatterElements": choosing.scatter_elements,
}

_GRADIENT = "TensorFlow makes this gradient of the operator's formula here"
_STATUS = (
    "it reads a register of the device; on the CPU an overflow shows in the values, as inf or nan"
)
_MEMORY = "it is about memory that devices reach in one another"
_QUEUE = "it is a channel between the host and a device"
_TABLE = "its tables are kept on the device or in a parameter service of the vendor's"
_IMAGE = "it is a kernel of the device's image units, whose rounding is not public"
_LAYOUT = "its mask has a layout that only the device's own operators read"
_QUANTISED = "it stands in a model that the vendor's tools have quantised for a device"

# The operator's type -> why there is none on the CPU
_REFUSED: Dict[str, str] = {
    **dict.fromkeys(
        ("BasicLSTMCellCStateGrad", "BasicLSTMCellInputGrad", "BasicLSTMCellWeightGrad"), _GRADIENT
    ),
    **dict.fromkeys(("DeformableOffsetsGrad", "DenseImageWarpGrad", "DynamicAUGRUGrad"), _GRADIENT),
    **dict.fromkeys(("DynamicGruV2Grad", "DynamicRnnGrad"), _GRADIENT),
    **dict.fromkeys(("NpuAllocFloatStatus", "NpuGetFloatStatus", "NpuGetFloatStatusV2"), _STATUS),
    **dict.fromkeys(("NpuClearFloatStatus", "NpuClearFloatStatusV2"), _STATUS),
    **dict.fromkeys(("HcomRemoteRead", "HcomRemoteRefRead", "HcomRemoteWrite"), _MEMORY),
    **dict.fromkeys(("HcomRemoteScatterWrite", "HcomGatherAllToAllV"), _MEMORY),
    **dict.fromkeys(("EmbeddingRankId", "EmbeddingLocalIndex"), _MEMORY),
    **dict.fromkeys(("OutfeedDequeueOp", "OutfeedEnqueueOp", "StopOutfeedDequeueOp"), _QUEUE),
    **dict.fromkeys(("QueueDataset", "HostQueueDataset", "DeviceQueueDataset"), _QUEUE),
    **dict.fromkeys(("GEOPDataset", "DPGroupDataset", "AdpGetNext", "GetNext"), _QUEUE),
    **dict.fromkeys(("DynamicGetNextV2", "GetNextFromQueue", "QueueData"), _QUEUE),
    **dict.fromkeys(("BatchEnqueue", "Dequeue"), _QUEUE),
    **dict.fromkeys(("LruCache", "CacheAdd", "CacheRemoteIndexToLocal"), _TABLE),
    **dict.fromkeys(("CacheAllIndexToLocal", "LRUCacheV2", "InitEmbeddingHashmapV2"), _TABLE),
    **dict.fromkeys(("DeinitEmbeddingHashmapV2", "TableToResourceV2"), _TABLE),
    **dict.fromkeys(("EmbeddingHashmapExport", "EmbeddingHashmapSize"), _TABLE),
    **dict.fromkeys(("EmbeddingHashmapFileSize", "EmbeddingHashmapImport"), _TABLE),
    **dict.fromkeys(("InitEmbeddingHashTable", "EmbeddingHashTableLookupOrInsert"), _TABLE),
    **dict.fromkeys(("EmbeddingHashTableImport", "EmbeddingHashTableExport"), _TABLE),
    **dict.fromkeys(("EmbeddingHashTableApplyAdamW", "EmbeddingHashTableEvict"), _TABLE),
    **dict.fromkeys(("HostFeatureMapping", "EmbeddingFeatureMapping"), _TABLE),
    **dict.fromkeys(("InitPartitionMap", "InitEmbeddingHashmap", "EmbeddingTableImport"), _TABLE),
    **dict.fromkeys(("EmbeddingTableFind", "EmbeddingTableExport"), _TABLE),
    **dict.fromkeys(("OCRRecognitionPreHandle", "OCRDetectionPreHandle"), _IMAGE),
    **dict.fromkeys(("OCRIdentifyPreHandle", "OCRDetectionPostHandle"), _IMAGE),
    **dict.fromkeys(("BatchDilatePolys", "OCRFindContours", "ResizeAndClipPolys"), _IMAGE),
    **dict.fromkeys(("WarpAffineV2", "ResizeV2", "DecodeAndResizeJpeg"), _IMAGE),
    **dict.fromkeys(("DecodeAndCropAndResizeJpeg", "DecodeImageV3"), _IMAGE),
    **dict.fromkeys(("DropOutGenMaskV3", "DropOutGenMaskV4", "DropOutDoMaskV3"), _LAYOUT),
    **dict.fromkeys(("AscendQuant", "AscendWeightQuant"), _QUANTISED),
    **dict.fromkeys(("AscendDequant", "AscendAntiQuant"), _QUANTISED),
    **dict.fromkeys(("ProdEnvMatA", "ProdVirialSeA", "ProdForceSeA"), DEVICE_ONLY),
    **dict.fromkeys(("TabulateFusionSeA", "TabulateFusionSeAGrad"), DEVICE_ONLY),
    **dict.fromkeys(("TabulateFusion", "TabulateFusionGrad"), DEVICE_ONLY),
    **dict.fromkeys(("NonZeroWithValueShape", "NonZeroWithValueShapeV2"), DEVICE_ONLY),
    **dict.fromkeys(("StatelessDropout", "StatelessRandomChoiceWithMask"), DEVICE_ONLY),
    **dict.fromkeys(("ScatterElementsV2", "NpuOnnxGraphOp", "FileConstant"), DEVICE_ONLY),
    **dict.fromkeys(("GeOp", "DPOP", "LoadAndExecuteOm"), "it runs a graph built for a device"),
    "NpuTest": "no release registers such an operator",
}

# Where the rule that TensorFlow goes by is not the usual one
_SPELLED = {"LARS": "lars", "DPOP": "dpop", "NPUInit": "npu_init", "NPUShutdown": "npu_shutdown"}


def function_name(operator: str) -> str:
    """What TensorFlow calls the function of an operator (python_op_gen_internal.cc).

    An underscore stands before each capital that follows a small letter or a digit, and before the
    last of several capitals if a small letter follows it.
    """
    if operator in _SPELLED:
        return _SPELLED[operator]
    letters: List[str] = []
    for place, letter in enumerate(operator):
        before = operator[place - 1] if place else ""
        after = operator[place + 1 : place + 2]
        if letter.isupper() and before and (not before.isupper() or after.islower()):
            letters.append("_")
        letters.append(letter.lower())
    return "".join(letters)


class GeneratedOperators:
    """The library: an attribute for each operator.

    Attributes:
        names: Of all functions, sorted.
    """

    def __init__(self) -> None:
        self._functions: Dict[str, Callable[..., Any]] = {}
        for operator, function in _COMPUTED.items():
            self._add(operator, function)
        for operator, why in _REFUSED.items():
            name = f"{LIBRARY}.{function_name(operator)}"
            self._add(operator, device_only(name, why))
        for operator in _HCOM:
            self._add(operator, _hcom(operator))
        self._add("KMeansCentroids", _k_means_centroids)
        self._add("KMeansCentroidsV2", _k_means_centroids_v2)
        self.names = sorted(self._functions)

    def _add(self, operator: str, function: Callable[..., Any]) -> None:
        self._functions[function_name(operator)] = function
        self._functions[operator] = function

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found: Optional[Callable[..., Any]] = self.__dict__.get("_functions", {}).get(name)
        if found is None:
            raise AttributeError(f"module '{LIBRARY}' has no attribute {name!r}")
        return found

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self.names]


def _k_means_centroids(
    x: Any,
    y: Any,
    sum_square_y: Any,
    sum_square_x: Any,
    use_actual_distance: bool = False,
    name: Any = None,
) -> Any:
    used = sum_square_x if use_actual_distance else None
    return choosing.k_means_centroids(x, y, sum_square_y, used, name)


def _k_means_centroids_v2(
    x: Any, y: Any, sum_square_y: Any, use_actual_distance: bool = False, name: Any = None
) -> Any:
    return choosing.k_means_centroids(x, y, sum_square_y, None, name)
