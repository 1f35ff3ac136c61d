"""A rank's environment: what is said, what is added, what is taken away and what is refused."""

import json
import os
from typing import Any, Dict

import pytest

from ascend_session.backends.npu_job import Devices, check_job
from ascend_session.cluster.job import Job
from ascend_session.errors import JobError
from ascend_session.witness import STARTUP
from tests.fake_host import a2_chips, a3_chips, atlas_chips, npu_smi_answers
from tests.launcher.jobs import Bench, bench
from tests.schedulers.situations import recorded

__all__ = ["bench"]

CHIEF = {
    "CM_CHIEF_IP": "10.0.0.1",
    "CM_CHIEF_PORT": "6666",
    "CM_CHIEF_DEVICE": "0",
    "CM_WORKER_SIZE": "64",
    "CM_WORKER_IP": "10.0.0.2",
}


def a2(bench: Bench) -> Bench:
    """A host with eight A2 devices."""
    bench.nodes(range(8))
    bench.host.npu_smi(npu_smi_answers("910B", a2_chips()))
    return bench


def config_of(kind: str) -> str:
    """A ``TF_CONFIG`` with a task."""
    return json.dumps({"cluster": {}, "task": {"type": kind, "index": 0}})


@pytest.mark.parametrize("count", range(1, 17))
def test_each_rank_of_a_job_with_a_table_is_one_that_the_backend_takes(
    bench: Bench, count: int
) -> None:
    bench.nodes(range(16))
    for number, rank in enumerate(bench.with_table(processes=count).ranks):
        job = Job.detect(rank.environment)
        assert job[:5] == (number, count, number, count, number)
        check_job(job, rank.environment)
        Devices.of(rank.environment).check(rank.environment, {})


@pytest.mark.parametrize("count", range(1, 9))
def test_each_rank_of_a_job_with_a_chief_is_one_that_the_backend_takes(
    bench: Bench, count: int
) -> None:
    made = a2(bench).plan(processes=count, no_rank_table=True, chief_ip="127.0.0.1")
    for number, rank in enumerate(made.ranks):
        job = Job.detect(rank.environment)
        # HCCL says the rank once the device is up: RANK_ID must not be set.
        assert job[:5] == (0, count, number, count, number)
        check_job(job, rank.environment)


@pytest.mark.parametrize("count", range(1, 17))
def test_each_rank_on_the_stub_is_a_job(bench: Bench, count: int) -> None:
    for number, rank in enumerate(bench.plan(processes=count).ranks):
        assert Job.detect(rank.environment)[:5] == (number, count, number, count, number)


def test_a_rank_is_told_who_it_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(192)))
    bench.nodes([4, 5, 6, 7])
    rank = bench.with_table(job_id="mine", log_dir="/logs").ranks[2]
    folder = "/logs/mine/attempt_1/rank_2"
    assert rank.changed == {
        "ASCEND_DEVICE_ID": "2",
        "ASCEND_PROCESS_LOG_PATH": f"{folder}/plog",
        "ASCEND_SESSION_BACKEND": "npu",
        "ASCEND_SESSION_GRACE": "10",
        "ASCEND_SESSION_RANK_FOLDER": folder,
        "ASCEND_WORK_PATH": f"{folder}/work",
        "DEVICE_ID": "6",
        "DEVICE_INDEX": "2",
        "JOB_ID": "mine",
        "LOCAL_RANK": "2",
        "LOCAL_SIZE": "4",
        "PYTHONPATH": STARTUP,
        "PYTHONUNBUFFERED": "1",
        "RANK_ID": "2",
        "RANK_INDEX": "0",
        "RANK_SIZE": "4",
        "RANK_TABLE_FILE": str(bench.table),
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }
    assert rank.environment == {**bench.environ, **rank.changed}


def test_what_the_vendors_examples_export_may_be_given_otherwise(bench: Bench) -> None:
    bench.environ.update(DEVICE_INDEX="7", RANK_INDEX="7")  # of another job
    ranks = bench.plan(processes=2, nnodes=2, node_rank=1).ranks
    values = [(one.environment["RANK_INDEX"], one.environment["DEVICE_INDEX"]) for one in ranks]
    assert values == [("1", "2"), ("1", "3")]
    given = bench.plan(processes=2, env={"DEVICE_INDEX": "5"}).ranks
    assert [one.environment["DEVICE_INDEX"] for one in given] == ["5", "5"]


@pytest.mark.parametrize(
    ("script", "job"),
    [
        ({"RANK_ID": "3", "RANK_SIZE": "8", "DEVICE_ID": "3"}, (3, 8, 3, 8, 3)),
        ({"RANK_ID": "3", "RANK_SIZE": "8", "ASCEND_DEVICE_ID": "3"}, (3, 8, 3, 8, 3)),
        ({"RANK_ID": "0", "RANK_SIZE": "8", "DEVICE_ID": "0"}, (0, 8, 0, 8, 0)),
        ({"RANK_ID": "9", "RANK_SIZE": "16", "DEVICE_ID": "1"}, (9, 16, 1, 8, 1)),
        ({"RANK_ID": "1", "RANK_SIZE": "2", "LOCAL_SIZE": "2"}, (1, 2, 1, 2, 0)),
        ({"DEVICE_ID": "5"}, (0, 1, 0, 1, 5)),
        ({"CM_WORKER_SIZE": "", "RANK_ID": "1", "RANK_SIZE": "2"}, (1, 2, 1, 2, 0)),
        ({}, (0, 1, 0, 1, 0)),
    ],
)
@pytest.mark.parametrize("how", ["table", "stub", "chief"])
def test_what_a_script_says_of_its_ranks_counts_before_what_it_was_told(
    bench: Bench, script: Dict[str, str], job: Any, how: str
) -> None:
    options = {"program": "/bin/sh", "processes": 1}
    if how == "table":
        a2(bench)
        made = bench.with_table(**options)
    elif how == "chief":
        made = a2(bench).plan(**options, no_rank_table=True, chief_ip="127.0.0.1")
    else:
        made = bench.plan(**options)
    assert Job.detect({**made.ranks[0].environment, **script})[:5] == job


def test_how_much_tensorflow_says_is_the_users_own_choice(bench: Bench) -> None:
    bench.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    assert bench.plan().ranks[0].environment["TF_CPP_MIN_LOG_LEVEL"] == "0"
    added = bench.plan(env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    assert added.ranks[0].environment["TF_CPP_MIN_LOG_LEVEL"] == "3"


def test_a_rank_of_a_job_with_a_chief_has_the_whole_family_and_no_rank(bench: Bench) -> None:
    made = a2(bench).plan(devices="2-3", no_rank_table=True, chief_ip="127.0.0.1")
    found = made.ranks[1].environment
    assert {name: found[name] for name in CHIEF if name != "CM_CHIEF_PORT"} == {
        "CM_CHIEF_IP": "127.0.0.1",
        "CM_CHIEF_DEVICE": "2",
        "CM_WORKER_SIZE": "2",
        "CM_WORKER_IP": "127.0.0.1",
    }
    assert 1024 < int(found["CM_CHIEF_PORT"]) <= 65520
    assert not {"RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE"} & set(found)
    assert any("take it before rank 0 does" in note for note in made.notes)


def test_the_backend_is_decided_once_for_all_ranks(bench: Bench) -> None:
    bench.environ["ASCEND_SESSION_BACKEND"] = "auto"
    made = bench.plan()
    assert {rank.environment["ASCEND_SESSION_BACKEND"] for rank in made.ranks} == {"stub"}
    assert "no Ascend processor is present" in made.reason


@pytest.mark.parametrize(
    ("asked", "inherited", "gone"),
    [
        ("table", {"HELP_CLUSTER": "1"}, "starts collectives whether or not"),
        ("table", CHIEF, "together with RANK_TABLE_FILE it silently switches collectives off"),
        ("table", {"POD_NAME": "pod"}, "take the same identity from it"),
        ("table", {"TF_CONFIG": config_of("worker")}, "take the same identity from it"),
        ("chief", {"RANK_ID": "3"}, "must not be set in a job without a rank table"),
        ("chief", {"RANK_SIZE": "8"}, "must not be set in a job without a rank table"),
        ("chief", {"RANK_TABLE_FILE": "/x.json"}, "must not be set in a job without a rank table"),
        ("chief", {"HELP_CLUSTER": "1"}, "starts collectives whether or not"),
        ("one", CHIEF, "belongs to another job"),
        ("one", {"RANK_TABLE_FILE": "/x.json"}, "goes without a table"),
        ("stub", CHIEF, "belongs to another job"),
        ("stub", {"RANK_TABLE_FILE": "/x.json"}, "goes without a table"),
    ],
)
def test_what_would_leave_ranks_alone_is_not_inherited(
    bench: Bench, asked: str, inherited: Dict[str, str], gone: str
) -> None:
    wish: Dict[str, Dict[str, Any]] = {
        "table": {"rank_table": str(bench.table)},
        "chief": {"no_rank_table": True, "chief_ip": "127.0.0.1"},
        "one": {"processes": 1},
        "stub": {"backend": "stub"},
    }
    a2(bench).environ.update(inherited)
    made = bench.plan(**wish[asked])
    assert set(made.removed) == set(inherited)
    assert all(gone in why for why in made.removed.values())
    assert not any(set(inherited) & set(rank.environment) for rank in made.ranks)


def test_what_the_launcher_says_replaces_what_was_inherited(bench: Bench) -> None:
    stale = {"RANK_ID": "7", "RANK_SIZE": "0", "DEVICE_ID": "5", "JOB_ID": "10087"}
    bench.environ.update({**stale, "LOCAL_RANK": "3", "LOCAL_SIZE": "4", "PYTHONUNBUFFERED": ""})
    found = bench.plan(processes=2).ranks[1].environment
    assert [found[name] for name in ("RANK_ID", "RANK_SIZE", "DEVICE_ID")] == ["1", "2", "1"]
    assert [found[name] for name in ("LOCAL_RANK", "LOCAL_SIZE")] == ["1", "2"]
    assert found["PYTHONUNBUFFERED"] == "1"
    assert found["JOB_ID"] != "10087"


def test_one_rank_may_have_a_task_and_a_pod(bench: Bench) -> None:
    own = {"TF_CONFIG": config_of("chief"), "POD_NAME": "pod"}
    bench.environ.update(own)
    made = bench.plan(processes=1)
    assert made.removed == {}
    assert {name: made.ranks[0].environment[name] for name in own} == own


def test_a_cluster_without_a_task_is_inherited(bench: Bench) -> None:
    bench.environ["TF_CONFIG"] = '{"cluster": {}}'
    assert bench.plan(processes=2).ranks[1].environment["TF_CONFIG"] == '{"cluster": {}}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (config_of("ps"), "for which the adapter does not initialise the device"),
        (config_of("evaluator"), "ranks would train alone"),
        ('{"task": 3}', "is not an object"),
    ],
)
@pytest.mark.parametrize("added", [False, True])
def test_a_task_that_is_no_workers_is_refused(
    bench: Bench, text: str, said: str, added: bool
) -> None:
    if not added:
        bench.environ["TF_CONFIG"] = text
    with pytest.raises(JobError, match=said):
        bench.plan(env={"TF_CONFIG": text} if added else {})


def test_one_rank_may_evaluate(bench: Bench) -> None:
    bench.environ["TF_CONFIG"] = config_of("evaluator")
    assert bench.plan(processes=1).ranks[0].environment["TF_CONFIG"] == config_of("evaluator")


def test_an_evaluator_with_a_table_is_refused(bench: Bench) -> None:
    bench.environ["TF_CONFIG"] = config_of("evaluator")
    with pytest.raises(JobError, match="for which HCCL is off"):
        bench.with_table(processes=1)


def test_an_inherited_table_is_the_jobs(bench: Bench) -> None:
    a2(bench).environ["RANK_TABLE_FILE"] = str(bench.table)
    made = bench.plan()
    assert made.ranks[7].environment["RANK_TABLE_FILE"] == str(bench.table)
    assert "was inherited, and is the rank table of this job" in made.notes[0]


def test_several_devices_without_a_way_to_meet_are_refused(bench: Bench) -> None:
    with pytest.raises(JobError, match="A job of 8 devices needs rank_table or"):
        a2(bench).plan()


@pytest.mark.parametrize("asked", [{"rank_table": "no.json"}, {}])
def test_a_table_that_is_not_there_is_refused(bench: Bench, asked: Dict[str, Any]) -> None:
    a2(bench).environ["RANK_TABLE_FILE"] = "no.json"
    with pytest.raises(JobError, match=r"there is no file /.*no\.json; HCCL would abort the ranks"):
        bench.plan(**asked)


def test_a_table_with_another_ending_is_said(bench: Bench) -> None:
    bench.nodes([0])
    other = bench.folder / "table.txt"
    other.write_text("{}")
    (note,) = bench.plan(rank_table=str(other)).notes
    assert "HCCL takes a name that ends in .json" in note


def test_a_table_that_is_no_file_is_refused_for_what_it_is(bench: Bench) -> None:
    bench.nodes([0])
    pipe, folder = bench.folder / "pipe.json", bench.folder / "folder.json"
    os.mkfifo(str(pipe))
    folder.mkdir()
    with pytest.raises(JobError, match=r"pipe\.json is a pipe or a device, and HCCL reads"):
        bench.plan(rank_table=str(pipe))
    with pytest.raises(JobError, match=r"folder\.json is a folder, and HCCL reads"):
        bench.plan(rank_table=str(folder))


def test_a_table_is_passed_on_by_its_absolute_path(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.folder)
    found = bench.plan(processes=2, rank_table="table.json").ranks[0].environment
    assert os.path.isabs(found["RANK_TABLE_FILE"])
    assert os.path.samefile(found["RANK_TABLE_FILE"], str(bench.table))


def test_a_product_that_needs_a_table_is_refused_without(bench: Bench) -> None:
    bench.nodes(range(16))
    bench.host.npu_smi(npu_smi_answers("A3", a3_chips()))
    with pytest.raises(JobError, match="the devices are A3: only Atlas training"):
        bench.plan(no_rank_table=True)


def test_the_atlas_training_series_does_without_a_table(bench: Bench) -> None:
    bench.nodes(range(8))
    bench.host.npu_smi(npu_smi_answers("910A", atlas_chips()))
    made = bench.plan(no_rank_table=True, chief_ip="127.0.0.1")
    assert len(made.ranks) == 8
    assert not any("product is not known" in note for note in made.notes)


def test_the_stub_has_no_chief(bench: Bench) -> None:
    made = bench.plan(processes=2, no_rank_table=True)
    assert not set(CHIEF) & set(made.ranks[0].environment)
    assert made.ranks[1].environment["RANK_ID"] == "1"
    assert "no effect on the stub" in made.notes[0]


def test_what_the_user_adds_beats_what_ranks_get_anyway(bench: Bench) -> None:
    bench.environ.update({"ASCEND_WORK_PATH": "/fast", "ASCEND_PROCESS_LOG_PATH": "/plogs"})
    added = {"ASCEND_WORK_PATH": "/fast", "PYTHONUNBUFFERED": "", "HELP_CLUSTER": "1", "X": "y"}
    made = bench.plan(processes=2, env=added)
    for rank in made.ranks:
        assert {name: rank.environment[name] for name in added} == added
        assert rank.environment["ASCEND_PROCESS_LOG_PATH"] == rank.plog
    (note,) = made.notes
    assert note.startswith("ASCEND_PROCESS_LOG_PATH='/plogs' is overridden by one folder per")


@pytest.mark.parametrize(
    ("name", "is_removed"), [("batch script", False), ("step, one task a node", True)]
)
def test_what_numbers_a_task_goes_only_where_there_is_one(
    bench: Bench, name: str, is_removed: bool
) -> None:
    bench.environ.update(recorded(name))
    gone = bench.plan(processes=1).removed
    assert ("SLURM_NTASKS" in gone, "SLURM_PROCID" in gone) == (is_removed, is_removed)


def test_a_given_pythonpath_keeps_the_folder_that_records_how_ranks_end(bench: Bench) -> None:
    rank = bench.plan(processes=1, env={"PYTHONPATH": "/of/mine"}).ranks[0]
    assert rank.environment["PYTHONPATH"].split(os.pathsep) == [STARTUP, "/of/mine"]
