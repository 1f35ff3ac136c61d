"""The state behind ``npu_bridge.profiler.profiler.Profiler`` (tf_adapter/util/profiler.cc).

It writes no data: no reference says what a profile of it looks like.
"""

from typing import List

__all__ = ["start", "stop"]

# profiler.cc, kProfilerLevelMap and kNpuMetricsMap
_LEVELS = ("L0", "L1", "L2")
_METRICS = (
    "PipeUtilization",
    "ArithmeticUtilization",
    "Memory",
    "MemoryL0",
    "ResourceConflictRatio",
    "MemoryUB",
    "L2Cache",
)

_enabled: List[str] = []


def start(level: str, aic_metrics: str, output_path: str) -> str:
    """Profiler::Enable; returns what is wrong, or an empty text."""
    if _enabled:
        return "Not support nested call 'profiler.Profiler'."
    if level not in _LEVELS:
        return f"Profiler options: level cannot set to: {level}, should set level to {_LEVELS}."
    if level == "L0" and aic_metrics:
        return "Please use L1 or L2 if you want to collect aic metrics!"
    if aic_metrics and aic_metrics not in _METRICS:
        return f"Profiler options: aic_metrics cannot set to: {aic_metrics}."
    _enabled.append(output_path or "./")
    return ""


def stop() -> str:
    """Profiler::Stop and Disable."""
    _enabled.clear()
    return ""
