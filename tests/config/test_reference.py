"""The plain data of one option."""

import inspect
import json
import re

import pytest

from ascend_session.config import options
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


def test_the_group_of_an_option_is_the_comment_above_it():
    groups, title = {}, ""
    for line in inspect.getsource(options.AdapterOptions).splitlines():
        heading, option = re.match(r"    # (.*)", line), re.match(r"    (\w+): Annotated", line)
        title = heading[1] if heading else title
        if option:
            groups[option[1]] = title
    assert len(set(groups.values())) > 10
    table = {option.path: group_of(option) for option in all_options()}
    assert {name: table[name] for name in groups if name in table} == {
        name: title for name, title in groups.items() if name in table
    }
