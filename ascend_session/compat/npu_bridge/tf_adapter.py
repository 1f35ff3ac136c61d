"""``npu_bridge.tf_adapter``: the functions of the adapter's library that are no operators.

Source: tf_adapter/swig, tf_adapter/util/npu_plugin.h, and what the vendor's Python calls of them.
"""

from typing import Any, Dict, List

from ascend_session.compat import sessions
from ascend_session.compat.vendor_modules import mirror
from ascend_session.errors import warn

OP_DEBUG_LEVEL = "ge.opDebugLevel"
OPTION_EXEC_ENABLE_SCOPE_FUSION_PASSES = "ge.exec.enableScopeFusionPasses"
OPTION_EXEC_HCCL_FLAG = "ge.exec.hcclFlag"
OPTION_EXEC_PROFILING_MODE = "ge.exec.profilingMode"
OPTION_EXEC_PROFILING_OPTIONS = "ge.exec.profilingOptions"
OPTION_GRAPH_RUN_MODE = "ge.graphRunMode"

# util/profiler.cc
_LEVELS = ("L0", "L1", "L2")
_METRICS = (
    *("PipeUtilization", "ArithmeticUtilization", "Memory", "MemoryL0"),
    *("ResourceConflictRatio", "MemoryUB", "L2Cache"),
)


class _Profiling:
    """Whether a profiler has been started."""

    is_on = False


def map_string_string(options: Dict[str, str]) -> Dict[str, str]:
    """The options, as `PluginInit` takes them."""
    return dict(options)


def int64_vec(numbers: Any) -> List[int]:
    """The numbers as a list."""
    return [int(number) for number in numbers]


def PluginInit(init_options: Any) -> None:  # noqa: N802
    """Initialises the system for the process; the options are for a device."""
    sessions.bring_up()


def PluginFinalize() -> None:  # noqa: N802
    """Ends it."""
    sessions.shut_down()


def NpuClose() -> None:  # noqa: N802
    """Ends it."""
    sessions.shut_down()


def GetDeviceSatMode() -> int:  # noqa: N802
    """1: an overflow is inf or nan, as on any CPU."""
    return 1


def SetDeviceSatMode(mode: Any) -> None:  # noqa: N802
    """Takes 0 and 1; a CPU goes on as with 1."""
    int(mode)


def ProfilerStart(level: Any, aic_metrics: Any, output_path: Any) -> str:  # noqa: N802
    """What is wrong with the options, or an empty text.

    Warns:
        AscendConfigWarning: That no data is written, if nothing is wrong.
    """
    if _Profiling.is_on:
        return "Not support nested call 'profiler.Profiler'."
    if level not in _LEVELS:
        return f"Profiler options: level cannot be {level}, it must be one of {_LEVELS}."
    if level == "L0" and aic_metrics:
        return "Profiler options: aic_metrics need the level L1 or L2."
    if aic_metrics and aic_metrics not in _METRICS:
        return f"Profiler options: aic_metrics cannot be {aic_metrics}, only one of {_METRICS}."
    _Profiling.is_on = True
    warn("profiler.Profiler has no effect on the stub: no profiling data is written.")
    return ""


def ProfilerStop() -> str:  # noqa: N802
    """An empty text."""
    _Profiling.is_on = False
    return ""


def EnableControl() -> None:  # noqa: N802
    """Begins a block after which its graphs are unloaded; TensorFlow frees memory by itself."""


def Clear() -> None:  # noqa: N802
    """Ends the block."""


__getattr__, __all__ = mirror(
    globals(),
    "OPTION_EXEC_ENABLE_SCOPE_FUSION_PASSES OPTION_EXEC_HCCL_FLAG OPTION_EXEC_PROFILING_MODE "
    "OPTION_EXEC_PROFILING_OPTIONS OPTION_GRAPH_RUN_MODE OP_DEBUG_LEVEL",
)
