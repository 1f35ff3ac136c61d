"""A process in a pod with a rank table that nothing makes a rank."""

import json
from pathlib import Path
from typing import Dict

import pytest

from ascend_session.cluster.job import Job
from ascend_session.cluster.kubernetes import MOUNTED
from ascend_session.cluster.schedulers import CHOICE
from ascend_session.errors import JobError


def in_pod(folder: Path, ranks: int, status: str = "completed") -> Dict[str, str]:
    """The variables of a process in a pod with a table of so many hosts with a device each."""
    servers = [
        {
            "server_id": f"192.0.2.{rank + 1}",
            "device": [
                {"device_id": "0", "device_ip": f"192.168.1.{rank + 1}", "rank_id": str(rank)}
            ],
        }
        for rank in range(ranks)
    ]
    table = {"version": "1.0", "status": status, "server_count": str(ranks), "server_list": servers}
    file = folder / MOUNTED.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(table))
    return {"ASCEND_SESSION_HOST_ROOT": str(folder), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def test_several_ranks_do_not_train_alone_each(tmp_path: Path) -> None:
    environ = {**in_pod(tmp_path, 2), "HOST_IP": "192.0.2.1"}
    with pytest.raises(JobError, match="A rank table of 2 ranks is mounted at") as refused:
        Job.from_env(environ)
    assert "`ascend-session launch`" in str(refused.value.hint)


def test_a_table_that_is_not_completed_may_become_one_of_several(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="A rank table that is not completed is mounted at"):
        Job.from_env(in_pod(tmp_path, 1, "initializing"))


@pytest.mark.parametrize(
    "more",
    [
        {CHOICE: "none"},
        {"RANK_SIZE": "1"},
        {"TF_CONFIG": '{"task": {"type": "evaluator"}}'},
        {"RANK_TABLE_FILE": "table.json", "POD_NAME": "worker-0"},
    ],
)
def test_who_is_said_to_be_alone_is(tmp_path: Path, more: Dict[str, str]) -> None:
    assert Job.from_env({**in_pod(tmp_path, 2), **more})[:2] == (0, 1)


def test_who_is_said_to_be_a_rank_is(tmp_path: Path) -> None:
    environ = {**in_pod(tmp_path, 2), "RANK_ID": "1", "RANK_SIZE": "2"}
    assert Job.from_env(environ)[:2] == (1, 2)


def test_a_table_of_one_rank_says_nothing_else(tmp_path: Path) -> None:
    assert Job.from_env(in_pod(tmp_path, 1))[:2] == (0, 1)
