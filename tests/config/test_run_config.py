"""Keyword arguments for NPURunConfig: what was said, in the vendor's own classes."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    ConfigError,
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    ProfilingConfig,
)
from ascend_session.config.option import adapter_options
from tests.config.protos import config_pb2

REFERENCE: List[Dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "options.json").read_text(encoding="utf-8")
)

# The shape of the vendor's part classes: constructors with these names, in this order
VENDOR = """
class DumpConfig:
    def __init__(self, enable_dump=False, dump_path=None, dump_step=None, dump_mode="output",
                 enable_dump_debug=False, dump_debug_mode="all", dump_data="tensor",
                 dump_layer=None):
        self.said = {k: v for k, v in locals().items() if k != "self"}


class ProfilingConfig:
    def __init__(self, enable_profiling=False, profiling_options=None):
        self.said = {k: v for k, v in locals().items() if k != "self"}


class MemoryConfig:
    def __init__(self, atomic_clean_policy=0, static_memory_policy=0,
                 memory_optimization_policy=None, variable_use_1g_huge_page=0):
        self.said = {k: v for k, v in locals().items() if k != "self"}


class DynamicInputConfig:
    def __init__(self, input_shape, dynamic_dims, dynamic_node_type, compile_hybrid_mode):
        self.said = {k: v for k, v in locals().items() if k != "self"}


class GraphMemoryOptimizeConfig:
    def __init__(self, recompute=None, graph_slice=None):
        self.said = {k: v for k, v in locals().items() if k != "self"}


class ExperimentalConfig:
    def __init__(self, logical_device_cluster_deploy_mode="LB", logical_device_id=None,
                 model_deploy_mode=None, model_deploy_devicelist=None,
                 graph_memory_optimize_config=None, enable_graph_parallel=None,
                 graph_parallel_option_path=None, graph_compiler_cache_dir=None,
                 resource_config_path=None, accelerate_train_mode=None):
        self.said = {k: v for k, v in locals().items() if k != "self"}
"""


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The vendor's module, imported by the caller as one does who calls NPURunConfig."""
    folder = tmp_path / "npu_bridge" / "estimator" / "npu"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent, folder.parent.parent):
        (package / "__init__.py").write_text("")
    (folder / "npu_config.py").write_text(VENDOR)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("npu_bridge.estimator.npu.npu_config")
    for name in [name for name in sys.modules if name.split(".")[0] == "npu_bridge"]:
        del sys.modules[name]


def test_nothing_said_means_no_argument() -> None:
    assert AscendConfig().to_run_config_kwargs() == {}


def test_only_what_was_said_is_an_argument() -> None:
    config = AscendConfig(
        precision_mode="force_fp32",
        iterations_per_loop=1,
        model_dir="model",
        mix_compile_mode=False,
    )
    assert config.to_run_config_kwargs() == {
        "mix_compile_mode": False,
        "iterations_per_loop": 1,
        "precision_mode": "force_fp32",
        "model_dir": "model",
    }


def test_a_default_that_differs_is_left_to_the_vendor() -> None:
    assert "enable_data_pre_proc" not in AscendConfig(deterministic=1).to_run_config_kwargs()


def test_objects_are_passed_on_as_they_are() -> None:
    strategy = object()
    proto = config_pb2.ConfigProto()
    config = AscendConfig(train_distribute=strategy, session_config=proto)
    kwargs = config.to_run_config_kwargs()
    assert kwargs["train_distribute"] is strategy
    assert kwargs["session_config"] is proto


def test_insert_op_file_is_bytes() -> None:
    kwargs = AscendConfig(insert_op_file="aipp/\u00e9.cfg").to_run_config_kwargs()
    assert kwargs == {"insert_op_file": "aipp/\u00e9.cfg".encode("utf-8")}


def test_without_the_vendors_module_the_parts_stay_ours() -> None:
    assert "npu_bridge.estimator.npu.npu_config" not in sys.modules
    part = DumpConfig(True, "dump")
    assert AscendConfig(dump_config=part).to_run_config_kwargs() == {"dump_config": part}
    assert "npu_bridge" not in sys.modules


def test_with_the_vendors_module_the_parts_are_of_its_classes(vendor: Any) -> None:
    kwargs = AscendConfig(
        dump_config=DumpConfig(True, "dump", [0, (3, 5)]),
        memory_config=MemoryConfig(atomic_clean_policy=1),
        profiling_config=ProfilingConfig(True, {"output": "./"}),
    ).to_run_config_kwargs()
    assert {name: type(part) for name, part in kwargs.items()} == {
        "dump_config": vendor.DumpConfig,
        "memory_config": vendor.MemoryConfig,
        "profiling_config": vendor.ProfilingConfig,
    }
    assert kwargs["profiling_config"].said == {
        "enable_profiling": True,
        "profiling_options": '{"output":"./"}',
    }


def test_the_vendors_defaults_stay_where_nothing_was_said(vendor: Any) -> None:
    config = AscendConfig(dump_config=DumpConfig(enable_dump=True, dump_path="dump"))
    assert config.to_run_config_kwargs()["dump_config"].said == {
        "enable_dump": True,
        "dump_path": "dump",
        "dump_step": None,
        "dump_mode": "output",
        "enable_dump_debug": False,
        "dump_debug_mode": "all",
        "dump_data": "tensor",
        "dump_layer": None,
    }


def test_profiles_get_all_four_arguments_and_none_of_them_none(vendor: Any) -> None:
    part = DynamicInputConfig("a:-1", "1;2", 1)
    kwargs = AscendConfig(dynamic_input_config=part).to_run_config_kwargs()
    assert kwargs["dynamic_input_config"].said == {
        "input_shape": "a:-1",
        "dynamic_dims": "1;2",
        "dynamic_node_type": 1,
        "compile_hybrid_mode": 0,
    }


def test_a_part_of_a_part_is_of_the_vendors_class_too(vendor: Any) -> None:
    inner = GraphMemoryOptimizeConfig(graph_slice="auto")
    config = AscendConfig(
        experimental_config=ExperimentalConfig(
            graph_memory_optimize_config=inner, accelerate_train_mode=("fast", "step")
        )
    )
    part = config.to_run_config_kwargs()["experimental_config"]
    assert type(part) is vendor.ExperimentalConfig
    assert part.said["accelerate_train_mode"] == "fast|step"
    assert type(part.said["graph_memory_optimize_config"]) is vendor.GraphMemoryOptimizeConfig
    assert part.said["graph_memory_optimize_config"].said["graph_slice"] == "auto"


def test_a_class_that_the_vendors_module_lacks_stays_ours(vendor: Any) -> None:
    del vendor.DumpConfig
    part = DumpConfig(True, "dump")
    assert AscendConfig(dump_config=part).to_run_config_kwargs() == {"dump_config": part}


def test_the_configuration_is_not_changed_by_it(vendor: Any) -> None:
    config = AscendConfig(dump_config=DumpConfig(True, "dump"), insert_op_file="aipp.cfg")
    config.to_run_config_kwargs()
    assert config == AscendConfig(dump_config=DumpConfig(True, "dump"), insert_op_file="aipp.cfg")


# Refusals -------------------------------------------------------------------------------------


KINDS = ("parameter_map", "write_only")
LIVE = [f for f in REFERENCE if f["kind"] in KINDS and f["name"] != "auto_tune_mode"]
RAW_ONLY: Dict[str, Any] = {
    "use_off_line": True,
    "job": "localhost",
    "task_index": 0,
    "in_out_pair": "[[['a'], ['b']]]",
    "in_out_pair_flag": True,
    "lower_functional_ops": True,
    "const_input": "x",
    "graph_exec_timeout": 1000,
}


def test_the_options_without_an_argument_are_those_of_the_reference() -> None:
    ours = {option.key for option in adapter_options(AscendConfig) if option.raw_only}
    assert ours == {f["name"] for f in LIVE if f["run_config_name"] is None}


def test_options_that_npurunconfig_has_no_argument_for_are_refused_all_at_once() -> None:
    config = AscendConfig(mix_compile_mode=True, **RAW_ONLY)
    with pytest.raises(ConfigError) as caught:
        config.to_run_config_kwargs()
    assert {problem.option for problem in caught.value.problems} == set(RAW_ONLY)
    assert "use_off_line=True: NPURunConfig has no argument of this name." in str(caught.value)


def test_a_refusal_is_said_in_full() -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig(job="localhost").to_run_config_kwargs()
    assert str(caught.value) == "job='localhost': NPURunConfig has no argument of this name."


def test_min_group_size_has_no_argument_either() -> None:
    with pytest.warns(AscendConfigWarning, match="no longer has any effect"):
        config = AscendConfig(min_group_size=True)
    with pytest.raises(ConfigError, match="min_group_size=True: NPURunConfig has no argument"):
        config.to_run_config_kwargs()


def test_what_npuestimator_ruins_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig(compress_weight_conf="weights.cfg").to_run_config_kwargs()
    assert str(caught.value) == (
        "compress_weight_conf through NPURunConfig aborts the process: NPUEstimator always writes "
        "enable_compress_weight beside it.\n"
        "  hint: Use a raw session, with to_config_proto()."
    )
