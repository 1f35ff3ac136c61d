"""Ranks that mpirun or srun have started, told by their variables, without a launcher."""

import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 240.0

_PROGRAM = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl
x = tf.placeholder(tf.float32, [2])
total = hccl.allreduce(x, "sum")
for _ in range(2):  # the second system finds the servers of the first
    with ascend_system() as system, system.session() as sess:
        values = sess.run(total, {x: [1, system.rank]}).tolist()
        place = [system.rank, system.size, system.local_rank, system.local_size, system.device_id]
        (event,) = [event for event in system.events if event.name == "job"]
        print(place, [hccl.local_rank(), hccl.local_size()], values, event.detail, sep="|")
"""


def mpi(rank: int, job: int) -> Dict[str, str]:
    """What mpirun tells a rank of three on one node."""
    own = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank)}
    sizes = dict.fromkeys(["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"], "3")
    return {**own, **sizes, "PMIX_RANK": str(rank), "PMIX_NAMESPACE": str(job)}


def slurm(rank: int, job: int) -> Dict[str, str]:
    """What srun tells a task of three on two nodes, dealt out in turn."""
    node, local = rank % 2, rank // 2
    step = {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    counts = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_TASKS_PER_NODE": "2,1"}
    own = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local), "SLURM_NODEID": str(node)}
    return {**step, **counts, **own, "SLURM_STEP_NODELIST": "localhost,other"}


@pytest.mark.parametrize(
    ("tells", "places", "source"),
    [
        (
            mpi,
            ["[0, 3, 0, 3, 0]|[0, 3]", "[1, 3, 1, 3, 1]|[1, 3]", "[2, 3, 2, 3, 2]|[2, 3]"],
            "Open",
        ),
        (
            slurm,
            ["[0, 3, 0, 2, 0]|[0, 2]", "[1, 3, 0, 1, 0]|[0, 1]", "[2, 3, 1, 2, 1]|[1, 2]"],
            "Slu",
        ),
    ],
    ids=["mpirun", "srun, in turn"],
)
def test_ranks_find_each_other(
    tmp_path: Path, forking_python: str, tells: Any, places: List[str], source: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    job = os.getpid()
    variables = {"PYTHONPATH": str(_ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    processes = [
        subprocess.Popen(
            [forking_python, str(program)],
            env={**os.environ, **variables, **tells(rank, job)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        for rank in (2, 0, 1)
    ]
    try:
        said = [process.communicate(timeout=_PATIENCE) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, 0, 0], said
    lines = sorted(line for out, _ in said for line in out.splitlines())
    assert [line.rpartition("|")[0] for line in lines] == [
        f"{place}|[3.0, 3.0]" for place in places for _ in range(2)
    ]
    assert all(line.rpartition("|")[2].startswith(source) for line in lines)
