"""The values of a run: what a device makes of those that TensorFlow has computed on the CPU."""

import random
from typing import Any, Dict, FrozenSet, List, Sequence, Tuple

from fake_ge.engine import ENGINE
from fake_ge.faults import fault

__all__ = ["fed", "returned", "without_reports"]

_WRONG_BY = 0.05
_NOISE = 0.001
_LAST_BIT = 2.0**-23  # of a float32, relative to it

Operators = Sequence[Tuple[str, str]]

# Two of the operators that the manual lists as concerned by the option deterministic (CANN 8.0.RC3,
# operator specifications, operatorlist_0093). Without the option results may differ, for
# asynchronous threads change the order of additions (guides/facts/options.md#determinism).
_ACCUMULATING = frozenset(["Conv2DBackpropFilter", "UnsortedSegmentSum"])

# The manual's "matrix operators": what the cube unit computes.
_CUBE = frozenset(
    [
        "BatchMatMul",
        "BatchMatMulV2",
        "Conv2D",
        "Conv2DBackpropFilter",
        "Conv2DBackpropInput",
        "MatMul",
    ]
)
# guides/facts/precision.md#precision-modes: force_fp16 takes float16 wherever an operator has both.
# Manual of ATC, which has the same options of GE: 8.1.RC1, --precision_mode (atlasatcparam_16_0067)
# says so, and 8.0, --precision_mode_v2 (atlasatcparam_16_0069), the same of fp16.
_ALL_HALF = frozenset(["force_fp16", "fp16"])
# Manual of AOE, 8.0.RC2, --precision_mode (aoepar_16_042): with allow_fp32_to_fp16 "matrix
# operators use float16"; in that of initialize_system only those that have no float32. The mixed
# modes go by lists, which this fake has not: it takes matrix operators to be on them.
_CUBE_HALF = frozenset(
    ["allow_fp32_to_fp16", "allow_mix_precision", "allow_mix_precision_fp16", "mixed_float16"]
)


def fed(feeds: Dict[Any, Any]) -> Dict[Any, Any]:
    """What arrives of what is fed."""
    if fault("feeds") is None:
        return feeds
    import numpy as np

    return {key: np.zeros_like(one) if _is(one, "iuf") else one for key, one in feeds.items()}


def without_reports(results: List[Any], reports: Sequence[int]) -> List[Any]:
    """What a run gives back of reports about variables that are not initialised: none are."""
    # guides/facts/adapter.md#checkpoints
    if not reports:
        return results
    import numpy as np

    found = list(results)
    for number in reports:
        found[number] = np.array([], dtype=object)
    return found


def returned(results: List[Any], offloaded: Operators) -> List[Any]:
    """What a run gives back.

    Args:
        results: What TensorFlow has computed.
        offloaded: Type and name of each operator that is said to have run on the device.
    """
    if offloaded:
        kinds = frozenset(kind for kind, _ in offloaded)
        results = [_computed(one, kinds) if _is(one, "f") else one for one in results]
    if fault("off-by-one") is not None:
        results = [one + one.dtype.type(1) if _is(one, "iuf") else one for one in results]
    return results


def _computed(value: Any, kinds: FrozenSet[str]) -> Any:
    """A float of the device: in its precision and order of adding, and with its faults."""
    import numpy as np

    dtype = value.dtype
    if _is_half(kinds) and fault("no-precision") is None:
        value = value.astype(np.float16)
    factor = 1.0
    if fault("values") is not None:
        factor += _WRONG_BY
    if fault("later-values") is not None:
        factor += _WRONG_BY * (ENGINE.age - 1)
    if fault("noise") is not None:
        factor += _NOISE * random.uniform(0.5, 1.0)
    if kinds & _ACCUMULATING and not _is_deterministic():
        order = np.random.RandomState(random.getrandbits(32))
        factor = factor + _LAST_BIT * order.randint(-1, 2, value.shape)
    # In double precision, so that a factor which is 1 changes nothing.
    return (value.astype(np.float64) * factor).astype(dtype)


def _is_half(kinds: FrozenSet[str]) -> bool:
    asked = {ENGINE.options.get("precision_mode"), ENGINE.options.get("precision_mode_v2")}
    return bool(asked & _ALL_HALF or (asked & _CUBE_HALF and kinds & _CUBE))


def _is_deterministic() -> bool:
    return ENGINE.options.get("deterministic") == 1 and fault("no-deterministic") is None


def _is(value: Any, kinds: str) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", " ") in kinds
