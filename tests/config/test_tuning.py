"""The configurations to tune with and to verify with."""

import warnings

import pytest

from ascend_session import AscendConfig, MemoryConfig, ProfilingConfig
from ascend_session.config.tuning import mode_number, mode_word
from ascend_session.errors import AscendConfigWarning, ConfigError


@pytest.fixture
def own():
    """A user's own configuration, with what AOE does not go together with."""
    return AscendConfig(
        precision_mode="allow_mix_precision",
        memory_config=MemoryConfig(static_memory_policy=2, atomic_clean_policy=1),
        profiling_config=ProfilingConfig(enable_profiling=True),
    )


@pytest.mark.parametrize(
    ("word", "number"), [("subgraph", "1"), ("operator", "2"), ("gradient", "4")]
)
def test_a_mode_is_a_word_or_the_manuals_number(own, word, number):
    assert own.for_tuning(word) == own.for_tuning(number)
    assert own.for_tuning(word).aoe_mode == number
    assert (mode_number(word), mode_word(number)) == (number, word)


@pytest.mark.parametrize("mode", ["3", "operators", "", "Operator"])
def test_another_mode_is_refused_with_those_there_are(own, mode):
    with pytest.raises(ConfigError) as failed:
        own.for_tuning(mode)
    assert f"mode={mode!r}" in str(failed.value)
    assert "subgraph (1), operator (2), gradient (4)" in str(failed.value)


def test_a_number_that_is_no_text_is_told_how_it_is_written(own):
    with pytest.raises(ConfigError) as failed:
        own.for_tuning(2)
    assert failed.value.hint == "Write mode='2'."
    with pytest.raises(ConfigError, match="is not a mode of AOE"):
        own.for_tuning(["2"])


def test_what_tuning_does_not_go_with_is_taken_out_and_the_rest_stays(own, tmp_path):
    tuning = own.for_tuning(work_path=str(tmp_path))
    assert tuning.parameter_map() == {
        "precision_mode": "allow_mix_precision",
        "atomic_clean_policy": 1,
        "static_memory_policy": 0,
        "aoe_mode": "2",
        "work_path": str(tmp_path),
    }


def test_the_folder_of_the_configuration_stays_if_no_other_is_given():
    own = AscendConfig(aoe_mode="1", work_path="tuned")
    assert own.for_tuning("operator").work_path == "tuned"


def test_the_configuration_to_tune_with_passes_the_rules_of_this_host(own, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tuning = own.for_tuning(work_path=str(tmp_path))
        tuning.check_host({})
    assert tuning.for_tuning() == tuning


def test_the_user_s_own_configuration_is_not_changed(own):
    before = own.values()
    own.for_tuning()
    own.for_verifying()
    assert own.values() == before


def test_after_operators_were_tuned_the_cache_is_made_anew(own):
    verifying = own.for_verifying()
    assert verifying == own.replace(op_compiler_cache_mode="force")


def test_after_subgraphs_were_tuned_the_cache_stays(own):
    assert own.for_verifying("subgraph") == own


def test_what_was_tuned_is_what_the_configuration_says():
    tuned = AscendConfig(aoe_mode="1", work_path="tuned", aoe_config_file="operators.cfg")
    assert tuned.for_verifying().values() == {}
    assert tuned.for_verifying("operator").values() == {"op_compiler_cache_mode": "force"}


def test_nothing_of_tuning_is_left_that_would_have_no_effect(tmp_path):
    tuning = AscendConfig(distribute_config="cluster.json", aoe_mode="2").for_tuning()
    with warnings.catch_warnings():
        warnings.simplefilter("error", AscendConfigWarning)
        assert set(tuning.for_verifying().values()) == {
            "static_memory_policy",
            "op_compiler_cache_mode",
        }
