"""The variables of a job, read as the adapter reads them."""

from typing import Dict, Optional

import pytest

from ascend_session.cluster.variables import (
    has_parameter_servers,
    read_number,
    read_size,
    read_task_type,
    uses_collectives,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        (" 8 ", 8),
        ("-1", -1),
        ("", None),
        ("eight", None),
        ("2.0", None),
        ("9" * 5000, None),
        ("\u0668", None),
    ],
)
def test_what_is_no_number_counts_as_not_set(text: str, value: Optional[int]) -> None:
    assert read_number({"RANK_SIZE": text}, "RANK_SIZE") == value
    assert read_number({}, "RANK_SIZE") is None


@pytest.mark.parametrize(
    ("environ", "size"),
    [
        ({"RANK_SIZE": "8"}, 8),
        ({"CM_WORKER_SIZE": "2"}, 2),
        ({"RANK_SIZE": "-1", "CM_WORKER_SIZE": "2"}, None),
        ({"RANK_SIZE": "0"}, None),
        ({"RANK_SIZE": "many"}, None),
        ({}, None),
    ],
)
def test_the_size_is_what_is_said_if_it_can_be_one(
    environ: Dict[str, str], size: Optional[int]
) -> None:
    assert read_size(environ) == size


@pytest.mark.parametrize("name", ["RANK_TABLE_FILE", "CM_CHIEF_IP", "HELP_CLUSTER"])
def test_a_table_a_chief_or_help_cluster_start_hccl(name: str) -> None:
    assert uses_collectives({name: "x"})
    assert not uses_collectives({name: ""})
    assert not uses_collectives({"RANK_SIZE": "8", "RANK_ID": "1"})


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({"TF_CONFIG": '{"task": {"type": "ps", "index": 0}}'}, "ps"),
        ({"TF_CONFIG": '{"cluster": {}}'}, None),
        ({"TF_CONFIG": '{"task": ["ps"]}'}, None),
        ({"TF_CONFIG": '{"task": {"type": 7}}'}, None),
        ({"TF_CONFIG": "not JSON"}, None),
        ({"TF_CONFIG": "[]"}, None),
        ({"TF_CONFIG": "[" * 100000}, None),
        ({"TF_CONFIG": ""}, None),
        ({}, None),
    ],
)
def test_the_task_is_what_tf_config_says_if_it_says_it(
    environ: Dict[str, str], kind: Optional[str]
) -> None:
    assert read_task_type(environ) == kind


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ('{"cluster": {"ps": ["h:1"], "worker": ["h:2"]}, "task": {"type": "worker"}}', True),
        ('{"task": {"type": "ps", "index": 0}}', True),
        ('{"cluster": {"ps": [], "worker": ["h:2"]}}', False),
        ('{"cluster": {"chief": ["h:1"], "worker": ["h:2"]}}', False),
        ('{"cluster": ["ps"]}', False),
        ('["ps"]', False),
        ("not JSON", False),
        ("", False),
    ],
)
def test_parameter_servers_are_what_tf_config_says(text: str, has: bool) -> None:
    assert has_parameter_servers({"TF_CONFIG": text}) is has
