"""What the reference says of single options, in Python and as plain data."""

import itertools
import json

import pytest

from ascend_session.config.reference import (
    MEANINGS,
    SCOPES,
    all_options,
    default_of,
    find,
    group_of,
    in_file,
    in_python,
    meanings_of,
    members_of,
    pages_of,
    rules_of,
    to_dict,
)
from ascend_session.config.rules import HOST_RULES, RULES
from ascend_session.config.rules.paths import OPENING_RULES


def test_names_and_keys_are_unambiguous():
    names = [{o.name.lower(), o.key.lower(), o.path.lower()} for o in all_options()]
    assert sum(len(each) for each in names) == len(set().union(*names))


def test_facts_come_from_the_definition():
    option = find("hccl_timeout")
    assert (option.key, option.field, option.unit) == ("hccl_timeout", "i", "s")
    assert (option.scope, option.other_scopes) == ("init", ("session",))
    assert (option.type.range.low, option.type.range.high) == (0, 2**31 - 1)
    assert option.product == 1836
    assert "multiple of 68" in option.applies
    assert pages_of(option) == ("NPURunConfig Options",)


def test_only_values_that_an_option_takes_have_a_meaning():
    described = {option.key: option for option in all_options() if meanings_of(option)}
    assert set(described) == set(MEANINGS)
    for option in described.values():
        assert set(meanings_of(option)) <= set(option.type.allowed), option.path


def test_every_precision_mode_has_a_meaning():
    for name in ("precision_mode", "precision_mode_v2"):
        assert tuple(meanings_of(find(name))) == find(name).type.allowed


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
    ("name", "default"),
    [
        ("graph_run_mode", "1"),
        ("dump_mode", "'output'"),
        ("hccl_timeout", "1836 s"),
        ("input_fusion_size", "131072 bytes"),
        ("ac_parallel_enable", "'0'"),
        ("stream_max_parallel_num", "1 per engine"),
        ("enable_data_pre_proc", "False (NPURunConfig: True)"),
        ("keep_checkpoint_max", "5 (NPURunConfig)"),
        ("dump_path", None),
    ],
)
def test_the_default_is_said_in_words(name, default):
    assert default_of(find(name)) == default


def test_every_reference_can_be_written_as_json_and_says_its_scope():
    for option in all_options():
        data = json.loads(json.dumps(to_dict(option)))
        assert data["path"] == option.path
        assert data["scope_meaning"] == SCOPES[option.scope]


def test_rules_are_objects_in_json():
    data = json.loads(json.dumps(to_dict(find("precision_mode"))))
    assert set(data["rules"][0]) == {"sentence", "source", "when"}


def test_every_rule_stands_at_each_option_it_looks_at():
    for book in (RULES, HOST_RULES, OPENING_RULES):
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


GROUPS = [
    *("Basics", "Memory", "Dynamic shapes", "Mixed computing", "Performance", "Debugging"),
    *("Accuracy tuning", "Accuracy comparison", "Profiling", "Tuning (AOE)"),
    *("Operator compilation", "Data augmentation", "Time limits", "Experimental", "Deprecated"),
    *("Not in the manual", "Read by NPURunConfig only"),
]


def test_options_of_one_group_stand_together():
    titles = [group_of(option) for option in all_options()]
    assert [title for title, _ in itertools.groupby(titles)] == GROUPS


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("use_off_line", "Basics"),
        ("external_weight", "Memory"),
        ("memory_config.atomic_clean_policy", "Memory"),
        ("input_batch_cpy", "Memory"),
        ("in_out_pair", "Mixed computing"),
        ("dump_config.dump_layer", "Accuracy comparison"),
        ("work_path", "Tuning (AOE)"),
        ("jit_compile", "Experimental"),
        ("experimental_config.accelerate_train_mode", "Experimental"),
        ("experimental_config.graph_memory_optimize_config.graph_slice", "Experimental"),
        ("soc_config", "Not in the manual"),
        ("horovod_mode", "Read by NPURunConfig only"),
    ],
)
def test_an_option_belongs_to_the_group_that_began_last(name, title):
    assert group_of(find(name)) == title
