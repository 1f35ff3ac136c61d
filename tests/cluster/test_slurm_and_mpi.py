"""What Slurm, Open MPI and PMIx say of the processes that they start, and of others."""

import os
import subprocess
import sys
from typing import Any, Dict, Iterator, Optional, Tuple

import pytest

from ascend_session.cluster.job import Job
from ascend_session.cluster.schedulers import CHOICE, count_allocated_nodes, read_schedulers
from ascend_session.errors import JobError
from tests.schedulers.situations import recorded

# As srun(1) and slurm.h say it, reduced to what counts.
STEP = {
    "SLURM_JOB_ID": "42",
    "SLURM_STEP_ID": "3",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
}
RANK = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}
PLACE = {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}


def read_scheduler(environ: Dict[str, str]) -> Any:
    """Read what the scheduler says that has started this process; None without one."""
    return read_schedulers(environ).scheduler


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("step, one task a node", Job(1, 2, 0, 1, 0)),
        ("step, four tasks a node", Job(5, 8, 1, 4, 1)),
        ("step, uneven", Job(4, 5, 0, 1, 0)),
        ("step, cyclic", Job(3, 8, 1, 4, 1)),
        ("step, one node", Job(1, 2, 1, 2, 1)),
        ("step, pmi2", Job(1, 2, 1, 2, 1)),
        ("step, arbitrary", Job(0, 3, 0, 1, 0)),
        ("step, arbitrary, other", Job(2, 3, 1, 2, 1)),
        ("step of two components", Job(1, 3, 1, 2, 1)),
        ("step of two components, second", Job(2, 3, 0, 1, 0)),
        ("step of a batch script", Job(1, 2, 0, 1, 0)),
        ("step of an allocation", Job(1, 2, 0, 1, 0)),
        ("batch script", Job(0, 1, 0, 1, 0)),
        ("batch script of one task", Job(0, 1, 0, 1, 0)),
        ("allocation", Job(0, 1, 0, 1, 0)),
    ],
)
def test_a_process_is_what_slurm_has_started_it_as(name: str, job: Job) -> None:
    assert Job.detect(recorded(name))[:5] == job[:5]


@pytest.mark.parametrize("step", ["", "4294967290", "4294967291", "4294967292", "-5", "TBD"])
def test_what_is_no_step_that_srun_has_started_has_no_tasks(step: str) -> None:
    # The shell of salloc is 4294967290, with the tasks of the whole allocation beside it.
    assert read_scheduler({**STEP, "SLURM_STEP_ID": step}) is None
    assert Job.detect({**STEP, "SLURM_STEP_ID": step, "SLURM_NTASKS": "8"}).size == 1


def test_the_last_number_that_a_step_can_have_is_one() -> None:
    assert read_scheduler({**STEP, "SLURM_STEP_ID": "4294967280"}) is not None


def test_the_step_counts_and_not_the_job_that_it_is_in() -> None:
    # srun --preserve-env leaves SLURM_NTASKS and SLURM_TASKS_PER_NODE as they were.
    claim = read_scheduler({**STEP, "SLURM_NTASKS": "64", "SLURM_TASKS_PER_NODE": "32(x2)"})
    assert claim is not None
    assert [str(claim.size), str(claim.local_size)] == [
        "SLURM_STEP_NUM_TASKS=8",
        "SLURM_STEP_TASKS_PER_NODE=4",
    ]


def test_a_step_says_where_its_first_node_is() -> None:
    claim = read_scheduler({**STEP, "SLURM_STEP_RESV_PORTS": "12005-12006"})
    assert claim is not None
    assert (claim.hosts, claim.job_id) == ((2, "gpu07"), "slurm_42_3")
    assert claim.node == "node 1"
    assert claim.name == "Slurm, step 42.3"


@pytest.mark.parametrize(
    "name",
    [
        "step, arbitrary",
        "step, arbitrary, other",
        "step of two components",
        "step of two components, second",
    ],
)
def test_a_list_that_does_not_begin_with_the_host_of_rank_0_says_no_host(name: str) -> None:
    claim = read_scheduler(recorded(name))
    assert claim is not None
    assert claim.hosts == (2, "")


def test_rank_0_knows_by_its_node_that_the_list_begins_with_another() -> None:
    said = recorded("step, arbitrary")
    del said["SLURM_DISTRIBUTION"]
    claim = read_scheduler(said)
    assert claim is not None
    assert claim.hosts == (2, "")


@pytest.fixture
def shell() -> Iterator[int]:
    """The pid of a process that has a controlling terminal."""
    program = (
        "import os, pty, sys\n"
        "pid, terminal = pty.fork()\n"
        "if pid == 0: os.write(1, b'.'); os.read(0, 1)\n"
        "else: os.read(terminal, 1); print(pid, flush=True); sys.stdin.read()\n"
        "if pid: os.close(terminal); os.waitpid(pid, 0)"
    )
    words = [sys.executable, "-S", "-c", program]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as starter:
        assert starter.stdout is not None
        yield int(starter.stdout.readline())
        starter.communicate()


class TestShells:
    def test_what_is_started_in_a_shell_of_several_tasks_is_refused(self, shell: int) -> None:
        environ = {**recorded("step, shell"), "SLURM_TASK_PID": str(shell)}
        for read in (Job.detect, read_schedulers):
            with pytest.raises(JobError, match="variables of SLURM_PROCID=0 of the 4 tasks") as one:
                read(environ)
            assert f"{CHOICE}=none if it is independent" in str(one.value.hint)

    def test_who_says_what_it_is_may_be_it(self, shell: int) -> None:
        environ = {**recorded("step, shell"), "SLURM_TASK_PID": str(shell)}
        assert Job.detect({**environ, CHOICE: "slurm"})[:2] == (0, 4)
        assert Job.detect({**environ, CHOICE: "none"})[:2] == (0, 1)

    def test_a_shell_of_one_task_is_one_rank(self, shell: int) -> None:
        environ = {**recorded("step, shell"), "SLURM_TASK_PID": str(shell)}
        alone = {"SLURM_STEP_NUM_TASKS": "1", "SLURM_GTIDS": "0"}
        assert Job.detect({**environ, **alone})[:2] == (0, 1)

    def test_the_task_itself_is_one(self) -> None:
        environ = {**recorded("step, shell"), "SLURM_TASK_PID": str(os.getpid())}
        assert Job.detect(environ)[:2] == (0, 4)

    def test_a_task_without_a_terminal_is_no_shell_although_it_has_the_variable(self) -> None:
        # srun in a shell of srun --pty hands SLURM_PTY_PORT on.
        with subprocess.Popen(
            ["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        ) as task:
            environ = {**recorded("step, shell"), "SLURM_TASK_PID": str(task.pid)}
            assert Job.detect(environ)[:2] == (0, 4)
            task.communicate()


@pytest.mark.parametrize(
    ("listed", "first"),
    [
        ("gpu[07-08]", "gpu07"),
        ("gpu[007,9-12],login1", "gpu007"),
        ("login1,gpu[1-2]", "login1"),
        ("rack[1-2]-node", "rack1-node"),
        ("node1", "node1"),
        ("a-b.example.org,c", "a-b.example.org"),
        ("(null)", ""),
        ("", ""),
    ],
)
def test_the_first_host_of_a_list(listed: str, first: str) -> None:
    assert read_scheduler({**STEP, "SLURM_STEP_NODELIST": listed}).hosts == (2, first)


@pytest.mark.parametrize(
    ("node", "counts", "tasks"),
    [
        (0, "2(x3),1", 2),
        (2, "2(x3),1", 2),
        (3, "2(x3),1", 1),
        (4, "2(x3),1", None),
        (1, "4,1", 1),
        (0, "many", None),
        (0, "", None),
        (0, "9" * 5000, None),
        (0, f"2(x{'9' * 5000})", None),
        (0, "\u0662", None),
    ],
)
def test_the_tasks_of_a_node(node: int, counts: str, tasks: Optional[int]) -> None:
    claim = read_scheduler({**STEP, "SLURM_NODEID": str(node), "SLURM_STEP_TASKS_PER_NODE": counts})
    assert (None if claim.local_size is None else claim.local_size.value) == tasks


@pytest.mark.parametrize(
    ("without", "local_size"),
    [
        ((), "number of SLURM_GTIDS=2"),
        (("SLURM_STEP_TASKS_PER_NODE",), "number of SLURM_GTIDS=2"),
        (("SLURM_GTIDS",), "SLURM_STEP_TASKS_PER_NODE=4"),
        (("SLURM_GTIDS", "SLURM_NODEID"), "None"),
        (("SLURM_STEP_TASKS_PER_NODE", "SLURM_GTIDS"), "None"),
    ],
)
def test_the_tasks_of_this_node_are_said_in_several_ways(
    without: Tuple[str, ...], local_size: str
) -> None:
    environ = {**STEP, "SLURM_GTIDS": "4,5"}
    claim = read_scheduler({name: said for name, said in environ.items() if name not in without})
    assert claim is not None
    assert str(claim.local_size) == local_size


@pytest.mark.parametrize(
    ("environ", "nodes"),
    [
        ({}, 0),
        ({"SLURM_JOB_ID": "1"}, 1),
        ({"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "4", "SLURM_NNODES": "2"}, 4),
        ({"SLURM_JOB_ID": "1", "SLURM_NNODES": "2"}, 2),
    ],
)
def test_the_nodes_of_an_allocation(environ: Dict[str, str], nodes: int) -> None:
    assert count_allocated_nodes(environ) == nodes


def test_a_rank_is_what_mpirun_has_started_it_as() -> None:
    assert Job.detect(recorded("mpirun"))[:5] == (5, 8, 5, 8, 5)
    assert Job.detect(recorded("mpirun, one rank"))[:5] == (0, 1, 0, 1, 0)


def test_the_job_of_all_ranks_has_one_name() -> None:
    claim = read_scheduler(recorded("mpirun"))
    assert claim is not None
    assert claim.job_id == f"ompi_{recorded('mpirun')['PMIX_NAMESPACE']}"
    assert claim.node == "host host"


@pytest.mark.parametrize("missing", list(RANK))
def test_half_of_what_mpirun_says_is_nothing(missing: str) -> None:
    assert read_scheduler({n: said for n, said in RANK.items() if n != missing}) is None


def test_pmix_alone_does_not_say_how_many_there_are() -> None:
    with pytest.raises(JobError, match=r"PMIX_RANK=1 .PMIx, job a1. says which rank") as refused:
        Job.detect({"PMIX_RANK": "1", "PMIX_NAMESPACE": "a1"})
    assert refused.value.hint == "export RANK_SIZE as the number of processes."
    assert Job.detect({"PMIX_RANK": "1", "RANK_SIZE": "2"})[:5] == (1, 2, 1, 2, 1)


@pytest.mark.parametrize(("visible", "device"), [("", 1), ("0,1", 1), ("6", 0), ("0-3", 1)])
def test_a_rank_that_sees_one_device_has_that_one(visible: str, device: int) -> None:
    environ = {**RANK, **PLACE, "ASCEND_RT_VISIBLE_DEVICES": visible}
    assert Job.detect(environ).device_id == device


@pytest.mark.parametrize("name", ["ASCEND_DEVICE_ID", "DEVICE_ID"])
def test_the_device_that_is_named_is_the_ranks(name: str) -> None:
    assert Job.detect({**RANK, **PLACE, name: "7"}).device_id == 7


def test_the_nodes_of_the_step_count_and_not_those_of_the_job() -> None:
    # srun --preserve-env -N 2 in a job of 16 nodes.
    claim = read_scheduler({**STEP, "SLURM_NNODES": "16", "SLURM_STEP_RESV_PORTS": "12005-12006"})
    assert claim is not None
    assert claim.hosts == (2, "gpu07")
