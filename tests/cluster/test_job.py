"""Rank, size and device of this process, as the adapter reads them."""

from typing import Dict

import pytest

from ascend_session.cluster.job import Job
from ascend_session.errors import JobError

TABLE = {"RANK_TABLE_FILE": "table.json", "RANK_SIZE": "8", "RANK_ID": "3"}
CHIEF = {
    "CM_CHIEF_IP": "10.0.0.1",
    "CM_CHIEF_PORT": "6666",
    "CM_CHIEF_DEVICE": "0",
    "CM_WORKER_SIZE": "8",
}

EVALUATOR = '{"task": {"type": "evaluator", "index": 0}}'


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({}, Job(0, 1, 0, 1, 0)),
        (TABLE, Job(3, 8, 3, 8, 0)),
        ({**TABLE, "RANK_SIZE": "16", "RANK_ID": "11"}, Job(11, 16, 3, 8, 0)),
        # Only the table knows the size; HCCL says it once the device is up.
        ({**TABLE, "RANK_SIZE": ""}, Job(3, 4, 3, 4, 0)),
        ({**TABLE, "RANK_SIZE": "-1", "RANK_ID": "0"}, Job(0, 1, 0, 1, 0)),
        ({**TABLE, "RANK_SIZE": "eight", "RANK_ID": "1"}, Job(1, 2, 1, 2, 0)),
        ({**CHIEF, "RANK_ID": "7"}, Job(7, 8, 7, 8, 0)),
        ({"RANK_SIZE": "2", "RANK_ID": "1", "LOCAL_SIZE": "1"}, Job(1, 2, 0, 1, 0)),
        ({"RANK_SIZE": "2", "RANK_ID": "1", "LOCAL_RANK": "1"}, Job(1, 2, 1, 2, 0)),
        ({"RANK_SIZE": "2", "RANK_ID": "1", "LOCAL_RANK": "0"}, Job(1, 2, 0, 2, 0)),
        ({"RANK_SIZE": "1", "RANK_ID": "0"}, Job(0, 1, 0, 1, 0)),
        ({"RANK_SIZE": "", "RANK_ID": ""}, Job(0, 1, 0, 1, 0)),
        ({"TF_CONFIG": EVALUATOR}, Job(0, 1, 0, 1, 0)),
    ],
)
def test_rank_and_size_are_the_environments(environ: Dict[str, str], job: Job) -> None:
    assert Job.detect(environ)[:5] == job[:5]


@pytest.mark.parametrize(
    ("environ", "device"),
    [
        ({"ASCEND_DEVICE_ID": "3"}, 3),
        ({"DEVICE_ID": "2"}, 2),
        ({"ASCEND_DEVICE_ID": "3", "DEVICE_ID": "2"}, 3),
        ({"ASCEND_DEVICE_ID": "", "DEVICE_ID": "2"}, 2),
    ],
)
def test_the_own_device_is_the_environments(environ: Dict[str, str], device: int) -> None:
    assert Job.detect(environ).device_id == device


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"ASCEND_DEVICE_ID": "0"}, "ASCEND_DEVICE_ID=0"),
        ({"DEVICE_ID": "2", "ASCEND_RT_VISIBLE_DEVICES": "3"}, "DEVICE_ID=2"),
        ({"ASCEND_RT_VISIBLE_DEVICES": "3"}, "ASCEND_RT_VISIBLE_DEVICES=3"),
        ({"ASCEND_RT_VISIBLE_DEVICES": "3,4"}, "the rank on the node"),
    ],
)
def test_it_is_said_what_names_the_device(environ: Dict[str, str], reason: str) -> None:
    assert Job.detect(environ).device_source == reason


@pytest.mark.parametrize("rank", ["8", "-1"])
def test_a_rank_outside_the_job_is_refused(rank: str) -> None:
    with pytest.raises(
        JobError, match=f"RANK_ID={rank} is out of range: the ranks of this job of 8 are 0 to 7"
    ):
        Job.detect({**TABLE, "RANK_ID": rank})


def test_a_rank_outside_its_node_is_refused() -> None:
    environ = {"RANK_SIZE": "4", "RANK_ID": "2", "LOCAL_RANK": "2", "LOCAL_SIZE": "2"}
    with pytest.raises(
        JobError, match="LOCAL_RANK=2 is out of range: with LOCAL_SIZE=2 the local ranks are 0 to 1"
    ):
        Job.detect(environ)


def test_a_rank_of_a_job_of_one_is_told_about_rank_size() -> None:
    for environ in ({"RANK_ID": "3"}, {"RANK_ID": "3", "RANK_SIZE": "-1"}):
        with pytest.raises(JobError, match="rank 0 only, unless RANK_SIZE says otherwise"):
            Job.detect(environ)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({**TABLE, "CM_CHIEF_IP": "10.0.0.1"}, "RANK_TABLE_FILE and CM_CHIEF_IP are both set"),
        ({**TABLE, "CM_WORKER_SIZE": "8"}, "RANK_TABLE_FILE and CM_WORKER_SIZE are both set"),
        ({**CHIEF, "RANK_SIZE": "8"}, "CM_CHIEF_IP and RANK_SIZE are both set"),
        ({**CHIEF, "CM_CHIEF_PORT": ""}, "CM_CHIEF_IP is set, but CM_CHIEF_PORT is not"),
        (
            {"CM_CHIEF_IP": "10.0.0.1"},
            "CM_CHIEF_PORT, CM_CHIEF_DEVICE and CM_WORKER_SIZE are not",
        ),
        ({**CHIEF, "CM_WORKER_SIZE": "0"}, "CM_WORKER_SIZE='0' is not a number of processes"),
        ({**CHIEF, "CM_WORKER_SIZE": "eight"}, "CM_WORKER_SIZE='eight' is not a number"),
        (
            {**TABLE, "RANK_ID": "three"},
            "RANK_ID='three' is not a rank; current HCCL aborts the process",
        ),
        ({"TF_CONFIG": '{"task": "ps"}'}, "The task in TF_CONFIG is not an object"),
        ({"TF_CONFIG": '{"task": {"type": "ps"}}'}, 'this process is a "ps", for which the'),
        ({**TABLE, "TF_CONFIG": EVALUATOR}, 'this process is an "evaluator", for which HCCL is'),
        ({**TABLE, "RANK_SIZE": "0"}, "RANK_TABLE_FILE is set, but RANK_SIZE=0"),
        ({**TABLE, "RANK_SIZE": "-2"}, "RANK_TABLE_FILE is set, but RANK_SIZE=-2"),
    ],
)
def test_what_would_let_each_rank_train_alone_is_refused(
    environ: Dict[str, str], said: str
) -> None:
    with pytest.raises(JobError, match=said) as refused:
        Job.detect(environ)
    assert "train alone" in refused.value.message
    assert "RANK_TABLE_FILE, RANK_ID and RANK_SIZE" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        (
            {"RANK_ID": "1", "RANK_SIZE": "eight"},
            "RANK_SIZE='eight' is not a number of processes, such as 8.",
        ),
        ({"RANK_ID": "1", "RANK_SIZE": "8p"}, "RANK_SIZE='8p' is not a number of processes"),
        (
            {"RANK_ID": "abc", "RANK_SIZE": "2"},
            "RANK_ID='abc' is not a rank: give each process a number from 0.",
        ),
    ],
)
def test_a_job_whose_numbers_are_none_is_refused(environ: Dict[str, str], problem: str) -> None:
    with pytest.raises(JobError, match=problem):
        Job.detect(environ)


def test_a_word_for_the_rank_of_a_job_of_one_is_ignored() -> None:
    assert Job.detect({"RANK_ID": "npu1p", "RANK_SIZE": "1"})[:2] == (0, 1)


def test_in_the_flow_of_a_chief_the_hint_names_its_variable() -> None:
    with pytest.raises(JobError, match="RANK_ID=9 is out of range") as refused:
        Job.detect({**CHIEF, "RANK_ID": "9"})
    assert str(refused.value.hint).startswith("export CM_WORKER_SIZE")


def test_all_traps_are_said_at_once() -> None:
    environ = {**TABLE, "CM_CHIEF_IP": "10.0.0.1", "CM_WORKER_SIZE": "8"}
    with pytest.raises(JobError) as refused:
        Job.detect(environ)
    assert refused.value.message.count("are both set") == 3


@pytest.mark.parametrize("odd", [{"RANK_SIZE": "0"}, {"RANK_SIZE": "8", "RANK_ID": "9"}])
def test_a_rank_table_that_is_not_there_is_named_before_an_odd_size(odd: Dict[str, str]) -> None:
    with pytest.raises(JobError) as refused:
        Job.detect({"RANK_TABLE_FILE": "/nowhere/table.json", **odd})
    before, _, _ = refused.value.message.partition("RANK_SIZE=0" if len(odd) == 1 else "RANK_ID")
    assert "RANK_TABLE_FILE='/nowhere/table.json': there is no such file." in before
