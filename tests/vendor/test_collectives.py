"""Collectives: when HCCL is on, which rank a process is, and the operators.

Source: guides/facts/rank_tables.md#physical-ids-in-a-rank-table,
guides/facts/launch.md#collectives-that-are-switched-off; hccl/manage/api.py.
"""

import json
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

from tests.fake_host.vendor import Loaded

CHIEF = {"CM_CHIEF_IP": "10.0.0.1", "CM_CHIEF_PORT": "60001", "CM_CHIEF_DEVICE": "0"}


@pytest.mark.parametrize(
    ("variables", "on"),
    [
        ({}, False),
        ({"RANK_SIZE": "8", "RANK_ID": "0"}, False),
        ({"RANK_TABLE_FILE": "t"}, True),
        ({"RANK_TABLE_FILE": "t", "RANK_SIZE": "8"}, True),
        ({"RANK_TABLE_FILE": "t", "RANK_SIZE": "-1"}, True),
        ({"RANK_TABLE_FILE": "t", "RANK_SIZE": "eight"}, True),
        ({"RANK_TABLE_FILE": "t", "RANK_SIZE": "0"}, False),
        ({"RANK_TABLE_FILE": "t", "RANK_SIZE": "-2"}, False),
        ({"RANK_TABLE_FILE": "t", "CM_WORKER_SIZE": "8"}, False),
        ({"RANK_TABLE_FILE": "t", **CHIEF}, False),
        (CHIEF, True),
        ({**CHIEF, "CM_WORKER_SIZE": "8"}, True),
        ({**CHIEF, "CM_WORKER_SIZE": "0"}, False),
        ({**CHIEF, "RANK_SIZE": "8"}, False),
        ({**CHIEF, "CM_CHIEF_PORT": ""}, False),
        ({**CHIEF, "CM_CHIEF_DEVICE": ""}, False),
        ({"HELP_CLUSTER": "1"}, True),
        ({"RANK_TABLE_FILE": "t", "RANK_SIZE": "0", "HELP_CLUSTER": "no"}, True),
    ],
    ids=str,
)
def test_the_table_of_when_collectives_are_on(
    ge: Loaded, monkeypatch: Any, variables: Dict[str, str], on: bool
) -> None:
    from fake_ge.environment import collectives

    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        found = collectives()
    assert found.on is on
    forced = "HELP_CLUSTER" in variables
    assert bool(found.options) is (on and not forced)


@pytest.fixture
def job(ge: Loaded, system: Any, monkeypatch: Any) -> Any:
    """Starts the system as one rank of a job, and forgets the job's variables at the end."""
    with monkeypatch.context() as patch:

        def start(table: Any = None, **variables: str) -> None:
            if table is not None:
                path = ge.host.root / "hccl.json"
                path.write_text(json.dumps(table))
                patch.setenv("RANK_TABLE_FILE", str(path))
            for name, value in variables.items():
                patch.setenv(name, value)
            system.start()

        yield start


def table(devices: Any = ((0, 1), (2, 3)), version: str = "1.0") -> Dict[str, Any]:
    """A rank table; of each server the physical ids."""
    ranks = iter(range(64))
    servers = [
        {
            "server_id": f"node_{place}",
            "device": [
                {"device_id": str(n), "device_ip": f"10.0.0.{n}", "rank_id": str(next(ranks))}
                for n in server
            ],
        }
        for place, server in enumerate(devices)
    ]
    count = str(len(servers))
    return {
        "version": version,
        "status": "completed",
        "server_count": count,
        "server_list": servers,
    }


def test_ranks_come_from_the_rank_table(job: Any) -> None:
    from hccl.manage import api

    job(table(), RANK_ID="3", RANK_SIZE="4", ASCEND_DEVICE_ID="3")
    assert (api.get_rank_id(), api.get_rank_size()) == (3, 4)
    assert (api.get_local_rank_id(), api.get_local_rank_size()) == (1, 2)


def test_without_a_table_they_come_from_the_environment(job: Any) -> None:
    from hccl.manage import api

    job(CM_WORKER_SIZE="1", **CHIEF)
    assert (api.get_rank_id(), api.get_rank_size()) == (0, 1)
    job(RANK_ID="1", RANK_SIZE="2")
    assert (api.get_rank_id(), api.get_rank_size()) == (0, 1)


def test_in_an_old_table_a_process_is_its_pod(job: Any) -> None:
    from hccl.manage import api

    pods = [
        {
            "pod_name": name,
            "server_id": f"10.0.0.{place}",
            "devices": [{"device_id": str(n), "device_ip": f"10.0.1.{n}"} for n in (0, 1)],
        }
        for place, name in enumerate("ab")
    ]
    groups = [{"group_name": "hccl_world_group", "instance_list": pods}]
    job({"status": "completed", "group_list": groups}, POD_NAME="b", ASCEND_DEVICE_ID="1")
    assert (api.get_rank_id(), api.get_rank_size()) == (3, 4)
    assert (api.get_local_rank_id(), api.get_local_rank_size()) == (1, 2)


def test_groups(job: Any) -> None:
    from hccl.manage import api

    job(table(), RANK_ID="2", ASCEND_DEVICE_ID="2")
    api.create_group("odd", 2, [0, 2])
    assert (api.get_rank_id("odd"), api.get_rank_size("odd")) == (1, 2)
    assert (api.get_local_rank_id("odd"), api.get_local_rank_size("odd")) == (0, 1)
    assert api.get_world_rank_from_group_rank("odd", 1) == 2
    assert api.get_group_rank_from_world_rank(2, "odd") == 1
    with pytest.raises(ValueError, match="create group error:odd"):
        api.create_group("odd", 2, [0, 2])
    api.destroy_group("odd")
    with pytest.raises(ValueError, match="destroy group error :odd"):
        api.destroy_group("odd")
    with pytest.raises(ValueError, match=r"get rank id error. ret\[1\]"):
        api.get_rank_id("odd")


def test_a_group_is_made_on_its_own_ranks_in_their_order(job: Any) -> None:
    from hccl.manage import api

    job(table(), RANK_ID="2", ASCEND_DEVICE_ID="2")
    api.create_group("mine", 2, [3, 2])
    assert (api.get_rank_id("mine"), api.get_world_rank_from_group_rank("mine", 1)) == (0, 3)
    with pytest.raises(ValueError, match="create group error:theirs"):
        api.create_group("theirs", 2, [0, 1])


def test_faults_change_what_hccl_says_of_groups(job: Any, monkeypatch: Any) -> None:
    from hccl.manage import api

    job(table(), RANK_ID="2", ASCEND_DEVICE_ID="2")
    api.create_group("mine", 1, [2])
    for fault, size, rank in (("hccl-groups", 4, 2), ("hccl-phantom", 2, 1)):
        monkeypatch.setenv("FAKE_GE_FAULTS", fault)
        assert (api.get_rank_size("mine"), api.get_rank_id("mine")) == (size, rank)
    monkeypatch.setenv("FAKE_GE_FAULTS", "hccl-kept")
    api.destroy_group("mine")
    assert api.get_rank_size("mine") == 1
    monkeypatch.setenv("FAKE_GE_FAULTS", "early-destroy")


@pytest.mark.parametrize("started", [False, True])
def test_without_collectives_nobody_has_a_rank(ge: Loaded, system: Any, started: bool) -> None:
    from hccl.manage import api

    if started:
        system.start()
    for ask, sentence in (
        (api.get_rank_id, "get rank id error. ret"),
        (api.get_rank_size, "get rank size error. ret"),
        (api.get_local_rank_id, "get local rank id error. ret"),
        (api.get_local_rank_size, "get local rank size error. ret"),
    ):
        with pytest.raises(ValueError, match=sentence):
            ask()
    with pytest.raises(ValueError, match="create group error"):
        api.create_group("g", 1, [0])


def test_an_evaluator_has_no_collectives(job: Any) -> None:
    from hccl.manage import api

    job(table(), RANK_ID="0", TF_CONFIG='{"task": {"type": "evaluator", "index": 0}}')
    with pytest.raises(ValueError, match="get rank id error"):
        api.get_rank_id()


def test_after_shutdown_there_are_neither_ranks_nor_groups(job: Any, system: Any) -> None:
    from hccl.manage import api

    job(table(), RANK_ID="0")
    api.create_group("all", 2, [0, 1])
    system.end()
    with pytest.raises(ValueError, match="get rank id error"):
        api.get_rank_id()
    system.start()
    with pytest.raises(ValueError, match="get rank size error"):
        api.get_rank_size("all")


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        (3, "group must be a python str"),
        ("", "group name is empty"),
        ("g" * 128, "group name is invalid"),
        ("g" * 127, "get rank id error"),
    ],
)
def test_the_names_of_groups_are_checked(ge: Loaded, group: Any, sentence: str) -> None:
    from hccl.manage import api

    with pytest.raises(ValueError, match=sentence):
        api.get_rank_id(group)


def broken(change: Callable[[Any], None]) -> Dict[str, Any]:
    """A rank table with something wrong in it."""
    wrong = table()
    change(wrong)
    return wrong


@pytest.mark.parametrize(
    ("wrong", "code", "variables"),
    [
        (
            table(((1, 0),)),
            "EI0014.*ranktable config devId.1.,but local devId.0.",
            {"RANK_ID": "0"},
        ),
        (table(version="3.0"), "EI0014.*not supported", {"RANK_ID": "0"}),
        (table(), "EI0004.*RANK_ID", {}),
        (table(), "EI0004.*RANK_ID", {"RANK_ID": "4"}),
        (
            broken(lambda t: t["server_list"][0]["device"][0].update(rank_id=0)),
            "EI0004.*is not string!",
            {"RANK_ID": "0"},
        ),
        (
            broken(lambda t: t["server_list"][0]["device"][0].update(rank_id="1")),
            "EI0014.*unique",
            {"RANK_ID": "1"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_that_does_not_fit_fails_the_initialisation(
    ge: Loaded,
    tf: Any,
    proto: Callable[..., Any],
    product: Any,
    tmp_path: Path,
    monkeypatch: Any,
    wrong: Any,
    code: str,
    variables: Dict[str, str],
) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(wrong))
    with monkeypatch.context() as patch:
        for name, value in {"RANK_TABLE_FILE": str(path), **variables}.items():
            patch.setenv(name, value)
        with tf.Session(config=proto()) as sess:
            with pytest.raises(tf.errors.InternalError, match=code):
                sess.run(product)


def test_collectives_are_identities_in_an_offloaded_graph_of_one_rank(
    ge: Loaded, tf: Any, proto: Callable[..., Any]
) -> None:
    from npu_bridge.hccl import hccl_ops

    x = tf.constant([[1.0], [2.0]])
    made = [
        hccl_ops.allreduce(x, "sum"),
        hccl_ops.reduce(x, "max", 0),
        hccl_ops.broadcast([x], 0)[0],
        hccl_ops.allgather(x, 1),
        hccl_ops.reduce_scatter(x, "sum", 1),
    ]
    exchanged = [
        hccl_ops.all_to_all_v(x, [2], [0], [2], [0]),
        hccl_ops.all_to_all_v_c(x, [[2]], 0),
    ]
    with tf.Session(config=proto()) as sess:
        for value in sess.run(made):
            assert value.tolist() == [[1.0], [2.0]]
        # HcomAllToAllVInferShape: what comes out has one dimension
        for value in sess.run(exchanged):
            assert value.tolist() == [1.0, 2.0]
        assert sess.run(hccl_ops.receive([2], tf.float32, 1, 0)).tolist() == [0, 0]
        assert sess.run(hccl_ops.send(x, 1, 0)) is None
    assert {entry["offloaded"] for entry in ge.of("Run")} == {True}
    with pytest.raises(ValueError, match="reduction"):
        hccl_ops.allreduce(x, "mean")


def test_a_collective_outside_an_offloaded_graph_fails(
    ge: Loaded, tf: Any, proto: Callable[..., Any]
) -> None:
    from npu_bridge.hccl import hccl_ops

    summed = hccl_ops.allreduce(tf.constant([1.0]), "sum")
    for config in (None, proto(use_off_line=False)):
        with tf.Session(config=config) as sess:
            with pytest.raises(tf.errors.InternalError, match="Missing 0-th output"):
                sess.run(summed)


def test_splitting_gradients_wants_collectives(ge: Loaded, job: Any) -> None:
    from hccl.split import api

    with pytest.raises(ValueError, match=r"error\. ret"):
        api.set_split_strategy_by_idx([1, 2])
    job(table(), RANK_ID="0")
    api.set_split_strategy_by_idx([1, 2])
    api.set_split_strategy_by_size([60, 40])
    assert ge.calls[-2:] == ["set_split_strategy_by_idx", "set_split_strategy_by_size"]
