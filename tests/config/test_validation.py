"""Warnings: at the caller's line, once each, and exceptions where the caller's filters say so."""

import copy
import inspect
import warnings
from pathlib import Path
from typing import Any, Callable, List

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from ascend_session.config.rules import validate

ROUNDED = (
    "hccl_timeout=1800 becomes 1768 s on Atlas training products, which take multiples of 68 up "
    "to 17340."
)


def warned(call: Callable[[], Any]) -> List[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return list(caught)


def quiet(**said: Any) -> AscendConfig:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        return AscendConfig(**said)


def construct(_: Path) -> Any:
    return AscendConfig(hccl_timeout=1800)


def replace(_: Path) -> Any:
    return AscendConfig().replace(hccl_timeout=1800)


def from_parameter_map(_: Path) -> Any:
    return AscendConfig.from_parameter_map({"hccl_timeout": 1800})


def from_file(folder: Path) -> Any:
    (folder / "config.yaml").write_text("hccl_timeout: 1800\n")
    return AscendConfig.from_file(folder / "config.yaml")


def in_a_comprehension(_: Path) -> Any:
    return [AscendConfig(hccl_timeout=seconds) for seconds in (1800,)]


WAYS = [construct, replace, from_parameter_map, from_file, in_a_comprehension]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_warning_is_given_once_and_points_into_the_callers_function(
    way: Callable[[Path], Any], tmp_path: Path
) -> None:
    [warning] = warned(lambda: way(tmp_path))
    lines, first = inspect.getsourcelines(way)
    assert warning.category is AscendConfigWarning
    assert str(warning.message) == ROUNDED
    assert warning.filename == __file__
    assert warning.lineno == first + len(lines) - 1


def test_a_warning_of_the_host_points_at_the_caller_too() -> None:
    config = AscendConfig(deterministic=1)

    def check() -> None:
        config.check_host({"HCCL_DETERMINISTIC": "true"})

    [warning] = warned(check)
    assert (warning.filename, warning.lineno) == (__file__, check.__code__.co_firstlineno + 1)


def test_a_call_over_several_lines_is_pointed_at_within_these_lines() -> None:
    def construct() -> None:
        AscendConfig(
            graph_run_mode=1,
            hccl_timeout=1800,
        )

    [warning] = warned(construct)
    first = construct.__code__.co_firstlineno
    assert first < warning.lineno <= first + 4


def test_a_subclass_of_the_callers_is_the_callers_own_code() -> None:
    class Preset(AscendConfig):
        """A configuration with a default of its own."""

        def __init__(self, **said: Any) -> None:
            super().__init__(hccl_timeout=1800, **said)

    [warning] = warned(Preset)
    assert warning.filename == __file__


def test_each_finding_is_warned_of_once_and_in_the_order_of_the_rules() -> None:
    caught = warned(lambda: AscendConfig(hccl_timeout=1800, quant_dumpable="1", local_rank_id=0))
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == len(set(messages))
    starts = ["quant_dumpable='1'", "hccl_timeout=1800", "local_rank_id=0"]
    assert [text[: len(start)] for text, start in zip(messages, starts)] == starts
    assert len(messages) == 3


def test_a_configuration_without_findings_warns_of_nothing() -> None:
    caught = warned(lambda: AscendConfig(hccl_timeout=1836, precision_mode="force_fp32"))
    assert caught == []


def test_with_an_error_filter_the_warning_is_raised() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", AscendConfigWarning)
        with pytest.raises(AscendConfigWarning, match="hccl_timeout=1800 becomes 1768 s"):
            AscendConfig(hccl_timeout=1800)


def test_a_refused_configuration_is_an_error_and_does_not_warn_as_well() -> None:
    def refused() -> None:
        with pytest.raises(ConfigError, match="exclude each other"):
            AscendConfig(hccl_timeout=1800, precision_mode="force_fp16", precision_mode_v2="fp16")

    def mistyped() -> None:
        with pytest.raises(ConfigError, match="aoe_mode=2"):
            AscendConfig(hccl_timeout=1800, aoe_mode=2)

    assert warned(mistyped) == []
    assert warned(refused) == []


def test_a_copy_does_not_repeat_the_warnings_of_its_original() -> None:
    config = quiet(hccl_timeout=1800)
    assert warned(lambda: copy.copy(config)) == []
    assert warned(config.parameter_map) == []


def test_of_two_sets_only_what_is_new_in_the_second_is_reported() -> None:
    before = {"hccl_timeout": 1800}

    def report() -> None:
        validate({**before, "quant_dumpable": "1"}, before)

    [warning] = warned(report)
    assert str(warning.message).startswith("quant_dumpable='1'")


def test_a_problem_of_both_sets_is_not_raised_again() -> None:
    before = {"precision_mode": "force_fp16", "precision_mode_v2": "fp16"}
    validate({**before, "deterministic": 1}, before)
    with pytest.raises(ConfigError, match="needs mixed computing"):
        validate({**before, "variable_placement": "Host"}, before)


def test_validating_flat_values_raises_all_problems_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        validate({"variable_placement": "Host", "enable_dump": True})
    found = [problem.option for problem in caught.value.problems]
    assert found == ["dump_path", "variable_placement"]
    assert all(problem.source for problem in caught.value.problems)
