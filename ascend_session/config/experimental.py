"""ExperimentalConfig: the vendor's options "for debugging that may change".

Source: seed 001 (ExperimentalConfig constructor), npu_config.py ExperimentalConfig.
"""

from typing import Optional

from typing_extensions import Literal

from ascend_session.config.model import ConfigPart
from ascend_session.config.option import option
from ascend_session.config.types import AccelerateMode, AutoManual, PathText

__all__ = ["ExperimentalConfig", "GraphMemoryOptimizeConfig"]


class GraphMemoryOptimizeConfig(ConfigPart):
    """Recomputation and graph slicing, in the vendor's order.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    recompute: Optional[AutoManual] = option(None, "graph", "Activation recomputation mode.")
    graph_slice: Optional[AutoManual] = option("s", "session", "Graph slicing mode.")


class ExperimentalConfig(ConfigPart):
    """Experimental options, under the vendor's names and in the vendor's order.

    ``accelerate_train_mode`` takes ``"fast|step|0.9"`` or ``("fast", "step", 0.9)``.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    logical_device_cluster_deploy_mode: Optional[Literal["LB", "SINGLE"]] = option("s", "init", "Placement policy over logical devices.", key="experimental_logical_device_cluster_deploy_mode", adapter="LB")
    logical_device_id: Optional[str] = option("s", "init", "Logical device used in SINGLE placement.", key="experimental_logical_device_id")
    model_deploy_mode: Optional[str] = option("s", "init", "Model deployment mode.", key="experimental_model_deploy_mode")
    model_deploy_devicelist: Optional[str] = option("s", "init", "Devices for model deployment.", key="experimental_model_deploy_devicelist")
    graph_memory_optimize_config: Optional[GraphMemoryOptimizeConfig] = option(None, None, "Container for recompute and graph slicing.")
    enable_graph_parallel: Optional[bool] = option("b", "session", "Automatic graph parallelism.", adapter=False)
    graph_parallel_option_path: Optional[PathText] = option("s", "session", "Configuration for automatic graph parallelism.")
    graph_compiler_cache_dir: Optional[PathText] = option("s", "session", "Directory that caches whole compiled graphs.", seeds="1")
    resource_config_path: Optional[PathText] = option("s", "session", "Resource description file, also handed to AOE.")
    accelerate_train_mode: Optional[AccelerateMode] = option("s", "pass", "Runs the first part of training at reduced precision.", key="experimental_accelerate_train_mode", seeds="1")
