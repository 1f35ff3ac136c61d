"""The npu backend's operators and groups, on the fake host."""

import os
from typing import Any

import pytest

from ascend_session import CollectiveError, ascend_system, hccl
from ascend_session.backends import Choice, create
from tests.fake_host.vendor import Loaded


def test_a_graph_that_was_built_before_runs_on_the_device(tf: Any, ge: Loaded) -> None:
    x = tf.constant([[1.0], [2.0]])
    built = [
        hccl.allreduce(x, "sum"),
        hccl.reduce(x, "max", 0),
        hccl.broadcast([x], 0)[0],
        hccl.allgather(x, 1),
        hccl.reduce_scatter(x, "sum", 1),
        hccl.all_to_all_v(x, [2], [0], [2], [0]),
        hccl.all_to_all_v_c(x, [[2]], 0),
    ]
    with ascend_system() as system, system.session() as sess:
        assert [value.flatten().tolist() for value in sess.run(built)] == [[1, 2]] * 7
    assert True in {entry["offloaded"] for entry in ge.of("Run")}


def test_only_groups_that_are_there_come_back_with_the_device(
    tf: Any, ge: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    chief = {"CM_CHIEF_IP": "10.0.0.1", "CM_CHIEF_PORT": "60001", "CM_CHIEF_DEVICE": "0"}
    for name, value in {**chief, "CM_WORKER_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    x = tf.constant(1.0)
    with ascend_system() as system:
        for name in ("kept", "destroyed"):
            hccl.create_group(name, 1, [0])
        hccl.destroy_group("destroyed")
        with pytest.raises(CollectiveError, match="HCCL refused create_group"):
            hccl.create_group("refused", 1, [1])
        for _ in range(2):  # closing the first one ends HCCL
            with system.session() as sess:
                sess.run(x)
                assert hccl.size("kept") == 1
                for name in ("destroyed", "refused"):
                    with pytest.raises(CollectiveError, match="HCCL refused get_rank_size"):
                        hccl.size(name)


@pytest.mark.parametrize(
    ("environ", "advice"),
    [
        ({}, "HCCL is not running in this process, which is in no job"),
        ({"RANK_TABLE_FILE": "t"}, "A group exists from hccl.create_group"),
        ({"CM_CHIEF_IP": "10.0.0.1"}, "A group exists from hccl.create_group"),
    ],
)
def test_the_advice_is_for_the_job_that_there_is(
    tf: Any, ge: Loaded, environ: Any, advice: str
) -> None:
    backend = create(Choice("npu", "it is tested"), {**os.environ, **environ})
    backend.initialize(tf.ConfigProto(), {})
    with pytest.raises(CollectiveError, match="HCCL refused get_rank_size") as refused:
        backend.groups.size("no_such_group")
    backend.close()
    assert advice in str(refused.value.hint)
