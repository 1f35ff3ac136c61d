"""``npu_bridge.estimator.npu.npu_plugin``: the device without a session, and its modes.

Source: npu_plugin.py of the newest release; of the old ones ``auto_tune_mode`` and
``mstune_mode``, which are taken by name; docs, npu_plugin.
"""

import os
from typing import Any

from ascend_session.compat import sessions
from ascend_session.compat.npu_bridge import tf_adapter
from ascend_session.compat.npu_bridge.estimator.npu import npu_scope, util
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.unavailable import define_unavailable
from ascend_session.compat.vendor_modules import mirror
from ascend_session.errors import warn


class _Modes:
    """What was set and has no effect on a CPU."""

    schedules_early = False


def init_op_compiler_cache_mode(init: Any, op_compiler_cache_mode: Any) -> None:
    """Adds the option to ``init`` if it is not None."""
    if op_compiler_cache_mode is not None:
        init["ge.op_compiler_cache_mode"] = op_compiler_cache_mode


def init_op_compiler_cache_dir(init: Any, op_compiler_cache_dir: Any) -> None:
    """Adds the option to ``init`` if it is not None."""
    if op_compiler_cache_dir is not None:
        init["ge.op_compiler_cache_dir"] = op_compiler_cache_dir


def init_debug_dir(init: Any, debug_dir: Any) -> None:
    """Adds the option to ``init`` if it is not None."""
    if debug_dir is not None:
        init["ge.debugDir"] = debug_dir


def check_graph_run_mode(graph_run_mode: Any) -> None:
    """Raises ValueError above 1."""
    if graph_run_mode > 1:
        raise ValueError('"graph_run_mode" value must be 0 or 1')


def npu_resource_init(
    graph_run_mode: Any = 1,
    op_debug_level: Any = 0,
    enable_profiling: Any = False,
    profiling_options: Any = None,
    precision_mode: Any = None,
    enable_scope_fusion_passes: Any = None,
    enable_exception_dump: Any = 2,
    aoe_mode: Any = None,
    work_path: Any = None,
    op_compiler_cache_mode: Any = None,
    op_compiler_cache_dir: Any = None,
    debug_dir: Any = None,
    hcom_multi_mode: Any = False,
    distribute_config: Any = None,
    aoe_config_file: Any = None,
    precision_mode_v2: Any = None,
    export_compile_stat: Any = 1,
    aicore_num: Any = None,
    oo_constant_folding: Any = True,
    input_batch_cpy: Any = False,
    oo_level: Any = "O3",
    optimization_switch: Any = None,
    *,
    auto_tune_mode: Any = None,
    mstune_mode: Any = None,
) -> None:
    """Initialises the system for the process, whatever sessions there are.

    The options are checked as the vendor checks them, and are for a device.

    Raises:
        ValueError: For a value that cannot be.
        TypeError: For one of another type.
    """
    util.check_nonnegative_integer(graph_run_mode, "graph_run_mode")
    check_graph_run_mode(graph_run_mode)
    util.check_nonnegative_integer(enable_exception_dump, "enable_exception_dump")
    util.check_nonnegative_integer(op_debug_level, "op_debug_level")
    util.check_bool_type(enable_profiling, "enable_profiling")
    if enable_profiling and profiling_options is None:
        raise ValueError("profiling_options must be set when use profiling")
    _check_tuning(aoe_mode, mstune_mode, work_path)
    util.check_bool_type(hcom_multi_mode, "hcom_multi_mode")
    if oo_constant_folding is not None:
        util.check_bool_type(oo_constant_folding, "oo_constant_folding")
    if input_batch_cpy is not None:
        util.check_bool_type(input_batch_cpy, "input_batch_cpy")
    sessions.bring_up()


def _check_tuning(aoe_mode: Any, mstune_mode: Any, work_path: Any) -> None:
    if aoe_mode is not None:
        util.check_aoe_mode(aoe_mode)
        util.check_path("./" if work_path is None else work_path)
    if mstune_mode is None or int(os.environ.get("RANK_SIZE") or 1) <= 1:
        return
    if work_path is None:
        raise ValueError("work_path must be set when use mstune_mode")
    util.check_path(work_path)


def npu_global_init(
    graph_run_mode: Any = 1,
    op_debug_level: Any = 0,
    is_tailing_optimization: Any = False,
    enable_profiling: Any = False,
    enable_options: Any = "training_trace",
    auto_tune_mode: Any = None,
    precision_mode: Any = None,
    enable_scope_fusion_passes: Any = None,
    enable_exception_dump: Any = 0,
    fp_point: Any = None,
    bp_point: Any = None,
) -> None:
    """`npu_resource_init` in the releases of 2020; raises as that."""
    util.check_bool_type(is_tailing_optimization, "is_tailing_optimization")
    npu_resource_init(
        graph_run_mode,
        op_debug_level,
        enable_profiling,
        enable_options,
        precision_mode,
        enable_scope_fusion_passes,
        enable_exception_dump,
        auto_tune_mode=auto_tune_mode,
    )


def npu_global_shutdown() -> None:
    """`npu_resource_shutdown` in the releases of 2020."""
    npu_resource_shutdown()


def npu_resource_shutdown() -> None:
    """Ends what `npu_resource_init` has begun: sessions that are open cannot run any more."""
    sessions.shut_down()


def npu_close() -> None:
    """What happens at exit, at once: sessions that are open cannot run any more."""
    sessions.shut_down()


def get_rdma_cache(data_type: Any, shape: Any, name: Any = "rdma_w") -> Any:
    """A variable of zeros, marked as in memory that other devices reach."""
    with npu_scope.npu_mem_type_scope():
        return tf.get_variable(
            name=name, shape=shape, dtype=data_type, initializer=tf.zeros_initializer()
        )


def set_device_sat_mode(mode: Any) -> None:
    """Says what an overflow becomes: 1, inf or nan, as always on a CPU; 0, the largest number.

    Warns:
        AscendConfigWarning: For 0, which a CPU does not do.
    """
    tf_adapter.SetDeviceSatMode(mode)
    if mode == 0:
        warn(
            "npu_plugin.set_device_sat_mode(0) has no effect here: on a CPU an overflow is inf or "
            "nan, it is never cut to the largest number."
        )


def is_inf_nan_enabled() -> bool:
    """Whether an overflow is inf or nan: True on a CPU, whatever was set."""
    return bool(tf_adapter.GetDeviceSatMode() == 1)


def set_schedule_aicore_task_early(value: Any) -> int:
    """Notes whether tasks are given to a device's cores early; 0 for success."""
    _Modes.schedules_early = bool(value)
    return 0


def get_schedule_aicore_task_early() -> bool:
    """What `set_schedule_aicore_task_early` was called with last; False before."""
    return _Modes.schedules_early


define_unavailable(globals())
__getattr__, __all__ = mirror(
    globals(), "get_local_rank_size get_rank_id npu_scope tf_adapter util"
)
