"""Finding options by name and by words."""

import pytest

from ascend_session.config.reference import find, nothing_found, search


def paths(*words):
    return [option.path for option in search(words)]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("dump_path", "dump_config.dump_path"),
        ("dump_config.dump_path", "dump_config.dump_path"),
        ("profiling_mode", "profiling_config.enable_profiling"),
        ("hccl_algorithm", "HCCL_algorithm"),
        ("experimental_accelerate_train_mode", "experimental_config.accelerate_train_mode"),
    ],
)
def test_an_option_is_found_by_name_path_key_and_in_any_case(name, path):
    assert find(name).path == path


@pytest.mark.parametrize("name", ["", "dump", "fp_point", "dump_config"])
def test_what_is_no_whole_name_is_not_found(name):
    assert find(name) is None


def test_the_name_of_a_part_finds_its_options():
    inside = [f"memory_config.{name}" for name in ("atomic_clean_policy", "static_memory_policy")]
    assert paths("MemoryConfig")[:2] == inside
    assert paths("memory_config") == paths("MemoryConfig")


def test_sentences_values_and_groups_are_searched():
    assert "dump_config.enable_dump_debug" in paths("overflow")
    assert paths("lazy_recompile") == ["dynamic_graph_execute_mode"]
    assert paths("time limits")[0] == "hccl_timeout"
    assert paths("mixed", "precision")[0] == "precision_mode"


def test_all_words_must_be_there():
    assert paths("dump", "overflow") == [
        "dump_config.enable_dump_debug",
        "dump_config.dump_debug_mode",
    ]
    assert paths("overflow", "checkpoint") == []


def test_rules_are_searched_when_nothing_else_has_the_word():
    assert paths("HCCL_EXEC_TIMEOUT") == ["hccl_timeout", "stream_sync_timeout"]
    assert paths("training_trace") == ["profiling_config.profiling_options"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("fp_point", "it is a member of profiling_options"),
        ("auto_tune_mode", "Use aoe_mode"),
        ("variable_location", "Write variable_placement"),
    ],
)
def test_a_name_of_the_past_finds_nothing_but_what_replaced_it(name, advice):
    assert paths(name) == []
    problem = nothing_found([name])
    assert problem.message.startswith(f"{name} is a known name, but ")
    assert advice in str(problem)


def test_a_misspelt_name_gets_a_suggestion():
    problem = nothing_found(["precison_mod"])
    assert problem.message == "No option is named 'precison_mod', and none mentions it."
    assert problem.hint == "Did you mean precision_mode?"


def test_a_misspelt_name_of_the_past_is_suggested_too():
    assert nothing_found(["auto_tune_mod"]).hint == "Did you mean auto_tune_mode?"


def test_words_near_nothing_lead_to_the_list():
    assert nothing_found(["qqq", "zzz"]).hint == "`ascend-session options` lists all options."
