"""What a user reads after a typical mistake: whole sentences, asserted to the letter."""

import warnings
from typing import Any, Dict, Tuple

import pytest

from ascend_session import (
    AscendConfig,
    ConfigError,
    DumpConfig,
    ExperimentalConfig,
    MemoryConfig,
    ProfilingConfig,
)

PRECISION_MODES = (
    "'force_fp32', 'allow_fp32_to_fp16', 'force_fp16', 'must_keep_origin_dtype', "
    "'allow_mix_precision', 'cube_fp16in_fp32out', 'allow_mix_precision_fp16', "
    "'allow_mix_precision_bf16', 'allow_fp32_to_bf16'"
)


def refusal(**said: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        AscendConfig(**said)
    return caught.value


def options_of(error: ConfigError) -> Tuple[str, ...]:
    return tuple(problem.option for problem in error.problems)


MISTAKES: Dict[str, Tuple[Dict[str, Any], str]] = {
    "a slip of the pen": (
        {"iteration_per_loop": 10},
        "AscendConfig has no option 'iteration_per_loop'; the adapter would ignore it.\n"
        "  hint: Did you mean iterations_per_loop?",
    ),
    "a name that nothing is like": (
        {"learning_rate": 0.1},
        "AscendConfig has no option 'learning_rate'; the adapter would ignore it.\n"
        "  hint: `ascend-session options` lists all options.",
    ),
    "a key of a part, given flat": (
        {"dump_path": "dump"},
        "AscendConfig has no option 'dump_path'.\n"
        "  hint: Write dump_config=DumpConfig(dump_path='dump').",
    ),
    "a key of a part of a part, given flat": (
        {"recompute": "auto"},
        "AscendConfig has no option 'recompute'.\n"
        "  hint: Write experimental_config=ExperimentalConfig(graph_memory_optimize_config="
        "GraphMemoryOptimizeConfig(recompute='auto')).",
    ),
    "the vendor's key of an option with another name": (
        {"profiling_mode": True},
        "AscendConfig has no option 'profiling_mode'.\n"
        "  hint: Write profiling_config=ProfilingConfig(enable_profiling=True).",
    ),
    "a name from an old manual": (
        {"mstune_mode": "2"},
        "mstune_mode is a known name, but the adapter has not read it since 2021. "
        "Use aoe_mode ('1', '2', '4').",
    ),
    "a key from an old manual": (
        {"fp_point": "conv1"},
        "fp_point is a known name, but no adapter reads this key; it is a member of "
        "profiling_options. Write profiling_config=ProfilingConfig(enable_profiling=True, "
        'profiling_options={"fp_point": "..."}).',
    ),
    "the wrong case": (
        {"variable_placement": "host"},
        "variable_placement='host' is not one of 'Host', 'Device'.\n"
        "  hint: Write variable_placement='Host'.",
    ),
    "a word that is nearly right": (
        {"precision_mode": "force_f16"},
        f"precision_mode='force_f16' is not one of {PRECISION_MODES}.\n"
        "  hint: Write precision_mode='force_fp16'.",
    ),
    "a number where a text is needed": (
        {"aoe_mode": 2},
        "aoe_mode=2 (int) is not one of '1', '2', '4'.\n  hint: Write aoe_mode='2'.",
    ),
    "a bool where a text is needed": (
        {"jit_compile": True},
        "jit_compile=True (bool) is not one of 'true', 'false', 'auto'.\n"
        "  hint: Write jit_compile='true'.",
    ),
    "a text where a number is needed": (
        {"graph_run_mode": "1"},
        "graph_run_mode='1' (str) is not one of 0, 1.\n  hint: Write graph_run_mode=1.",
    ),
    "a number that is not allowed": (
        {"op_debug_level": -1},
        "op_debug_level=-1 is not one of 0, 1, 2, 3, 4.",
    ),
    "a text that is not allowed": (
        {"graph_run_mode": "-1"},
        "graph_run_mode='-1' (str) is not one of 0, 1.",
    ),
    "a number in quotes": (
        {"iterations_per_loop": "10"},
        "iterations_per_loop='10': this must be a whole number (int), not str.\n"
        "  hint: Write iterations_per_loop=10, without quotes.",
    ),
    "a number for a switch": (
        {"mix_compile_mode": 1},
        "mix_compile_mode=1: this must be True or False (bool), not int.\n"
        "  hint: Write mix_compile_mode=True.",
    ),
    "True for 1": (
        {"graph_run_mode": True},
        "graph_run_mode=True (bool) is not one of 0, 1.\n  hint: Write graph_run_mode=1.",
    ),
    "bytes": (
        {"soc_config": b"Ascend910"},
        "soc_config=b'Ascend910': this must be text (str), not bytes.\n"
        "  hint: Decode it: soc_config='Ascend910'.",
    ),
    "bytes for a path": (
        {"op_debug_config": b"debug.cfg"},
        "op_debug_config: b'debug.cfg' cannot be used: it is bytes and text is needed, so decode "
        "it first; write for example 'dump/step0'.",
    ),
    "a number for free text": (
        {"soc_config": 910},
        'soc_config=910: this must be text (str), not int.\n  hint: Write soc_config="910".',
    ),
    "too small a number": (
        {"iterations_per_loop": 0},
        "iterations_per_loop=0: the smallest value is 1.",
    ),
    "too large a number": (
        {"input_fusion_size": 33554433},
        "input_fusion_size=33554433: the largest value is 33554432.",
    ),
    "something else in place of a part": (
        {"dump_config": "dump"},
        "dump_config: this must be a DumpConfig, not str.\n"
        "  hint: Write dump_config=DumpConfig(...).",
    ),
    "the wrong part": (
        {"dump_config": MemoryConfig()},
        "dump_config: this must be a DumpConfig, not MemoryConfig.\n"
        "  hint: Write dump_config=DumpConfig(...).",
    ),
    "a rule between options": (
        {"variable_placement": "Host"},
        "variable_placement='Host' needs mixed computing; mix_compile_mode is None.\n"
        "  hint: Add mix_compile_mode=True.",
    ),
}


@pytest.mark.parametrize(("said", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_typical_mistake_is_answered_in_full(said: Dict[str, Any], message: str) -> None:
    assert str(refusal(**said)) == message


def test_several_problems_are_numbered_in_one_error() -> None:
    error = refusal(iteration_per_loop=10, mix_compile_mode=1, aoe_mode=2)
    assert str(error) == (
        "3 problems in the configuration:\n"
        "  1. mix_compile_mode=1: this must be True or False (bool), not int. "
        "Write mix_compile_mode=True.\n"
        "  2. aoe_mode=2 (int) is not one of '1', '2', '4'. Write aoe_mode='2'.\n"
        "  3. AscendConfig has no option 'iteration_per_loop'; the adapter would ignore it. "
        "Did you mean iterations_per_loop?"
    )
    assert options_of(error) == ("mix_compile_mode", "aoe_mode", "iteration_per_loop")


def test_problems_of_type_and_of_rules_are_reported_together() -> None:
    error = refusal(mix_compile_mode=1, precision_mode="force_fp16", precision_mode_v2="fp16")
    assert str(error) == (
        "2 problems in the configuration:\n"
        "  1. mix_compile_mode=1: this must be True or False (bool), not int. "
        "Write mix_compile_mode=True.\n"
        "  2. precision_mode='force_fp16' and precision_mode_v2='fp16' exclude each other; "
        "the adapter fails on both. Keep precision_mode, which every release reads."
    )


def test_a_rule_that_needs_a_mistyped_value_is_not_reported() -> None:
    error = refusal(mix_compile_mode=1, variable_placement="Host")
    assert options_of(error) == ("mix_compile_mode",)


def test_a_rule_that_needs_a_mistyped_value_of_a_part_is_not_reported() -> None:
    error = refusal(dump_config={"enable_dump": True, "dump_path": 3})
    assert options_of(error) == ("dump_config.dump_path",)


def test_a_part_reports_its_own_problems_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        DumpConfig(enable_dump=1, dump_mode="both")
    assert str(caught.value) == (
        "2 problems in this DumpConfig:\n"
        "  1. enable_dump=1: this must be True or False (bool), not int. "
        "Write enable_dump=True.\n"
        "  2. dump_mode='both' is not one of 'input', 'output', 'all'."
    )


def test_a_part_says_where_the_option_of_another_part_belongs() -> None:
    said: Dict[str, Any] = {"enable_profiling": True}
    with pytest.raises(ConfigError) as caught:
        DumpConfig(**said)
    assert str(caught.value) == (
        "DumpConfig has no option 'enable_profiling'.\n"
        "  hint: Write profiling_config=ProfilingConfig(enable_profiling=True)."
    )


def test_problems_inside_a_mapping_for_a_part_are_named_by_their_path() -> None:
    inner = {"graph_memory_optimize_config": {"recompute": "manul"}}
    error = refusal(experimental_config=inner)
    path = "experimental_config.graph_memory_optimize_config.recompute"
    assert options_of(error) == (path,)
    assert str(error) == (
        "recompute='manul' is not one of 'auto', 'manual'.\n  hint: Write recompute='manual'."
    )


def test_a_grammar_speaks_after_the_name_of_its_option() -> None:
    with pytest.raises(ConfigError) as caught:
        ExperimentalConfig(accelerate_train_mode="fast|step|0.95")
    assert str(caught.value) == (
        "accelerate_train_mode: 'fast|step|0.95' cannot be used: the ratio '0.95' is outside "
        "0.2 to 0.9, the limits for 'step'; write for example 'fast|step|0.9'."
    )


def test_none_is_unset_and_no_mistake() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = AscendConfig(
            precision_mode=None,
            iterations_per_loop=None,
            dump_config=None,
            profiling_config=ProfilingConfig(enable_profiling=None),
        )
    assert config.parameter_map() == {}


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ({"precision_mode": "mixed_fp16"}, "Write precision_mode='allow_mix_precision_fp16'."),
        ({"precision_mode_v2": "mixed_fp16"}, "Write precision_mode_v2='mixed_float16'."),
        ({"precision_mode": "bf16"}, "Write precision_mode='allow_mix_precision_bf16'."),
        ({"precision_mode": "fp16"}, "That is a value of precision_mode_v2."),
        ({"mixed_precision": True}, "Write precision_mode='allow_mix_precision'."),
        ({"rank_size": 8}, "How many ranks there are is for the launcher: `ascend-session launch"),
        ({"device_id": 3}, "Write session_device_id=0 with the number of the device, or give it"),
        ({"loss_scale": 1024}, "That is for ascend_session.training: DistributedOptimizer("),
        ({"gpu_options": None}, ""),
        ({"allow_soft_placement": True}, "That is TensorFlow's: give a tf.ConfigProto"),
    ],
    ids=str,
)
def test_what_people_write_for_something_else_is_answered_with_what_they_mean(
    written: Dict[str, Any], hint: str
) -> None:
    (problem,) = refusal(**written).problems
    assert (problem.hint or "").startswith(hint)


def test_no_message_speaks_of_the_library_below() -> None:
    words = ("extra_forbidden", "literal_error", "validation", "Input should", "attr", "type=")
    messages = [str(refusal(**said)) for said, _ in MISTAKES.values()]
    assert [m for m in messages if any(word in m for word in words)] == []


# Keys of an entry ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "prcision_mode",
            "The adapter has no key 'prcision_mode' and silently ignores it.\n"
            "  hint: Did you mean 'precision_mode'?",
        ),
        (
            "accelerate_train_mode",
            "The adapter has no key 'accelerate_train_mode' and silently ignores it.\n"
            "  hint: Did you mean 'experimental_accelerate_train_mode'?",
        ),
        (
            "model_dir",
            "model_dir is an argument of NPURunConfig, not a key of the NpuOptimizer entry.\n"
            "  hint: Write AscendConfig(model_dir=...).",
        ),
    ],
)
def test_a_key_that_the_adapter_does_not_read_is_answered_in_full(key: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig.from_parameter_map({key: "x"})
    assert str(caught.value) == message


def test_the_advice_for_a_nested_argument_of_npurunconfig_is_python() -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig.from_parameter_map({"recompute": "auto"})
    assert "experimental_config.graph_memory_optimize_config" not in str(caught.value)
    assert "GraphMemoryOptimizeConfig(recompute=" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ({"precision_mode": "fp16"}, "That is a value of precision_mode_v2."),
        ({"precision_mode_v2": "force_fp16"}, "That is a value of precision_mode."),
        ({"enable_dumps": True}, "Did you mean dump_config.enable_dump?"),
    ],
    ids=str,
)
def test_what_belongs_to_another_option_is_said(said: Dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig(**said)
    assert caught.value.hint == hint
