"""Every option that AscendConfig takes, one line each: the only definition of its facts.

Sources: options.json (one entry an option), npu_config.py NPURunConfig, npu_attrs.cc
SetNpuOptimizerAttr; ``seeds`` on a line names the seed documents that describe the option.
"""

from typing import Optional

from typing_extensions import Literal

from ascend_session.config.dump import DumpConfig
from ascend_session.config.dynamic_input import DynamicInputConfig
from ascend_session.config.experimental import ExperimentalConfig
from ascend_session.config.memory import MemoryConfig
from ascend_session.config.model import ConfigModel
from ascend_session.config.option import option
from ascend_session.config.profiling import ProfilingConfig
from ascend_session.config.types import (
    AippFile,
    AoeFile,
    CommaNames,
    CoreNumber,
    CustomDtypesFile,
    DeviceList,
    FusionBytes,
    FusionSwitchFile,
    ImplMode,
    InOutPair,
    LocalRank,
    MemorySize,
    MinusOneOrMore,
    MixListFile,
    MultistreamMode,
    NotNegative,
    OpDebugFile,
    OpPrecisionFile,
    PassSwitch,
    PathText,
    Positive,
    PrecisionMode,
    PrecisionModeV2,
    ShapeRange,
    StreamParallel,
    Switch,
    TextSwitch,
    UpTo2,
    UpTo3,
    UpTo4,
)
from ascend_session.vendor import EXECUTION_SECONDS

__all__ = ["AdapterOptions"]


class AdapterOptions(ConfigModel):
    """The options themselves, under the vendor's flat names and with the vendor's parts."""

    # Basics
    graph_run_mode: Optional[Switch] = option("i", "init", "Selects training (1) or online-inference (0) compilation for the whole process.", adapter=1, also=("session",), seeds="02")
    session_device_id: Optional[NotNegative] = option("i", "session", "Binds the session to one logical device so that one process can drive several devices.", seeds="0")
    deterministic: Optional[Switch] = option("i", "init", "Makes operators bit-reproducible on identical hardware and input, at a speed cost.", adapter=0, seeds="0")
    use_off_line: Optional[bool] = option("b", "pass", "Master switch: False leaves the graph on the host CPU and skips every adapter pass.", adapter=True, seeds="2")
    # Memory
    memory_config: Optional[MemoryConfig] = option(None, None, "Container object for the four memory options.", seeds="0")
    external_weight: Optional[bool] = option("b", "session", "Writes Const weights to files so that several models in a session can share them.", adapter=False, seeds="0")
    input_fusion_size: Optional[FusionBytes] = option("i", "session", "Host inputs up to this many bytes are merged into one host-to-device copy; 0 disables merging.", adapter=131072, unit="bytes", applies="static-shape graphs only", seeds="0")
    input_batch_cpy: Optional[bool] = option("b", "session", "Uses one batched host-to-device copy when a graph has more than one input.", adapter=False, applies="Ascend 950, Atlas A3 and Atlas A2 families only", also=("init",), sticky=True)
    # Dynamic shapes
    dynamic_input_config: Optional[DynamicInputConfig] = option(None, None, "Container for dynamic size-profile settings.")
    ac_parallel_enable: Optional[TextSwitch] = option("s", "session", "Lets AI CPU operators overlap with AI Core operators in dynamic-shape graphs.", product="0", seeds="0")
    compile_dynamic_mode: Optional[bool] = option("b", "session", "Generalises every input dimension to -1 so that the graph is compiled as dynamic.", adapter=False, also=("pass",), seeds="0")
    all_tensor_not_empty: Optional[bool] = option("b", "session", "Promises that no tensor is empty so that the emptiness checks can be dropped.", adapter=False)
    # Mixed computing
    mix_compile_mode: Optional[bool] = option("b", "pass", "Allows operators that the device cannot run to execute in TensorFlow on the host.", adapter=False, seeds="0")
    in_out_pair_flag: Optional[bool] = option("b", "pass", "True offloads the operators between in_out_pair's ends, False keeps exactly those on the host.", adapter=True, applies="online inference")
    in_out_pair: Optional[InOutPair] = option("s", "pass", "Python-list text naming the first and last operators of the sub-graph to (not) offload.", applies="online inference")
    # Performance
    variable_placement: Optional[Literal["Host", "Device"]] = option("s", "pass", "Places variables in device or host memory.", adapter="Device", seeds="0")
    frozen_variable: Optional[bool] = option("b", "pass", "Folds restored variables into constants for inference.", adapter=False, applies="online inference")
    iterations_per_loop: Optional[Positive] = option("i", "pass", "Training steps executed on the device per session run.", adapter=1, seeds="0")
    hcom_parallel: Optional[bool] = option("b", "session", "Overlaps gradient AllReduce with forward/backward computation.", adapter=True, seeds="0")
    op_precision_mode: Optional[OpPrecisionFile] = option("s", "init", "INI file choosing an implementation mode per operator type or node name.", also=("session",), seeds="04")
    enable_scope_fusion_passes: Optional[CommaNames] = option("s", "init", "Comma-separated non-general scope fusion passes to enable.", seeds="0")
    stream_max_parallel_num: Optional[StreamParallel] = option("s", "session", "Concurrent task count per execution engine.", product="1 per engine", applies="NMT networks", seeds="0")
    is_tailing_optimization: Optional[bool] = option("b", "session", "Hides the last gradient AllReduce behind independent computation.", adapter=False, applies="BERT networks", seeds="0")
    enable_small_channel: Optional[Switch] = option("i", "session", "Optimises convolutions with at most four channels.", adapter=0, seeds="0")
    graph_max_parallel_model_num: Optional[Positive] = option("i", "session", "Threads that may run one compiled graph concurrently.", adapter=1, applies="online inference", also=("pass",), seeds="0")
    oo_level: Optional[Literal["O1", "O3"]] = option("s", "init", "Overall graph-optimisation level.", adapter="O3", also=("session",), sticky=True)
    optimization_switch: Optional[PassSwitch] = option("s", "init", "Inline on/off list of graph passes.", also=("session",), sticky=True)
    topo_sorting_mode: Optional[UpTo3] = option("i", "session", "Topological ordering used by GE: 0 BFS, 1 DFS, 2 reverse DFS, 3 stable reverse DFS.", product="BFS for training, DFS otherwise")
    # Debugging
    enable_exception_dump: Optional[UpTo2] = option("i", "init", "Dumps data of a failing operator: 0 off, 1 full, 2 light.", adapter=2, seeds="2")
    op_debug_config: Optional[OpDebugFile] = option("s", "init", "Config file that enables operator-compile debugging such as memory-bound checks.")
    debug_dir: Optional[PathText] = option("s", "init", "Directory for kernel_meta debug artefacts.")
    export_compile_stat: Optional[UpTo2] = option("i", "init", "When to write fusion_result.json: never, at normal exit, or after each compile.", adapter=1, sticky=True)
    # Accuracy tuning
    precision_mode: Optional[PrecisionMode] = option("s", "init", "Global numeric-precision policy, older vocabulary.", product="training: must_keep_origin_dtype (950/A3/A2), allow_fp32_to_fp16 (Atlas training); inference: force_fp16", use="precision_mode_v2", applies="force_fp16 for inference; bf16 values need 950/A3/A2", sticky=True, seeds="012")
    precision_mode_v2: Optional[PrecisionModeV2] = option("s", "init", "Global numeric-precision policy, current vocabulary.", product="training: origin (950/A3/A2), none on Atlas training (precision_mode default applies); inference: fp16", applies="mixed_bfloat16 needs 950/A3/A2; *_hif8 needs 950 and is documented as not yet supported", sticky=True, seeds="01")
    modify_mixlist: Optional[MixListFile] = option("s", "init", "JSON file that edits the mixed-precision allow/deny/grey operator lists.", also=("session",), seeds="0")
    customize_dtypes: Optional[CustomDtypesFile] = option("s", "init", "Text file that pins input/output dtypes per operator name or type.", seeds="0")
    # Accuracy comparison
    dump_config: Optional[DumpConfig] = option(None, None, "Container for the dump options.", seeds="0")
    quant_dumpable: Optional[TextSwitch] = option("s", "session", "Keeps pre-quantisation tensors dumpable for AMCT-quantised models.", product="0", applies="online inference", seeds="0")
    fusion_switch_file: Optional[FusionSwitchFile] = option("s", "init", "File that switches individual graph/UB fusion passes on or off.", also=("session",), seeds="0")
    buffer_optimize: Optional[Literal["l2_optimize", "off_optimize"]] = option("s", "session", "L2 buffer optimisation switch.", adapter="l2_optimize", applies="online inference", seeds="0")
    # Profiling
    profiling_config: Optional[ProfilingConfig] = option(None, None, "Container for the profiling options.", seeds="0")
    # Tuning (AOE)
    aoe_mode: Optional[Literal["1", "2", "4"]] = option("s", "init", "Starts AOE tuning: 1 sub-graph, 2 operator, 4 gradient split.", applies="training on A3, A2, Atlas training; mode 1 not on A2/A3", seeds="3")
    work_path: Optional[PathText] = option("s", "init", "Existing writable directory for AOE working and result files.", adapter="./", seeds="3")
    aoe_config_file: Optional[AoeFile] = option("s", "init", "JSON file limiting AOE to named operators and choosing its effort.", seeds="3")
    distribute_config: Optional[PathText] = option("s", "init", "Cluster description used while tuning.")
    # Operator compilation
    op_compiler_cache_mode: Optional[Literal["enable", "disable", "force"]] = option("s", "init", "On-disk operator compile cache policy.", product="enable", seeds="03")
    op_compiler_cache_dir: Optional[PathText] = option("s", "init", "Root directory of the operator compile cache.", product="$HOME/atc_data", seeds="0")
    aicore_num: Optional[CoreNumber] = option("s", "init", "Upper limit of cube and vector cores used for operator compilation.", applies="A3 and A2 families (950 per GE docs); other chips use 'n|'", also=("session",), sticky=True)
    oo_constant_folding: Optional[bool] = option("b", "init", "Constant folding during graph compilation.", adapter=True, sticky=True)
    # Data augmentation
    local_rank_id: Optional[LocalRank] = option("i", "pass", "Rank of this process on its server when one process preprocesses for all devices.", adapter=-1, applies="recommendation networks", seeds="0")
    local_device_list: Optional[DeviceList] = option("s", "pass", "Devices that the preprocessing process feeds.", seeds="0")
    # Time limits
    hccl_timeout: Optional[NotNegative] = option("i", "init", "How long devices wait for each other in collectives.", product=EXECUTION_SECONDS, unit="s", applies="950/A3/A2: 0..2147483647, 0 = never; Atlas training and 300I Duo: 1..17340, rounded down to a multiple of 68 with a minimum of 68", also=("session",), seeds="0")
    op_wait_timeout: Optional[NotNegative] = option("i", "init", "Timeout while an operator waits.", product=120, unit="s", seeds="0")
    op_execute_timeout: Optional[NotNegative] = option("i", "init", "Timeout while an operator executes.", unit="s", seeds="0")
    stream_sync_timeout: Optional[MinusOneOrMore] = option("i", "init", "Graph-execution stream synchronisation timeout.", adapter=-1, unit="ms", seeds="0")
    event_sync_timeout: Optional[MinusOneOrMore] = option("i", "init", "Graph-execution event synchronisation timeout.", adapter=-1, unit="ms", seeds="0")
    # Experimental
    experimental_config: Optional[ExperimentalConfig] = option(None, None, "Container for experimental options.", seeds="01")
    jit_compile: Optional[Literal["true", "false", "auto"]] = option("s", "session", "Compile operators online (true), prefer shipped binaries (false), or decide by shape kind (auto).", adapter="auto", applies="large recommendation networks", seeds="0")
    shape_generalization_mode: Optional[Literal["STRICT", "FULL", "ADAPTIVE"]] = option("s", "pass", "How far changed input shapes are generalised before recompiling.", adapter="STRICT", also=("session",))
    auto_multistream_parallel_mode: Optional[MultistreamMode] = option("s", "session", "Parallel scheduling of cube and vector operators over streams.", applies="recommendation networks; dynamic shapes also need ENABLE_DYNAMIC_SHAPE_MULTI_STREAM=1")
    # Deprecated
    graph_memory_max_size: Optional[MemorySize] = option("s", "session", "Former cap for static plus dynamic graph memory; has no effect today.", unit="bytes", deprecated=True, dead=True, seeds="0")
    variable_memory_max_size: Optional[MemorySize] = option("s", "session", "Former cap for variable memory; has no effect today.", unit="bytes", deprecated=True, dead=True, seeds="0")
    op_debug_level: Optional[UpTo4] = option("i", "init", "Old switch for keeping operator build artefacts and debug info.", deprecated=True, use="op_debug_config", sticky=True, seeds="02")
    enable_reduce_precision: Optional[bool] = option("b", None, "Placeholder that nothing reads.", adapter=False, deprecated=True, dead=True, seeds="0")
    enable_data_pre_proc: Optional[bool] = option("b", "pass", "Offloads GetNext (dataset input) to the device.", adapter=False, run_config=True, deprecated=True, seeds="0")
    variable_format_optimize: Optional[bool] = option("b", "session", "Stores variables in a device-friendly layout.", deprecated=True, seeds="0")
    op_select_implmode: Optional[ImplMode] = option("s", "init", "Network-wide choice between precise and fast operator implementations.", product="high_performance", deprecated=True, use="op_precision_mode", also=("session",), seeds="024")
    optypelist_for_implmode: Optional[CommaNames] = option("s", "init", "Operator types that op_select_implmode applies to.", deprecated=True, use="op_precision_mode", also=("session",), seeds="024")
    dynamic_input: Optional[bool] = option("b", "pass", "Marks the inputs as dynamic (older mechanism).", adapter=False, deprecated=True, use="compile_dynamic_mode / set_graph_exec_config", seeds="0")
    dynamic_graph_execute_mode: Optional[Literal["dynamic_execute", "lazy_recompile"]] = option("s", "pass", "Execution mode for dynamic_input.", adapter="dynamic_execute", deprecated=True, seeds="0")
    dynamic_inputs_shape_range: Optional[ShapeRange] = option("s", "pass", "Shape ranges of the dynamic inputs.", deprecated=True, seeds="0")
    enable_compress_weight: Optional[bool] = option("b", "session", "Global weight compression.", adapter=False)
    compress_weight_conf: Optional[PathText] = option("s", "session", "List of nodes whose weights are compressed.")
    # Not in the manual
    job: Optional[str] = option("s", "pass", "TensorFlow job name used to build device strings; 'ps' and 'default' disable the adapter passes.", adapter="localhost")
    task_index: Optional[NotNegative] = option("i", "pass", "TensorFlow task index used together with job.", adapter=0)
    lower_functional_ops: Optional[bool] = option("b", "pass", "Keeps TensorFlow's lowering of If/While/Case to switch/merge form.", adapter=False)
    const_input: Optional[str] = option("s", "pass", "Comma-separated placeholder names that may be treated as constants.")
    graph_exec_timeout: Optional[MinusOneOrMore] = option("i", "init", "Whole-graph execution timeout of the heterogeneous executor.", adapter=600000, unit="ms")
    min_group_size: Optional[bool] = option("b", None, "Remnant of gradient fusion that NPUEstimator still writes.", adapter=True, deprecated=True, dead=True)
    hcom_multi_mode: Optional[bool] = option("b", "init", "Multi-mode collectives switch.", adapter=False)
    HCCL_algorithm: Optional[str] = option("s", "init", "Collective algorithm description passed to HCCL.", also=("session",))
    device_type: Optional[str] = option("s", "init", "Device type hint.", adapter="default_device_type")
    soc_config: Optional[str] = option("s", "init", "SoC version to compile for.")
    insert_op_file: Optional[AippFile] = option("s", "session", "AIPP (image preprocessing) insertion file.")
    # Read by NPURunConfig (and tf.estimator.RunConfig) only
    distribute: Optional[object] = option(None, None, "ParameterServerStrategy object that turns the Estimator into a PS/worker job.", seeds="0")
    model_dir: Optional[PathText] = option(None, None, "Checkpoint/summary directory handed to tf.estimator.RunConfig.")
    tf_random_seed: Optional[int] = option(None, None, "Graph-level random seed handed to RunConfig.")
    save_summary_steps: Optional[int] = option(None, None, "Summary interval in steps.", run_config=0)
    save_checkpoints_steps: Optional[int] = option(None, None, "Checkpoint interval in steps.")
    save_checkpoints_secs: Optional[int] = option(None, None, "Checkpoint interval in seconds.")
    session_config: Optional[object] = option(None, None, "tf.ConfigProto that NPUEstimator extends with its NpuOptimizer entry.", seeds="1")
    keep_checkpoint_max: Optional[int] = option(None, None, "Number of checkpoints kept.", run_config=5)
    keep_checkpoint_every_n_hours: Optional[float] = option(None, None, "Keeps one extra checkpoint every N hours.", run_config=10000)
    log_step_count_steps: Optional[int] = option(None, None, "Interval for logging steps/sec and loss.", run_config=100)
    train_distribute: Optional[object] = option(None, None, "Forwarded to RunConfig; reserved for the adapter.")
    eval_distribute: Optional[object] = option(None, None, "Forwarded to RunConfig; reserved for the adapter.")
    horovod_mode: Optional[bool] = option(None, None, "Suppresses the automatic rank-0 variable broadcast hook in NPUEstimator.", run_config=False)
