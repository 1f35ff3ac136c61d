"""The plain data of one option."""

import json

import pytest

from ascend_session.config.catalogue import references
from ascend_session.config.lookup import find
from ascend_session.config.reference import SCOPES


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
    assert find(name).default == default


def test_every_reference_can_be_written_as_json_and_says_its_scope():
    for option in references():
        data = json.loads(json.dumps(option.to_dict()))
        assert data["path"] == option.path
        assert data["scope_meaning"] == SCOPES[option.scope]


def test_rules_are_objects_in_json():
    data = json.loads(json.dumps(find("precision_mode").to_dict()))
    assert set(data["rules"][0]) == {"sentence", "source", "when"}
