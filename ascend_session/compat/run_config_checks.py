"""The arguments of NPURunConfig, and what the vendor's checks of them.

Source: npu_config.py, ``NPURunConfig.__init__``.
"""

import json
import os
from typing import Any, Dict

from ascend_session.compat.tensorflow_names import tf
from ascend_session.config.checking import warn
from ascend_session.errors import UnsupportedError

__all__ = ["ARGUMENTS", "OF_TENSORFLOW", "attribute", "check"]

# After the * what only earlier releases take; what those have at another place is at today's.
ARGUMENTS = (
    "(iterations_per_loop=1, profiling_config=None, model_dir=None, tf_random_seed=None, "
    "save_summary_steps=0, save_checkpoints_steps=None, save_checkpoints_secs=None, "
    "session_config=None, keep_checkpoint_max=5, keep_checkpoint_every_n_hours=10000, "
    "log_step_count_steps=100, distribute=None, enable_data_pre_proc=True, precision_mode=None, "
    "enable_reduce_precision=False, variable_format_optimize=None, mix_compile_mode=False, "
    "hcom_parallel=True, graph_memory_max_size=None, variable_memory_max_size=None, "
    "dump_config=None, stream_max_parallel_num=None, is_tailing_optimization=False, "
    "horovod_mode=False, graph_run_mode=1, op_debug_level=None, enable_scope_fusion_passes=None, "
    "enable_exception_dump=2, op_select_implmode=None, optypelist_for_implmode=None, "
    "dynamic_input_config=None, aoe_mode=None, work_path=None, buffer_optimize='l2_optimize', "
    "enable_small_channel=0, fusion_switch_file=None, enable_compress_weight=False, "
    "compress_weight_conf=None, op_compiler_cache_mode=None, op_compiler_cache_dir=None, "
    "debug_dir=None, hcom_multi_mode=False, dynamic_input=None, "
    "dynamic_graph_execute_mode='dynamic_execute', dynamic_inputs_shape_range=None, "
    "train_distribute=None, eval_distribute=None, local_rank_id=None, local_device_list=None, "
    "session_device_id=None, distribute_config=None, modify_mixlist=None, op_precision_mode=None, "
    "device_type='default_device_type', soc_config=None, hccl_timeout=None, op_wait_timeout=None, "
    "op_execute_timeout=None, HCCL_algorithm=None, customize_dtypes=None, op_debug_config=None, "
    "memory_config=None, experimental_config=None, topo_sorting_mode=None, aoe_config_file=None, "
    "insert_op_file=None, stream_sync_timeout=-1, event_sync_timeout=-1, external_weight=False, "
    "deterministic=0, frozen_variable=False, variable_placement='Device', jit_compile='auto', "
    "precision_mode_v2=None, ac_parallel_enable=None, quant_dumpable=None, "
    "input_fusion_size=131072, compile_dynamic_mode=None, graph_max_parallel_model_num=1, "
    "export_compile_stat=1, aicore_num=None, oo_constant_folding=True, input_batch_cpy=False, "
    "shape_generalization_mode='STRICT', all_tensor_not_empty=False, "
    "auto_multistream_parallel_mode=None, oo_level='O3', optimization_switch=None, *, "
    "auto_tune_mode=None, mstune_mode=None, es_cluster_config=None)"
)

_OLD = ("auto_tune_mode", "mstune_mode", "es_cluster_config")

# What tf.estimator.RunConfig itself takes.
OF_TENSORFLOW = (
    "model_dir",
    "tf_random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "session_config",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
    "train_distribute",
    "eval_distribute",
)

# The vendor's keeps these under their own names, all others behind an underscore.
_PUBLIC = (
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
    """The attribute of NPURunConfig that has the argument ``name``."""
    return name if name in _PUBLIC else f"_{name}"


def check(given: Dict[str, Any]) -> None:
    """Checks what the vendor's checks, and nothing else: the rest is up to the session.

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
    """Parameter servers are asked for in two places, or in none."""
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
