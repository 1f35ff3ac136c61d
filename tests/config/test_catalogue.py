"""The reference as a whole: complete, and what it says of single options."""

import pytest

from ascend_session.config.reference import (
    all_options,
    find,
    group_of,
    in_file,
    in_python,
    members_of,
    pages_of,
    rules_of,
    to_dict,
    values_of,
)
from ascend_session.config.rules import HOST_RULES, RULES, paths


def test_names_and_keys_are_unambiguous():
    names = [{o.name.lower(), o.key.lower(), o.path.lower()} for o in all_options()]
    assert sum(len(each) for each in names) == len(set().union(*names))


def test_facts_come_from_the_definition():
    option = find("hccl_timeout")
    assert (option.key, option.field, option.unit) == ("hccl_timeout", "i", "s")
    assert (option.scope, option.also) == ("init", ("session",))
    assert (values_of(option).low, values_of(option).high) == (0, 2**31 - 1)
    assert option.product == 1836
    assert "multiple of 68" in option.applies
    assert pages_of(option) == ("NPURunConfig Options",)


def test_an_option_of_a_part_says_how_to_write_it():
    option = find("recompute")
    inner = "graph_memory_optimize_config=GraphMemoryOptimizeConfig(recompute=...)"
    assert in_python(option) == f"AscendConfig(experimental_config=ExperimentalConfig({inner}))"
    written = "experimental_config: {graph_memory_optimize_config: {recompute: ...}}"
    assert in_file(option) == written


def test_what_is_written_in_python_can_be_evaluated():
    import ascend_session

    for option in all_options():
        if in_file(option) is not None:
            given = in_python(option).replace("...", "None")
            config = eval(given, {n: getattr(ascend_session, n) for n in ascend_session.__all__})
            assert config.values() == {}


def test_options_without_a_key_say_who_reads_them():
    def key_and_scope(name):
        facts = to_dict(find(name))
        return facts["key"], facts["scope"]

    assert key_and_scope("model_dir") == (None, "NPURunConfig")
    assert key_and_scope("recompute") == (None, "graph")
    assert key_and_scope("min_group_size") == ("min_group_size", "unread")


def test_objects_cannot_be_written_in_a_file():
    objects = {o.name for o in all_options() if in_file(o) is None}
    assert objects == {"distribute", "session_config", "train_distribute", "eval_distribute"}


def test_run_config_defaults_are_given_only_where_they_differ():
    assert find("enable_data_pre_proc").run_config_default is True
    assert find("iterations_per_loop").run_config_default is None


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("use_off_line", "Basics"),
        ("static_memory_policy", "Memory"),
        ("input_batch_cpy", "Memory"),
        ("dump_layer", "Accuracy comparison"),
        ("work_path", "Tuning (AOE)"),
        ("graph_slice", "Experimental"),
        ("jit_compile", "Experimental"),
        ("soc_config", "Not in the manual"),
        ("horovod_mode", "Read by NPURunConfig only"),
    ],
)
def test_options_belong_to_the_group_they_are_defined_in(name, group):
    assert group_of(find(name)) == group


def test_every_rule_stands_at_each_option_it_looks_at():
    for book in (RULES, HOST_RULES, paths.OPENING_RULES):
        for rule in book:
            for key in rule.keys:
                assert rule in [each for _, each in rules_of(find(key))]


def test_rules_say_when_they_are_checked():
    assert {when for when, _ in rules_of(find("op_debug_config"))} >= {"host", "opening"}
    assert {when for when, _ in rules_of(find("iterations_per_loop"))} == {"construction"}


def test_the_members_of_profiling_options_are_explained():
    members = members_of(find("profiling_options"))
    assert members["training_trace"] == "'on'"
    assert members_of(find("dump_step")) == {}
