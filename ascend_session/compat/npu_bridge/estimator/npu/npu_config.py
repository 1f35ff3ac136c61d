"""``npu_bridge.estimator.npu.npu_config``: NPURunConfig, its parts, and how sessions get an entry.

Source: npu_config.py of the current release, and of those from 2020 on, whose arguments are taken
after the ``*``.
"""

import sys
from enum import Enum
from inspect import signature
from typing import Any, Callable, Dict, Optional, Tuple

from tensorflow.core.protobuf import config_pb2

from ascend_session.compat import run_config
from ascend_session.compat.run_config import (
    ARGUMENTS,
    OF_TENSORFLOW,
    add_npu_optimizer,
    attribute,
    write_signature,
)
from ascend_session.compat.signatures import keep_arguments, with_signature
from ascend_session.compat.tensorflow_names import RunConfig
from ascend_session.compat.vendor_modules import mirror
from ascend_session.config import options
from ascend_session.config.option import options_of
from ascend_session.errors import warn

_MISSING = "in current releases there is no such argument, and the call ends in a TypeError"


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
        """Takes the vendor's arguments."""
        run_config.check(given)
        _check_part("dump_config", given["dump_config"], DumpConfig)
        _check_part("experimental_config", given["experimental_config"], ExperimentalConfig)
        _check_part("dynamic_input_config", given["dynamic_input_config"], DynamicInputConfig)
        if given["save_checkpoints_secs"] is None and given["save_checkpoints_steps"] is None:
            given["save_checkpoints_steps"] = 100
        for name, value in given.items():
            if name not in OF_TENSORFLOW:
                setattr(self, attribute(name), value)
        super().__init__(**{name: given[name] for name in OF_TENSORFLOW})


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

    __init__ = keep_arguments(f"({write_signature(options.MemoryConfig)})")


class DumpConfig:
    """What operators write to files; the arguments are keys of the entry."""

    __init__ = keep_arguments(
        f"({write_signature(options.DumpConfig)})",
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

    @with_signature(f"({write_signature(options.ExperimentalConfig)})")
    def __init__(self, **given: Any) -> None:
        """Keeps the arguments."""
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


def set_npu_default_config(
    func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """The arguments of a session's ``__init__`` with a proto that has an entry.

    A proto that was given is changed, as by the vendor's.

    Args:
        func: That ``__init__``.
        args: What it is given without ``self``.
        kwargs: The same; changed, too.
    """
    place = list(signature(func).parameters).index("config") - 1
    proto = kwargs.get("config")
    if proto is None and len(args) > place:
        proto = args[place]
    kwargs["config"] = add_npu_optimizer(config_pb2.ConfigProto() if proto is None else proto)
    return args[:place] + args[place + 1 :], kwargs


def decorator_tf_session(func: Callable[..., Any]) -> Callable[..., Any]:
    """An ``__init__`` of a session that makes it one on the device, unless it is one of ours."""

    def class_func_wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        is_compat = caller.startswith("ascend_session.compat.")
        # This package's own system has sessions, too: its ranks' exchange, for example.
        if is_compat or not caller.startswith("ascend_session."):
            args, kwargs = set_npu_default_config(func, args, kwargs)
        return func(self, *args, **kwargs)

    class_func_wrapper.__wrapped__ = func  # type: ignore[attr-defined]
    return class_func_wrapper


__getattr__, __all__ = mirror(
    globals(),
    "Enum json os signature config_pb2 RewriterConfig run_config_lib server_lib util",
)
