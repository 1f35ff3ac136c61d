"""``npu_bridge.estimator.npu.npu_plugin``: the device without a session, and its modes.

Source: npu_plugin.py of the newest release; of the old ones ``auto_tune_mode`` and
``mstune_mode``, which are taken by name; docs, npu_plugin.
"""

import os
from typing import Any

from ascend_session.compat.npu_bridge import tf_adapter
from ascend_session.compat.npu_bridge.estimator.npu import npu_scope, util
from ascend_session.compat.script_run import script_run
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.vendor_modules import mirror, with_signature
from ascend_session.errors import warn


def init_op_compiler_cache_mode(init: Any, op_compiler_cache_mode: Any) -> None:
    """Add the option to ``init`` if it is not None."""
    if op_compiler_cache_mode is not None:
        init["ge.op_compiler_cache_mode"] = op_compiler_cache_mode


def init_op_compiler_cache_dir(init: Any, op_compiler_cache_dir: Any) -> None:
    """Add the option to ``init`` if it is not None."""
    if op_compiler_cache_dir is not None:
        init["ge.op_compiler_cache_dir"] = op_compiler_cache_dir


def init_debug_dir(init: Any, debug_dir: Any) -> None:
    """Add the option to ``init`` if it is not None."""
    if debug_dir is not None:
        init["ge.debugDir"] = debug_dir


def check_graph_run_mode(graph_run_mode: Any) -> None:
    """Raise ValueError if the mode is above 1."""
    if graph_run_mode > 1:
        raise ValueError('"graph_run_mode" value must be 0 or 1')


@with_signature(
    "(graph_run_mode=1, op_debug_level=0, enable_profiling=False, profiling_options=None, "
    "precision_mode=None, enable_scope_fusion_passes=None, enable_exception_dump=2, "
    "aoe_mode=None, work_path=None, op_compiler_cache_mode=None, op_compiler_cache_dir=None, "
    "debug_dir=None, hcom_multi_mode=False, distribute_config=None, aoe_config_file=None, "
    "precision_mode_v2=None, export_compile_stat=1, aicore_num=None, oo_constant_folding=True, "
    "input_batch_cpy=False, oo_level='O3', optimization_switch=None, *, auto_tune_mode=None, "
    "mstune_mode=None)"
)
def npu_resource_init(**given: Any) -> None:
    """Initialise the system for the process, with or without sessions.

    The options are checked as the vendor checks them, and have no effect on a CPU.

    Raises:
        ValueError: For a wrong value.
        TypeError: For a value of a wrong type.
    """
    util.check_nonnegative_integer(given["graph_run_mode"], "graph_run_mode")
    check_graph_run_mode(given["graph_run_mode"])
    for name in ("enable_exception_dump", "op_debug_level"):
        util.check_nonnegative_integer(given[name], name)
    util.check_bool_type(given["enable_profiling"], "enable_profiling")
    if given["enable_profiling"] and given["profiling_options"] is None:
        raise ValueError("profiling_options must be set when use profiling")
    _check_tuning(given["aoe_mode"], given["mstune_mode"], given["work_path"])
    util.check_bool_type(given["hcom_multi_mode"], "hcom_multi_mode")
    for name in ("oo_constant_folding", "input_batch_cpy"):
        if given[name] is not None:
            util.check_bool_type(given[name], name)
    script_run().bring_up()


def _check_tuning(aoe_mode: Any, mstune_mode: Any, work_path: Any) -> None:
    if aoe_mode is not None:
        util.check_aoe_mode(aoe_mode)
        util.check_path("./" if work_path is None else work_path)
    if mstune_mode is None or int(os.environ.get("RANK_SIZE") or 1) <= 1:
        return
    if work_path is None:
        raise ValueError("work_path must be set when use mstune_mode")
    util.check_path(work_path)


@with_signature(
    "(graph_run_mode=1, op_debug_level=0, is_tailing_optimization=False, enable_profiling=False, "
    "enable_options='training_trace', auto_tune_mode=None, precision_mode=None, "
    "enable_scope_fusion_passes=None, enable_exception_dump=0, fp_point=None, bp_point=None)"
)
def npu_global_init(is_tailing_optimization: Any, enable_options: Any, **given: Any) -> None:
    """Do as `npu_resource_init`; of the releases of 2020."""
    util.check_bool_type(is_tailing_optimization, "is_tailing_optimization")
    del given["fp_point"], given["bp_point"]
    npu_resource_init(profiling_options=enable_options, **given)


def npu_resource_shutdown() -> None:
    """Shut the system down; open sessions cannot run any more."""
    script_run().shut_down()


npu_global_shutdown = npu_resource_shutdown  # in the releases of 2020


def npu_close() -> None:
    """Shut the device down, as at exit; open sessions cannot run any more."""
    script_run().shut_down()


def get_rdma_cache(data_type: Any, shape: Any, name: Any = "rdma_w") -> Any:
    """Return a variable of zeros, marked for memory that other devices can reach."""
    with npu_scope.npu_mem_type_scope():
        return tf.get_variable(
            name=name, shape=shape, dtype=data_type, initializer=tf.zeros_initializer()
        )


def set_device_sat_mode(mode: Any) -> None:
    """Choose the result of an overflow. 1: inf or nan, as always on a CPU; 0: the largest number.

    Warns:
        AscendConfigWarning: For 0, which has no effect on a CPU.
    """
    tf_adapter.SetDeviceSatMode(mode)
    if mode == 0:
        warn(
            "npu_plugin.set_device_sat_mode(0) has no effect here: on a CPU an overflow is inf or "
            "nan, it is never cut to the largest number."
        )


def is_inf_nan_enabled() -> bool:
    """Return whether an overflow gives inf or nan: always True on a CPU."""
    return bool(tf_adapter.GetDeviceSatMode() == 1)


def set_schedule_aicore_task_early(value: Any) -> int:
    """Choose whether tasks go to a device's cores early; return 0 for success."""
    script_run().schedules_early = bool(value)
    return 0


def get_schedule_aicore_task_early() -> bool:
    """Return the last value of `set_schedule_aicore_task_early`; False before."""
    return script_run().schedules_early


__getattr__, __all__ = mirror(
    globals(), "get_local_rank_size get_rank_id npu_scope tf_adapter util"
)
