"""The list of operators that the device has, as npu_ops_identifier.cc reads it."""

import json
import os
from typing import Any, FrozenSet, List

from fake_ge.faults import host_root

__all__ = ["SUPPORTED", "supported"]

# What a live host has in its list: operators that tests are likely to use.
_NAMES = """
Abs Add AddN AddV2 ArgMax Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp
AssignVariableOp AvgPool BatchMatMul BatchMatMulV2 BiasAdd BiasAddGrad Cast ConcatV2 Conv2D
Conv2DBackpropFilter Conv2DBackpropInput Div Equal Exp ExpandDims Fill FusedBatchNormV3
Gather GatherV2 Greater HcomAllGather HcomAllReduce HcomAllToAllV HcomAllToAllVC
HcomBroadcast HcomGatherAllToAllV HcomReceive HcomReduce HcomReduceScatter HcomRemoteRead
HcomRemoteRefRead HcomRemoteScatterWrite HcomRemoteWrite HcomSend L2Loss Less Log LogSoftmax
MatMul Max MaxPool MaxPoolGrad Maximum Mean Min Minimum Mul Neg Pow ReadVariableOp RealDiv
Relu ReluGrad Reshape ResourceApplyAdam ResourceApplyGradientDescent Rsqrt Sigmoid
SigmoidGrad Softmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits Sqrt
Square SquaredDifference Sub Sum Tanh TanhGrad Tile Transpose TruncatedNormal VarHandleOp
Variable VariableV2
"""
SUPPORTED = tuple(_NAMES.split())

_DEFAULT = "usr/local/Ascend/opp"
_FILE = "npu_supported_ops.json"

_found: List[FrozenSet[str]] = []


def supported() -> FrozenSet[str]:
    """The names; none if there is no list. Read once in a process."""
    if not _found:
        names = [name for path in _files() for name in _names(path)]
        _found.append(frozenset(names))
    return _found[0]


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


def _names(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8") as file:
            known: Any = json.load(file)
    except (OSError, ValueError):
        return []
    # npu_ops_identifier.cc, IsNpuSupported: declared if its entry is an object
    return [name for name, entry in known.items() if isinstance(entry, dict)]
