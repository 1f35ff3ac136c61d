"""One launch after the other, and several at the same time: each job's ranks meet, and no others.

``ASCEND_SESSION_TEST_LAUNCHES`` says how many follow each other, 5 if it is not set.
"""

import os
import threading
from pathlib import Path
from typing import Iterator, List

import pytest

from ascend_session.launcher.api import launch
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.verdict.result import LaunchResult
from tests.launcher.supervised import PATIENCE

# Read here, for no test sees the variables of the product.
_LAUNCHES = int(os.environ.get("ASCEND_SESSION_TEST_LAUNCHES") or 5)

# The ranks tell each other which launch has started them.
_GATHERING = """
import sys
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl
own = int(sys.argv[1])
launches = hccl.allgather(tf.constant([own]), 3)
with ascend_system() as system, system.session() as sess:
    found = sess.run(launches).tolist()
    assert found == [own] * 3, found
"""


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_WRONLY)
    yield fd
    os.close(fd)


def launch_ranks(folder: Path, null: int, python: str, number: int) -> LaunchResult:
    """Launch three ranks with a number that the launches at the same time do not have.

    All have the ``JOB_ID`` that most scripts set.
    """
    script = folder / "gather.py"
    script.write_text(_GATHERING)
    config = LaunchConfig(
        script=str(script),
        args=[str(number)],
        python=python,
        processes=3,
        backend="stub",
        job_id="10087",
        log_dir=str(folder / f"logs_{number}"),
        stall_timeout=PATIENCE,
    )
    return launch(config, output=null)


def failures(result: LaunchResult) -> List[str]:
    """What the ranks that failed have written."""
    failed = [rank for rank in result.ranks if rank.exit_code]
    return [f"{rank.outcome}: {Path(rank.stderr).read_text()}" for rank in failed]


def test_ranks_of_launches_in_a_row_meet(tmp_path: Path, null: int, forking_python: str) -> None:
    for number in range(_LAUNCHES):
        result = launch_ranks(tmp_path, null, forking_python, number)
        assert result.ok, f"launch {number} of {_LAUNCHES}: {failures(result)}"


def test_ranks_of_launches_at_the_same_time_do_not_meet_each_other(
    tmp_path: Path, null: int, forking_python: str
) -> None:
    results: List[LaunchResult] = []

    def note_result(number: int) -> None:
        results.append(launch_ranks(tmp_path, null, forking_python, number))

    threads = [threading.Thread(target=note_result, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [result.ok for result in results] == [True] * 4, [failures(one) for one in results]
