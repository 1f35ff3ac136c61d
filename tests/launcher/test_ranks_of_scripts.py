"""Shell scripts that start the ranks themselves, as most public ones do, below one rank."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, List, Tuple

import pytest

from ascend_session import LaunchConfig, LaunchResult, launch
from ascend_session.launcher.job.children import list_children
from ascend_session.launcher.job.descendants import DescendantWatch
from ascend_session.launcher.job.reports import Reports
from ascend_session.launcher.job.start import GuardedRank
from ascend_session.launcher.job.timers import Timers

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 240.0

# As in ModelZoo: a constant JOB_ID, a table that is not there, a folder for each rank, a bare wait.
_TRAIN_8P = """
#!/bin/bash
cur_path=`pwd`
export JOB_ID=10087
export RANK_TABLE_FILE=${cur_path}/8p.json
export RANK_SIZE=8
RANK_ID_START=0
for((RANK_ID=$RANK_ID_START;RANK_ID<$((RANK_SIZE+RANK_ID_START));RANK_ID++));
do
    export RANK_ID=$RANK_ID
    export ASCEND_DEVICE_ID=$RANK_ID
    export DEVICE_INDEX=$RANK_ID
    mkdir -p ${cur_path}/output/$ASCEND_DEVICE_ID
    cd ${cur_path}/output/$ASCEND_DEVICE_ID
    nohup ${PYTHON} ${cur_path}/train.py --rank_size=8 > train_$ASCEND_DEVICE_ID.log 2>&1 &
done
wait
cat ${cur_path}/output/*/train_*.log
""".replace("10087", str(1008700000000 + os.getpid()))  # other tests may run at the same time

_TRAIN = """
import os, sys
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from npu_bridge.hccl import hccl_ops
from ascend_session import ascend_system
x = tf.placeholder(tf.float32, [2])
total = hccl_ops.allreduce(x, "sum")
with ascend_system() as system, system.session() as sess:
    place = (system.rank, system.size, system.local_rank, system.local_size, system.device_id)
    values = sess.run(total, {x: [1, system.rank]}).tolist()
    for name in ("RANK_ID", "ASCEND_DEVICE_ID", "DEVICE_INDEX"):  # as the script exports them
        assert os.environ[name] == str(system.rank), name
print("trained", *place, *values, *sys.argv[1:], flush=True)
"""


def _launch(folder: Path, script: str, python: str = sys.executable, **more: Any) -> LaunchResult:
    (folder / "train.sh").write_text(script)
    env = {"PYTHON": python, "PYTHONPATH": str(_ROOT), "PYTHONWARNINGS": "ignore"}
    config = LaunchConfig(
        program="bash",
        args=["train.sh"],
        processes=1,
        backend="stub",
        cwd=str(folder),
        show="none",
        env=env,
        **more,
    )
    return launch(config)


def _trained(text: str) -> List[List[str]]:
    lines = text.splitlines()
    return sorted(line.split()[1:] for line in lines if line.startswith("trained "))


def test_a_script_below_a_launch_trains_as_one_job(tmp_path: Path, forking_python: str) -> None:
    (tmp_path / "train.py").write_text(_TRAIN)
    result = _launch(tmp_path, _TRAIN_8P.replace("RANK_SIZE=8", "RANK_SIZE=2"), forking_python)
    text = Path(result.ranks[0].stdout).read_text()
    assert [line[:7] for line in _trained(text)] == [
        [str(rank), "2", str(rank), "2", str(rank), "2.0", "1.0"] for rank in range(2)
    ], text
    assert result.ok
    assert result.notes == ()


# What a system on the stub does when it opens; that takes no TensorFlow.
_EXCHANGE = """
import os, sys
import numpy as np
from ascend_session.backends.exchange.wire import Operation
from ascend_session.backends.exchange.communicator import Collective
from ascend_session.backends.stub_job import open_job
from ascend_session.cluster.job import Job
job = Job.detect(os.environ)
opened = open_job(job, {}, os.environ)
operation = Operation("key", "total", tuple(range(8)), "allreduce sum float32 [2]")
own = np.array([1, job.rank], np.float32)
def work(ranks):
    return ranks.all_reduce(own, "sum", "float32")
values = Collective(opened.process_group, operation, work).run().tolist()
opened.close()
print("trained", *job[:5], *values, *sys.argv[1:], flush=True)
"""


def test_a_script_for_eight_devices_is_one_job_of_eight(
    tmp_path: Path, forking_python: str
) -> None:
    (tmp_path / "train.py").write_text(_EXCHANGE)
    result = _launch(tmp_path, _TRAIN_8P, forking_python)
    text = Path(result.ranks[0].stdout).read_text()
    assert _trained(text) == [
        [str(rank), "8", str(rank), "8", str(rank), "8.0", "28.0", "--rank_size=8"]
        for rank in range(8)
    ], text
    assert result.ok


def test_a_failure_of_its_ranks_that_a_script_has_handled_is_not_its_own(tmp_path: Path) -> None:
    failing = _EXCHANGE.partition("operation = ")[0]
    failing += "opened.process_group.fail('no data', ValueError('no data'))\nopened.close()\n"
    (tmp_path / "train.py").write_text(failing)
    result = _launch(tmp_path, _TRAIN_8P.replace("RANK_SIZE=8", "RANK_SIZE=2") + "exit 3\n")
    assert result.ranks[0].error is None
    assert result.cause is not None
    assert (result.code, result.cause.said) == (3, "Rank 0 exited with code 3.")


def test_a_script_below_run_trains_as_one_job(tmp_path: Path, forking_python: str) -> None:
    (tmp_path / "train.py").write_text(_TRAIN)
    (tmp_path / "train.sh").write_text(_TRAIN_8P.replace("RANK_SIZE=8", "RANK_SIZE=2"))
    (tmp_path / "all.py").write_text(
        "import subprocess\nsubprocess.check_call(['bash', 'train.sh'])"
    )
    command = "from ascend_session.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", command, "run", "all.py"],
        cwd=str(tmp_path),
        env={**os.environ, "PYTHON": forking_python, "PYTHONPATH": str(_ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_PATIENCE,
        text=True,
    )
    assert [line[:7] for line in _trained(ended.stdout)] == [
        [str(rank), "2", str(rank), "2", str(rank), "2.0", "1.0"] for rank in range(2)
    ], ended.stdout
    assert ended.returncode == 0


# What becomes of processes that had joined.

_MEMBER = """
import os, signal, sys, time
from ascend_session.cluster import member
rank = int(os.environ["RANK_ID"])
member.join(rank)
def end():
    pass
"""
_THREE = """
for ((RANK_ID=0; RANK_ID<3; RANK_ID++)); do
    export RANK_ID; $PYTHON train.py > train_$RANK_ID.log 2>&1 &
done
wait
"""
_HEAD = "of the 3 processes that joined the job below rank 0 ended with an exception or a signal"


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            "if rank == 1: raise ValueError('no such file')",
            f"1 {_HEAD}, which its exit code 0 hides: rank 1 raised ValueError: no such file.",
        ),
        (
            "if rank: os.kill(os.getpid(), signal.SIGKILL)",
            f"2 {_HEAD}, which its exit code 0 hides: rank {{}} exited without an exception, as "
            "after a signal. The other was rank {}.",
        ),
        (
            "try:\n    sys.exit(3 * (rank == 0))\n"
            "except SystemExit as error:\n    error.code and member.fail(error)\n    raise",
            f"1 {_HEAD}, which its exit code 0 hides: rank 0 exited with code 3.",
        ),
        (
            "if rank == 2: os.kill(os.getpid(), signal.SIGSEGV)",
            f"1 {_HEAD}, which its exit code 0 hides: rank 2 exited without an exception, as after "
            "a signal.",
        ),
        (
            "time.sleep(0.5 * (rank == 1))\n"
            "raise RuntimeError('boom' if rank == 1 else "
            "'The job cannot continue: rank 1 has exited')",
            f"3 {_HEAD}, which its exit code 0 hides: rank 1 raised RuntimeError: boom. The others "
            "were ranks 0, 2.",
        ),
    ],
    ids=["raises", "is killed", "ends with a code", "crashes", "and others because of it"],
)
def test_a_rank_of_a_script_that_fails_fails_the_job(
    tmp_path: Path, code: str, sentence: str
) -> None:
    (tmp_path / "train.py").write_text(_MEMBER + code)
    result = _launch(tmp_path, _THREE)
    assert result.code == 1
    assert result.cause is not None
    assert result.cause.rank == 0
    sentences = {sentence.format(*ranks) for ranks in [(1, 2), (2, 1)]}
    said, _, output = result.cause.said.partition(" Its output is in ")
    assert said in sentences
    assert output.startswith(f"{tmp_path}/train_")
    assert "Read their output where the script sends it" in result.cause.advice
    assert result.ranks[0].exit_code == 0


@pytest.mark.parametrize(
    "code",
    [
        "member.leave()",
        "member.leave()\nos._exit(5)",
        "try:\n    raise ValueError\nexcept ValueError as error:\n    member.fail(error)",
        "if not os.fork(): os._exit(1)\nos.wait()",
    ],
    ids=["ends", "ends at once", "catches what it raises", "has a child that fails"],
)
def test_a_rank_of_a_script_that_comes_to_its_end_is_none_that_failed(
    tmp_path: Path, code: str
) -> None:
    (tmp_path / "train.py").write_text(_MEMBER + code)
    assert _launch(tmp_path, _THREE).ok


def test_a_helper_of_a_script_may_fail(tmp_path: Path) -> None:
    assert _launch(tmp_path, "$PYTHON -c 'raise ValueError'; kill -9 $BASHPID & wait; true").ok


def test_the_code_of_a_script_that_says_that_it_failed_counts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_MEMBER + "sys.exit(rank)")
    (tmp_path / "train.py").write_text(_MEMBER + "if rank == 1: raise ValueError('boom')")
    result = _launch(tmp_path, _THREE + "exit 7")
    assert result.code == 7
    output = f"Its output is in {tmp_path / 'train_1.log'}."
    assert f"1 {_HEAD}: rank 1 raised ValueError: boom. {output}" in result.notes


def _watch(size: int) -> Tuple[DescendantWatch, Timers]:
    rank, timers = GuardedRank(0, [], b"", {}, None, False, b"", b""), Timers()
    return DescendantWatch({0: rank}, size, lambda pid, text: None, timers), timers


@pytest.mark.parametrize(("size", "most_s"), [(1, 2), (8, 5)])
def test_looks_become_rare_but_ranks_do_not_import_tensorflow_between_two(
    size: int, most_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    (watch, timers), alive = _watch(size), dict.fromkeys(list_children(os.getpid()), 0)
    alive[os.getpid()] = 0
    watch.look(alive, Reports())
    assert timers.next_s() < 1
    monkeypatch.setattr("time.monotonic", lambda: began + 3600)
    watch.look(alive, Reports())
    assert 1 <= timers.next_s() <= most_s


def test_looks_are_frequent_again_once_a_script_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = time.monotonic()
    watch, timers = _watch(1)
    monkeypatch.setattr("time.monotonic", lambda: began + 3600)
    watch.look({}, Reports())
    assert timers.next_s() < 1
