"""Several who say which rank this is: they agree, one was chosen, or nothing is guessed."""

from typing import Any, Dict, List, Tuple

import pytest

import ascend_session
from ascend_session.cluster.job import Job
from ascend_session.cluster.schedulers import CHOICE, read_identity, read_schedulers
from ascend_session.errors import JobError
from tests.schedulers.situations import recorded

SLURM = {
    "SLURM_JOB_ID": "42",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "0",
}
MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}


def test_without_anybody_there_is_one_rank() -> None:
    assert read_identity({}).reason == "no variable describes a job"
    assert read_identity({}).scheduler is None


@pytest.mark.parametrize(
    "more",
    [
        {"RANK_ID": "2", "RANK_SIZE": "4"},
        {"RANK_ID": "2"},
        {"RANK_SIZE": "4"},
        MPI,
        {**MPI, "PMIX_RANK": "2", "RANK_ID": "2"},
    ],
)
def test_who_agrees_may_speak(more: Dict[str, str]) -> None:
    assert Job.detect({**SLURM, **more})[:3] == (2, 4, 0)


def test_each_adds_what_the_others_do_not_say() -> None:
    found = read_identity({"RANK_ID": "2", **SLURM})
    assert found.reason == (
        "this environment and Slurm, step 42.0: RANK_ID=2, SLURM_STEP_NUM_TASKS=4, SLURM_LOCALID=0"
    )


def test_who_has_nothing_to_add_is_not_named() -> None:
    found = read_identity({**MPI, "PMIX_RANK": "2", "PMIX_NAMESPACE": "7"})
    assert found.reason == "Open MPI, job 7: OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=4"


@pytest.mark.parametrize(
    ("environ", "said", "hint"),
    [
        (
            {**SLURM, "RANK_ID": "1"},
            ["RANK_ID=1 (this environment)", "SLURM_PROCID=2 (Slurm, step 42.0)"],
            ["unset RANK_ID to go by Slurm", f"{CHOICE}=none to go by RANK_ID"],
        ),
        (
            {**SLURM, "RANK_ID": "2", "RANK_SIZE": "8"},
            ["RANK_SIZE=8 (this environment)", "SLURM_STEP_NUM_TASKS=4 (Slurm, step 42.0)"],
            ["unset RANK_ID RANK_SIZE to go by Slurm", f"{CHOICE}=none"],
        ),
        (
            {**SLURM, "RANK_ID": "2", "LOCAL_RANK": "1"},
            ["LOCAL_RANK=1 (this environment)", "SLURM_LOCALID=0 (Slurm, step 42.0)"],
            ["unset RANK_ID LOCAL_RANK"],
        ),
        (
            {**SLURM, **MPI, "OMPI_COMM_WORLD_RANK": "3"},
            ["OMPI_COMM_WORLD_RANK=3 (Open MPI)", "SLURM_PROCID=2 (Slurm, step 42.0)"],
            [f"{CHOICE}=open-mpi to go by Open MPI", f"mpirun -x {CHOICE}=open-mpi"],
        ),
    ],
)
def test_two_that_differ_are_refused_with_both_names(
    environ: Dict[str, str], said: List[str], hint: List[str]
) -> None:
    with pytest.raises(JobError) as refused:
        Job.detect(environ)
    assert all(words in refused.value.message for words in said), refused.value.message
    assert all(words in str(refused.value.hint) for words in hint), refused.value.hint


@pytest.mark.parametrize("node", ["first", "second"])
def test_below_mpirun_in_an_allocation_the_step_is_that_of_its_daemons(node: str) -> None:
    environ = recorded(f"mpirun in an allocation, {node} node")
    place = (0, 8, 0, 4) if node == "first" else (5, 8, 1, 4)
    assert Job.detect(environ)[:4] == place
    assert Job.detect({**environ, CHOICE: "open-mpi"})[:4] == place
    found = read_identity(environ)
    assert [claim.key for claim in found.claims] == ["open-mpi", "pmix"]
    step = f"{environ['SLURM_JOB_ID']}.{environ['SLURM_STEP_ID']}"
    assert f", below daemons that are Slurm's step {step}: OMPI_COMM_" in found.reason


def test_mpirun_on_a_node_of_the_allocation_has_no_daemon_there() -> None:
    environ = recorded("mpirun in an allocation, second node")
    one = dict.fromkeys(["SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS"], "1")
    step = {**one, "SLURM_PROCID": "0", "OMPI_MCA_ess_base_num_procs": "2"}
    assert Job.detect({**environ, **step})[:4] == (5, 8, 1, 4)


@pytest.mark.parametrize(
    "other",
    [
        {"OMPI_MCA_ess_base_vpid": "1"},
        {"OMPI_MCA_ess_base_vpid": ""},
        {"OMPI_MCA_orte_num_nodes": "1", "OMPI_MCA_ess_base_num_procs": "2"},
        {"SLURM_STEP_NUM_TASKS": "4"},
    ],
)
def test_another_step_than_that_of_the_daemons_is_no_guess(other: Dict[str, str]) -> None:
    environ = recorded("mpirun in an allocation, second node")
    with pytest.raises(JobError, match="disagree about"):
        Job.detect({**environ, **other})


@pytest.mark.parametrize(
    ("choice", "rank", "size"), [("slurm", 2, 4), ("open-mpi", 3, 8), ("none", 0, 1)]
)
def test_who_was_chosen_counts(choice: str, rank: int, size: int) -> None:
    mpi = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}
    assert Job.detect({**SLURM, **mpi, CHOICE: choice})[:2] == (rank, size)


def test_a_choice_that_is_none_is_refused() -> None:
    with pytest.raises(JobError, match=f"{CHOICE}='pbs' names no scheduler") as refused:
        Job.detect({CHOICE: "pbs"})
    known = "open-mpi, slurm, pmix, mpich, mvapich2, horovodrun, jsrun, torchrun, none"
    assert refused.value.hint == f"Use one of {known}."


def test_who_starts_ranks_does_not_ask_the_variables_of_a_rank() -> None:
    assert (
        str(read_schedulers({**SLURM, "RANK_ID": "1", "RANK_SIZE": "2"}).rank) == "SLURM_PROCID=2"
    )


def test_a_rank_that_cannot_be_is_named_with_its_variable() -> None:
    with pytest.raises(JobError, match=r"SLURM_PROCID=9 is out of range: .* of 4 are 0 to 3"):
        Job.detect({**SLURM, "SLURM_PROCID": "9"})


@pytest.mark.parametrize(
    ("key", "environ"),
    [
        ("mpich", "PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2"),
        (
            "mvapich2",
            "MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=8 MV2_COMM_WORLD_LOCAL_RANK=1 "
            "MV2_COMM_WORLD_LOCAL_SIZE=2",
        ),
        (
            "horovodrun",
            "HOROVOD_RANK=3 HOROVOD_SIZE=8 HOROVOD_LOCAL_RANK=1 HOROVOD_LOCAL_SIZE=2",
        ),
        (
            "jsrun",
            "JSM_NAMESPACE_RANK=3 JSM_NAMESPACE_SIZE=8 JSM_NAMESPACE_LOCAL_RANK=1 "
            "JSM_NAMESPACE_LOCAL_SIZE=2",
        ),
        (
            "torchrun",
            "TORCHELASTIC_RUN_ID=none RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2",
        ),
    ],
)
def test_the_ranks_of_other_launchers_are_read(key: str, environ: str) -> None:
    variables = dict(pair.split("=") for pair in environ.split())
    identity = read_identity(variables)
    numbers = [number.value for number in identity[:4] if number is not None]
    assert numbers == [int(value) for value in variables.values() if value.isdigit()]
    assert identity.scheduler is not None
    assert identity.scheduler.key == key
    assert read_identity({**variables, CHOICE: "none"}).rank is None


def test_rank_and_world_size_alone_are_not_those_of_torchrun() -> None:
    assert read_identity({"RANK": "3", "WORLD_SIZE": "8"}).rank is None


OTHERS = [
    ("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "RANK=1 and WORLD_SIZE=2 (DeepSpeed"),
    ("RANK=0 WORLD_SIZE=2", "RANK=0 and WORLD_SIZE=2 (DeepSpeed, Ray, PyTorchJob or torch"),
    ("MS_NODE_ID=3 MS_WORKER_NUM=8", "MS_NODE_ID=3 and MS_WORKER_NUM=8 (MindSpore)"),
    ("FLUX_TASK_RANK=0 FLUX_JOB_SIZE=8", "FLUX_TASK_RANK=0 and FLUX_JOB_SIZE=8 (Flux)"),
    ("PALS_RANKID=0", "PALS_RANKID=0 (PALS) says that this process is one of several"),
]


def split(pairs: str) -> Dict[str, str]:
    return dict(pair.split("=") for pair in pairs.split())


@pytest.mark.parametrize(("variables", "said"), OTHERS)
def test_a_system_refuses_ranks_of_launchers_that_are_not_read(variables: str, said: str) -> None:
    environ = split(variables)
    assert Job.detect(environ)[:2] == (0, 1)  # commands that open no system look without a word
    with pytest.raises(JobError) as refused:
        Job.of_system(environ)
    assert refused.value.message.startswith(said)
    rank = next(iter(environ))
    assert f"export RANK_ID=${rank} RANK_SIZE=" in str(refused.value.hint)
    assert f"{CHOICE}=none if they are independent" in str(refused.value.hint)


@pytest.mark.parametrize(("variables", "said"), OTHERS)
@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"RANK_ID": "1", "RANK_SIZE": "2"}, (1, 2)),
        ({"RANK_SIZE": "1"}, (0, 1)),
        ({CHOICE: "none"}, (0, 1)),
        (MPI, (2, 4)),
        (SLURM, (2, 4)),
    ],
)
def test_a_rank_from_elsewhere_or_a_process_alone_is_accepted(
    variables: str, said: str, more: Dict[str, str], place: Tuple[int, int]
) -> None:
    without_local = {k: v for k, v in split(variables).items() if k != "LOCAL_RANK"}
    assert Job.of_system({**without_local, **more})[:2] == place


@pytest.mark.parametrize(
    "variables",
    ["RANK=0 WORLD_SIZE=1", "RANK=3", "WORLD_SIZE=8", "MS_WORKER_NUM=1 MS_NODE_ID=0", "RANK=a"],
)
def test_a_process_that_nobody_counts_is_alone(variables: str) -> None:
    assert Job.of_system(split(variables))[:2] == (0, 1)


def test_a_system_of_such_a_process_does_not_open(tf: Any, monkeypatch: Any) -> None:
    for name, value in split(OTHERS[0][0]).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(JobError, match="RANK=1 and WORLD_SIZE=2"):
        ascend_session.ascend_system().open()
