"""Every option that AscendConfig takes, one line each: the only definition of its facts.

The parts of a configuration are the vendor's own sub-config classes: same names, same order.

Sources: npu_config.py (NPURunConfig and the other classes); npu_attrs.cc SetNpuOptimizerAttr,
CheckPath, checkDumpStep, checkDumpMode, checkDumpDebugMode, CheckInputShape, CheckDynamicDims; the
pages of the manual that ``pages`` on a line stands for
(guides/facts/README.md#pages-of-the-manual).
"""

from typing import Optional

from typing_extensions import Annotated, Literal

from ascend_session.config import ends, types
from ascend_session.config.ends import (
    ENTRY,
    GE,
    GRAPH,
    OFFLOAD,
    PASSES,
    RUN_CONFIG,
    AdapterView,
    Ends,
)
from ascend_session.config.grammars import accelerate, lists, shapes
from ascend_session.config.grammars.profiling_options import ProfilingText
from ascend_session.config.model import ConfigModel, ConfigPart
from ascend_session.config.option import Option
from ascend_session.vendor import EXECUTION_SECONDS


class MemoryConfig(ConfigPart):
    """Device memory options, under the vendor's names and in the vendor's order.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    atomic_clean_policy: Annotated[Optional[types.Switch], Option("i", "session", "0 clears all memset-type operator memory in one go, 1 clears it per operator to save memory.", adapter=0)] = None
    static_memory_policy: Annotated[Optional[types.UpTo4], Option("i", "init", "Chooses how device memory is allocated: dynamic, or expandable for static and/or dynamic graphs.", adapter=0, pages=("tuning",))] = None
    memory_optimization_policy: Annotated[Optional[Literal["MemoryPriority"]], Option("s", "session", "Asks GE to prefer a memory-saving topological order.")] = None
    variable_use_1g_huge_page: Annotated[Optional[types.UpTo2], Option("i", "session", "Backs variables and constants with 1 GB huge pages: 0 off, 1 required, 2 preferred with 2 MB fallback.", adapter=0, applies="Ascend 950, Atlas A3 and Atlas A2 families only", other_scopes=("init",), ends=(Ends(ENTRY, takes=ends.takes_numbers(0, 2, bits=32)),))] = None


class DynamicInputConfig(ConfigPart):
    """Dynamic size profiles, under the vendor's names and in the vendor's order.

    ``input_shape`` takes ``"data:1,-1;label:-1"`` or a mapping of names to sizes;
    ``dynamic_dims`` takes ``"2,2;4,4"`` or a list of profiles.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    input_shape: Annotated[Optional[shapes.InputShape], Option("s", "graph", "Names and shapes of the inputs, with -1 marking the dimensions that vary by profile.", applies="online inference", ends=(Ends(ENTRY, takes=ends.takes_input_shape, when=AdapterView.has_profiles), Ends(GE, "ParseInputShape", is_proven=False)))] = None
    dynamic_dims: Annotated[Optional[shapes.DynamicDims], Option("s", "graph", "Semicolon-separated profiles, each giving concrete values for the -1 dimensions in order.", applies="online inference", ends=(Ends(ENTRY, takes=ends.takes_dynamic_dims, when=AdapterView.has_profiles), Ends(GE, "multi_batch_options.cc, ParseDynamicSize and CheckDynamicParams", when=ends.with_wrong_profiles)))] = None
    dynamic_node_type: Annotated[Optional[types.Switch], Option("i", "graph", "Says whether the dynamic inputs come from the dataset (0) or from placeholders (1).", applies="online inference", ends=(Ends(ENTRY),))] = None
    compile_hybrid_mode: Annotated[Optional[types.Switch], Option("i", "graph", "Compiles a dynamic-shape fallback next to the profile graphs and picks at run time.", adapter=0, applies="online inference", ends=(Ends(ENTRY, when=AdapterView.has_profiles),))] = None


class DumpConfig(ConfigPart):
    """Data dump and overflow detection, under the vendor's names and in the vendor's order.

    ``dump_step`` takes ``"0|3-5|10"``, a number, or a list such as ``[0, (3, 5), 10]``;
    ``dump_layer`` takes blank-separated operator names or a list of them.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    enable_dump: Annotated[Optional[bool], Option("b", "session", "Turns on operator data dump.", adapter=False, pages=("initialize_system",), always=True)] = None
    dump_path: Annotated[Optional[types.PathText], Option("s", "session", "Existing writable folder that receives dump files.", pages=("initialize_system",), ends=(Ends(ENTRY, takes=ends.takes_path, when=ends.while_dumping),))] = None
    dump_step: Annotated[Optional[lists.DumpStep], Option("s", "session", "Steps to dump, as numbers and ranges.", pages=("initialize_system",), ends=(Ends(ENTRY, takes=ends.takes_dump_step, when=ends.while_on("enable_dump")), Ends(GE, "dump_properties.cc, CheckDumpStepInner", when=ends.while_on("enable_dump"))))] = None
    dump_mode: Annotated[Optional[Literal["input", "output", "all"]], Option("s", "session", "Dump inputs, outputs or both.", adapter="output", pages=("initialize_system",), ends=(Ends(ENTRY, when=ends.while_on("enable_dump")),))] = None
    enable_dump_debug: Annotated[Optional[bool], Option("b", "session", "Turns on overflow detection dump.", adapter=False, pages=("initialize_system",), always=True)] = None
    dump_debug_mode: Annotated[Optional[Literal["aicore_overflow", "atomic_overflow", "all"]], Option("s", "session", "Kind of overflow to detect.", adapter="all", applies="only 'all' on Ascend 950, Atlas A3 and Atlas A2 families", pages=("initialize_system",), ends=(Ends(ENTRY, when=ends.while_on("enable_dump_debug")),))] = None
    dump_data: Annotated[Optional[Literal["tensor", "stats"]], Option("s", "init", "Dump raw tensors or per-tensor statistics (CSV).", adapter="tensor", ends=(Ends(ENTRY),))] = None
    dump_layer: Annotated[Optional[lists.DumpLayer], Option("s", "session", "Space-separated operator names to restrict the dump to.")] = None


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

    enable_profiling: Annotated[Optional[bool], Option("b", "init", "Turns profiling on for the whole process.", key="profiling_mode", adapter=False, pages=("initialize_system",))] = None
    profiling_options: Annotated[Optional[ProfilingText], Option("s", "init", "JSON object selecting what profiling collects.", product=DEFAULT_PROFILING, pages=("initialize_system",), ends=(Ends(GE, "prof_acl_mgr.cpp, CheckGeOptionConfigInvalid", takes=ends.takes_profiling, when=ends.while_on("profiling_mode")),))] = None


class GraphMemoryOptimizeConfig(ConfigPart):
    """Recomputation and graph slicing, in the vendor's order.

    Raises:
        ConfigError: On an unknown name, a wrong type or a value that is not allowed.
    """

    recompute: Annotated[Optional[types.AutoManual], Option(None, "graph", "Activation recomputation mode.")] = None
    graph_slice: Annotated[Optional[types.AutoManual], Option("s", "session", "Graph slicing mode.", ends=(Ends(ENTRY),))] = None


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
    enable_graph_parallel: Annotated[Optional[bool], Option("b", "session", "Automatic graph parallelism.", adapter=False, left_out=True)] = None
    graph_parallel_option_path: Annotated[Optional[types.PathText], Option("s", "session", "Configuration for automatic graph parallelism.")] = None
    graph_compiler_cache_dir: Annotated[Optional[types.PathText], Option("s", "session", "Folder that caches whole compiled graphs.", pages=("experimental",))] = None
    resource_config_path: Annotated[Optional[types.PathText], Option("s", "session", "Resource description file, also handed to AOE.")] = None
    accelerate_train_mode: Annotated[Optional[accelerate.AccelerateMode], Option("s", "pass", "Runs the first part of training at reduced precision.", key="experimental_accelerate_train_mode", pages=("experimental",), ends=(Ends(OFFLOAD, "geop_npu.cc, ParserAccelerateTrain", takes=ends.takes_acceleration), ends.PROGRESS))] = None


class AdapterOptions(ConfigModel, whole=True):
    """The options themselves, under the vendor's flat names and with the vendor's parts.

    A blank line begins a group, whose first option has its title.
    """

    graph_run_mode: Annotated[Optional[types.Switch], Option("i", "init", group="Basics", doc="Selects training (1) or online-inference (0) compilation for the whole process.", adapter=1, other_scopes=("session",), pages=("run_config", "initialize_system"), always=True, ends=(Ends(ENTRY, takes=ends.takes_numbers(high=1)), Ends(RUN_CONFIG)))] = None
    session_device_id: Annotated[Optional[types.NotNegative], Option("i", "session", "Binds the session to one logical device so that one process can drive several devices.", pages=("run_config",), ends=(Ends(ENTRY, takes=ends.takes_numbers(0)),))] = None
    deterministic: Annotated[Optional[types.Switch], Option("i", "init", "Makes operators bit-reproducible on identical hardware and input, at a speed cost; the script needs a fixed seed, too.", adapter=0, pages=("run_config",), always=True, ends=(Ends(GE, "option_utils.cc, CheckDeterministicOptionsValid"),))] = None
    use_off_line: Annotated[Optional[bool], Option("b", "pass", "Master switch: False leaves the graph on the host CPU and skips every adapter pass.", adapter=True, raw_only=True, pages=("initialize_system",), always=True)] = None

    memory_config: Annotated[Optional[MemoryConfig], Option(None, "", group="Memory", doc="Container object for the four memory options.", pages=("run_config",))] = None
    external_weight: Annotated[Optional[bool], Option("b", "session", "Writes Const weights to files so that several models in a session can share them.", adapter=False, pages=("run_config",), always=True)] = None
    input_fusion_size: Annotated[Optional[types.FusionBytes], Option("i", "session", "Host inputs up to this many bytes are merged into one host-to-device copy; 0 disables merging.", adapter=131072, unit="bytes", applies="static-shape graphs only", pages=("run_config",), always=True)] = None
    input_batch_cpy: Annotated[Optional[bool], Option("b", "session", "Uses one batched host-to-device copy when a graph has more than one input.", adapter=False, applies="Ascend 950, Atlas A3 and Atlas A2 families only", other_scopes=("init",), sticky=True)] = None

    dynamic_input_config: Annotated[Optional[DynamicInputConfig], Option(None, "", group="Dynamic shapes", doc="Container for dynamic size-profile settings.")] = None
    ac_parallel_enable: Annotated[Optional[types.TextSwitch], Option("s", "session", "Lets AI CPU operators overlap with AI Core operators in dynamic-shape graphs.", product="0", pages=("run_config",), ends=(Ends(GE, "dynamic_stream_allocator.cc, GetAcParallelEnableConfig", is_proven=False),))] = None
    compile_dynamic_mode: Annotated[Optional[bool], Option("b", "session", "Generalises every input dimension to -1 so that the graph is compiled as dynamic.", adapter=False, other_scopes=("pass",), pages=("run_config",), left_out=True)] = None
    all_tensor_not_empty: Annotated[Optional[bool], Option("b", "session", "Promises that no tensor is empty so that the emptiness checks can be dropped.", adapter=False)] = None

    mix_compile_mode: Annotated[Optional[bool], Option("b", "pass", group="Mixed computing", doc="Allows operators that the device cannot run to execute in TensorFlow on the host.", adapter=False, pages=("run_config",), always=True, ends=(Ends(RUN_CONFIG),))] = None
    in_out_pair_flag: Annotated[Optional[bool], Option("b", "pass", "True offloads the operators between in_out_pair's ends, False keeps exactly those on the host.", adapter=True, applies="online inference", raw_only=True)] = None
    in_out_pair: Annotated[Optional[lists.InOutPair], Option("s", "pass", "Python-list text naming the first and last operators of the sub-graph to (not) offload.", applies="online inference", raw_only=True, ends=(Ends(OFFLOAD, takes=ends.takes_pairs),))] = None

    variable_placement: Annotated[Optional[Literal["Host", "Device"]], Option("s", "pass", group="Performance", doc="Places variables in device or host memory.", adapter="Device", pages=("run_config",), always=True, ends=(Ends(PASSES),))] = None
    frozen_variable: Annotated[Optional[bool], Option("b", "pass", "Folds restored variables into constants for inference.", adapter=False, applies="online inference", always=True)] = None
    iterations_per_loop: Annotated[Optional[types.Positive], Option("i", "pass", "Training steps executed on the device per session run.", adapter=1, pages=("run_config",), always=True, ends=(Ends(GRAPH, takes=ends.takes_numbers(1, bits=32)), Ends(RUN_CONFIG, takes=ends.takes_numbers(1))))] = None
    hcom_parallel: Annotated[Optional[bool], Option("b", "session", "Overlaps gradient AllReduce with forward/backward computation.", adapter=True, pages=("run_config",), always=True)] = None
    op_precision_mode: Annotated[Optional[types.OpPrecisionFile], Option("s", "init", "INI file choosing an implementation mode per operator type or node name.", other_scopes=("session",), pages=("run_config", "atc"))] = None
    enable_scope_fusion_passes: Annotated[Optional[lists.CommaNames], Option("s", "init", "Comma-separated non-general scope fusion passes to enable.", pages=("run_config",))] = None
    stream_max_parallel_num: Annotated[Optional[lists.StreamParallel], Option("s", "session", "Concurrent task count per execution engine.", product="1 per engine", applies="NMT networks", pages=("run_config",), ends=(Ends(GE, "graph_manager.cc, ParseParallelNum", takes=ends.takes_stream_numbers),))] = None
    is_tailing_optimization: Annotated[Optional[bool], Option("b", "session", "Hides the last gradient AllReduce behind independent computation.", adapter=False, applies="BERT networks", pages=("run_config",), always=True)] = None
    enable_small_channel: Annotated[Optional[types.Switch], Option("i", "session", "Optimises convolutions with at most four channels; not advised in training.", adapter=0, pages=("run_config",), always=True, ends=(Ends(GE, "configuration.cc, InitConfigParamFromContext", is_proven=False),))] = None
    graph_max_parallel_model_num: Annotated[Optional[types.Positive], Option("i", "session", "Threads that may run one compiled graph concurrently.", adapter=1, applies="online inference", other_scopes=("pass",), pages=("run_config",), ends=(Ends(ENTRY, takes=ends.takes_numbers(1)),))] = None
    oo_level: Annotated[Optional[Literal["O1", "O3"]], Option("s", "init", "Overall graph-optimisation level.", adapter="O3", other_scopes=("session",), sticky=True, ends=(Ends(GE, "optimization_option.cc, IsOoLevelValid", if_empty=True),))] = None
    optimization_switch: Annotated[Optional[lists.PassSwitch], Option("s", "init", "Inline on/off list of graph passes.", other_scopes=("session",), sticky=True)] = None
    topo_sorting_mode: Annotated[Optional[types.UpTo3], Option("i", "session", "Topological ordering used by GE: 0 BFS, 1 DFS, 2 reverse DFS, 3 stable reverse DFS.", product="BFS for training, DFS otherwise", ends=(Ends(GE, "option_register.cc, TopoSortingModeValueChecker"),))] = None

    enable_exception_dump: Annotated[Optional[types.UpTo2], Option("i", "init", group="Debugging", doc="Dumps data of a failing operator: 0 off, 1 full, 2 light.", adapter=2, pages=("initialize_system",), always=True, ends=(Ends(ENTRY), Ends(RUN_CONFIG, takes=ends.takes_numbers(0))))] = None
    op_debug_config: Annotated[Optional[types.OpDebugFile], Option("s", "init", "Config file that enables operator-compile debugging such as memory-bound checks.")] = None
    debug_dir: Annotated[Optional[types.PathText], Option("s", "init", "Folder for kernel_meta debug artefacts.")] = None
    export_compile_stat: Annotated[Optional[types.UpTo2], Option("i", "init", "When to write fusion_result.json: never, at normal exit, or after each compile.", adapter=1, sticky=True, ends=(Ends(ENTRY, takes=ends.takes_numbers(0, 2, bits=32)),))] = None

    precision_mode: Annotated[Optional[types.PrecisionMode], Option("s", "init", group="Accuracy tuning", doc="Global numeric-precision policy, older vocabulary, which every release reads.", product="training: must_keep_origin_dtype (950/A3/A2), allow_fp32_to_fp16 (Atlas training); inference: force_fp16", replacement="precision_mode_v2", applies="force_fp16 for inference; bf16 values need 950/A3/A2", sticky=True, pages=("run_config", "experimental", "initialize_system"), ends=(Ends(ENTRY),))] = None
    precision_mode_v2: Annotated[Optional[types.PrecisionModeV2], Option("s", "init", "Global numeric-precision policy, current vocabulary, which adapters of 2021 ignore.", product="training: origin (950/A3/A2), none on Atlas training (precision_mode default applies); inference: fp16", applies="mixed_bfloat16 needs 950/A3/A2; *_hif8 needs 950 and is documented as not yet supported", sticky=True, pages=("run_config", "experimental"), ends=(Ends(ENTRY),))] = None
    modify_mixlist: Annotated[Optional[types.MixListFile], Option("s", "init", "JSON file that edits the mixed-precision allow/deny/grey operator lists.", other_scopes=("session",), pages=("run_config",))] = None
    customize_dtypes: Annotated[Optional[types.CustomDtypesFile], Option("s", "init", "Text file that pins input/output dtypes per operator name or type.", pages=("run_config",))] = None

    dump_config: Annotated[Optional[DumpConfig], Option(None, "", group="Accuracy comparison", doc="Container for the dump options.", pages=("run_config",))] = None
    quant_dumpable: Annotated[Optional[types.TextSwitch], Option("s", "session", "Keeps pre-quantisation tensors dumpable for AMCT-quantised models.", product="0", applies="online inference", pages=("run_config",), ends=(Ends(GE, "configuration.cc, InitConfigParamFromContext", is_proven=False),))] = None
    fusion_switch_file: Annotated[Optional[types.FusionSwitchFile], Option("s", "init", "File that switches individual graph/UB fusion passes on or off.", other_scopes=("session",), pages=("run_config",))] = None
    buffer_optimize: Annotated[Optional[Literal["l2_optimize", "off_optimize"]], Option("s", "session", "L2 buffer optimisation switch.", adapter="l2_optimize", applies="online inference", pages=("run_config",), ends=(Ends(ENTRY),))] = None

    profiling_config: Annotated[Optional[ProfilingConfig], Option(None, "", group="Profiling", doc="Container for the profiling options.", pages=("run_config",))] = None

    aoe_mode: Annotated[Optional[Literal["1", "2", "4"]], Option("s", "init", group="Tuning (AOE)", doc="Starts AOE tuning: 1 sub-graph, 2 operator, 4 gradient split.", applies="training on A3, A2, Atlas training; mode 1 not on A2/A3", pages=("tuning",), ends=(Ends(ENTRY, takes=ends.takes_empty),))] = None
    work_path: Annotated[Optional[types.PathText], Option("s", "init", "Existing writable folder for AOE working and result files.", adapter="./", pages=("tuning",), left_out=True, ends=(Ends(ENTRY, takes=ends.takes_path, when=ends.while_tuning),))] = None
    aoe_config_file: Annotated[Optional[types.AoeFile], Option("s", "init", "JSON file limiting AOE to named operators and choosing its effort.", pages=("tuning",))] = None
    distribute_config: Annotated[Optional[types.PathText], Option("s", "init", "Cluster description used while tuning.")] = None

    op_compiler_cache_mode: Annotated[Optional[Literal["enable", "disable", "force"]], Option("s", "init", group="Operator compilation", doc="On-disk operator compile cache policy.", product="enable", pages=("run_config", "tuning"), ends=(Ends(GE, "te_config_info.cc, InitConfigItemsFromOptions", is_proven=False),))] = None
    op_compiler_cache_dir: Annotated[Optional[types.PathText], Option("s", "init", "Root folder of the operator compile cache, instead of $ASCEND_CACHE_PATH/kernel_cache, which goes before the home folder.", product="$HOME/atc_data", pages=("run_config",))] = None
    aicore_num: Annotated[Optional[lists.CoreNumber], Option("s", "init", "Upper limit of cube and vector cores used for operator compilation.", applies="A3 and A2 families (950 per GE docs); other chips use 'n|'", other_scopes=("session",), sticky=True, ends=(Ends(GE, "platform_utils.cc, core_num_utils.cc", takes=ends.takes_core_number),))] = None
    oo_constant_folding: Annotated[Optional[bool], Option("b", "init", "Constant folding during graph compilation.", adapter=True, sticky=True)] = None

    local_rank_id: Annotated[Optional[types.LocalRank], Option("i", "pass", group="Data augmentation", doc="Rank of this process on its server when one process preprocesses for all devices.", adapter=-1, applies="recommendation networks", pages=("run_config",), left_out=True, ends=(Ends(PASSES),))] = None
    local_device_list: Annotated[Optional[lists.DeviceList], Option("s", "pass", "Devices that the preprocessing process feeds.", pages=("run_config",), ends=(Ends(PASSES, takes=ends.takes_devices),))] = None

    hccl_timeout: Annotated[Optional[types.NotNegative], Option("i", "init", group="Time limits", doc="How long devices wait for each other in collectives.", product=EXECUTION_SECONDS, unit="s", applies="950/A3/A2: 0..2147483647, 0 = never; Atlas training and 300I Duo: 1..17340, rounded down to a multiple of 68 with a minimum of 68", other_scopes=("session",), pages=("run_config",))] = None
    op_wait_timeout: Annotated[Optional[types.NotNegative], Option("i", "init", "Timeout while an operator waits.", product=120, unit="s", pages=("run_config",), ends=(Ends(GE, "gelib.cc, ConvertToInt32", takes=ends.takes_numbers(-(2**31), 2**31 - 1)),))] = None
    op_execute_timeout: Annotated[Optional[types.NotNegative], Option("i", "init", "Timeout while an operator executes.", unit="s", pages=("run_config",), ends=(Ends(GE, "gelib.cc, ConvertToInt32", takes=ends.takes_numbers(-(2**31), 2**31 - 1)),))] = None
    stream_sync_timeout: Annotated[Optional[types.MinusOneOrMore], Option("i", "init", "Graph-execution stream synchronisation timeout.", adapter=-1, unit="ms", pages=("run_config",), always=True)] = None
    event_sync_timeout: Annotated[Optional[types.MinusOneOrMore], Option("i", "init", "Graph-execution event synchronisation timeout.", adapter=-1, unit="ms", pages=("run_config",), always=True)] = None

    experimental_config: Annotated[Optional[ExperimentalConfig], Option(None, "", group="Experimental", doc="Container for experimental options.", pages=("run_config", "experimental"))] = None
    jit_compile: Annotated[Optional[Literal["true", "false", "auto"]], Option("s", "session", "Compile operators online (true), prefer shipped binaries (false), or decide by shape kind (auto).", adapter="auto", applies="large recommendation networks", pages=("run_config",), always=True, ends=(Ends(ENTRY),))] = None
    shape_generalization_mode: Annotated[Optional[Literal["STRICT", "FULL", "ADAPTIVE"]], Option("s", "pass", "How far changed input shapes are generalised before recompiling.", adapter="STRICT", other_scopes=("session",), ends=(Ends(ENTRY),))] = None
    auto_multistream_parallel_mode: Annotated[Optional[lists.MultistreamMode], Option("s", "session", "Parallel scheduling of cube and vector operators over streams.", applies="recommendation networks; dynamic shapes also need ENABLE_DYNAMIC_SHAPE_MULTI_STREAM=1", ends=(Ends(GE, "dynamic_stream_allocator.cc, ParseAutoMultistreamParallelMode", takes=ends.takes_multistream_mode),))] = None

    graph_memory_max_size: Annotated[Optional[types.MemorySize], Option("s", "session", group="Deprecated", doc="Former cap for static plus dynamic graph memory; has no effect today.", unit="bytes", deprecated=True, is_unread=True, pages=("run_config",))] = None
    variable_memory_max_size: Annotated[Optional[types.MemorySize], Option("s", "session", "Former cap for variable memory; has no effect today.", unit="bytes", deprecated=True, is_unread=True, pages=("run_config",))] = None
    op_debug_level: Annotated[Optional[types.UpTo4], Option("i", "init", "Old switch for keeping operator build artefacts and debug info.", deprecated=True, replacement="op_debug_config", sticky=True, pages=("run_config", "initialize_system"), ends=(Ends(GE, "te_config_info.cc, InitConfigItemsFromOptions", is_proven=False),))] = None
    enable_reduce_precision: Annotated[Optional[bool], Option("b", "unread", "Placeholder without any effect.", adapter=False, deprecated=True, is_unread=True, pages=("run_config",), always=True)] = None
    enable_data_pre_proc: Annotated[Optional[bool], Option("b", "pass", "Offloads GetNext (dataset input) to the device.", adapter=False, run_config=True, deprecated=True, pages=("run_config",), always=True)] = None
    variable_format_optimize: Annotated[Optional[bool], Option("b", "session", "Stores variables in a device-friendly layout.", deprecated=True, pages=("run_config",))] = None
    op_select_implmode: Annotated[Optional[types.ImplMode], Option("s", "init", "Network-wide choice between precise and fast operator implementations; without _for_all, only for operators of the mode's .ini file.", product="high_performance", deprecated=True, replacement="op_precision_mode", other_scopes=("session",), pages=("run_config", "initialize_system", "atc"), ends=(Ends(ENTRY),))] = None
    optypelist_for_implmode: Annotated[Optional[lists.CommaNames], Option("s", "init", "Operator types that op_select_implmode applies to.", deprecated=True, replacement="op_precision_mode", other_scopes=("session",), pages=("run_config", "initialize_system", "atc"))] = None
    dynamic_input: Annotated[Optional[bool], Option("b", "pass", "Marks the inputs as dynamic (older mechanism).", adapter=False, deprecated=True, replacement="compile_dynamic_mode / set_graph_exec_config", pages=("run_config",), left_out=True)] = None
    dynamic_graph_execute_mode: Annotated[Optional[Literal["dynamic_execute", "lazy_recompile"]], Option("s", "pass", "Execution mode for dynamic_input.", adapter="dynamic_execute", deprecated=True, pages=("run_config",), ends=(Ends(PASSES, when=ends.while_on("dynamic_input")),))] = None
    dynamic_inputs_shape_range: Annotated[Optional[shapes.ShapeRange], Option("s", "pass", "Shape ranges of the dynamic inputs.", deprecated=True, pages=("run_config",), ends=(Ends(OFFLOAD, takes=ends.takes_range_groups, when=ends.with_ranges), Ends(GE, "option_utils.cc, ParseInputShapeRange", takes=ends.takes_shape_ranges, when=ends.with_dynamic_ranges)))] = None
    enable_compress_weight: Annotated[Optional[bool], Option("b", "session", "Global weight compression.", adapter=False, always=True)] = None
    compress_weight_conf: Annotated[Optional[types.PathText], Option("s", "session", "List of nodes whose weights are compressed.")] = None

    job: Annotated[Optional[str], Option("s", "pass", group="Not in the manual", doc="TensorFlow job name used to build device strings; 'ps' and 'default' disable the adapter passes.", adapter="localhost", raw_only=True)] = None
    task_index: Annotated[Optional[types.NotNegative], Option("i", "pass", "TensorFlow task index used together with job.", adapter=0, raw_only=True, ends=(Ends(GRAPH, takes=ends.takes_numbers(0, bits=32)),))] = None
    lower_functional_ops: Annotated[Optional[bool], Option("b", "pass", "Keeps TensorFlow's lowering of If/While/Case to switch/merge form.", adapter=False, raw_only=True)] = None
    const_input: Annotated[Optional[str], Option("s", "pass", "Comma-separated placeholder names that may be treated as constants.", raw_only=True)] = None
    graph_exec_timeout: Annotated[Optional[types.MinusOneOrMore], Option("i", "init", "Whole-graph execution timeout of the heterogeneous executor.", adapter=600000, unit="ms", raw_only=True)] = None
    min_group_size: Annotated[Optional[bool], Option("b", "unread", "Remnant of gradient fusion that NPUEstimator still writes.", adapter=True, deprecated=True, is_unread=True, raw_only=True, always=True)] = None
    hcom_multi_mode: Annotated[Optional[bool], Option("b", "init", "Multi-mode collectives switch.", adapter=False, always=True)] = None
    HCCL_algorithm: Annotated[Optional[str], Option("s", "init", "Collective algorithm description passed to HCCL.", other_scopes=("session",))] = None
    device_type: Annotated[Optional[str], Option("s", "init", "Device type hint.", adapter="default_device_type", always=True)] = None
    soc_config: Annotated[Optional[str], Option("s", "init", "SoC version to compile for.")] = None
    insert_op_file: Annotated[Optional[types.PathText], Option("s", "session", "AIPP (image preprocessing) insertion file.")] = None

    distribute: Annotated[Optional[object], Option(None, "NPURunConfig", group="Read by NPURunConfig only", doc="ParameterServerStrategy object that turns the Estimator into a PS/worker job.", pages=("run_config",))] = None
    model_dir: Annotated[Optional[types.PathText], Option(None, "NPURunConfig", "Checkpoint/summary folder handed to tf.estimator.RunConfig.")] = None
    tf_random_seed: Annotated[Optional[int], Option(None, "NPURunConfig", "Graph-level random seed handed to RunConfig.")] = None
    save_summary_steps: Annotated[Optional[types.ZeroOrMore], Option(None, "NPURunConfig", "Summary interval in steps.", run_config=0)] = None
    save_checkpoints_steps: Annotated[Optional[types.ZeroOrMore], Option(None, "NPURunConfig", "Checkpoint interval in steps.")] = None
    save_checkpoints_secs: Annotated[Optional[types.ZeroOrMore], Option(None, "NPURunConfig", "Checkpoint interval in seconds.")] = None
    session_config: Annotated[Optional[types.ConfigProto], Option(None, "NPURunConfig", "tf.ConfigProto that NPUEstimator extends with its NpuOptimizer entry.", pages=("experimental",))] = None
    keep_checkpoint_max: Annotated[Optional[types.ZeroOrMore], Option(None, "NPURunConfig", "Number of checkpoints kept.", run_config=5)] = None
    keep_checkpoint_every_n_hours: Annotated[Optional[types.Hours], Option(None, "NPURunConfig", "Keeps one extra checkpoint every N hours.", run_config=10000)] = None
    log_step_count_steps: Annotated[Optional[types.OneOrMore], Option(None, "NPURunConfig", "Interval for logging steps/sec and loss.", run_config=100)] = None
    train_distribute: Annotated[Optional[object], Option(None, "NPURunConfig", "Forwarded to RunConfig; reserved for the adapter.")] = None
    eval_distribute: Annotated[Optional[object], Option(None, "NPURunConfig", "Forwarded to RunConfig; reserved for the adapter.")] = None
    horovod_mode: Annotated[Optional[bool], Option(None, "NPURunConfig", "Suppresses the automatic rank-0 variable broadcast hook in NPUEstimator.", run_config=False, ends=(Ends(RUN_CONFIG),))] = None
