"""ProfilingConfig: whether the whole process is profiled, and what is collected.

Source: seed 000 and seed 002 (profiling), npu_config.py ProfilingConfig, npu_attrs.cc.
"""

from typing import Optional

from ascend_session.config.model import ConfigPart
from ascend_session.config.option import option
from ascend_session.config.types import ProfilingText

__all__ = ["DEFAULT_PROFILING", "ProfilingConfig"]

# What the adapter sends while profiling is on and no options are given (npu_attrs.cc,
# profiling_default_options).
DEFAULT_PROFILING = (
    '{"output":"./","training_trace":"on","task_time":"on","hccl":"on","aicpu":"on",'
    '"aic_metrics":"PipeUtilization","msproftx":"off"}'
)


class ProfilingConfig(ConfigPart):
    """Profiling, under the vendor's names and in the vendor's order.

    ``profiling_options`` takes the JSON text, a dict, or a `ProfilingOptions` object.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    enable_profiling: Optional[bool] = option("b", "init", "Turns profiling on for the whole process.", key="profiling_mode", adapter=False, seeds="2")
    profiling_options: Optional[ProfilingText] = option("s", "init", "JSON object selecting what profiling collects.", product=DEFAULT_PROFILING, seeds="2")
