"""What the value of an option becomes: the text that the adapter gets, or a ConfigError."""

import ast
import warnings
from typing import Any, Callable, Dict, Tuple

import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    ProfilingConfig,
)

__all__ = [
    "accelerate_train_mode",
    "aicore_num",
    "auto_multistream_parallel_mode",
    "comma_names",
    "dump_layer",
    "dump_step",
    "dynamic_dims",
    "dynamic_inputs_shape_range",
    "in_out_pair",
    "input_shape",
    "local_device_list",
    "memory_size",
    "optimization_switch",
    "path_text",
    "profiling_fault",
    "profiling_options",
    "stream_max_parallel_num",
]


def _writer(kind: Any, name: str, **others: Any) -> Callable[[Any], Any]:
    """A function that gives what ``kind`` keeps of a value; ``others`` are what rules want."""

    def write(value: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AscendConfigWarning)
            return getattr(kind(**{name: value}, **others), name)

    return write


accelerate_train_mode = _writer(ExperimentalConfig, "accelerate_train_mode")
aicore_num = _writer(AscendConfig, "aicore_num")
auto_multistream_parallel_mode = _writer(AscendConfig, "auto_multistream_parallel_mode")
comma_names = _writer(AscendConfig, "enable_scope_fusion_passes")
dump_layer = _writer(DumpConfig, "dump_layer")
dump_step = _writer(DumpConfig, "dump_step")
dynamic_dims = _writer(DynamicInputConfig, "dynamic_dims")
dynamic_inputs_shape_range = _writer(AscendConfig, "dynamic_inputs_shape_range")
in_out_pair = _writer(AscendConfig, "in_out_pair", mix_compile_mode=True)
input_shape = _writer(DynamicInputConfig, "input_shape")
local_device_list = _writer(AscendConfig, "local_device_list")
memory_size = _writer(AscendConfig, "graph_memory_max_size")
optimization_switch = _writer(AscendConfig, "optimization_switch")
path_text = _writer(AscendConfig, "debug_dir")
profiling_options = _writer(ProfilingConfig, "profiling_options")
stream_max_parallel_num = _writer(AscendConfig, "stream_max_parallel_num")


def profiling_fault(name: Any, value: Any) -> Tuple[str, Dict[str, str]]:
    """What is wrong with a member of profiling_options, and a right member; both as refused."""
    with pytest.raises(ValueError, match="cannot be used") as caught:
        profiling_options({name: value})
    reason = str(caught.value).split(" cannot be used: ", 1)[1]
    wrong, _, right = reason.rpartition("; write for example ")
    return wrong, ast.literal_eval(right[:-1])
