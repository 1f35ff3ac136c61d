"""The list of operators that the device has, as npu_ops_identifier.cc reads it.

What options do to it (mix_compile_mode, in_out_pair, variable_placement) is not modelled.
"""

import json
import os
from typing import Any, Dict, FrozenSet, List

from fake_ge.faults import host_root

__all__ = ["SUPPORTED", "supported"]

# What a live host has in its list. The vendor's is made with the operator package, and differs from
# release to release; these are the operators that tests are likely to use, and that are in
# - the list of the adapter's own tests (Ascend/tensorflow, tf_adapter/tests/depends/support_json),
_OF_ITS_TESTS = """
Abs AccumulateNV2 Add AddV2 ApplyMomentum ArgMax Cast Enter Exit Floor Greater If
IsVariableInitialized Less LogicalNot LoopCond MatMul Merge Mul NextIteration Pack RandomUniformInt
Softmax Squeeze StridedSlice Sub Sum Switch Unique VariableV2 Where
"""
# - the vendor's whitelist of TensorFlow operators for the AI CPU (TF_whitelist.h,
#   REGISTER_FRAMEWORK_OP), where the queues are "gray": on the host with mix_compile_mode. Of
#   Assert see also geop_npu.cc, AddNodeAttrs.
_OF_THE_AI_CPU = """
Assert Assign AssignAdd Div FIFOQueueV2 PaddingFIFOQueueV2 Print PrintV2 PriorityQueueV2
QueueCloseV2 QueueDequeueManyV2 QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueueManyV2 QueueEnqueueV2
QueueIsClosedV2 QueueSizeV2 RandomShuffleQueueV2 RandomStandardNormal RandomUniform TruncatedNormal
"""
# - the adapter's operators for collectives (tf_adapter/ops/hccl/hccl_ops.cc),
_OF_HCCL = """
HcomAllGather HcomAllReduce HcomAllToAllV HcomAllToAllVC HcomBroadcast HcomGatherAllToAllV
HcomReceive HcomReduce HcomReduceScatter HcomRemoteRead HcomRemoteRefRead HcomRemoteScatterWrite
HcomRemoteWrite HcomSend
"""
# - and, ASSUMED: everyday operators of networks, which no public list was looked up for.
_EVERYDAY = """
AddN AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp AvgPool BatchMatMul
BatchMatMulV2 BiasAdd BiasAddGrad ConcatV2 Conv2D Conv2DBackpropFilter Conv2DBackpropInput Equal Exp
ExpandDims Fill FusedBatchNormV3 Gather GatherV2 L2Loss Log LogSoftmax Max MaxPool MaxPoolGrad
Maximum Mean Min Minimum Neg Pow ReadVariableOp RealDiv Relu ReluGrad Reshape ResourceApplyAdam
ResourceApplyGradientDescent Rsqrt Sigmoid SigmoidGrad SoftmaxCrossEntropyWithLogits
SparseSoftmaxCrossEntropyWithLogits Sqrt Square SquaredDifference Tanh TanhGrad Tile Transpose
UnsortedSegmentSum VarHandleOp Variable
"""
# Identity and NoOp, in the first list, are left out: where no other operator goes with them they
# are not offloaded (om_partition_subgraphs_pass.cc, MarkForPartition: "Clear isolated NoOp").
SUPPORTED = tuple(sorted(f"{_OF_ITS_TESTS}{_OF_THE_AI_CPU}{_OF_HCCL}{_EVERYDAY}".split()))

# om_partition_subgraphs_pass.cc, IsWhiteListSupport: not offloaded, whatever the list says
_NEVER = ("Const", "_Arg", "_Retval", "StringJoin")
_NEVER_ENDS = ("Dataset", "DatasetV2")

_DEFAULT = "usr/local/Ascend/opp"
_FILE = "npu_supported_ops.json"

_found: List[FrozenSet[str]] = []


def supported() -> FrozenSet[str]:
    """The names; none if there is no list. Read once in a process."""
    # npu_ops_identifier.cc, GetInstance: a static instance
    if not _found:
        known: Dict[str, Any] = {}
        # npu_ops_identifier.cc, constructor: each further list overwrites what stands before it
        for path in _files():
            known.update(_entries(path))
        _found.append(frozenset(name for name, entry in known.items() if _declared(name, entry)))
    return _found[0]


def _declared(name: str, entry: Any) -> bool:
    # npu_ops_identifier.cc, IsNpuSupported: declared if its entry is an object
    return isinstance(entry, dict) and name not in _NEVER and not name.endswith(_NEVER_ENDS)


def _files() -> List[str]:
    # npu_ops_identifier.cc, constructor: ASCEND_OPP_PATH, default /usr/local/Ascend/opp
    root = os.environ.get("ASCEND_OPP_PATH", os.path.join(host_root(), _DEFAULT))
    older = os.path.join(root, "framework/custom/tensorflow", _FILE)
    # npu_ops_identifier.cc, IsNewOppPathStruct: <opp>/built-in is a folder
    if not os.path.isdir(os.path.join(root, "built-in")):
        return [os.path.join(root, "framework/built-in/tensorflow", _FILE), older]
    vendors = [os.path.join(root, "vendors", name) for name in _vendors(root)]
    # npu_ops_identifier.cc, GetCustomOpPathFromCustomOppPath: ASCEND_CUSTOM_OPP_PATH, split at ":"
    custom = filter(os.path.isdir, os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":"))
    places = [os.path.join(root, "built-in"), *custom, *vendors]
    found = [os.path.join(place, "framework/tensorflow", _FILE) for place in places]
    return found if vendors else [*found, older]


def _vendors(root: str) -> List[str]:
    # npu_ops_identifier.cc, GetOppPluginVendors: the first line, "load_priority=a,b"
    try:
        with open(os.path.join(root, "vendors/config.ini"), encoding="utf-8") as file:
            parts = file.readline().strip().split("=")
    except OSError:
        return []
    return [name.strip() for name in parts[1].split(",")] if len(parts) == 2 else []


def _entries(path: str) -> Dict[str, Any]:
    # npu_ops_identifier.cc, ParseOps: a file that is not there or no JSON has no operators
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
    except (OSError, ValueError):
        return {}
    return dict(known)
