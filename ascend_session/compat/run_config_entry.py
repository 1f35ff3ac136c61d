"""What NPUEstimator writes into the session's proto for an NPURunConfig.

The keys and when they are written are the vendor's, their fields those of the options. Source:
npu_estimator.py, ``__load_graph_optimizers`` and what it calls.
"""

import json
import os
from typing import Any, Dict, Iterable

from ascend_session.compat.run_config_checks import attribute
from ascend_session.compat.tensorflow_names import tf
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.proto import ENTRY_NAME

__all__ = ["add_entry", "parameters"]

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

# Written always, whatever they are, and so a TypeError for None.
_ALWAYS = (
    "enable_data_pre_proc mix_compile_mode iterations_per_loop is_tailing_optimization "
    "hcom_parallel graph_run_mode enable_exception_dump enable_small_channel deterministic "
    "enable_compress_weight hcom_multi_mode device_type jit_compile input_fusion_size "
    "stream_sync_timeout event_sync_timeout external_weight frozen_variable "
    "variable_placement enable_reduce_precision"
)

# Written unless they are None.
_GIVEN = (
    "graph_memory_max_size variable_memory_max_size op_debug_level enable_scope_fusion_passes "
    "buffer_optimize fusion_switch_file compress_weight_conf op_compiler_cache_mode "
    "op_compiler_cache_dir debug_dir dynamic_input dynamic_graph_execute_mode "
    "dynamic_inputs_shape_range local_rank_id local_device_list soc_config hccl_timeout "
    "op_wait_timeout op_execute_timeout HCCL_algorithm customize_dtypes op_debug_config "
    "topo_sorting_mode insert_op_file compile_dynamic_mode graph_max_parallel_model_num "
    "shape_generalization_mode all_tensor_not_empty auto_multistream_parallel_mode "
    "session_device_id modify_mixlist op_precision_mode precision_mode precision_mode_v2 "
    "variable_format_optimize stream_max_parallel_num ac_parallel_enable quant_dumpable "
    "op_select_implmode optypelist_for_implmode aoe_config_file export_compile_stat "
    "aicore_num oo_constant_folding input_batch_cpy oo_level optimization_switch"
)

_EXPERIMENTAL = {
    "experimental_logical_device_cluster_deploy_mode": "logical_device_cluster_deploy_mode",
    "experimental_logical_device_id": "logical_device_id",
    "experimental_model_deploy_mode": "model_deploy_mode",
    "experimental_model_deploy_devicelist": "model_deploy_devicelist",
    "resource_config_path": "resource_config_path",
    "graph_compiler_cache_dir": "graph_compiler_cache_dir",
    "graph_parallel_option_path": "graph_parallel_option_path",
    "enable_graph_parallel": "enable_graph_parallel",
    "experimental_accelerate_train_mode": "accelerate_train_mode",
}


def add_entry(config: Any) -> Any:
    """The NPURunConfig with an entry in its session's proto.

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
        if field == "s" and key != "insert_op_file":  # which the vendor's gives as it is (g8)
            value = tf.compat.as_bytes(value)
        setattr(entry.parameter_map[key], field, value)
    return entry


def parameters(config: Any) -> Dict[str, Any]:
    """The keys of the entry and their values."""
    values = {key: getattr(config, attribute(key)) for key in _ALWAYS.split()}
    values.update(use_off_line=True, min_group_size=True)
    values.update(_unless_none(config, {key: attribute(key) for key in _GIVEN.split()}))
    for key in ("graph_memory_max_size", "variable_memory_max_size"):
        if key in values:
            values[key] = str(values[key])
    values.update(_dump(config._dump_config))
    values.update(_profiling(config._profiling_config))
    values.update(_memory(config._memory_config))
    values.update(_dynamic(config._dynamic_input_config))
    values.update(_experimental(config._experimental_config))
    values.update(_tuning(config))
    values.update(_task())
    return values


def _unless_none(owner: Any, names: Dict[str, str]) -> Dict[str, Any]:
    found = {key: getattr(owner, name) for key, name in names.items()}
    return {key: value for key, value in found.items() if value is not None}


def _private(keys: Iterable[str]) -> Dict[str, str]:
    return {key: f"_{key}" for key in keys}


def _dump(dump: Any) -> Dict[str, Any]:
    if dump is None:
        return {"enable_dump": False, "enable_dump_debug": False}
    values = {"enable_dump": dump._enable_dump, "enable_dump_debug": dump._enable_dump_debug}
    values.update(_unless_none(dump, _private(("dump_path", "dump_step", "dump_mode"))))
    if dump._dump_mode is not None:
        values["dump_debug_mode"] = dump._dump_debug_mode
    values.update(_unless_none(dump, {"dump_data": "dump_data", "dump_layer": "dump_layer"}))
    return values


def _profiling(profiling: Any) -> Dict[str, Any]:
    if profiling is None:
        return {}
    values: Dict[str, Any] = {"profiling_mode": profiling._enable_profiling}
    if profiling._enable_profiling:
        values["profiling_options"] = profiling._profiling_options or ""
    return values


def _memory(memory: Any) -> Dict[str, Any]:
    if memory is None:
        return {}
    others = ("static_memory_policy", "memory_optimization_policy", "variable_use_1g_huge_page")
    values = {"atomic_clean_policy": memory._atomic_clean_policy}
    values.update(_unless_none(memory, _private(others)))
    return values


def _dynamic(dynamic: Any) -> Dict[str, Any]:
    """All four, or none if one of them is None (g7)."""
    if dynamic is None:
        return {}
    keys = ("input_shape", "dynamic_dims", "dynamic_node_type", "compile_hybrid_mode")
    values = _unless_none(dynamic, _private(keys))
    return values if len(values) == len(keys) else {}


def _experimental(experimental: Any) -> Dict[str, Any]:
    if experimental is None:
        return {"experimental_logical_device_cluster_deploy_mode": "LB"}
    values = _unless_none(experimental, {key: f"_{name}" for key, name in _EXPERIMENTAL.items()})
    memory = experimental._graph_memory_optimize_config
    if memory is not None:
        values.update(_unless_none(memory, {"graph_slice": "_graph_slice"}))
    return values


def _tuning(config: Any) -> Dict[str, Any]:
    if config._aoe_mode is None:
        return {}
    work_path = "./" if config._work_path is None else config._work_path
    values = {"aoe_mode": config._aoe_mode, "work_path": work_path}
    values.update(_unless_none(config, {"distribute_config": "_distribute_config"}))
    return values


def _task() -> Dict[str, Any]:
    task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
    if not task.get("type"):
        return {"job": "localhost", "task_index": 0}
    return {"job": task["type"], "task_index": int(task.get("index", 0))}
