"""Options that are set from outside: how they are typed, what is refused, what they replace."""

import json

import pytest

from ascend_session import AscendConfig, DumpConfig, ExperimentalConfig, MemoryConfig
from ascend_session.config.overlay import (
    overlay_options,
    parse_settings,
    read_overlay,
)
from ascend_session.errors import ConfigError
from ascend_session.witness import SET_VARIABLE


@pytest.mark.parametrize(
    ("typed", "path", "value"),
    [
        ("precision_mode=force_fp32", "precision_mode", "force_fp32"),
        ("dump_config.enable_dump_debug=true", "dump_config.enable_dump_debug", True),
        ("enable_dump_debug=False", "dump_config.enable_dump_debug", False),
        ("profiling_mode=true", "profiling_config.enable_profiling", True),
        ("iterations_per_loop=10", "iterations_per_loop", 10),
        ("deterministic=1", "deterministic", 1),
        ("aoe_mode=2", "aoe_mode", "2"),
        ("dump_config.dump_step=0|5", "dump_config.dump_step", "0|5"),
        ("dump_layer=conv1 conv2", "dump_config.dump_layer", "conv1 conv2"),
        ("graph_memory_max_size=1024", "graph_memory_max_size", "1024"),
        ("dump_config.dump_path=/a=b", "dump_config.dump_path", "/a=b"),
        ("precision_mode=", "precision_mode", None),
        ("dump_config=", "dump_config", None),
    ],
)
def test_a_setting_is_read_as_the_type_of_its_option_says(typed, path, value):
    assert parse_settings([typed]) == {path: value}


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["precision_mod=x"], "There is no option 'precision_mod'. Did you mean precision_mode?"),
        (["precision_mode"], "'precision_mode' has no =."),
        (["=x"], "There is no option ''."),
        ([""], "'' has no =."),
        ([" precision_mode=x"], "Did you mean precision_mode?"),
        (["precision_mode='force_fp32'"], "is not one of 'force_fp32'"),
        (["enable_dump=1"], "dump_config.enable_dump='1': this must be True or False"),
        (["iterations_per_loop=ten"], "must be a whole number"),
        (["iterations_per_loop=0"], "the smallest value is 1"),
        (["dump_config=on"], "dump_config.enable_dump=VALUE"),
        (["model_dir=x"], "model_dir is an argument of NPURunConfig"),
        (["aoe_mode=1", "aoe_mode=2"], "aoe_mode is set twice, to '1' and '2'."),
        (["enable_dump=true", "dump_config.enable_dump="], "is set twice"),
        (["auto_tune_mode=x"], "auto_tune_mode is a known name"),
    ],
)
def test_what_no_option_takes_is_refused(typed, message):
    with pytest.raises(ConfigError) as failed:
        parse_settings(typed)
    assert message in f"{failed.value.message} {failed.value.hint}".replace("\n", " ")


def test_everything_wrong_is_named_at_once_and_the_same_value_twice_is_not():
    with pytest.raises(ConfigError) as failed:
        parse_settings(["a=1", "b=2", "aoe_mode=1", "aoe_mode=1"])
    assert len(failed.value.problems) == 2


def test_an_overlay_replaces_adds_and_leaves_out_in_parts_of_parts():
    config = AscendConfig(
        precision_mode="allow_mix_precision",
        memory_config=MemoryConfig(atomic_clean_policy=1, static_memory_policy=2),
        experimental_config=ExperimentalConfig(model_deploy_mode="LB"),
    )
    overlaid = overlay_options(
        config,
        {
            "precision_mode": None,
            "memory_config.static_memory_policy": 0,
            "experimental_config": None,
            "experimental_config.graph_memory_optimize_config.recompute": None,
            "hcom_parallel": True,
        },
    )
    assert overlaid == AscendConfig(
        memory_config=MemoryConfig(atomic_clean_policy=1, static_memory_policy=0),
        hcom_parallel=True,
    )
    emptied = overlay_options(
        AscendConfig(memory_config=MemoryConfig(static_memory_policy=2)),
        {"memory_config.static_memory_policy": None},
    )
    assert emptied == AscendConfig()


def test_what_the_whole_configuration_refuses_is_refused():
    with pytest.raises(ConfigError, match="dump_path"):
        overlay_options(AscendConfig(), {"dump_config.enable_dump": True})
    config = AscendConfig(dump_config=DumpConfig(enable_dump=True, dump_path="d"))
    assert overlay_options(config, {"dump_config": None}) == AscendConfig()


def test_the_variable_holds_what_was_typed(monkeypatch):
    settings = parse_settings(["precision_mode=", "dump_layer=a 'b' \"c\"", "deterministic=1"])
    assert read_overlay({SET_VARIABLE: json.dumps(settings)}) == settings
    assert read_overlay({}) == read_overlay({SET_VARIABLE: ""}) == {}


@pytest.mark.parametrize("text", ["x", "[]", '{"a": 1}', '{"precision_mode": 1}', '"x"'])
def test_a_variable_with_anything_else_is_refused(text):
    with pytest.raises(ConfigError):
        read_overlay({SET_VARIABLE: text})
