"""Jobs over two nodes that run: ranks find each other, and one that is lost ends all of them."""

import fcntl
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from ascend_session.failures.failure import FailureClass
from tests.launcher.nodes import (
    MEETING,
    PATIENCE,
    Node,
    said,
)

_REDUCING = """
import os, signal
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl
x = tf.placeholder(tf.float32, [3])
total = hccl.allreduce(x, "sum")
with ascend_system() as system, system.session() as sess:
    def add():
        return sess.run(total, {x: [1, system.rank, system.rank ** 2]}).tolist()
    groups = [hccl.local_rank(), hccl.local_size()]
    print([system.rank, system.size, system.local_rank, system.local_size, system.device_id], add())
    print(groups, flush=True)
    if os.environ.get("KILLED") == str(system.rank):
        os.kill(os.getpid(), signal.SIGKILL)
    while "KILLED" in os.environ:
        add()
"""


def test_ranks_of_two_nodes_compute_together(tmp_path: Path, forking_python: str) -> None:
    asked: Any = {"python": forking_python}
    nodes = [Node(tmp_path, number, _REDUCING, **asked) for number in (0, 1)]
    for number, node in enumerate(nodes):
        result = node.result()
        assert result.ok, said(result, "stderr")
        for local, text in enumerate(said(result)):
            place, groups = text.splitlines()
            rank = 2 * number + local
            assert place == f"{[rank, 4, local, 2, local]} [4.0, 6.0, 14.0]"
            assert groups == f"{[local, 2]}"


@pytest.mark.parametrize("killed", [0, 3])
def test_a_rank_that_is_killed_is_the_cause_on_both_nodes(
    tmp_path: Path, forking_python: str, killed: int
) -> None:
    asked: Any = {"env": {"KILLED": str(killed)}}
    asked["python"] = forking_python
    nodes = [Node(tmp_path, number, _REDUCING, **asked) for number in (0, 1)]
    results = [node.result() for node in nodes]
    here, there = results[killed // 2], results[1 - killed // 2]
    assert (here.code, here.cause and here.cause.rank) == (128 + signal.SIGKILL, killed)
    cause = there.cause
    assert cause is not None
    assert cause.elsewhere == killed
    assert cause.rank in [rank.rank for rank in there.ranks]
    assert cause.said.startswith(f"The cause is on another node: rank {killed} has exited")
    assert cause.advice.endswith(f"the logs of rank {killed} there.")
    assert cause.failure_class is FailureClass.SECONDARY
    assert there.code == 1


# Both ranks of a node are there before either waits for those of the other node.
_BOTH = """
import os
for there in range(2):
    if there == int(os.environ["RANK_ID"]):
        os.close(os.open(f"there_{there}", os.O_RDONLY))
    else:
        os.close(os.open(f"there_{there}", os.O_WRONLY))
with ascend_system():
    pass
"""


def test_a_node_that_does_not_come_is_named(tmp_path: Path) -> None:
    for rank in range(2):
        os.mkfifo(str(tmp_path / f"there_{rank}"))
    code = MEETING[: MEETING.index("ranks = ")] + _BOTH
    env = {"HCCL_CONNECT_TIMEOUT": "2"}
    result = Node(tmp_path, 0, code, env=env, cwd=str(tmp_path)).result()
    assert result.code == 1
    assert result.cause is not None
    assert result.cause.elsewhere == 2
    assert "rank 2 and rank 3 of 4 did not join within 2 s" in result.cause.said
    assert "All nodes of a job on the stub are one machine." in " ".join(result.cause.tail)


def test_a_first_node_that_does_not_come_is_named(tmp_path: Path) -> None:
    env = {"HCCL_CONNECT_TIMEOUT": "1"}
    node = Node(tmp_path, 1, MEETING, env=env)
    cause = node.result().cause
    assert cause is not None
    assert cause.elsewhere == 0
    assert "nothing answers on this machine" in cause.said


@pytest.mark.parametrize(
    ("meant", "sentence"),
    [
        ({"nnodes": 3}, "reports a job of 6 ranks, rank 0 one of 4"),
        ({"processes": 1}, "reports a job of 2 ranks, rank 0 one of 4"),
    ],
    ids=["nodes", "ranks"],
)
def test_nodes_that_mean_another_number_do_not_meet(
    tmp_path: Path, forking_python: str, meant: Any, sentence: str
) -> None:
    asked: Any = {"python": forking_python}
    first = Node(tmp_path, 0, MEETING, **asked)
    other = Node(tmp_path, 1, MEETING, **asked, **meant).result()
    first.kill()
    assert (other.code, first.result().ok) == (1, False)
    assert sentence in "".join(said(other, "stderr"))


def test_two_nodes_of_the_same_number_are_not_both_let_in(
    tmp_path: Path, forking_python: str
) -> None:
    ended = threading.Event()
    with (tmp_path / "held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # who is let in stays until the other was refused
        asked: Any = {"python": forking_python}
        asked["env"] = {"HELD": held.name}
        nodes = [Node(tmp_path, number, MEETING, ended=ended, **asked) for number in (0, 1, 1)]
        assert ended.wait(PATIENCE)
    logs = "".join(text for node in nodes for text in said(node.result(), "stderr"))
    assert "Give each process its own RANK_ID" in logs
