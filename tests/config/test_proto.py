"""The NpuOptimizer entry of a ConfigProto: written, and read back."""

from typing import Any, Dict, List

import pytest

from ascend_session import (
    AscendConfig,
    ConfigError,
    DumpConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    ProfilingConfig,
)
from ascend_session.config.option import options_by_key
from ascend_session.config.proto import add_to_entry, read_entry
from tests.config.protos import (
    OFF,
    add,
    base,
    config_pb2,
    content,
    entry_of,
)

pytestmark = pytest.mark.smoke


EXAMPLES: List[Dict[str, Any]] = [
    {},
    {"precision_mode": "allow_mix_precision"},
    {"use_off_line": True, "graph_run_mode": 1, "jit_compile": "auto"},
    {"mix_compile_mode": False, "deterministic": 0, "hccl_timeout": 1836},
    {"dump_config": DumpConfig(True, "dump/\u00e9tape", "0|3-5", "all", False)},
    {"profiling_config": ProfilingConfig(True, {"output": "./"})},
    {"memory_config": MemoryConfig(1, 2, "MemoryPriority", 2), "stream_sync_timeout": -1},
    {
        "experimental_config": {
            "logical_device_cluster_deploy_mode": "SINGLE",
            "logical_device_id": "[0:0]",
            "accelerate_train_mode": "fast1|loss",
            "graph_memory_optimize_config": GraphMemoryOptimizeConfig(graph_slice="auto"),
        }
    },
    {
        "dynamic_input_config": {
            "input_shape": "a:-1",
            "dynamic_dims": "1;2",
            "dynamic_node_type": 1,
            "compile_hybrid_mode": 1,
        }
    },
]


def refusal_of(proto: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        AscendConfig.from_config_proto(proto)
    return caught.value


# Writing --------------------------------------------------------------------------------------


def test_an_empty_configuration_still_has_its_entry() -> None:
    proto = AscendConfig().to_config_proto()
    assert isinstance(proto, config_pb2.ConfigProto)
    assert entry_of(proto) == {}


@pytest.mark.parametrize("said", EXAMPLES, ids=lambda said: ",".join(said))
def test_each_value_stands_in_the_field_that_the_adapter_reads(said: Dict[str, Any]) -> None:
    config = AscendConfig(**said)
    known = options_by_key(AscendConfig)
    wanted = {
        key: (known[key].field, value.encode() if isinstance(value, str) else value)
        for key, value in config.parameter_map().items()
    }
    assert entry_of(config.to_config_proto()) == wanted


@pytest.mark.parametrize("said", EXAMPLES, ids=lambda said: ",".join(said))
def test_reading_a_proto_back_gives_the_configuration(said: Dict[str, Any]) -> None:
    config = AscendConfig(**said)
    assert AscendConfig.from_config_proto(config.to_config_proto()) == config


def test_the_proto_survives_serialisation() -> None:
    proto = AscendConfig(precision_mode="force_fp32", iterations_per_loop=1).to_config_proto()
    again = config_pb2.ConfigProto.FromString(proto.SerializeToString())
    assert entry_of(again) == {
        "precision_mode": ("s", b"force_fp32"),
        "iterations_per_loop": ("i", 1),
    }


def test_options_of_npurunconfig_are_not_written() -> None:
    config = AscendConfig(model_dir="model", save_summary_steps=10, deterministic=1)
    assert entry_of(config.to_config_proto()) == {"deterministic": ("i", 1)}


def test_remapping_and_memory_optimization_are_as_the_vendors_samples_have_them() -> None:
    options = AscendConfig().to_config_proto().graph_options.rewrite_options
    assert (options.remapping, options.memory_optimization) == (OFF, OFF)


def test_soft_placement_is_on_unless_told_otherwise() -> None:
    assert AscendConfig().to_config_proto().allow_soft_placement
    assert not AscendConfig().to_config_proto(allow_soft_placement=False).allow_soft_placement


def test_each_call_gives_a_proto_of_its_own() -> None:
    config = AscendConfig(deterministic=1)
    first, second = config.to_config_proto(), config.to_config_proto()
    first.graph_options.rewrite_options.custom_optimizers[0].parameter_map["deterministic"].i = 0
    assert entry_of(second) == {"deterministic": ("i", 1)}


# Reading --------------------------------------------------------------------------------------


def test_a_proto_without_an_entry_says_nothing() -> None:
    assert AscendConfig.from_config_proto(config_pb2.ConfigProto()) == AscendConfig()


def test_other_optimizers_are_nobodys_business() -> None:
    proto = config_pb2.ConfigProto()
    add(proto, "SomethingElse", {"use_off_line": ("i", 1)})
    assert AscendConfig.from_config_proto(proto) == AscendConfig()


@pytest.mark.parametrize("name", ["Npuoptimizer", "npuOptimizer", "npu_optimizer", "NpuOptimizer "])
def test_an_entry_under_a_wrong_name_is_reported(name: str) -> None:
    proto = config_pb2.ConfigProto()
    add(proto, name, {"deterministic": ("i", 1)})
    assert str(refusal_of(proto)) == (
        f"The proto has an entry named {name!r}; the adapter reads 'NpuOptimizer' only and "
        "ignores this one silently.\n  hint: Rename it to 'NpuOptimizer'."
    )
    with pytest.raises(ConfigError, match="Rename it"):
        AscendConfig().to_config_proto(proto)


def test_a_second_entry_is_reported() -> None:
    proto = base(deterministic=("i", 1))
    add(proto, "NpuOptimizer", {})
    assert str(refusal_of(proto)) == (
        "The proto has 2 entries named 'NpuOptimizer'; of each key the last one wins, and some "
        "that it lacks go back to their defaults.\n  hint: Keep one entry."
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "session_device_id",
            ("s", b"3"),
            "session_device_id is in the field 's'; the adapter reads the field 'i' and "
            'finds 0.\n  hint: Write parameter_map["session_device_id"].i = ...',
        ),
        (
            "use_off_line",
            ("i", 1),
            "use_off_line is in the field 'i'; the adapter reads the field 'b' and finds "
            'False.\n  hint: Write parameter_map["use_off_line"].b = True',
        ),
        (
            "ac_parallel_enable",
            ("i", 1),
            "ac_parallel_enable is in the field 'i'; the adapter reads the field 's' and "
            "finds ''.\n  hint: Write parameter_map[\"ac_parallel_enable\"].s = ...",
        ),
    ],
)
def test_a_value_in_the_wrong_field_is_reported(key: str, value: Any, message: str) -> None:
    assert str(refusal_of(base(**{key: value}))) == message


def test_a_key_without_a_value_is_reported() -> None:
    proto = base()
    entry = proto.graph_options.rewrite_options.custom_optimizers[0]
    assert not entry.parameter_map["jit_compile"].s  # reading it makes an empty one
    assert str(refusal_of(proto)) == (
        "jit_compile has no value; the adapter reads the field 's' and finds ''.\n"
        '  hint: Write parameter_map["jit_compile"].s = ...'
    )


def test_a_key_that_the_adapter_does_not_read_is_reported() -> None:
    error = refusal_of(base(prcision_mode=("s", b"force_fp16")))
    assert str(error) == (
        "The adapter has no key 'prcision_mode' and silently ignores it.\n"
        "  hint: Did you mean 'precision_mode'?"
    )


def test_everything_that_is_wrong_with_an_entry_is_reported_at_once() -> None:
    proto = base(use_off_line=("i", 1), deterministic=("b", True))
    add(proto, "NpuOptimizer", {})
    add(proto, "Npuoptimizer", {})
    options = [problem.option for problem in refusal_of(proto).problems]
    assert sorted(options) == ["NpuOptimizer", "NpuOptimizer", "deterministic", "use_off_line"]


def test_the_rules_run_on_what_is_read() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        AscendConfig.from_config_proto(
            base(precision_mode=("s", b"force_fp16"), precision_mode_v2=("s", b"fp16"))
        )


def test_reading_does_not_change_the_proto() -> None:
    proto = base(deterministic=("i", 1))
    before = content(proto)
    AscendConfig.from_config_proto(proto)
    assert content(proto) == before


def test_more_keys_can_be_added_to_the_entry() -> None:
    proto = AscendConfig(deterministic=1).to_config_proto()
    add_to_entry(proto, {"job": "localhost", "use_off_line": True})
    assert read_entry(proto) == {"deterministic": 1, "job": "localhost", "use_off_line": True}


def test_wrong_fields_wrong_values_and_unknown_keys_are_said_together() -> None:
    proto = base(use_off_line=("i", 1), precision_mode=("s", b"x"), foo=("b", True))
    options = {problem.option for problem in refusal_of(proto).problems}
    assert options == {"use_off_line", "precision_mode", "foo"}


@pytest.mark.parametrize("entry", [None, [("deterministic", 1)], "deterministic"])
def test_an_entry_that_is_no_mapping_is_refused(entry: Any) -> None:
    with pytest.raises(ConfigError, match="mapping of keys to values"):
        AscendConfig.from_parameter_map(entry)
