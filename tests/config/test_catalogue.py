"""The reference as a whole: complete, and what it says of single options."""

import pytest

from ascend_session import AscendConfig
from ascend_session.config.catalogue import references
from ascend_session.config.lookup import find
from ascend_session.config.option import adapter_options
from ascend_session.config.rules import HOST_RULES, RULES, paths


def test_every_option_is_there_once_and_in_order():
    assert [o.path for o in references()] == [o.path for o in adapter_options(AscendConfig)]


def test_names_and_keys_are_unambiguous():
    names = [{o.name.lower(), (o.key or o.name).lower(), o.path.lower()} for o in references()]
    assert sum(len(each) for each in names) == len(set().union(*names))


def test_facts_come_from_the_definition():
    option = find("hccl_timeout")
    assert (option.key, option.field, option.unit) == ("hccl_timeout", "i", "s")
    assert (option.scope, option.also) == ("init", ("session",))
    assert (option.low, option.high) == (0, 2**31 - 1)
    assert option.product_default == 1836
    assert "multiple of 68" in option.applies_to
    assert option.seeds == ("NPURunConfig Options (seed 000)",)


def test_an_option_of_a_part_says_how_to_write_it():
    option = find("recompute")
    inner = "graph_memory_optimize_config=GraphMemoryOptimizeConfig(recompute=...)"
    assert option.write == f"AscendConfig(experimental_config=ExperimentalConfig({inner}))"
    written = "experimental_config: {graph_memory_optimize_config: {recompute: ...}}"
    assert option.write_file == written


def test_what_is_written_in_python_can_be_evaluated():
    import ascend_session

    for option in references():
        if option.write_file is not None:
            given = option.write.replace("...", "None")
            config = eval(given, {n: getattr(ascend_session, n) for n in ascend_session.__all__})
            assert config.values() == {}


def test_options_without_a_key_say_who_reads_them():
    assert (find("model_dir").key, find("model_dir").scope) == (None, "NPURunConfig")
    assert (find("recompute").key, find("recompute").scope) == (None, "graph")
    assert (find("min_group_size").key, find("min_group_size").scope) == (
        "min_group_size",
        "unread",
    )


def test_objects_cannot_be_written_in_a_file():
    objects = {o.name for o in references() if o.write_file is None}
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
    assert find(name).group == group


def test_every_rule_stands_at_each_option_it_looks_at():
    for book in (RULES, HOST_RULES, paths.OPENING_RULES):
        for rule in book:
            sentence = " ".join(rule.sentence.split())
            for key in rule.keys:
                assert sentence in [said.sentence for said in find(key).rules]


def test_rules_say_when_they_are_checked():
    assert {rule.when for rule in find("op_debug_config").rules} >= {"host", "opening"}
    assert {rule.when for rule in find("iterations_per_loop").rules} == {"construction"}


def test_the_members_of_profiling_options_are_explained():
    members = find("profiling_options").members
    assert members["training_trace"] == "'on'"
    assert find("dump_step").members == {}
