"""The parts of a configuration: the vendor's own sub-config classes, same names, same order.

Sources: npu_config.py of the adapter (the classes); npu_attrs.cc CheckPath, checkDumpStep,
checkDumpMode, checkDumpDebugMode, CheckInputShape, CheckDynamicDims;
guides/facts/README.md#pages-of-the-manual.
"""

from typing import Optional

from typing_extensions import Annotated, Literal

from ascend_session.config.grammars.accelerate import AccelerateMode
from ascend_session.config.grammars.lists import DumpLayer, DumpStep
from ascend_session.config.grammars.profiling_options import ProfilingText
from ascend_session.config.grammars.shapes import DynamicDims, InputShape
from ascend_session.config.grammars.single_values import PathText
from ascend_session.config.model import ConfigPart
from ascend_session.config.option import Option
from ascend_session.config.types import AutoManual, Switch, UpTo2, UpTo4


class MemoryConfig(ConfigPart):
    """Device memory options, under the vendor's names and in the vendor's order.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    atomic_clean_policy: Annotated[Optional[Switch], Option("i", "session", "0 clears all memset-type operator memory in one go, 1 clears it per operator to save memory.", adapter=0)] = None
    static_memory_policy: Annotated[Optional[UpTo4], Option("i", "init", "Chooses how device memory is allocated: dynamic, or expandable for static and/or dynamic graphs.", adapter=0, pages="3")] = None
    memory_optimization_policy: Annotated[Optional[Literal["MemoryPriority"]], Option("s", "session", "Asks GE to prefer a memory-saving topological order.")] = None
    variable_use_1g_huge_page: Annotated[Optional[UpTo2], Option("i", "session", "Backs variables and constants with 1 GB huge pages: 0 off, 1 required, 2 preferred with 2 MB fallback.", adapter=0, applies="Ascend 950, Atlas A3 and Atlas A2 families only", also=("init",))] = None


class DynamicInputConfig(ConfigPart):
    """Dynamic size profiles, under the vendor's names and in the vendor's order.

    ``input_shape`` takes ``"data:1,-1;label:-1"`` or a mapping of names to sizes;
    ``dynamic_dims`` takes ``"2,2;4,4"`` or a list of profiles.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    input_shape: Annotated[Optional[InputShape], Option("s", "graph", "Names and shapes of the inputs, with -1 marking the dimensions that vary by profile.", applies="online inference")] = None
    dynamic_dims: Annotated[Optional[DynamicDims], Option("s", "graph", "Semicolon-separated profiles, each giving concrete values for the -1 dimensions in order.", applies="online inference")] = None
    dynamic_node_type: Annotated[Optional[Switch], Option("i", "graph", "Says whether the dynamic inputs come from the dataset (0) or from placeholders (1).", applies="online inference")] = None
    compile_hybrid_mode: Annotated[Optional[Switch], Option("i", "graph", "Compiles a dynamic-shape fallback next to the profile graphs and picks at run time.", adapter=0, applies="online inference")] = None


class DumpConfig(ConfigPart):
    """Data dump and overflow detection, under the vendor's names and in the vendor's order.

    ``dump_step`` takes ``"0|3-5|10"``, a number, or a list such as ``[0, (3, 5), 10]``;
    ``dump_layer`` takes blank-separated operator names or a list of them.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    enable_dump: Annotated[Optional[bool], Option("b", "session", "Turns on operator data dump.", adapter=False, pages="2")] = None
    dump_path: Annotated[Optional[PathText], Option("s", "session", "Existing writable folder that receives dump files.", pages="2")] = None
    dump_step: Annotated[Optional[DumpStep], Option("s", "session", "Steps to dump, as numbers and ranges.", pages="2")] = None
    dump_mode: Annotated[Optional[Literal["input", "output", "all"]], Option("s", "session", "Dump inputs, outputs or both.", adapter="output", pages="2")] = None
    enable_dump_debug: Annotated[Optional[bool], Option("b", "session", "Turns on overflow detection dump.", adapter=False, pages="2")] = None
    dump_debug_mode: Annotated[Optional[Literal["aicore_overflow", "atomic_overflow", "all"]], Option("s", "session", "Kind of overflow to detect.", adapter="all", applies="only 'all' on Ascend 950, Atlas A3 and Atlas A2 families", pages="2")] = None
    dump_data: Annotated[Optional[Literal["tensor", "stats"]], Option("s", "init", "Dump raw tensors or per-tensor statistics (CSV).", adapter="tensor")] = None
    dump_layer: Annotated[Optional[DumpLayer], Option("s", "session", "Space-separated operator names to restrict the dump to.")] = None


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

    enable_profiling: Annotated[Optional[bool], Option("b", "init", "Turns profiling on for the whole process.", key="profiling_mode", adapter=False, pages="2")] = None
    profiling_options: Annotated[Optional[ProfilingText], Option("s", "init", "JSON object selecting what profiling collects.", product=DEFAULT_PROFILING, pages="2")] = None


class GraphMemoryOptimizeConfig(ConfigPart):
    """Recomputation and graph slicing, in the vendor's order.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    recompute: Annotated[Optional[AutoManual], Option(None, "graph", "Activation recomputation mode.")] = None
    graph_slice: Annotated[Optional[AutoManual], Option("s", "session", "Graph slicing mode.")] = None


class ExperimentalConfig(ConfigPart):
    """Experimental options, under the vendor's names and in the vendor's order.

    ``accelerate_train_mode`` takes ``"fast|step|0.9"`` or ``("fast", "step", 0.9)``.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    logical_device_cluster_deploy_mode: Annotated[Optional[Literal["LB", "SINGLE"]], Option("s", "init", "Placement policy over logical devices.", key="experimental_logical_device_cluster_deploy_mode", adapter="LB")] = None
    logical_device_id: Annotated[Optional[str], Option("s", "init", "Logical device used in SINGLE placement.", key="experimental_logical_device_id")] = None
    model_deploy_mode: Annotated[Optional[str], Option("s", "init", "Model deployment mode.", key="experimental_model_deploy_mode")] = None
    model_deploy_devicelist: Annotated[Optional[str], Option("s", "init", "Devices for model deployment.", key="experimental_model_deploy_devicelist")] = None
    graph_memory_optimize_config: Annotated[Optional[GraphMemoryOptimizeConfig], Option(None, "", "Container for recompute and graph slicing.")] = None
    enable_graph_parallel: Annotated[Optional[bool], Option("b", "session", "Automatic graph parallelism.", adapter=False)] = None
    graph_parallel_option_path: Annotated[Optional[PathText], Option("s", "session", "Configuration for automatic graph parallelism.")] = None
    graph_compiler_cache_dir: Annotated[Optional[PathText], Option("s", "session", "Folder that caches whole compiled graphs.", pages="1")] = None
    resource_config_path: Annotated[Optional[PathText], Option("s", "session", "Resource description file, also handed to AOE.")] = None
    accelerate_train_mode: Annotated[Optional[AccelerateMode], Option("s", "pass", "Runs the first part of training at reduced precision.", key="experimental_accelerate_train_mode", pages="1")] = None
