"""One launch after the other, of jobs whose ranks listen at their addresses.

``ASCEND_SESSION_TEST_LAUNCHES`` says how many, 20 if it is not set; a tenth of it with TensorFlow.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.launching import launch
from ascend_session.launcher.result import LaunchResult
from tests.launcher.supervised import PATIENCE

# Read here, for no test sees the variables of the product.
_LAUNCHES = int(os.environ.get("ASCEND_SESSION_TEST_LAUNCHES") or 20)

# Listens as TensorFlow's server does, on every interface, and answers itself.
_LISTENING = """
import os, socket
rank = int(os.environ["RANK_ID"])
own = "127.0.0.1:" + os.environ["ASCEND_SESSION_PORT"]
mine = [own] + [os.environ["ASCEND_SESSION_COORDINATOR"]] * (rank == 0)
for address in mine:
    host, _, port = address.rpartition(":")
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("", int(port)))
    listening.listen(8)
    calling = socket.create_connection((host, int(port)), 60)
    answering, caller = listening.accept()
    assert caller == calling.getsockname()
    answering.sendall(b"here")
    answering.close()
    assert calling.recv(4) == b"here"
"""

_REDUCING = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl
x = tf.placeholder(tf.float32, [3])
total = hccl.allreduce(x, "sum")
with ascend_system() as system, system.session() as sess:
    found = sess.run(total, {x: [1, system.rank, system.rank ** 2]}).tolist()
    assert found == [3, 3, 5], found
"""


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_WRONLY)
    yield fd
    os.close(fd)


def _one(folder: Path, null: int, **asked: Any) -> LaunchResult:
    what = asked or {"program": sys.executable, "args": ["-S", "-E", "-c", _LISTENING]}
    config = LaunchConfig(**what, processes=3, backend="stub", log_dir=str(folder / "logs"))
    return launch(config, output=null)


def _faults(result: LaunchResult) -> List[str]:
    """What the ranks that failed have written."""
    failed = [rank for rank in result.ranks if rank.exit_code]
    return [f"{rank.outcome}: {Path(rank.stderr).read_text()}" for rank in failed]


def test_launches_in_a_row_find_their_ports(tmp_path: Path, null: int) -> None:
    for number in range(_LAUNCHES):
        result = _one(tmp_path, null)
        assert result.ok, f"launch {number} of {_LAUNCHES}: {_faults(result)}"


def test_launches_in_a_row_reduce_with_tensorflows_servers(
    tmp_path: Path, null: int, forking_python: str
) -> None:
    script = tmp_path / "reduce.py"
    script.write_text(_REDUCING)
    asked: Any = {"script": str(script), "python": forking_python, "stall_timeout": PATIENCE}
    for number in range(max(_LAUNCHES // 10, 1)):
        result = _one(tmp_path, null, **asked)
        assert result.ok, f"launch {number}: {_faults(result)}"


def test_launches_at_the_same_time_find_their_ports(tmp_path: Path, null: int) -> None:
    results: List[LaunchResult] = []
    threads = [
        threading.Thread(target=lambda: results.append(_one(tmp_path, null))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [result.ok for result in results] == [True] * 8, [_faults(one) for one in results]
