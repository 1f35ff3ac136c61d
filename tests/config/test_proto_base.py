"""A ConfigProto made from a base, the user's own: what is kept, what contradicts, what is said."""

import subprocess
import sys
from typing import Any

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from tests.config.protos import (
    OFF,
    add,
    base,
    config_pb2,
    content,
    entry_of,
    rewriter_config_pb2,
)


def test_what_the_base_says_elsewhere_is_kept() -> None:
    proto = config_pb2.ConfigProto(intra_op_parallelism_threads=3, log_device_placement=True)
    proto.gpu_options.allow_growth = True
    add(proto, "SomethingElse", {"key": ("i", 1)})
    made = AscendConfig(deterministic=1).to_config_proto(proto)
    assert made.intra_op_parallelism_threads == 3
    assert made.log_device_placement
    assert made.gpu_options.allow_growth
    names = [o.name for o in made.graph_options.rewrite_options.custom_optimizers]
    assert names == ["SomethingElse", "NpuOptimizer"]
    assert entry_of(made) == {"deterministic": ("i", 1)}


def test_what_the_bases_entry_says_and_the_configuration_does_not_is_kept() -> None:
    made = AscendConfig(deterministic=1).to_config_proto(base(jit_compile=("s", b"true")))
    assert entry_of(made) == {"deterministic": ("i", 1), "jit_compile": ("s", b"true")}


def test_the_same_value_in_both_is_no_contradiction() -> None:
    made = AscendConfig(deterministic=1).to_config_proto(base(deterministic=("i", 1)))
    assert entry_of(made) == {"deterministic": ("i", 1)}


@pytest.mark.parametrize(
    "proto",
    [
        config_pb2.ConfigProto(),
        config_pb2.ConfigProto(allow_soft_placement=True, intra_op_parallelism_threads=2),
        base(),
        base(jit_compile=("s", b"true"), hccl_timeout=("i", 1836)),
    ],
    ids=["empty", "other fields", "empty entry", "entry"],
)
def test_the_base_is_not_changed(proto: Any) -> None:
    before = content(proto)
    made = AscendConfig(deterministic=1).to_config_proto(proto)
    assert content(proto) == before
    assert made is not proto
    assert content(made) != before


def test_the_base_is_not_changed_by_a_refusal_either() -> None:
    proto = base(deterministic=("i", 0))
    before = content(proto)
    with pytest.raises(ConfigError):
        AscendConfig(deterministic=1).to_config_proto(proto)
    assert content(proto) == before


def test_a_contradiction_is_refused_with_both_values() -> None:
    proto = base(jit_compile=("s", b"auto"), deterministic=("i", 0))
    with pytest.raises(ConfigError) as caught:
        AscendConfig(deterministic=1, jit_compile="true").to_config_proto(proto)
    assert str(caught.value) == (
        "2 problems in the base proto and this AscendConfig:\n"
        "  1. deterministic is 1 in the AscendConfig but 0 in the base proto's NpuOptimizer "
        "entry. Set it in one place only.\n"
        "  2. jit_compile is 'true' in the AscendConfig but 'auto' in the base proto's "
        "NpuOptimizer entry. Set it in one place only."
    )


def test_the_rules_run_on_both_together() -> None:
    config = AscendConfig(mix_compile_mode=True)
    with pytest.raises(ConfigError, match="needs iterations_per_loop=1, not 10"):
        config.to_config_proto(base(iterations_per_loop=("i", 10)))
    made = config.to_config_proto(base(variable_placement=("s", b"Host")))
    assert entry_of(made)["variable_placement"] == ("s", b"Host")


def test_the_values_of_the_bases_entry_are_checked() -> None:
    with pytest.raises(ConfigError, match="jit_compile='on' is not one of"):
        AscendConfig().to_config_proto(base(jit_compile=("s", b"on")))


def test_merging_warns_of_what_is_new_only() -> None:
    with pytest.warns(AscendConfigWarning, match="hccl_timeout=1800 becomes"):
        config = AscendConfig(hccl_timeout=1800)
    with pytest.warns(AscendConfigWarning) as caught:
        config.to_config_proto(base(quant_dumpable=("s", b"1"), hccl_timeout=("i", 1800)))
    assert [str(w.message) for w in caught] == [
        "quant_dumpable='1' has no effect without enable_dump=True."
    ]
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("name", "number", "word"),
    [
        ("remapping", rewriter_config_pb2.RewriterConfig.ON, "ON"),
        ("remapping", rewriter_config_pb2.RewriterConfig.AGGRESSIVE, "AGGRESSIVE"),
        ("memory_optimization", rewriter_config_pb2.RewriterConfig.NO_MEM_OPT, "NO_MEM_OPT"),
        ("memory_optimization", rewriter_config_pb2.RewriterConfig.HEURISTICS, "HEURISTICS"),
    ],
)
def test_rewriter_options_that_the_base_sets_on_purpose_are_kept_with_a_warning(
    name: str, number: int, word: str
) -> None:
    proto = config_pb2.ConfigProto()
    setattr(proto.graph_options.rewrite_options, name, number)
    with pytest.warns(AscendConfigWarning) as caught:
        made = AscendConfig().to_config_proto(proto)
    [warning] = caught
    assert str(warning.message) == (
        f"The base proto sets rewrite_options.{name} to {word}; it is kept, but the adapter's "
        "samples all set RewriterConfig.OFF."
    )
    assert warning.filename == __file__
    options = made.graph_options.rewrite_options
    assert getattr(options, name) == number
    other = {"remapping": "memory_optimization", "memory_optimization": "remapping"}[name]
    assert getattr(options, other) == OFF


def test_rewriter_options_that_the_base_sets_like_the_samples_do_not_warn() -> None:
    proto = config_pb2.ConfigProto()
    proto.graph_options.rewrite_options.remapping = OFF
    proto.graph_options.rewrite_options.memory_optimization = OFF
    options = AscendConfig().to_config_proto(proto).graph_options.rewrite_options
    assert (options.remapping, options.memory_optimization) == (OFF, OFF)


def test_something_else_than_a_proto_is_refused_as_base() -> None:
    with pytest.raises(ConfigError, match=r"base proto must be a tf\.ConfigProto, this is dict"):
        AscendConfig().to_config_proto({})


@pytest.mark.parametrize(
    "given",
    [3, "x", {}, object(), config_pb2.ConfigProto, config_pb2.GPUOptions(), b""],
    ids=lambda given: type(given).__name__,
)
def test_something_else_than_a_proto_is_refused_as_session_config(given: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig(session_config=given)
    kind = type(given).__name__
    assert str(caught.value) == f"session_config: this must be a tf.ConfigProto, not {kind}."


def test_something_else_than_a_proto_hides_no_other_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig(session_config=3, graph_run_mode=7)
    options = {problem.option for problem in caught.value.problems}
    assert options == {"session_config", "graph_run_mode"}


def test_a_proto_is_recognised_without_importing_tensorflow() -> None:
    code = (
        "import sys; from ascend_session import AscendConfig, ConfigError\n"
        "try: AscendConfig(session_config=3)\n"
        "except ConfigError: print('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"False"]


def test_session_config_is_the_base_when_none_is_given() -> None:
    proto = config_pb2.ConfigProto(intra_op_parallelism_threads=3)
    before = content(proto)
    made = AscendConfig(session_config=proto, deterministic=1).to_config_proto()
    assert made.intra_op_parallelism_threads == 3
    assert content(proto) == before


def test_session_config_and_base_must_not_differ() -> None:
    proto = config_pb2.ConfigProto(intra_op_parallelism_threads=3)
    same = config_pb2.ConfigProto(intra_op_parallelism_threads=3)
    config = AscendConfig(session_config=proto)
    assert config.to_config_proto(same).intra_op_parallelism_threads == 3
    with pytest.raises(ConfigError, match="A base proto was given twice and differs"):
        config.to_config_proto(config_pb2.ConfigProto(intra_op_parallelism_threads=4))


def test_text_of_a_base_that_is_not_utf8_is_refused_or_kept_but_not_altered() -> None:
    try:
        made = AscendConfig().to_config_proto(base(soc_config=("s", b"\xff")))
    except ConfigError as error:
        assert "soc_config" in str(error)  # noqa: PT017  (either of the two is right)
    else:
        assert entry_of(made)["soc_config"] == ("s", b"\xff")
