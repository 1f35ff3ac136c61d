"""The plain data of one option."""

import itertools
import json

import pytest

from ascend_session.config.reference import (
    SCOPES,
    all_options,
    default_of,
    find,
    group_of,
    to_dict,
)


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
        ("in_out_pair", "Mixed computing"),
        ("experimental_config.accelerate_train_mode", "Experimental"),
        ("experimental_config.graph_memory_optimize_config.graph_slice", "Experimental"),
    ],
)
def test_an_option_belongs_to_the_group_that_began_last(name, title):
    assert {option.path: group_of(option) for option in all_options()}[name] == title
