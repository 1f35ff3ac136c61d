"""Open MPI and PMIx: what they say of the processes that they start."""

from typing import Dict

import pytest

from ascend_session.cluster import open_mpi
from ascend_session.cluster.job import Job
from ascend_session.errors import JobError
from tests.schedulers.situations import recorded

RANK = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}
PLACE = {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}


def test_a_rank_is_what_mpirun_has_started_it_as() -> None:
    assert Job.from_env(recorded("mpirun")) == Job(5, 8, 5, 8, 5)
    assert Job.from_env(recorded("mpirun, one rank")) == Job(0, 1, 0, 1, 0)


def test_the_job_of_all_ranks_has_one_name() -> None:
    claim = open_mpi.claim(recorded("mpirun"))
    assert claim is not None
    assert claim.seed == f"ompi_{recorded('mpirun')['PMIX_NAMESPACE']}"
    assert claim.is_on_one_node
    assert claim.node == "host host"


@pytest.mark.parametrize(
    ("environ", "on_one"),
    [
        ({**RANK, **PLACE}, False),
        ({**RANK, **PLACE, "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, True),
        (RANK, False),
    ],
)
def test_ranks_are_on_one_node_only_if_that_is_said(environ: Dict[str, str], on_one: bool) -> None:
    claim = open_mpi.claim(environ)
    assert claim is not None
    assert claim.is_on_one_node is on_one


@pytest.mark.parametrize("missing", list(RANK))
def test_half_of_what_mpirun_says_is_nothing(missing: str) -> None:
    assert open_mpi.claim({n: said for n, said in RANK.items() if n != missing}) is None


def test_pmix_alone_does_not_say_how_many_there_are() -> None:
    with pytest.raises(JobError, match=r"PMIX_RANK=1 .PMIx, job a1. says which rank") as refused:
        Job.from_env({"PMIX_RANK": "1", "PMIX_NAMESPACE": "a1"})
    assert refused.value.hint == "export RANK_SIZE as the number of processes."
    assert Job.from_env({"PMIX_RANK": "1", "RANK_SIZE": "2"}) == Job(1, 2, 1, 2, 1)


@pytest.mark.parametrize(("visible", "device"), [("", 1), ("0,1", 1), ("6", 0), ("0-3", 1)])
def test_a_rank_that_sees_one_device_has_that_one(visible: str, device: int) -> None:
    environ = {**RANK, **PLACE, "ASCEND_RT_VISIBLE_DEVICES": visible}
    assert Job.from_env(environ).device_id == device


@pytest.mark.parametrize("name", ["ASCEND_DEVICE_ID", "DEVICE_ID"])
def test_the_device_that_is_named_is_the_ranks(name: str) -> None:
    assert Job.from_env({**RANK, **PLACE, name: "7"}).device_id == 7
