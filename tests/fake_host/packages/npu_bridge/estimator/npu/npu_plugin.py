"""GE without a session (tf_adapter/python/npu_bridge/estimator/npu/npu_plugin.py).

Its functions for RDMA, shared memory and saturation are not here: nothing uses them.
"""

from typing import Any

import fake_ge
from fake_ge import ENGINE


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
) -> None:
    """Initialises GE for the whole process, whatever sessions there are."""
    given = dict(locals())
    # npu_plugin.py: util.check_nonnegative_integer of these three
    for name in ("graph_run_mode", "enable_exception_dump", "op_debug_level"):
        if given[name] < 0:
            raise ValueError(f"{name} must be >= 0")
    if graph_run_mode > 1:
        raise ValueError('"graph_run_mode" value must be 0 or 1')
    if enable_profiling and profiling_options is None:
        raise ValueError("profiling_options must be set when use profiling")
    options = {key: value for key, value in given.items() if value is not None}
    options["profiling_mode"] = options.pop("enable_profiling")
    # npu_plugin.py: each of these is sent only with its switch
    if not enable_profiling:
        options.pop("profiling_options", None)
    if aoe_mode is None:
        options.pop("work_path", None)
        options.pop("distribute_config", None)
    # guides/facts/process.md#npu_resource_init: what it sends in a form that nobody reads
    options["aoe_config_file"] = str(aoe_config_file)
    if "optimization_switch" in options:
        options["ge.optimization_switch"] = options.pop("optimization_switch")
    options["input_batch_cpy"] = "true" if input_batch_cpy else "false"
    fake_ge.note("npu_resource_init")
    # guides/facts/process.md#npu_resource_init
    ENGINE.initialise(options, is_global=True)


def npu_resource_shutdown() -> None:
    """Ends it."""
    # guides/facts/process.md#npu_resource_init: GE stays up until here. ge_plugin.cc,
    # Finalize, leaves isGlobal_ as it is: until the next npu_resource_init nothing starts GE.
    fake_ge.note("npu_resource_shutdown")
    ENGINE.finalise()


def npu_close() -> None:
    """What the exit handler does (ge_plugin.cc, NpuClose)."""
    ENGINE.end()
