"""``npu_bridge.tf_adapter``: the functions of the adapter's library that are no operators.

Source: tf_adapter/swig, tf_adapter/util/npu_plugin.h, and what the vendor's Python calls of them.
"""

from typing import Any, Dict, List

from ascend_session.compat.script_run import script_run
from ascend_session.compat.vendor_modules import mirror

OP_DEBUG_LEVEL = "ge.opDebugLevel"
OPTION_EXEC_ENABLE_SCOPE_FUSION_PASSES = "ge.exec.enableScopeFusionPasses"
OPTION_EXEC_HCCL_FLAG = "ge.exec.hcclFlag"
OPTION_EXEC_PROFILING_MODE = "ge.exec.profilingMode"
OPTION_EXEC_PROFILING_OPTIONS = "ge.exec.profilingOptions"
OPTION_GRAPH_RUN_MODE = "ge.graphRunMode"


def map_string_string(options: Dict[str, str]) -> Dict[str, str]:
    """Copy the options into a dict for `PluginInit`."""
    return dict(options)


def int64_vec(numbers: Any) -> List[int]:
    """Return a list of ints."""
    return [int(number) for number in numbers]


def PluginInit(init_options: Any) -> None:  # noqa: N802
    """Initialise the system for the process; the options have no effect on a CPU."""
    script_run().bring_up()


def PluginFinalize() -> None:  # noqa: N802
    """Shut the system down."""
    script_run().shut_down()


def NpuClose() -> None:  # noqa: N802
    """Shut the system down."""
    script_run().shut_down()


def GetDeviceSatMode() -> int:  # noqa: N802
    """Return 1: an overflow gives inf or nan, as on any CPU."""
    return 1


def SetDeviceSatMode(mode: Any) -> None:  # noqa: N802
    """Accept a number; a CPU always works as with 1."""
    int(mode)


__getattr__, __all__ = mirror(
    globals(),
    "OPTION_EXEC_ENABLE_SCOPE_FUSION_PASSES OPTION_EXEC_HCCL_FLAG OPTION_EXEC_PROFILING_MODE "
    "OPTION_EXEC_PROFILING_OPTIONS OPTION_GRAPH_RUN_MODE OP_DEBUG_LEVEL",
)
