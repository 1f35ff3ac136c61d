"""Pods: who a pod is, and what it is in a rank table that is mounted in it."""

import json
from pathlib import Path
from typing import Dict, Optional

import pytest

from ascend_session.backends.npu_job import find_missing_variables
from ascend_session.backends.stub_job import find_endpoint
from ascend_session.cluster.job import Job
from ascend_session.cluster.kubernetes import MOUNTED, find_pod_names
from ascend_session.cluster.schedulers import CHOICE
from ascend_session.errors import JobError


def in_pod(folder: Path, ranks: int, status: str = "completed") -> Dict[str, str]:
    """The variables of a process in a pod with a table of so many hosts with a device each."""
    servers = [
        {
            "server_id": f"203.0.113.{rank + 1}",
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


def test_a_pod_with_one_device_is_the_rank_that_its_address_has(tmp_path: Path) -> None:
    environ = {**in_pod(tmp_path, 3), "HOST_IP": "203.0.113.2"}
    assert Job.detect(environ)[:4] == (1, 3, 0, 1)


def test_the_adapter_is_told_so_while_a_system_is_open(tmp_path: Path) -> None:
    environ = {**in_pod(tmp_path, 3), "HOST_IP": "203.0.113.2", "JOB_ID": "mine"}
    told = find_missing_variables(environ)
    assert told["RANK_TABLE_FILE"] == str(tmp_path / MOUNTED.lstrip("/"))
    assert (told["RANK_ID"], told["RANK_SIZE"]) == ("1", "3")
    assert "JOB_ID" not in told


def test_on_the_stub_the_ranks_of_pods_meet_by_their_table(tmp_path: Path) -> None:
    environ = {**in_pod(tmp_path, 3), "HOST_IP": "203.0.113.2"}
    others = {**environ, "HOST_IP": "203.0.113.1"}
    endpoints = {find_endpoint(Job.detect(each), each) for each in (environ, others)}
    assert len(endpoints) == 1


@pytest.mark.parametrize("address", ["203.0.113.9", None])
def test_several_ranks_do_not_train_alone_each(tmp_path: Path, address: Optional[str]) -> None:
    environ = {**in_pod(tmp_path, 2), **({"HOST_IP": address} if address else {})}
    with pytest.raises(JobError, match="A rank table of 2 ranks is mounted at") as refused:
        Job.detect(environ)
    assert "`ascend-session launch`" in str(refused.value.hint)


def test_a_pod_with_several_devices_needs_a_launcher(tmp_path: Path) -> None:
    environ = {**in_pod(tmp_path, 2), "HOST_IP": "203.0.113.1"}
    file = tmp_path / MOUNTED.lstrip("/")
    table = json.loads(file.read_text())
    more = {"device_id": "1", "device_ip": "192.168.1.9", "rank_id": "1"}
    table["server_list"][0]["device"].append(more)
    table["server_list"][1]["device"][0]["rank_id"] = "2"
    file.write_text(json.dumps(table))
    with pytest.raises(JobError, match="A rank table of 3 ranks is mounted at"):
        Job.detect(environ)


def test_a_table_that_is_not_completed_may_become_one_of_several(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="A rank table that is not completed is mounted at"):
        Job.detect(in_pod(tmp_path, 1, "initializing"))


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
    assert Job.detect({**in_pod(tmp_path, 2), **more})[:2] == (0, 1)


def test_who_is_said_to_be_a_rank_is(tmp_path: Path) -> None:
    environ = {**in_pod(tmp_path, 2), "RANK_ID": "1", "RANK_SIZE": "2"}
    assert Job.detect(environ)[:2] == (1, 2)


def test_a_table_of_one_rank_says_nothing_else(tmp_path: Path) -> None:
    assert Job.detect(in_pod(tmp_path, 1))[:2] == (0, 1)


NAMES = {"POD_NAME": "a", "XDL_IP": "b", "HOST_IP": "c", "NODE_IP": "d", "POD_IP": "e"}


def test_names_that_others_use_too_count_in_a_pod_only() -> None:
    assert set(find_pod_names(NAMES).values()) == {"POD_NAME", "XDL_IP", "POD_IP"}
    names_in_pod = find_pod_names({**NAMES, "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert set(names_in_pod.values()) == set(NAMES)
