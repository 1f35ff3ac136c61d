"""What does not fit the job is refused while the graph is built, as far as it is known then."""

from typing import Any, Callable, Dict

import pytest

from ascend_session import ascend_system, hccl
from tests.hccl.ranks import job_of
from tests.hccl.recorder import Recorder

WRONG: Dict[str, Callable[[Any], Any]] = {
    "allgather.*rank_size=3, but the group 'hccl_world_group' has 2": lambda x: hccl.allgather(
        x, 3
    ),
    "reduce_scatter.*has 2 ranks.*hccl.size": lambda x: hccl.reduce_scatter(x, "sum", 4),
    "root_rank=2 is not a rank of the group.*0 to 1": lambda x: hccl.reduce(x, "sum", 2),
    "broadcast: root_rank=2": lambda x: hccl.broadcast([x], 2),
    "dest_rank=2 is not a rank": lambda x: hccl.send(x, 0, 2),
    "src_rank=2 is not a rank": lambda x: hccl.receive([1], "int8", 0, 2),
    "send_displacements has 1 numbers, but the group has 2 ranks": lambda x: hccl.all_to_all_v(
        x, [1, 1], [0], [1, 1], [0, 1]
    ),
    "rank=2 is not a rank of the group": lambda x: hccl.all_to_all_v_c(x, [[1] * 3] * 3, 2),
    "send_count_matrix needs one row.*group's 2 ranks": lambda x: hccl.all_to_all_v_c(x, [[1]], 1),
}


@pytest.mark.parametrize("said", WRONG)
def test_before_the_system_is_open_the_environment_says_the_size(
    tf: Any, either: str, said: str, monkeypatch: Any
) -> None:
    x = tf.placeholder(tf.float32, [4])
    with monkeypatch.context() as patch:
        patch.setenv("RANK_SIZE", "2")
        with pytest.raises(ValueError, match=said):
            WRONG[said](x)


@pytest.mark.parametrize("environ", [{}, {"RANK_SIZE": "-1"}, {"RANK_TABLE_FILE": "table.json"}])
def test_where_nothing_says_the_size_nothing_is_refused(
    tf: Any, recorder: Recorder, environ: Dict[str, str], monkeypatch: Any
) -> None:
    x = tf.placeholder(tf.float32, [4])
    with monkeypatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        for said in WRONG:
            if "matrix" not in said:
                WRONG[said](x)
    assert len(recorder.calls) == len(WRONG) - 1


@pytest.mark.parametrize("said", WRONG)
def test_an_open_system_says_the_size(tf: Any, ge: Any, said: str, monkeypatch: Any) -> None:
    x = tf.placeholder(tf.float32, [4])
    with job_of(ge.host, 2, 1, monkeypatch), ascend_system():
        with pytest.raises(ValueError, match=said):
            WRONG[said](x)


def test_another_processs_rank_is_refused(tf: Any, ge: Any, monkeypatch: Any) -> None:
    x, matrix = tf.placeholder(tf.float32, [4]), [[1, 1], [1, 1]]
    with job_of(ge.host, 2, 1, monkeypatch), ascend_system():
        with pytest.raises(ValueError, match=r"rank=0, but this process is rank 1.*hccl.rank"):
            hccl.all_to_all_v_c(x, matrix, 0)
        hccl.all_to_all_v_c(x, matrix, 1)


def test_of_a_group_that_is_there_the_size_is_known(tf: Any, ge: Any, monkeypatch: Any) -> None:
    x = tf.placeholder(tf.float32, [4])
    with job_of(ge.host, 2, 1, monkeypatch), ascend_system():
        hccl.allgather(x, 2, "mine")  # which may be made before it runs
        hccl.all_to_all_v_c(x, [[1, 1], [1, 1]], 0, group="mine")
        hccl.create_group("mine", 1, [1])
        with pytest.raises(ValueError, match="rank_size=2, but the group 'mine' has 1 ranks"):
            hccl.allgather(x, 2, "mine")
        hccl.allgather(x, 1, "mine")
        hccl.all_to_all_v_c(x, [[1]], 0, group="mine")
