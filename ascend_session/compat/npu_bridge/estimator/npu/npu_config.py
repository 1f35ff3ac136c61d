"""``npu_bridge.estimator.npu.npu_config``: NPURunConfig, its parts, and how sessions get an entry.

Source: npu_config.py of the current release, and of those from 2020 on, whose arguments are taken
after the ``*``.
"""

import json
import os
from enum import Enum
from inspect import signature
from typing import Any, Callable, Dict, Iterable, Optional, Tuple, Type

from tensorflow.core.protobuf import config_pb2
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from ascend_session.backends.tf_sessions import is_opening_by_api
from ascend_session.compat.tensorflow_names import RunConfig, tf
from ascend_session.compat.vendor_modules import (
    keep_arguments,
    mirror,
    signature_of,
    with_signature,
)
from ascend_session.config import options
from ascend_session.config.entry import ENTRY_NAME
from ascend_session.config.option import options_of
from ascend_session.errors import UnsupportedError, warn

_MISSING = "in current releases there is no such argument, and the call raises a TypeError"


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


def _write_signature(model: Type[Any], names: Optional[Iterable[str]] = None) -> str:
    """Write the signature of a class of the vendor's, with the defaults of the table.

    Args:
        model: The class here that has the options.
        names: The arguments in the vendor's order, if that is not the order of the class.
    """
    known = options_of(model)
    return ", ".join(f"{name}={known[name].argument_default!r}" for name in names or known)


ARGUMENTS = (
    f"({_write_signature(options.AdapterOptions, _NAMES.split())}, *, "
    f"{', '.join(f'{name}=None' for name in _OLD)})"
)

# What ``tf.estimator.RunConfig`` itself takes.
_OF_TENSORFLOW = [
    name for name in signature_of(ARGUMENTS).parameters if name in signature(RunConfig).parameters
]

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


def _attribute_of(name: str) -> str:
    """Return the attribute of NPURunConfig, or of a part, that has the argument ``name``."""
    return name if name in _PUBLIC else f"_{name}"


def _check(given: Dict[str, Any]) -> None:
    """Check only what the vendor's class checks; sessions check the rest.

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
                "here; in current ones there is no such argument, and the call raises a "
                "TypeError."
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


class NPURunConfig(RunConfig):  # type: ignore[misc]
    """``tf.estimator.RunConfig`` with the adapter's options.

    They have the vendor's names and places, and go into the session's entry as NPUEstimator writes
    it; the entry is checked when a session opens with it.

    Raises:
        TypeError: For an argument that there is not, or of a type that the vendor's refuses.
        ValueError: For a value that the vendor's refuses.
        UnsupportedError: In a job with parameter servers, and without ``tf.estimator``.
    """

    @with_signature(ARGUMENTS)
    def __init__(self, **given: Any) -> None:
        """Take the vendor's arguments."""
        _check(given)
        _check_part("dump_config", given["dump_config"], DumpConfig)
        _check_part("experimental_config", given["experimental_config"], ExperimentalConfig)
        _check_part("dynamic_input_config", given["dynamic_input_config"], DynamicInputConfig)
        if given["save_checkpoints_secs"] is None and given["save_checkpoints_steps"] is None:
            given["save_checkpoints_steps"] = 100
        for name, value in given.items():
            if name not in _OF_TENSORFLOW:
                setattr(self, _attribute_of(name), value)
        super().__init__(**{name: given[name] for name in _OF_TENSORFLOW})


def _check_part(name: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise ValueError(
            f"{name} must be of type {kind.__name__} of npu_bridge, this is {type(value).__name__}."
        )


class ProfilingConfig:
    """What is profiled.

    Args:
        enable_profiling: Whether anything is.
        profiling_options: A JSON text that says what.
        enable_options: Of releases before 2021, a list; current ones do not take it.
        fp_point: The same.
        bp_point: The same.
    """

    def __init__(
        self,
        enable_profiling: Any = False,
        profiling_options: Optional[str] = None,
        *,
        enable_options: Any = None,
        fp_point: Optional[str] = None,
        bp_point: Optional[str] = None,
    ) -> None:
        old = {"enable_options": enable_options, "fp_point": fp_point, "bp_point": bp_point}
        for name, value in old.items():
            if value is not None:
                warn(f"ProfilingConfig({name}=...) is of releases before 2021; {_MISSING}.")
        self._enable_profiling = enable_profiling
        self._profiling_options = profiling_options
        self._enable_options = enable_options
        self._fp_point, self._bp_point = fp_point, bp_point


class MemoryConfig:
    """How the device's memory is used; the arguments are keys of the entry."""

    __init__ = keep_arguments(f"({_write_signature(options.MemoryConfig)})")


class DumpConfig:
    """What operators write to files; the arguments are keys of the entry."""

    __init__ = keep_arguments(
        f"({_write_signature(options.DumpConfig)})",
        public=("dump_data", "dump_layer"),
    )


class GraphMemoryOptimizeConfig:
    """Computing again, and slicing of graphs, to save memory.

    Raises:
        ValueError: Unless each is ``auto``, ``manual`` or None.
    """

    def __init__(self, recompute: Any = None, graph_slice: Any = None) -> None:
        for name, value in (("recompute", recompute), ("graph_slice", graph_slice)):
            allowed = options_of(options.GraphMemoryOptimizeConfig)[name].type.allowed
            if value is not None and value not in allowed:
                raise ValueError(f"{name}={value!r} must be {' or '.join(map(repr, allowed))}.")
        self._recompute = recompute
        self._graph_slice = graph_slice


class ExperimentalConfig:
    """Options that may change from release to release.

    Raises:
        ValueError: If ``graph_memory_optimize_config`` is of another type.
    """

    _graph_memory_optimize_config: Optional[GraphMemoryOptimizeConfig]

    @with_signature(f"({_write_signature(options.ExperimentalConfig)})")
    def __init__(self, **given: Any) -> None:
        """Keep the arguments."""
        memory = given["graph_memory_optimize_config"]
        _check_part("graph_memory_optimize_config", memory, GraphMemoryOptimizeConfig)
        for name, value in given.items():
            setattr(self, f"_{name}", value)


class NpuExecutePlacement(Enum):
    """Where an operator runs."""

    ALL = "all"
    CUBE = "cube"
    VECTOR = "vector"
    TAISHAN = "taishan"
    DVPP = "dvpp"
    HOST = "host"


class DynamicInputConfig:
    """Shapes of which one is chosen at run time.

    Releases before 2023 have no ``compile_hybrid_mode``; current ones demand it.
    """

    __init__ = keep_arguments(
        "(input_shape, dynamic_dims, dynamic_node_type, compile_hybrid_mode=0)"
    )


def _add_npu_optimizer(proto: Any) -> Any:
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


def set_npu_default_config(
    func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Return the arguments of a session's ``__init__``, with a proto that has an entry.

    A given proto is changed, as by the vendor's function.

    Args:
        func: That ``__init__``.
        args: Its positional arguments without ``self``.
        kwargs: Its keyword arguments, which are changed.
    """
    place = list(signature(func).parameters).index("config") - 1
    proto = kwargs.get("config")
    if proto is None and len(args) > place:
        proto = args[place]
    kwargs["config"] = _add_npu_optimizer(config_pb2.ConfigProto() if proto is None else proto)
    return args[:place] + args[place + 1 :], kwargs


def decorator_tf_session(func: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a session's ``__init__`` to add an entry, unless this package's own API opens it."""

    def class_func_wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_opening_by_api():
            args, kwargs = set_npu_default_config(func, args, kwargs)
        return func(self, *args, **kwargs)

    class_func_wrapper.__wrapped__ = func  # type: ignore[attr-defined]
    return class_func_wrapper


__getattr__, __all__ = mirror(
    globals(),
    "Enum json os signature config_pb2 RewriterConfig run_config_lib server_lib util",
)
