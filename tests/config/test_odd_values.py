"""Values that nobody means to give: each is answered with a sentence about its option."""

import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Type

import numpy as np
import pytest

from ascend_session import AscendConfig, ConfigError, DumpConfig, DynamicInputConfig, MemoryConfig
from ascend_session.option_files import (
    AoeConfigFile,
    FusionSwitch,
    MixList,
    OpDebugConfig,
    OptionFile,
)


def refusal(**given: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        AscendConfig(**given)
    return str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"save_summary_steps": -1},
        {"save_checkpoints_steps": -1},
        {"save_checkpoints_secs": -1},
        {"keep_checkpoint_max": -1},
        {"log_step_count_steps": 0},
        {"keep_checkpoint_every_n_hours": 0},
        {"keep_checkpoint_every_n_hours": -0.5},
        {"keep_checkpoint_every_n_hours": float("nan")},
    ],
    ids=str,
)
def test_what_run_config_refuses_is_refused(given: Dict[str, Any]) -> None:
    name, value = next(iter(given.items()))
    assert refusal(**given).startswith(f"{name}={value!r}: ")
    estimator = pytest.importorskip("tensorflow_estimator").estimator
    with pytest.raises(ValueError, match=f"{name} should be"):
        estimator.RunConfig(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"save_summary_steps": 0},
        {"save_checkpoints_steps": 10**12},
        {"keep_checkpoint_max": 0},
        {"log_step_count_steps": 1},
        {"keep_checkpoint_every_n_hours": 0.01},
    ],
    ids=str,
)
def test_what_run_config_takes_is_taken(given: Dict[str, Any]) -> None:
    assert AscendConfig(**given).to_run_config_kwargs() == given
    estimator = pytest.importorskip("tensorflow_estimator").estimator
    assert estimator.RunConfig(**given) is not None


@pytest.mark.parametrize(
    "given",
    [
        {"soc_config": "\ud800"},
        {"job": "a\udcff"},
        {"stream_max_parallel_num": {"\ud800": 1}},
        {"optimization_switch": "\ud800:on"},
        {"enable_scope_fusion_passes": ["\ud800"]},
        {"op_debug_config": os.fsdecode(b"a\xff.cfg")},
        {"debug_dir": "a\ud800"},
    ],
    ids=str,
)
def test_text_that_no_proto_can_hold_is_refused(given: Dict[str, Any]) -> None:
    assert f"{next(iter(given))}=" in refusal(**given)
    assert "this is not UTF-8 text (half a surrogate pair)." in refusal(**given)


def test_a_part_refuses_such_text_as_well() -> None:
    reason = r"this is not UTF-8 text \(half a surrogate pair\)"
    with pytest.raises(ConfigError, match=rf"dump_layer='\\ud800': {reason}"):
        DumpConfig(dump_layer="\ud800")
    with pytest.raises(ConfigError, match=reason):
        DynamicInputConfig(input_shape={"\ud800": [1]})
    assert "dump_layer=" in refusal(dump_config={"dump_layer": "\ud800"})


def options_refused(make: Callable[..., Any], **given: Any) -> List[Any]:
    with pytest.raises(ConfigError) as caught:
        make(**given)
    return sorted(str(problem.option) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"model_dir": "/a\udc80", "graph_run_mode": 7}, ["graph_run_mode", "model_dir"]),
        ({"job": "\udc80", "precison_mode": "x"}, ["job", "precison_mode"]),
        ({"job": "\udc80", "soc_config": "\udc81"}, ["job", "soc_config"]),
        ({"job": "\udc80", "precision_mode": "\udc80"}, ["job", "precision_mode"]),
        ({"job": "\udc80", "modify_mixlist": "a.json"}, ["job", "modify_mixlist"]),
        (
            {"dump_config": {"dump_layer": "\ud800", "dump_mode": "x"}, "graph_run_mode": 7},
            ["dump_config.dump_layer", "dump_config.dump_mode", "graph_run_mode"],
        ),
    ],
    ids=str,
)
def test_such_text_hides_no_other_problem(given: Dict[str, Any], options: List[str]) -> None:
    assert options_refused(AscendConfig, **given) == options


def test_such_text_hides_no_other_problem_of_a_parameter_map() -> None:
    parameters = {"job": "\udc80", "precison_mode": "x", "graph_run_mode": 7}
    options = options_refused(AscendConfig.from_parameter_map, parameters=parameters)
    assert options == ["graph_run_mode", "job", "precison_mode"]


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"\udc80": 1}, ["\udc80"]),
        (
            {"\udc80": 1, "a.\udc81": 2, "graph_run_mode": 7},
            ["\udc80", "a.\udc81", "graph_run_mode"],
        ),
        ({"memory_config": {"\udc80": 1}}, ["memory_config.\udc80"]),
        (
            {"memory_config": {"\udc80": 1, "static_memory_policy": 9}, "precison_mode": "x"},
            ["memory_config.static_memory_policy", "memory_config.\udc80", "precison_mode"],
        ),
    ],
    ids=ascii,
)
def test_a_name_that_is_not_utf_8_is_no_option_and_hides_nothing(
    given: Dict[str, Any], options: List[str]
) -> None:
    assert options_refused(AscendConfig, **given) == sorted(options)
    assert "Config has no option '" in refusal(**given)


def test_a_part_has_no_such_option_either() -> None:
    with pytest.raises(ConfigError, match=r"MemoryConfig has no option '\\udc80'"):
        MemoryConfig(**{"\udc80": 1})


def test_a_name_with_a_full_stop_hides_no_other_problem() -> None:
    given = {"a.b": 1, "graph_run_mode": 7}
    assert options_refused(AscendConfig, **given) == ["a.b", "graph_run_mode"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mix_compile_mode": np.array([1, 2])}, "must be True or False (bool), not ndarray."),
        ({"mix_compile_mode": np.bool_(True)}, "hint: Write mix_compile_mode=True."),
        ({"mix_compile_mode": 10**5000}, "must be True or False (bool), not int."),
        ({"soc_config": 10**5000}, "must be text (str), not int."),
        ({"mix_compile_mode": "false"}, "hint: Write mix_compile_mode=False."),
        ({"mix_compile_mode": "1"}, "hint: Write mix_compile_mode=True."),
        ({"iterations_per_loop": "²"}, "must be a whole number (int), not str."),
        ({"iterations_per_loop": "--3"}, "must be a whole number (int), not str."),
        ({"iterations_per_loop": "9" * 5000}, "must be a whole number (int), not str."),
        ({"iterations_per_loop": 10**5000}, "the largest value is 2147483647."),
        ({"graph_run_mode": 10**5000}, "is not one of 0, 1."),
        ({"graph_memory_max_size": 10**30}, "a number of bytes above 0 is needed"),
        ({"graph_memory_max_size": 10**5000}, "a value of type int is not among"),
        ({"local_device_list": [10**5000]}, "a value of type list is not among"),
        ({"dump_config": {"dump_step": 10**5000}}, "a value of type int is not among"),
        ({"iterations_per_loop": np.array([1, 2])}, "a whole number (int), not ndarray."),
    ],
    ids=lambda value: str(list(value)) if isinstance(value, dict) else None,
)
def test_no_value_is_answered_with_an_error_of_python(given: Dict[str, Any], message: str) -> None:
    assert message in refusal(**given)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (MixList, "black_add"),
        (OpDebugConfig, "items"),
        (AoeConfigFile, "feature"),
        (FusionSwitch, "keep_at_o1"),
    ],
)
@pytest.mark.parametrize("value", [3, None, True, {"a": 1}, "a", b"a", [1], [["a"]]], ids=repr)
def test_what_is_no_list_of_words_is_refused_by_every_file(
    make: Type[OptionFile], field: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=f"{field} is a list of"):
        make(**{field: value})


# Files of options ------------------------------------------------------------------------------


def read(folder: Path, text: str) -> AscendConfig:
    (folder / "a.yaml").write_text(text, encoding="utf-8")
    return AscendConfig.from_file(folder / "a.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iterations_per_loop: 010", "YAML reads 010 as 8."),
        ("hccl_timeout: 1:30", "YAML reads 1:30 as 90."),
        ("keep_checkpoint_every_n_hours: 1:30.5", "YAML reads 1:30.5 as 90.5."),
        ("dump_config:\n  dump_step: [0, 010]", "YAML reads 010 as 8."),
    ],
)
def test_a_number_that_yaml_reads_as_another_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert f"a.yaml:{text.count(chr(10)) + 1}: {message}" in str(caught.value)


@pytest.mark.parametrize("written", ["00", "01", "07", "0_7", "+07", "000", "007"])
def test_a_number_that_is_the_same_in_base_8_and_10_is_taken(tmp_path: Path, written: str) -> None:
    assert read(tmp_path, f"op_wait_timeout: {written}").op_wait_timeout == int(written)


@pytest.mark.parametrize("written", ["010", "0010", "-0_17", "1_0:30", "0" + "7" * 6000])
def test_a_number_that_is_another_in_base_10_is_refused(tmp_path: Path, written: str) -> None:
    with pytest.raises(ConfigError, match=r"a.yaml:1: YAML reads [-0-9_.:]+ as [-0-9.]+\."):
        read(tmp_path, f"op_wait_timeout: {written}")


def test_other_numbers_and_quoted_ones_are_taken(tmp_path: Path) -> None:
    text = "op_wait_timeout: 0\nop_execute_timeout: 1_000\njob: '010'\nsoc_config: \"1:30\"\n"
    config = read(tmp_path, text)
    assert (config.op_wait_timeout, config.op_execute_timeout) == (0, 1000)
    assert (config.job, config.soc_config) == ("010", "1:30")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2020-99-99", "2020-99-99 is not a valid timestamp, but YAML reads it as one."),
        ("!!int x", "x is not a valid int, but YAML reads it as one."),
        ("!!float x", "x is not a valid float, but YAML reads it as one."),
        ("!!bool x", "x is not a valid bool, but YAML reads it as one."),
        ("!!timestamp x", "x is not a valid timestamp, but YAML reads it as one."),
        ("9" * 5000, " is not a valid int, but YAML reads it as one."),
    ],
)
def test_a_value_that_its_tag_does_not_fit_is_refused(
    tmp_path: Path, value: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, f"job: a\nsoc_config: {value}\n")
    assert "a.yaml:2: " in str(caught.value)
    assert message in str(caught.value)


def test_a_file_of_an_option_takes_its_name_in_bytes(tmp_path: Path) -> None:
    name = bytes(tmp_path / "ops_info.json")
    made = MixList(black_add=["Relu"])
    made.write(name)
    assert MixList.read(name) == made
    assert made.store(bytes(tmp_path)) == made.store(tmp_path)


def test_a_cluster_that_cannot_be_read_is_none() -> None:
    config = AscendConfig(distribute=object(), mix_compile_mode=True)
    with pytest.raises(ConfigError, match="TF_CONFIG names no cluster"):
        config.check_host({"TF_CONFIG": "[" * 100_000})


def test_a_name_in_bytes_is_a_name_and_a_zero_byte_is_none(tmp_path: Path) -> None:
    read(tmp_path, "job: a")
    assert AscendConfig.from_file(bytes(tmp_path / "a.yaml")).job == "a"
    with pytest.raises(ConfigError, match="is not a file name"):
        AscendConfig.from_file("a\0b")
