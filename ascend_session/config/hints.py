"""Names and values of other tools, and their equivalents here.

Looked up before the nearest spelling, which would suggest graph_slice for ``rank_size``.
"""

from typing import Iterable, Optional

from ascend_session.spelling import option

_MIXED = f"Write {option('precision_mode', 'allow_mix_precision')}."
_RANKS = "How many ranks there are is for the launcher: `ascend-session launch -n 8 train.py`."
_DEVICE = (
    f"Write {option('session_device_id', 0)} with the number of the device, or give it as "
    "ascend_session(config, device_id=...)."
)
_LOSS_SCALE = (
    "That is for ascend_session.training: DistributedOptimizer(optimizer, loss_scale_manager=...), "
    "with a FixedLossScaleManager or ExponentialUpdateLossScaleManager."
)
_TABLE = "Start the job with `ascend-session launch --rank-table FILE`, or set RANK_TABLE_FILE."
_CONFIG_PROTO = (
    "That is TensorFlow's: give a tf.ConfigProto that has it as "
    "ascend_session(config, session_config=...)."
)
_LOOP = f"Write {option('iterations_per_loop', 10)} with the number of steps."
_TUNING = f"Write {option('aoe_mode', '2')}, or call config.for_tuning()."
_LOGS = "That is for a variable: ASCEND_GLOBAL_LOG_LEVEL, 0 (debug) to 4 (none)."

_NAMES = {
    _MIXED: "mixed_precision auto_mixed_precision allow_mix_precision mix_precision use_fp16 fp16 "
    "amp use_amp amp_level",
    _RANKS: "rank_size world_size device_num num_devices num_gpus",
    "The launcher gives each rank its RANK_ID.": "rank_id rank",
    _DEVICE: "device_id device devices gpu_id",
    _LOSS_SCALE: "loss_scale loss_scale_value loss_scale_flag loss_scale_manager "
    "dynamic_loss_scale init_loss_scale",
    _TABLE: "rank_table rank_table_file hccl_json",
    _CONFIG_PROTO: "allow_soft_placement log_device_placement gpu_options "
    "intra_op_parallelism_threads inter_op_parallelism_threads",
    _LOOP: "loop_size steps_per_loop sink_size",
    _TUNING: "auto_tune autotune tune_mode",
    _LOGS: "log_level slog_level global_log_level",
}
"""An option, and other names for it in lower case."""

# In one vocabulary or the other, whichever the option has
_VALUES = {
    ("allow_mix_precision_fp16", "mixed_float16"): "mixed_fp16 mix_fp16 fp16_mixed "
    "mix_precision_fp16",
    ("allow_mix_precision", "mixed_float16"): "mixed mix amp o1",
    ("allow_mix_precision_bf16", "mixed_bfloat16"): "mixed_bf16 mix_bf16 bf16_mixed "
    "mix_precision_bf16 bf16 bfloat16",
    ("force_fp16", "fp16"): "float16 half",
    ("force_fp32", "origin"): "fp32 float32",
}

SIBLINGS = {"precision_mode": "precision_mode_v2", "precision_mode_v2": "precision_mode"}
"""Two vocabularies for the same thing that are often mixed up."""


def hint_for_name(name: str) -> Optional[str]:
    """Return what a name that is not an option probably means; None if unknown."""
    return next((hint for hint, names in _NAMES.items() if name.lower() in names.split()), None)


def find_meant_value(value: str, allowed: Iterable[object]) -> Optional[str]:
    """Return the ``allowed`` value that is probably meant; None if unknown."""
    meant = (each for each, written in _VALUES.items() if value.lower() in written.split())
    return next((each for each in next(meant, ()) if each in allowed), None)
