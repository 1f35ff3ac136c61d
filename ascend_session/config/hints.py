"""What people write for what: names and values of other tools, and what is meant by them here.

These are looked up before the nearest word is: letters lead from ``rank_size`` to graph_slice.
"""

from typing import Dict, Iterable, Optional

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

_NAMES: Dict[str, str] = {
    **dict.fromkeys(
        ("mixed_precision", "auto_mixed_precision", "allow_mix_precision", "use_fp16", "fp16"),
        _MIXED,
    ),
    **dict.fromkeys(("amp", "use_amp", "amp_level", "mix_precision"), _MIXED),
    **dict.fromkeys(("rank_size", "world_size", "device_num", "num_devices", "num_gpus"), _RANKS),
    **dict.fromkeys(("rank_id", "rank"), "The launcher gives each rank its RANK_ID."),
    **dict.fromkeys(("device_id", "device", "devices", "gpu_id"), _DEVICE),
    **dict.fromkeys(("loss_scale", "loss_scale_value", "loss_scale_flag"), _LOSS_SCALE),
    **dict.fromkeys(("loss_scale_manager", "dynamic_loss_scale", "init_loss_scale"), _LOSS_SCALE),
    **dict.fromkeys(("rank_table", "rank_table_file", "hccl_json"), _TABLE),
    **dict.fromkeys(("allow_soft_placement", "log_device_placement", "gpu_options"), _CONFIG_PROTO),
    **dict.fromkeys(
        ("intra_op_parallelism_threads", "inter_op_parallelism_threads"), _CONFIG_PROTO
    ),
    **dict.fromkeys(("loop_size", "steps_per_loop", "sink_size"), _LOOP),
    **dict.fromkeys(("auto_tune", "autotune", "tune_mode"), _TUNING),
    **dict.fromkeys(("log_level", "slog_level", "global_log_level"), _LOGS),
}

# In one vocabulary or the other, whichever the option has
_VALUES: Dict[str, Iterable[str]] = {
    **dict.fromkeys(
        ("mixed_fp16", "mix_fp16", "fp16_mixed", "mix_precision_fp16"),
        ("allow_mix_precision_fp16", "mixed_float16"),
    ),
    **dict.fromkeys(("mixed", "mix", "amp", "o1"), ("allow_mix_precision", "mixed_float16")),
    **dict.fromkeys(
        ("mixed_bf16", "mix_bf16", "bf16_mixed", "mix_precision_bf16", "bf16", "bfloat16"),
        ("allow_mix_precision_bf16", "mixed_bfloat16"),
    ),
    **dict.fromkeys(("float16", "half"), ("force_fp16", "fp16")),
    **dict.fromkeys(("fp32", "float32"), ("force_fp32", "origin")),
}

SIBLINGS = {"precision_mode": "precision_mode_v2", "precision_mode_v2": "precision_mode"}
"""Two vocabularies for the same thing, which are mixed up."""


def hint_for_name(name: str) -> Optional[str]:
    """Say what is meant by a name that is no option; None if nothing is known of it."""
    return _NAMES.get(name.lower())


def value_meant(value: str, allowed: Iterable[object]) -> Optional[str]:
    """Give the value among those ``allowed`` that is meant; None if nothing is known of it."""
    candidates = _VALUES.get(value.lower(), ())
    return next((each for each in candidates if each in allowed), None)
