"""Config objects as values: frozen, comparable, copied and pickled, what was said and no more."""

import copy
import inspect
import os
import pickle
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import pytest

from ascend_session import (
    AscendConfig,
    ConfigError,
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    ProfilingConfig,
    ProfilingOptions,
)
from ascend_session.config.option import options_of


def example() -> AscendConfig:
    """One option of each kind, and none that warns."""
    return AscendConfig(
        graph_run_mode=1,
        precision_mode="allow_mix_precision",
        mix_compile_mode=True,
        memory_config=MemoryConfig(atomic_clean_policy=1),
        dump_config=DumpConfig(enable_dump=True, dump_path="dump", dump_step=[0, (3, 5)]),
        experimental_config=ExperimentalConfig(
            graph_memory_optimize_config=GraphMemoryOptimizeConfig(graph_slice="auto")
        ),
        model_dir="model",
    )


def test_a_value_cannot_be_changed() -> None:
    config = example()
    with pytest.raises((ValueError, AttributeError)):
        config.precision_mode = "force_fp16"
    with pytest.raises((ValueError, AttributeError)):
        del config.precision_mode
    with pytest.raises((ValueError, AttributeError)):
        config.dump_config.dump_path = "elsewhere"
    assert config == example()


def test_an_attempt_to_change_a_value_is_answered_with_what_to_do_instead() -> None:
    with pytest.raises((ValueError, AttributeError)) as caught:
        example().precision_mode = "force_fp16"
    assert str(caught.value).endswith("Make another one with cfg.replace(precision_mode=...).")


def test_configs_with_the_same_values_are_equal_and_hash_alike() -> None:
    assert example() == example()
    assert hash(example()) == hash(example())
    assert len({example(), example()}) == 1


def test_configs_with_other_values_are_not_equal() -> None:
    assert example() != example().replace(graph_run_mode=0)
    assert example() != AscendConfig()
    assert AscendConfig() != DumpConfig()
    assert AscendConfig() != {}


@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        lambda config: pickle.loads(pickle.dumps(config)),
        lambda config: pickle.loads(pickle.dumps(config, protocol=2)),
        lambda config: config.replace(),
    ],
    ids=["copy", "deepcopy", "pickle", "pickle 2", "replace"],
)
def test_a_copy_is_equal_and_says_the_same(again: Any) -> None:
    config = example()
    other = again(config)
    assert other == config
    assert type(other) is AscendConfig
    assert other.parameter_map() == config.parameter_map()
    assert other.given() == config.given()


def test_replace_gives_a_changed_copy_and_leaves_the_original() -> None:
    config = example()
    other = config.replace(graph_run_mode=0, deterministic=1)
    assert (other.graph_run_mode, other.deterministic) == (0, 1)
    assert other.precision_mode == config.precision_mode
    assert config == example()


def test_replace_takes_an_option_away_with_none() -> None:
    assert "precision_mode" not in example().replace(precision_mode=None).parameter_map()


def test_replace_checks_like_the_constructor() -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        example().replace(precision_mode_v2="fp16")
    with pytest.raises(ConfigError, match="Did you mean precision_mode"):
        example().replace(presicion_mode="force_fp16")


def test_given_holds_what_was_said_in_the_order_of_definition() -> None:
    said = AscendConfig(model_dir="model", precision_mode="force_fp32", graph_run_mode=1)
    assert list(said.given().items()) == [
        ("graph_run_mode", 1),
        ("precision_mode", "force_fp32"),
        ("model_dir", "model"),
    ]


def test_given_keeps_parts_and_values_are_flat() -> None:
    config = AscendConfig(dump_config=DumpConfig(True, "dump"), model_dir="model")
    assert config.given() == {"dump_config": DumpConfig(True, "dump"), "model_dir": "model"}
    assert config.values() == {"enable_dump": True, "dump_path": "dump", "model_dir": "model"}
    assert config.parameter_map() == {"enable_dump": True, "dump_path": "dump"}


def test_false_and_zero_were_said_and_none_was_not() -> None:
    config = AscendConfig(mix_compile_mode=False, deterministic=0, precision_mode=None)
    assert config.given() == {"deterministic": 0, "mix_compile_mode": False}
    assert config.precision_mode is None


def test_a_part_takes_positional_arguments_in_the_vendors_order() -> None:
    assert DumpConfig(True, "dump", "0|5", "all") == DumpConfig(
        enable_dump=True, dump_path="dump", dump_step="0|5", dump_mode="all"
    )
    assert ProfilingConfig(True, '{"output":"./"}') == ProfilingConfig(
        enable_profiling=True, profiling_options='{"output":"./"}'
    )
    assert DynamicInputConfig("a:-1", "1;2", 0, 0) == DynamicInputConfig(
        input_shape="a:-1", dynamic_dims="1;2", dynamic_node_type=0, compile_hybrid_mode=0
    )
    assert MemoryConfig(1).atomic_clean_policy == 1
    assert GraphMemoryOptimizeConfig("auto", "manual").graph_slice == "manual"


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((True, "dump"), {"enable_dump": False}, "DumpConfig got enable_dump twice"),
        (tuple(range(9)), {}, "DumpConfig takes at most 8 arguments, got 9"),
    ],
)
def test_wrong_positional_arguments_are_answered(
    arguments: Tuple[Any, ...], keywords: Dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        DumpConfig(*arguments, **keywords)


def test_the_configuration_itself_takes_keywords_only() -> None:
    with pytest.raises(TypeError, match="AscendConfig takes keyword arguments only"):
        AscendConfig("force_fp16")


def test_a_mapping_stands_for_a_part() -> None:
    inner: Dict[str, Any] = {"graph_memory_optimize_config": {"graph_slice": "auto"}}
    said: Dict[str, Any] = {
        "dump_config": {"enable_dump": True, "dump_path": "dump"},
        "experimental_config": inner,
    }
    config = AscendConfig(**said)
    assert config.dump_config == DumpConfig(True, "dump")
    assert config.parameter_map() == {
        "enable_dump": True,
        "dump_path": "dump",
        "graph_slice": "auto",
    }
    assert inner == {"graph_memory_optimize_config": {"graph_slice": "auto"}}


def test_the_repr_shows_what_was_said_and_can_be_evaluated() -> None:
    config = AscendConfig(precision_mode="force_fp32", dump_config=DumpConfig(True, "dump"))
    text = repr(config)
    assert text == (
        "AscendConfig(precision_mode='force_fp32', "
        "dump_config=DumpConfig(enable_dump=True, dump_path='dump'))"
    )
    assert eval(text) == config
    assert repr(AscendConfig()) == "AscendConfig()"


class PathLike(os.PathLike):
    def __fspath__(self) -> str:
        return "some/where"


@pytest.mark.parametrize(
    ("said", "arrives"),
    [
        ({"debug_dir": Path("some/where")}, "some/where"),
        ({"op_debug_config": PathLike()}, "some/where"),
        ({"enable_scope_fusion_passes": ["PassA", "PassB"]}, "PassA,PassB"),
        ({"stream_max_parallel_num": {"AIcoreEngine": 1}}, "AIcoreEngine:1"),
        ({"optimization_switch": {"PassA": True, "PassB": False}}, "PassA:on;PassB:off"),
        ({"aicore_num": (24, None)}, "24|"),
        ({"dump_config": DumpConfig(dump_layer=["conv1", "conv2"])}, "conv1 conv2"),
        (
            {"profiling_config": ProfilingConfig(True, ProfilingOptions(output="./"))},
            '{"output":"./"}',
        ),
        ({"profiling_config": ProfilingConfig(True, {"output": "./"})}, '{"output":"./"}'),
        (
            {"experimental_config": {"accelerate_train_mode": ("fast", "step", 0.9)}},
            "fast|step|0.9",
        ),
        ({"in_out_pair": [[["a"], ["b"]]], "mix_compile_mode": True}, "[[['a'], ['b']]]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.filterwarnings("ignore::ascend_session.AscendConfigWarning")
def test_a_structured_value_arrives_as_the_vendors_text(said: Dict[str, Any], arrives: str) -> None:
    texts = [v for v in AscendConfig(**said).parameter_map().values() if isinstance(v, str)]
    assert texts == [arrives]


def test_structured_profiles_arrive_as_the_vendors_texts() -> None:
    config = AscendConfig(
        dynamic_input_config=DynamicInputConfig(
            input_shape={"a": [1, 2], "b": [-1, 3]}, dynamic_dims=[[2], [4]], dynamic_node_type=1
        )
    )
    assert config.parameter_map() == {
        "input_shape": "a:1,2;b:-1,3",
        "dynamic_dims": "2;4",
        "dynamic_node_type": 1,
    }


def test_a_structured_value_equals_its_text() -> None:
    assert DumpConfig(dump_step=[0, (3, 5), 10]) == DumpConfig(dump_step="0|3-5|10")


def test_a_part_that_says_nothing_writes_nothing() -> None:
    assert AscendConfig(dump_config=DumpConfig()).parameter_map() == {}


def test_the_signature_has_the_options_with_types_that_a_person_can_read() -> None:
    parameters = inspect.signature(AscendConfig).parameters
    assert list(parameters) == list(options_of(AscendConfig))
    device = parameters["session_device_id"]
    assert (device.kind, device.default) == (device.KEYWORD_ONLY, None)
    assert device.annotation == Optional[int]
    assert "Validator" not in str(inspect.signature(AscendConfig))


def test_what_the_vendors_class_takes_by_position_is_shown_so() -> None:
    first = next(iter(inspect.signature(DumpConfig).parameters.values()))
    assert first.kind == first.POSITIONAL_OR_KEYWORD
