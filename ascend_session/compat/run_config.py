"""NPURunConfig: its arguments, their checks, and the entry that NPUEstimator writes for it.

The keys of the entry, and when they are written, are the vendor's; their fields are those of the
options. The protos of sessions on the device are those that the functions of npu_init make.

Sources: npu_config.py, ``NPURunConfig.__init__`` and ``set_npu_default_config``; npu_estimator.py,
``__load_graph_optimizers`` and what it calls; npu_init.py.
"""

import inspect
import json
import os
from typing import Any, Dict, Iterable, Optional, Type

from tensorflow.core.protobuf import config_pb2
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from ascend_session.compat.signatures import signature_of
from ascend_session.compat.tensorflow_names import RunConfig, tf
from ascend_session.config.entry import ENTRY_NAME
from ascend_session.config.option import options_by_key, options_of
from ascend_session.config.options import AdapterOptions, DynamicInputConfig
from ascend_session.errors import UnsupportedError, warn


def add_npu_optimizer(proto: Any) -> Any:
    """Make ``proto`` one of a session on the device, as every function of npu_init does.

    ``RewriterConfig.OFF`` is the vendor's word for memory_optimization, and means MANUAL there
    (rewriter_config.proto); only a new entry sets it.
    """
    rewrite = proto.graph_options.rewrite_options
    if all(entry.name != ENTRY_NAME for entry in rewrite.custom_optimizers):
        rewrite.custom_optimizers.add().name = ENTRY_NAME
        rewrite.memory_optimization = RewriterConfig.OFF
    proto.allow_soft_placement = True
    proto.log_device_placement = False
    rewrite.remapping = RewriterConfig.OFF
    proto.graph_options.optimizer_options.global_jit_level = config_pb2.OptimizerOptions.OFF
    return proto


def npu_config_proto(config_proto: Any = None) -> Any:
    """Give the proto of a session on the device: what was given, changed, else a new one."""
    return add_npu_optimizer(_or_new(config_proto, config_pb2.ConfigProto))


def npu_session_config_init(session_config: Any = None) -> Any:
    """Do as `npu_config_proto`; of releases before 2022."""
    return npu_config_proto(session_config)


def npu_graph_options(graph_options: Any = None) -> Any:
    """Give options without XLA: what was given, changed, else new ones."""
    options = _or_new(graph_options, config_pb2.GraphOptions)
    npu_optimizer_options(options.optimizer_options)
    return options


def npu_optimizer_options(optimizer_options: Any = None) -> Any:
    """Give options without XLA: what was given, changed, else new ones."""
    options = _or_new(optimizer_options, config_pb2.OptimizerOptions)
    options.global_jit_level = config_pb2.OptimizerOptions.OFF
    return options


def _or_new(given: Any, kind: Any) -> Any:
    return given if isinstance(given, kind) else kind()


def npu_run_config_init(run_config: Any = None) -> Any:
    """Give a RunConfig whose sessions are on the device: what was given, changed, else a new one.

    Raises:
        UnsupportedError: Without ``tf.estimator``.
    """
    config = _or_new(run_config, RunConfig)
    config.__dict__["_session_config"] = npu_config_proto(config.session_config)
    return config


# The arguments of NPURunConfig in the vendor's order; their defaults are in the table.
_NAMES = (
    "iterations_per_loop profiling_config model_dir tf_random_seed save_summary_steps "
    "save_checkpoints_steps save_checkpoints_secs session_config keep_checkpoint_max "
    "keep_checkpoint_every_n_hours log_step_count_steps distribute enable_data_pre_proc "
    "precision_mode enable_reduce_precision variable_format_optimize mix_compile_mode "
    "hcom_parallel graph_memory_max_size variable_memory_max_size dump_config "
    "stream_max_parallel_num is_tailing_optimization horovod_mode graph_run_mode op_debug_level "
    "enable_scope_fusion_passes enable_exception_dump op_select_implmode optypelist_for_implmode "
    "dynamic_input_config aoe_mode work_path buffer_optimize enable_small_channel "
    "fusion_switch_file enable_compress_weight compress_weight_conf op_compiler_cache_mode "
    "op_compiler_cache_dir debug_dir hcom_multi_mode dynamic_input dynamic_graph_execute_mode "
    "dynamic_inputs_shape_range train_distribute eval_distribute local_rank_id local_device_list "
    "session_device_id distribute_config modify_mixlist op_precision_mode device_type soc_config "
    "hccl_timeout op_wait_timeout op_execute_timeout HCCL_algorithm customize_dtypes "
    "op_debug_config memory_config experimental_config topo_sorting_mode aoe_config_file "
    "insert_op_file stream_sync_timeout event_sync_timeout external_weight deterministic "
    "frozen_variable variable_placement jit_compile precision_mode_v2 ac_parallel_enable "
    "quant_dumpable input_fusion_size compile_dynamic_mode graph_max_parallel_model_num "
    "export_compile_stat aicore_num oo_constant_folding input_batch_cpy shape_generalization_mode "
    "all_tensor_not_empty auto_multistream_parallel_mode oo_level optimization_switch"
)

# What only earlier releases take; what those have at another place is at today's.
_OLD = ("auto_tune_mode", "mstune_mode", "es_cluster_config")


def write_signature(model: Type[Any], names: Optional[Iterable[str]] = None) -> str:
    """Write the signature of a class of the vendor's, with the defaults of the table.

    Args:
        model: The class here that has the options.
        names: The arguments in the vendor's order, if that is not the order of the class.
    """
    options = options_of(model)
    return ", ".join(f"{name}={options[name].argument_default!r}" for name in names or options)


ARGUMENTS = (
    f"({write_signature(AdapterOptions, _NAMES.split())}, *, "
    f"{', '.join(f'{name}=None' for name in _OLD)})"
)

OF_TENSORFLOW = [
    name
    for name in signature_of(ARGUMENTS).parameters
    if name in inspect.signature(RunConfig).parameters
]
"""What ``tf.estimator.RunConfig`` itself takes."""

# The vendor's classes keep these under their own names, all others behind an underscore.
_PUBLIC = (
    "dump_data",
    "dump_layer",
    "iterations_per_loop",
    "mix_compile_mode",
    "enable_data_pre_proc",
    "is_tailing_optimization",
    "variable_format_optimize",
    "horovod_mode",
    "graph_run_mode",
    "op_debug_level",
    "enable_scope_fusion_passes",
    "enable_exception_dump",
    "topo_sorting_mode",
    "aoe_config_file",
    "insert_op_file",
    "stream_sync_timeout",
    "event_sync_timeout",
    "es_cluster_config",
)


def attribute(name: str) -> str:
    """Give the attribute of NPURunConfig, or of a part, that has the argument ``name``."""
    return name if name in _PUBLIC else f"_{name}"


def check(given: Dict[str, Any]) -> None:
    """Check what the vendor's checks, and nothing else: the rest is up to the session.

    Raises:
        TypeError: For a wrong type.
        ValueError: For a wrong value.
        UnsupportedError: In a job with parameter servers.

    Warns:
        AscendConfigWarning: For arguments that current releases have not.
    """
    from ascend_session.compat.npu_bridge.estimator.npu import util

    util.check_positive_integer(given["iterations_per_loop"], "iterations_per_loop")
    if not isinstance(given["mix_compile_mode"], bool):
        raise TypeError(f"mix_compile_mode={given['mix_compile_mode']!r} must be a bool.")
    if given["mix_compile_mode"] and given["iterations_per_loop"] != 1:
        raise ValueError("mix_compile_mode=True needs iterations_per_loop=1.")
    if not isinstance(given["jit_compile"], str):
        kind = type(given["jit_compile"]).__name__
        raise TypeError(f"jit_compile must be a str, this is {kind}.")
    _check_servers(given["distribute"], given["mix_compile_mode"])
    if not isinstance(given["horovod_mode"], bool):
        raise ValueError(f"horovod_mode={given['horovod_mode']!r} must be a bool.")
    util.check_nonnegative_integer(given["graph_run_mode"], "graph_run_mode")
    if given["graph_run_mode"] > 1:
        raise ValueError(f"graph_run_mode={given['graph_run_mode']} must be 0 or 1.")
    util.check_nonnegative_integer(given["enable_exception_dump"], "enable_exception_dump")
    for name in _OLD:
        if given[name] is not None:
            warn(
                f"NPURunConfig({name}={given[name]!r}) is of earlier releases and has no effect "
                "here; in current ones there is no such argument, and the call ends in a TypeError."
            )


def _check_servers(distribute: Any, mixed: bool) -> None:
    """Refuse parameter servers that are named in one of their two places, or that would run."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    kind = tf.distribute.experimental.ParameterServerStrategy
    if bool(cluster) != isinstance(distribute, kind):
        raise ValueError(
            "TF_CONFIG with a cluster and distribute=ParameterServerStrategy(...) go together, but "
            f"TF_CONFIG {'has' if cluster else 'has no'} cluster and distribute is {distribute!r}."
        )
    if cluster and not mixed:
        raise ValueError("A cluster in TF_CONFIG needs mix_compile_mode=True.")
    if cluster:
        raise UnsupportedError(
            "Jobs with parameter servers do not run on a machine without a device: the ranks there "
            "have all variables each.",
            hint="unset TF_CONFIG, and start the ranks with ascend-session launch.",
        )


_OPTIMIZERS = (
    "pruning",
    "function",
    "constfold",
    "shape",
    "arithmetic",
    "loop",
    "dependency",
    "layout",
    "GradFusionOptimizer",
)


def add_entry(config: Any) -> Any:
    """Add an entry to the proto of the sessions of an NPURunConfig.

    As by the vendor's, the proto that was given is changed; an entry that is there already is not
    added once more, as when several estimators have one configuration.
    """
    if config.session_config is None:
        config = config.replace(session_config=tf.ConfigProto())
    rewrite = config.session_config.graph_options.rewrite_options
    entry = _entry(parameters(config))
    if entry not in list(rewrite.custom_optimizers):
        rewrite.optimizers.extend(_OPTIMIZERS)
        rewrite.custom_optimizers.add().CopyFrom(entry)
    return config


def _entry(values: Dict[str, Any]) -> Any:
    entry = tf.ConfigProto().graph_options.rewrite_options.custom_optimizers.add()
    entry.name = ENTRY_NAME
    known = options_by_key(AdapterOptions)
    for key, value in values.items():
        field = known[key].field or ""
        if field == "s" and key != "insert_op_file":  # which the vendor's gives as it is
            value = tf.compat.as_bytes(value)
        setattr(entry.parameter_map[key], field, value)
    return entry


def parameters(config: Any) -> Dict[str, Any]:
    """Give the keys of the entry and their values."""
    known = options_by_key(AdapterOptions)
    values = {
        key: _read(config, option.path)
        for key, option in known.items()
        if option.field and not option.raw_only
    }
    always = {key for key, option in known.items() if option.always}
    for key in ("graph_memory_max_size", "variable_memory_max_size"):
        if values[key] is not None:
            values[key] = str(values[key])
    if config._dump_config is None:
        values.update(enable_dump=False, enable_dump_debug=False)
    elif values["dump_mode"] is None:
        values["dump_debug_mode"] = None
    else:
        always.add("dump_debug_mode")
    if config._profiling_config is not None:
        is_on = values["profiling_mode"]
        values["profiling_options"] = (values["profiling_options"] or "") if is_on else None
        always.add("profiling_mode")
    if config._memory_config is not None:
        always.add("atomic_clean_policy")
    profile = list(options_by_key(DynamicInputConfig))
    if any(values[key] is None for key in profile):  # all four or none, as npu_estimator.py does
        values.update(dict.fromkeys(profile))
    mode = "experimental_logical_device_cluster_deploy_mode"
    if config._experimental_config is None:
        values[mode] = known[mode].adapter
    if values["aoe_mode"] is None:
        values.update(work_path=None, distribute_config=None)
    elif values["work_path"] is None:
        values["work_path"] = known["work_path"].adapter
    values.update({key: known[key].adapter for key in always if known[key].raw_only})
    written = {key: each for key, each in values.items() if each is not None or key in always}
    return {**written, **_task()}


def _read(config: Any, path: str) -> Any:
    """Give what stands at the path of an option; None where there is no such part."""
    value = config
    for name in path.split("."):
        value = None if value is None else getattr(value, attribute(name))
    return value


def _task() -> Dict[str, Any]:
    task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
    if not task.get("type"):
        return {"job": "localhost", "task_index": 0}
    return {"job": task["type"], "task_index": int(task.get("index", 0))}
