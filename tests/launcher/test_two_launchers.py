"""Jobs over two nodes that run: ranks find each other, and one that is lost ends all of them."""

import fcntl
import json
import signal
import threading
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from ascend_session.failures import FailureClass
from tests.certificates import make_authorities
from tests.launcher.nodes import (
    MEETING,
    PATIENCE,
    Node,
    await_listener,
    own_address,
    port_kept,
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


@pytest.fixture
def port() -> Iterator[int]:
    with port_kept() as port:
        yield port


@pytest.mark.parametrize("how", ["loopback", "the machine's own address", "its name"])
def test_ranks_of_two_nodes_meet(tmp_path: Path, port: int, forking_python: str, how: str) -> None:
    address = {"loopback": "127.0.0.1", "its name": "localhost"}.get(how, own_address())
    where = f"{address}:{port}"
    asked: Any = {"coordinator": where, "python": forking_python}
    nodes = [Node(tmp_path, number, MEETING, **asked) for number in (1, 0)]
    found: List[Any] = []
    for node in nodes:
        result = node.result()
        assert result.ok, said(result, "stderr")
        found += map(json.loads, said(result))
    assert sorted(found) == [[rank, 4, [0, 1, 2, 3]] for rank in range(4)]


def test_ranks_of_two_nodes_compute_together(
    tmp_path: Path, port: int, forking_python: str
) -> None:
    asked: Any = {"coordinator": f"{own_address()}:{port}", "python": forking_python}
    nodes = [Node(tmp_path, number, _REDUCING, **asked) for number in (0, 1)]
    for number, node in enumerate(nodes):
        result = node.result()
        assert result.ok, said(result, "stderr")
        for local, text in enumerate(said(result)):
            place, groups = text.splitlines()
            rank = 2 * number + local
            assert place == f"{[rank, 4, local, 2, local]} [4.0, 6.0, 14.0]"
            assert groups == f"{[local, 2]}"
        warned = "send each other their tensors unencrypted"
        found = [text.count(warned) for text in said(result, "stderr")]
        assert found == ([1, 0] if number == 0 and own_address() != "127.0.0.1" else [0, 0])


@pytest.mark.parametrize("killed", [0, 3])
def test_a_rank_that_is_killed_is_the_cause_on_both_nodes(
    tmp_path: Path, port: int, forking_python: str, killed: int
) -> None:
    asked: Any = {"coordinator": f"127.0.0.1:{port}", "env": {"KILLED": str(killed)}}
    asked["python"] = forking_python
    nodes = [Node(tmp_path, number, _REDUCING, **asked) for number in (0, 1)]
    results = [node.result() for node in nodes]
    here, there = results[killed // 2], results[1 - killed // 2]
    assert (here.code, here.cause and here.cause.rank) == (128 + signal.SIGKILL, killed)
    cause = there.cause
    assert cause is not None
    assert cause.elsewhere == killed
    assert cause.rank in [rank.rank for rank in there.ranks]
    assert cause.said.startswith(f"The cause is on another node: rank {killed} has ended")
    assert cause.advice.endswith(f"the logs of rank {killed} there.")
    assert cause.failure_class is FailureClass.SECONDARY
    assert there.code == 1


@pytest.mark.parametrize("certificate", ["ours", "theirs"])
def test_nodes_with_certificates_of_one_authority_compute_over_tls(
    tmp_path: Path, port: int, forking_python: str, certificate: str
) -> None:
    authorities = make_authorities(tmp_path, "127.0.0.1", own_address())
    asked: Any = {"coordinator": f"{own_address()}:{port}", "python": forking_python}
    limit = {"HCCL_CONNECT_TIMEOUT": "60" if certificate == "ours" else "2"}
    nodes = [
        Node(tmp_path, number, MEETING, env={**authorities[whose], **limit}, **asked)
        for number, whose in enumerate(["ours", certificate])
    ]
    results = [node.result() for node in nodes]
    if certificate == "ours":
        found = [json.loads(line) for result in results for line in said(result)]
        assert sorted(found) == [[rank, 4, [0, 1, 2, 3]] for rank in range(4)]
        assert not any("unencrypted" in text for one in results for text in said(one, "stderr"))
    else:
        assert [result.ok for result in results] == [False, False]
        assert any("CERTIFICATE_VERIFY_FAILED" in text for text in said(results[1], "stderr"))


def test_a_node_that_does_not_come_is_named(tmp_path: Path, port: int) -> None:
    env = {"HCCL_CONNECT_TIMEOUT": "2"}
    node = Node(tmp_path, 0, MEETING, coordinator=f"127.0.0.1:{port}", env=env)
    result = node.result()
    assert result.code == 1
    assert result.cause is not None
    assert result.cause.elsewhere == 2
    said = "rank 2 and rank 3 of 4 (all of node 1) did not come within 2 s"
    assert said in result.cause.said


def test_a_first_node_that_does_not_come_is_named(tmp_path: Path, port: int) -> None:
    env = {"HCCL_CONNECT_TIMEOUT": "1"}
    node = Node(tmp_path, 1, MEETING, coordinator=f"127.0.0.1:{port}", env=env)
    cause = node.result().cause
    assert cause is not None
    assert cause.elsewhere == 0
    assert f"nothing answers at 127.0.0.1:{port}" in cause.said


@pytest.mark.parametrize(
    ("meant", "sentence"),
    [
        ({"nnodes": 3}, "says that the job has 6 ranks, rank 0 says 4"),
        ({"processes": 1}, "says that the job has 2 ranks, rank 0 says 4"),
    ],
    ids=["nodes", "ranks"],
)
def test_nodes_that_mean_another_number_do_not_meet(
    tmp_path: Path, port: int, forking_python: str, meant: Any, sentence: str
) -> None:
    asked: Any = {"coordinator": f"127.0.0.1:{port}", "python": forking_python}
    first = Node(tmp_path, 0, MEETING, **asked)
    other = Node(tmp_path, 1, MEETING, **asked, **meant).result()
    first.kill()
    assert (other.code, first.result().ok) == (1, False)
    assert sentence in "".join(said(other, "stderr"))


def test_two_nodes_of_the_same_number_are_not_both_let_in(
    tmp_path: Path, port: int, forking_python: str
) -> None:
    ended = threading.Event()
    with (tmp_path / "held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # who is let in stays until the other was refused
        asked: Any = {"coordinator": f"127.0.0.1:{port}", "python": forking_python}
        asked["env"] = {"HELD": held.name}
        nodes = [Node(tmp_path, number, MEETING, ended=ended, **asked) for number in (0, 1, 1)]
        assert ended.wait(PATIENCE)
    logs = "".join(text for node in nodes for text in said(node.result(), "stderr"))
    assert "Give each process a RANK_ID of its own" in logs


def test_of_two_first_nodes_on_one_machine_one_is_refused(tmp_path: Path, port: int) -> None:
    code = "import signal; signal.pause()"
    first = Node(tmp_path, 0, code, coordinator=f"127.0.0.1:{port}")
    assert first.begun.wait(PATIENCE)
    second = Node(tmp_path, 0, code, coordinator=f"127.0.0.1:{port}")
    assert f"listen at 127.0.0.1:{port} for the other nodes" in str(second.refused())
    first.kill()
    assert not first.result().ok


def test_two_jobs_do_not_share_a_coordinator(tmp_path: Path, port: int) -> None:
    where = f"127.0.0.1:{port}"
    mine = Node(tmp_path, 0, MEETING, job_id="mine", coordinator=where)
    await_listener(port)
    env = {"HCCL_CONNECT_TIMEOUT": "2"}  # for as long the job before may still be there
    other = Node(tmp_path, 1, MEETING, env=env, job_id="other", coordinator=where).result()
    mine.kill()
    assert (other.code, mine.result().ok) == (1, False)
    logs = "".join(said(other, "stderr"))
    assert f"The nodes of another job, or of one with another secret, meet at {where}." in logs
