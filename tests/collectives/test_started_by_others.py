"""Ranks that mpirun, srun or a shell have started, told by their variables, without a launcher."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 240.0
_AT_ONCE_S = 60.0  # ranks that nobody refuses wait for more than twice as long

_PROGRAM = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl
x = tf.placeholder(tf.float32, [2])
total = hccl.allreduce(x, "sum")
for _ in range(2):  # the ranks of the second system meet anew
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


# A shell that starts ranks and nothing else tells them where to meet.

_RANK = """
import fcntl, json, os, time
if "GROUP" in os.environ:  # a rank that was forked elsewhere joins that of its shell
    os.setpgid(0, int(os.environ["GROUP"]))
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import AscendError, ascend_system, hccl

def say(*words):
    os.write(1, (json.dumps(words) + "\\n").encode())

rank = int(os.environ["RANK_ID"])
x = tf.placeholder(tf.float32, [2])
total = hccl.allreduce(x, "sum")
begun = time.monotonic()
try:
    with ascend_system() as system, system.session() as sess:
        say(rank, "sum", sess.run(total, {x: [1, rank]}).tolist())
        if "HELD" in os.environ:
            with open(os.environ["HELD"]) as held:
                fcntl.flock(held, fcntl.LOCK_SH)  # until the test lets go of it
            say(rank, "sum", sess.run(total, {x: [1, rank]}).tolist())
except AscendError as error:
    say(rank, type(error).__name__, str(error), str(error.hint), time.monotonic() - begun)
"""

_TOGETHER = """
for rank in 2 0 1; do
    RANK_ID=$rank RANK_SIZE=3 "$PYTHON" "$PROGRAM" &
done
wait
"""

_IN_FOLDERS = """
for rank in 0 1 2; do
    mkdir worker_$rank
    cp "$PROGRAM" worker_$rank/train_$rank.py
    (cd worker_$rank && RANK_ID=$rank RANK_SIZE=3 "$PYTHON" train_$rank.py) &
done
wait
"""

_ONE_OF_TWO = """
RANK_SIZE=2 "$PYTHON" "$PROGRAM" &
wait
"""

_TWO = """
for rank in 0 1; do
    RANK_ID=$rank RANK_SIZE=2 "$PYTHON" "$PROGRAM" &
done
wait
"""

_TWO_AND_ANOTHER = """
for rank in 0 1; do
    RANK_ID=$rank RANK_SIZE=2 "$PYTHON" "$PROGRAM" &
done
read rank  # when those have met
RANK_ID=$rank RANK_SIZE=2 "$PYTHON" "$PROGRAM" &
wait
"""

_ONE_LATER = """
RANK_ID=0 RANK_SIZE=2 "$PYTHON" "$PROGRAM" &
read go
RANK_ID=1 RANK_SIZE=2 "$PYTHON" "$PROGRAM" &
wait
"""

_OF_DIFFERENT_SIZES = """
RANK_ID=0 RANK_SIZE=2 "$PYTHON" "$PROGRAM" &
RANK_ID=1 RANK_SIZE=3 "$PYTHON" "$PROGRAM" &
wait
"""

# In practice it is 10087 everywhere, but here other tests may run at the same time.
_JOB_ID = str(1008700000000 + os.getpid())

job_ids = pytest.mark.parametrize(
    "job_id", [{"JOB_ID": _JOB_ID}, {}], ids=["one JOB_ID for all jobs", "no JOB_ID"]
)


# Nothing runs between a fork of the tests' own process, which has threads, and the next program.
_IN_A_GROUP = """
import os, sys
os.setpgrp()
os.execv("/bin/sh", ["sh", "-c", sys.argv[1]])
"""


class Shell:
    """A shell with a process group of its own, and what the ranks say that it starts."""

    def __init__(self, script: str, folder: Path, python: str, env: Dict[str, str]) -> None:
        program = folder / "train.py"
        if not program.exists():  # the ranks of another shell may be reading it
            program.write_text(_RANK)
        quiet = {"PYTHONPATH": str(_ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
        paths = {"PYTHON": python, "PROGRAM": str(program)}
        if python != sys.executable:
            script = f"GROUP=$$; export GROUP\n{script}"
        self._log = folder / f"log_{id(self)}"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-SE", "-c", _IN_A_GROUP, script],
                cwd=str(folder),
                env={**os.environ, **quiet, **paths, **env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                universal_newlines=True,
            )
        self._watchdog = threading.Timer(_PATIENCE, self._kill)
        self._watchdog.start()

    def next(self) -> List[Any]:
        """Wait for what a rank says next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        words: List[Any] = json.loads(line)
        return words

    def tell(self, line: str) -> None:
        """Write a line to its stdin."""
        print(line, file=self._process.stdin, flush=True)

    def rest(self) -> List[List[Any]]:
        """Wait for its end; what its ranks have said, sorted."""
        out, _ = self._process.communicate()
        assert out, f"exit code {self._process.returncode}: {self._log.read_text()}"
        return sorted(json.loads(line) for line in out.splitlines())

    def close(self) -> None:
        """End all that it has started."""
        self._kill()
        self._watchdog.cancel()
        self._watchdog.join()
        self._process.communicate()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


Start = Callable[..., Shell]


@pytest.fixture
def start(tmp_path: Path, forking_python: str) -> Iterator[Start]:
    """Starts shells."""
    with contextlib.ExitStack() as stack:

        def start(script: str, python: str = forking_python, **env: str) -> Shell:
            shell = Shell(script, tmp_path, python, env)
            stack.callback(shell.close)
            return shell

        yield start


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Holds the ranks of the test that have met until it is called."""
    with (tmp_path / "held").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def release() -> None:
            fcntl.flock(file, fcntl.LOCK_UN)

        yield release


def sums(size: int) -> List[List[Any]]:
    return [[rank, "sum", [float(size), sum(range(size))]] for rank in range(size)]


@job_ids
@pytest.mark.parametrize("script", [_TOGETHER, _IN_FOLDERS], ids=["loop", "loop with folders"])
def test_ranks_that_a_shell_has_started_find_each_other(
    start: Start, script: str, job_id: Dict[str, str]
) -> None:
    assert start(script, **job_id).rest() == sums(3)


def test_jobs_of_two_shells_at_the_same_time_are_two_without_a_job_id(start: Start) -> None:
    shells = [start(_TWO, sys.executable) for _ in range(2)]
    assert [shell.rest() for shell in shells] == [sums(2)] * 2


def test_jobs_of_two_shells_at_the_same_time_are_two_with_a_job_id_each(start: Start) -> None:
    shells = [start(f"JOB_ID=$$; export JOB_ID; {_TOGETHER}") for _ in range(2)]
    assert [shell.rest() for shell in shells] == [sums(3)] * 2


def test_jobs_of_one_shell_with_the_same_job_id_may_follow_each_other(start: Start) -> None:
    shell = start(_TWO + _TWO, JOB_ID=_JOB_ID)
    assert shell.rest() == sorted(sums(2) * 2)


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_stranger_with_the_same_job_id_is_refused_at_once_and_harms_nobody(
    start: Start, held: Callable[[], None], tmp_path: Path, rank: str
) -> None:
    shell = start(_TWO, JOB_ID=_JOB_ID, HELD=str(tmp_path / "held"))
    assert sorted([shell.next(), shell.next()]) == sums(2)
    ((number, kind, sentence, _, seconds),) = start(
        _ONE_OF_TWO, JOB_ID=_JOB_ID, RANK_ID=rank
    ).rest()
    held()
    assert (number, kind) == (int(rank), "InitializationError")
    assert f"tried to join as rank {rank}, but the rendezvous belongs to" in sentence
    assert f"another job with JOB_ID={_JOB_ID}" in sentence
    assert "another parent and process group, working directory or script" in sentence
    assert "export JOB_ID=$$" in sentence
    assert seconds < _AT_ONCE_S
    assert shell.rest() == sums(2)


def test_a_stranger_is_refused_while_the_ranks_still_come(start: Start) -> None:
    shell = start(
        _ONE_OF_TWO.replace("wait", "read go; RANK_ID=1 " + _ONE_OF_TWO),
        RANK_ID="0",
        JOB_ID=_JOB_ID,
    )
    # It may be there before rank 0, and waits for that then.
    ((_, kind, sentence, _, _),) = start(_ONE_OF_TWO, JOB_ID=_JOB_ID, RANK_ID="1").rest()
    assert kind == "InitializationError"
    assert f"belongs to another job with JOB_ID={_JOB_ID}" in sentence
    shell.tell("go")
    assert shell.rest() == sums(2)


@job_ids
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_second_process_of_a_rank_is_refused_and_harms_nobody(
    start: Start, held: Callable[[], None], tmp_path: Path, rank: str, job_id: Dict[str, str]
) -> None:
    shell = start(_TWO_AND_ANOTHER, HELD=str(tmp_path / "held"), **job_id)
    assert sorted([shell.next(), shell.next()]) == sums(2)
    shell.tell(rank)
    number, kind, sentence, _, seconds = shell.next()
    held()
    assert (number, kind) == (int(rank), "InitializationError")
    assert f"reports that it is rank {rank} of the job, but process " in sentence
    assert "already has that rank. Give each process its own RANK_ID." in sentence
    assert seconds < _AT_ONCE_S
    assert shell.rest() == sums(2)


@job_ids
def test_ranks_that_mean_different_sizes_all_hear_so(start: Start, job_id: Dict[str, str]) -> None:
    lines = start(_OF_DIFFERENT_SIZES, **job_id).rest()
    assert [line[:2] for line in lines] == [[rank, "InitializationError"] for rank in (0, 1)]
    for line in lines:
        assert "ank 1 reports a job of 3 ranks, rank 0 one of 2" in line[2]
        assert line[4] < _AT_ONCE_S
