"""Collectives between the processes of a job on the fake host, with the vendor's packages alone.

Source: the documentation of hccl_ops; hicann/hccl, param_link_stage.md and task_exec_stage.md.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping

import pytest

from tests.fake_host import FakeHost
from tests.fake_host.vendor import environment, live_host

pytestmark = pytest.mark.nightly

_PROGRAM = Path(__file__).with_name("programs") / "ranks.py"
_LIMIT = 120.0  # seconds for a job
RANKS = 3

_CHIEF = {"CM_CHIEF_IP": "10.0.0.1", "CM_CHIEF_PORT": "60001", "CM_CHIEF_DEVICE": "0"}


def table() -> Dict[str, Any]:
    """A rank table of one server."""
    devices = [
        {"device_id": str(n), "device_ip": f"10.0.0.{n}", "rank_id": str(n)} for n in range(RANKS)
    ]
    servers = [{"server_id": "node_0", "device": devices}]
    return {"version": "1.0", "status": "completed", "server_count": "1", "server_list": servers}


class Job:
    """The processes of a job, one for each device of the host from the first."""

    def __init__(
        self, host: FakeHost, what: str, variables: List[Mapping[str, str]], **settings: Any
    ) -> None:
        self._processes: List[Any] = [
            subprocess.Popen(
                [sys.executable, str(_PROGRAM), what],
                env={
                    **os.environ,
                    "TF_CPP_MIN_LOG_LEVEL": "2",
                    **environment(
                        host, variables={"ASCEND_DEVICE_ID": str(place), **own}, **settings
                    ),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                universal_newlines=True,
            )
            for place, own in enumerate(variables)
        ]

    def said(self, place: int) -> Dict[str, Any]:
        """What a process said at its end."""
        out, log = self._processes[place].communicate(timeout=_LIMIT)
        lines = [line for line in out.splitlines() if line.startswith("@ ")]
        assert lines, log
        return dict(json.loads(lines[-1][2:]))

    def close(self) -> None:
        """Ends all that still run."""
        for process in self._processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()


@pytest.fixture(scope="module")
def said(tmp_path_factory: Any) -> Iterator[List[Dict[str, Any]]]:
    """What three ranks said after one of everything."""
    folder: Path = tmp_path_factory.mktemp("ranks")
    host = live_host(folder)
    path = folder / "table.json"
    path.write_text(json.dumps(table()))
    # 2 s after a link is set up, and long for the first time: processes begin far apart.
    common = {
        "RANK_TABLE_FILE": str(path),
        "HCCL_CONNECT_TIMEOUT": "1200",
        "HCCL_EXEC_TIMEOUT": "40",
        "FAKE_GE_HCCL_SECOND": "0.05",
    }
    job = Job(host, "everything", [{**common, "RANK_ID": str(n)} for n in range(RANKS)])
    try:
        yield [job.said(n) for n in reversed(range(RANKS))][::-1]
    finally:
        job.close()
        host.close()


def test_each_process_knows_its_rank(said: List[Dict[str, Any]]) -> None:
    assert [(one["rank"], one["size"]) for one in said] == [(n, RANKS) for n in range(RANKS)]


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("sum", [6, 12]), ("prod", [6, 48]), ("max", [3, 6]), ("min", [1, 2])],
)
def test_allreduce_reduces(said: List[Dict[str, Any]], reduction: str, expected: Any) -> None:
    assert [one["each"][f"allreduce {reduction}"] for one in said] == [expected] * RANKS


def test_allgather_has_all_in_the_order_of_the_ranks(said: List[Dict[str, Any]]) -> None:
    assert [one["each"]["allgather"] for one in said] == [[1, 2, 2, 4, 3, 6]] * RANKS


def test_broadcast_gives_the_tensors_of_the_root(said: List[Dict[str, Any]]) -> None:
    assert [one["each"]["broadcast"] for one in said] == [[[2, 4], [10]]] * RANKS


def test_reduce_gives_the_root_the_result_and_others_nothing_of_use(
    said: List[Dict[str, Any]],
) -> None:
    found = [one["each"]["reduce"] for one in said]
    assert found[1] == [6, 12]
    assert len(found[0]) == len(found[2]) == 2
    assert not {*found[0], *found[2]} & {1, 2, 3, 6, 12, 0}


def test_reduce_scatter_gives_each_rank_its_part(said: List[Dict[str, Any]]) -> None:
    parts = [one["each"]["reduce_scatter"] for one in said]
    assert parts == [[0, 6], [12, 18], [24, 30]]


@pytest.mark.parametrize("call", ["all_to_all_v", "all_to_all_v_c"])
def test_ragged_parts_go_to_each_rank(said: List[Dict[str, Any]], call: str) -> None:
    for rank, one in enumerate(said):
        assert one["each"][call] == [n for n in (1, 2, 3) for _ in range(rank + 1)]


def test_the_same_graph_in_another_session_says_the_same(said: List[Dict[str, Any]]) -> None:
    for rank, one in enumerate(said):
        assert one["again"] == one["each"], rank


def test_a_collective_in_a_loop_runs_as_often_as_the_loop(said: List[Dict[str, Any]]) -> None:
    assert [one["loop"] for one in said] == [[54]] * RANKS


def test_the_gradient_of_allreduce_is_the_sum_of_all(said: List[Dict[str, Any]]) -> None:
    # hccl_ops.py, _allreduce_grad: whatever the reduction was
    assert [one["gradient"] for one in said] == [[6, 6]] * RANKS


def test_what_is_sent_is_received_in_order(said: List[Dict[str, Any]]) -> None:
    assert said[0]["paired"] == [None, None, [18]]
    assert said[1]["paired"] == [[1, 2], [3, 4], None]


def test_a_group_has_its_own_ranks(said: List[Dict[str, Any]]) -> None:
    expected = {"sum": [4], "all": [1, 3], "root": [[3]]}
    assert [said[0]["group"], said[2]["group"]] == [expected] * 2


def test_whoever_is_not_in_a_group_cannot_use_it(said: List[Dict[str, Any]]) -> None:
    assert "EI0003" in said[1]["group"]
    assert "rank 1 is not in the group [g]" in said[1]["group"]


@pytest.mark.parametrize("what", ["tag", "count", "dataType", "reduction", "root"])
def test_ranks_that_call_something_else_are_told_so(said: List[Dict[str, Any]], what: str) -> None:
    for one in said:
        text = one[f"different {what}"]
        assert "EI0005: The arguments for collective communication are inconsistent" in text
        assert f"parameter [{what}], local [" in text


def test_after_such_an_error_the_ranks_can_go_on(said: List[Dict[str, Any]]) -> None:
    assert [one["after"] for one in said] == [[6]] * RANKS


def test_a_rank_that_ended_is_waited_for_until_the_time_limit(said: List[Dict[str, Any]]) -> None:
    for one in said[:-1]:
        assert "EI0002: The wait execution of the Notify register times out." in one["lost"]
        assert "from remote rank [2]. Heartbeat Lost Occurred" in one["lost"]
        assert "GEOP::::DoRunAsync Failed" in one["lost"]


def test_faults_change_what_ranks_get(tmp_path: Path) -> None:
    host = live_host(tmp_path)
    faults = (
        "hccl-forgets",
        "hccl-order",
        "hccl-root",
        "hccl-parts",
        "hccl-lost",
        "hccl-differs",
        "hccl-world",
        "hccl-gradient",
    )
    common = {**_CHIEF, "CM_WORKER_SIZE": "2"}
    job = Job(host, "faulty", [common, common], faults=",".join(faults))
    try:
        zero, one = job.said(0), job.said(1)
    finally:
        job.close()
        host.close()
    # Of rank 0 alone, and on rank 1 with another last bit.
    assert zero["each"]["allreduce sum"] == [1, 2]
    assert one["each"]["allreduce sum"] != [1, 2]
    assert one["each"]["allreduce sum"] == pytest.approx([1, 2])
    assert zero["each"]["allgather"] == [2, 4, 1, 2]
    assert zero["each"]["broadcast"] == [[1, 2], [5]]
    assert one["each"]["broadcast"][1] == [4]
    assert zero["each"]["reduce"] == [1, 2]
    assert zero["each"]["reduce_scatter"] == [2, 3]
    assert zero["each"]["all_to_all_v"] == zero["each"]["all_to_all_v_c"] == [2, 3]
    assert zero["gradient"] == [1, 1]
    assert [one["paired"][n][1] for n in (0, 1)] == [0, 0]
    assert zero["alone"] == [1]  # of both, one of which is left out


def test_without_a_table_the_ranks_find_each_other_at_the_chief(tmp_path: Path) -> None:
    host = live_host(tmp_path)
    # Device 1 is the chief; the ranks are numbered by their devices all the same.
    common = {**_CHIEF, "CM_CHIEF_DEVICE": "1", "CM_WORKER_SIZE": "2"}
    job = Job(host, "nobody_comes", [common, common])
    try:
        waiting = job.said(0)
        assert (waiting["rank"], waiting["size"]) == (0, 2)
        assert "EI0006: Getting socket times out." in waiting["alone"]
        assert "Remote Rank [1] did not send the data in time" in waiting["alone"]
        assert (job.said(1)["rank"], job.said(1)["size"]) == (1, 2)
    finally:
        job.close()
        host.close()
