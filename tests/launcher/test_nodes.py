"""One launcher on each of several nodes: what each plans, and what cannot be one job."""

import json
import socket
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ascend_session.cluster.kubernetes import MOUNTED
from ascend_session.cluster.schedulers import CHOICE, IDENTITY_VARIABLES
from ascend_session.cluster.variables import RENDEZVOUS
from ascend_session.errors import AscendError, ConfigError, DeviceError, JobError
from ascend_session.launcher.plan.plan import Plan
from tests.fake_host import a2_chips, npu_smi_answers
from tests.launcher.jobs import Bench, bench
from tests.schedulers.situations import recorded

__all__ = ["bench"]

TWO: Dict[str, Any] = {"nnodes": 2, "processes": 4}


def places(made: Plan) -> List[List[str]]:
    """Who each rank is told that it is."""
    names = ("RANK_ID", "RANK_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "ASCEND_DEVICE_ID")
    return [[rank.environment[name] for name in names] for rank in made.ranks]


def table(servers: Dict[str, Dict[int, str]]) -> str:
    """A table of version 1.0; ``{server: {device: address}}``, ranks in that order."""
    found, rank = [], 0
    for server, devices in servers.items():
        listed = []
        for device, address in devices.items():
            listed.append({"device_id": str(device), "device_ip": address, "rank_id": str(rank)})
            rank += 1
        found.append({"server_id": server, "device": listed})
    kind = {"version": "1.0", "status": "completed", "server_count": str(len(found))}
    return json.dumps({**kind, "server_list": found})


def uneven(own: int) -> str:
    """Three devices on one server and one on the other; this host is the ``own``-th."""
    names = ["192.0.2.201", "192.0.2.202"]
    names[own] = socket.gethostname()
    first = {device: f"192.168.1.{device + 1}" for device in (2, 0, 1)}
    return table({names[0]: first, names[1]: {3: "192.168.2.1"}})


NOBODYS = table(
    {
        "node_0": {0: "192.168.1.1", 1: "192.168.1.2"},
        "node_1": {0: "192.168.2.1", 1: "192.168.2.2"},
    }
)
"""Two servers, neither of which this host is."""


def test_ranks_count_over_nodes_and_devices_on_each(bench: Bench) -> None:
    made = [bench.plan(node_rank=number, **TWO) for number in (0, 1)]
    assert places(made[0]) == [[str(n), "8", str(n), "4", str(n)] for n in range(4)]
    assert places(made[1]) == [[str(n + 4), "8", str(n), "4", str(n)] for n in range(4)]
    assert len({rank.environment[RENDEZVOUS] for plan in made for rank in plan.ranks}) == 1
    assert made[0].job_id == made[1].job_id == "2_nodes_of_train_py"


def test_folders_and_names_are_those_of_the_whole_job(bench: Bench) -> None:
    made = bench.plan(node_rank=1, show="0,5", **TWO)
    assert [rank.rank for rank in made.ranks] == [4, 5, 6, 7]
    assert made.ranks[2].folder.endswith("/attempt_1/rank_6")
    assert made.run == f"{made.job_id}.node_1"
    assert made.shown == (5,)
    found = made.as_dict()
    assert (found["size"], found["nodes"], found["node"]) == (8, 2, 1)
    assert made.notes[:2] == (
        "This is node rank 1 (the second of 2), as asked: ranks 4 to 7 of 8.",
        f"The 2 nodes are rehearsed on this machine, {socket.gethostname()}: on the stub, "
        "launchers of other machines cannot join.",
    )


def test_both_halves_of_an_a2_have_the_same_devices_only_in_a_job_on_one_server(
    bench: Bench,
) -> None:
    bench.nodes(range(16))
    bench.host.npu_smi(npu_smi_answers("910B", a2_chips(16)))
    own = {device: f"192.168.1.{device + 1}" for device in (0, 1, 8)}
    for others in ({}, {"192.0.2.202": {0: "192.168.2.1"}}):
        bench.table.write_text(table({socket.gethostname(): own, **others}))
        if others:
            made = bench.with_table(nnodes=2, node_rank=0)
            assert [int(rank.device_id) for rank in made.ranks] == [0, 1, 8]
        else:
            with pytest.raises(DeviceError, match=r"n and n \+ 8"):
                bench.with_table(devices="0,1,8")


def test_a_rank_that_no_node_has_cannot_be_shown(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="no rank 8, the job has 8"):
        bench.plan(node_rank=1, show="8", **TWO)


def test_one_node_is_a_launch_as_ever(bench: Bench) -> None:
    alone = bench.plan(processes=2, job_id="j").as_dict()
    asked = bench.plan(processes=2, job_id="j", nnodes=1, node_rank=0).as_dict()
    for one in (alone, asked):
        for rank in one["ranks"]:
            del rank["changed"][RENDEZVOUS]
    assert alone == asked
    assert alone["run"] == "j"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"nnodes": 2}, "number of this node is missing"),
        ({"node_rank": 0}, "node_rank=0 is given, but the number of nodes is not"),
        ({"nnodes": 2, "node_rank": 2}, "node_rank=2 is too large: the 2 nodes are 0 to 1"),
        ({"nnodes": 0}, "nnodes takes a number of nodes, 1 to 10000, not 0"),
        ({"nnodes": 2, "node_rank": -1}, "node_rank takes the number of a node"),
        (
            {"nnodes": 2, "node_rank": 1, "max_restarts": 1},
            "max_restarts=1 is given, but the job has 2 nodes",
        ),
    ],
)
def test_what_cannot_be_one_job_is_refused(bench: Bench, asked: Any, said: str) -> None:
    with pytest.raises(AscendError, match=said):
        bench.plan(processes=2, **asked)


def test_a_restart_of_several_nodes_is_refused_with_the_way_to_do_it(bench: Bench) -> None:
    with pytest.raises(AscendError) as caught:
        bench.plan(processes=2, nnodes=2, node_rank=1, max_restarts=1)
    assert "guide clusters#when-one-node-fails" in str(caught.value.hint)


def test_a_step_of_one_task_a_node_says_which_node_this_is(bench: Bench) -> None:
    bench.environ.update(recorded("step, one task a node"), SLURM_STEP_NODELIST="localhost,x")
    made = bench.plan(processes=4)
    assert places(made)[0] == ["4", "8", "0", "4", "0"]
    assert made.job_id == "slurm_1_0"
    assert made.notes[0].startswith(
        "This is node rank 1 (the second of 2), as Slurm, step 1.0 says (SLURM_STEP_NUM_TASKS=2, "
        "SLURM_PROCID=1): ranks 4 to"
    )


def test_ranks_do_not_take_the_launchers_place_for_theirs(bench: Bench) -> None:
    bench.environ.update(recorded("step, one task a node"))
    made = bench.plan(processes=2)
    assert not set(made.ranks[0].environment) & set(IDENTITY_VARIABLES)
    assert "it describes the launcher" in made.removed["SLURM_PROCID"]
    assert made.ranks[0].environment["SLURM_JOB_ID"] == "1"


@pytest.mark.parametrize(
    ("situation", "source"),
    [
        ("step, four tasks a node", "Slurm has started 8 launchers"),
        ("step, uneven", "Slurm has started 5 launchers"),
        ("mpirun", "Open MPI has started 8 launchers"),
    ],
)
def test_several_launchers_on_a_node_are_refused(bench: Bench, situation: str, source: str) -> None:
    bench.environ.update(recorded(situation))
    with pytest.raises(JobError, match=f"{source}, several of them on one node") as refused:
        bench.plan(processes=2)
    assert "Start one on each node: " in str(refused.value.hint)
    # Without it each launcher, with all its ranks, gets one core.
    assert ("mpirun --bind-to none" in str(refused.value.hint)) is (situation == "mpirun")
    bench.environ[CHOICE] = "none"
    assert bench.plan(processes=2).nodes.count == 1


@pytest.mark.parametrize("asked", [{"nnodes": 3, "node_rank": 1}, {"nnodes": 2, "node_rank": 0}])
def test_a_flag_and_a_scheduler_that_differ_are_refused(bench: Bench, asked: Any) -> None:
    bench.environ.update(recorded("step, one task a node"))
    with pytest.raises(JobError, match="Conflicting facts about the nodes of this job") as refused:
        bench.plan(processes=2, **asked)
    assert "Slurm, step 1.0" in refused.value.message
    assert "the options of this launch" in refused.value.message
    bench.environ[CHOICE] = "none"
    bench.plan(processes=2, **asked)


@pytest.mark.parametrize("situation", ["allocation", "batch script"])
def test_a_launch_that_leaves_nodes_of_the_allocation_out_says_so(
    bench: Bench, situation: str
) -> None:
    bench.environ.update(recorded(situation))
    made = bench.plan(processes=2)
    assert made.nodes.count == 1
    assert made.notes[0].startswith("Slurm's job has 2 nodes, and this launch uses one of them")


class TestTables:
    @pytest.mark.parametrize("own", [0, 1])
    def test_a_table_tells_each_node_its_ranks_and_devices(self, bench: Bench, own: int) -> None:
        bench.nodes(range(8))
        bench.table.write_text(uneven(own))
        made = bench.with_table()
        devices = [rank.environment["ASCEND_DEVICE_ID"] for rank in made.ranks]
        assert devices == (["2", "0", "1"] if own == 0 else ["3"])
        assert [rank.rank for rank in made.ranks] == ([0, 1, 2] if own == 0 else [3])
        assert {rank.environment["RANK_SIZE"] for rank in made.ranks} == {"4"}
        assert f"as the rank table {bench.table} says" in made.notes[0]
        assert f"{socket.gethostname()} is a name or address of this host" in made.notes[0]

    def test_a_flag_says_which_node_of_a_table_that_does_not_tell(self, bench: Bench) -> None:
        bench.nodes(range(8))
        devices = {device: f"192.168.1.{device + 1}" for device in range(2)}
        others = {device: f"192.168.2.{device + 1}" for device in range(2)}
        bench.table.write_text(table({"node_0": devices, "node_1": others}))
        with pytest.raises(ConfigError, match="number of this node is missing"):
            bench.with_table()
        made = bench.with_table(nnodes=2, node_rank=1)
        assert places(made) == [["2", "4", "0", "2", "0"], ["3", "4", "1", "2", "1"]]

    @pytest.mark.parametrize("number", [0, 1])
    def test_the_number_of_nodes_is_that_of_the_table(self, bench: Bench, number: int) -> None:
        bench.nodes(range(8))
        bench.table.write_text(NOBODYS)
        made = bench.with_table(node_rank=number)
        assert places(made)[0] == [str(2 * number), "4", "0", "2", "0"]
        assert (made.nodes.count, made.nodes.rank) == (2, number)

    @pytest.mark.parametrize("has_devices", [True, False])
    def test_a_number_that_no_server_of_the_table_has_is_refused(
        self, bench: Bench, has_devices: bool
    ) -> None:
        bench.nodes(range(8 if has_devices else 0))
        bench.table.write_text(NOBODYS)
        with pytest.raises(ConfigError, match="node_rank=2 is too large: the 2 nodes are 0 to 1"):
            bench.with_table(node_rank=2)
        bench.table.write_text(table({"node_0": {0: "192.168.1.1", 1: "192.168.1.2"}}))
        assert bench.with_table(node_rank=0).nodes.count == 1
        with pytest.raises(ConfigError, match=r"has one node \(servers=1\), which is 0"):
            bench.with_table(node_rank=1)

    def test_a_broken_table_is_named_before_nodes_are_asked_for(self, bench: Bench) -> None:
        bench.table.write_text(NOBODYS.replace("192.168.1.2", "192.168.1.999"))
        with pytest.raises(JobError) as refused:
            bench.with_table(node_rank=1)
        assert "'192.168.1.999', no IPv4 or IPv6 address" in str(refused.value)
        assert "nnodes" not in str(refused.value)

    def test_an_inherited_table_of_others_is_said_to_be_the_reason(self, bench: Bench) -> None:
        bench.nodes(range(2))
        bench.table.write_text(table({"node_0": {0: "192.168.1.1"}, "node_1": {0: "192.168.2.1"}}))
        bench.environ["RANK_TABLE_FILE"] = str(bench.table)
        with pytest.raises(ConfigError) as refused:
            bench.plan(processes=2)
        said = str(refused.value)
        assert f"2 nodes (servers=2, by the rank table {bench.table} that RANK_TABLE_FILE" in said
        assert "on this machine alone, unset RANK_TABLE_FILE" in said

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            (
                {"nnodes": 3, "node_rank": 0},
                r"nnodes=3 \(the options of this launch\) and servers=2",
            ),
            (
                {"nnodes": 2, "node_rank": 1},
                r"node_rank=1 \(the options of this launch\) and .* server=0",
            ),
            ({"processes": 2, "devices": "0,1"}, "2 ranks would run on this node, but the rank"),
            ({"processes": 2}, "2 ranks would run on this node, but the rank table gives"),
            ({"devices": "0,1,2"}, r"physical devices \[0, 1, 2\], but the rank table"),
        ],
    )
    def test_what_a_table_contradicts_is_refused(self, bench: Bench, asked: Any, said: str) -> None:
        bench.nodes(range(8))
        bench.table.write_text(uneven(0))
        with pytest.raises(JobError, match=said):
            bench.with_table(**asked)

    def test_devices_that_are_not_here_are_refused(self, bench: Bench) -> None:
        bench.nodes([0, 1])
        bench.table.write_text(uneven(0))
        with pytest.raises(JobError, match="the devices 2, which this process does not get"):
            bench.with_table()

    def test_devices_need_no_place_to_meet(self, bench: Bench) -> None:
        bench.nodes(range(8))
        bench.table.write_text(uneven(1))
        bench.environ.update(recorded("step, one task a node"))  # on hosts that have no address
        made = bench.with_table()
        assert places(made) == [["3", "4", "0", "1", "3"]]
        assert made.job_id == "slurm_1_0"

    def test_several_nodes_of_devices_need_a_table(self, bench: Bench) -> None:
        bench.nodes(range(2))
        with pytest.raises(JobError, match="A job of 4 devices needs rank_table or"):
            bench.plan(**{**TWO, "processes": 2}, node_rank=0)
        with pytest.raises(JobError, match="finds a chief for the ranks of one node only"):
            bench.plan(**{**TWO, "processes": 2}, node_rank=0, no_rank_table=True)

    def test_a_table_that_is_not_completed_is_refused(self, bench: Bench) -> None:
        bench.nodes(range(8))
        bench.table.write_text(uneven(0).replace("completed", "initializing"))
        with pytest.raises(JobError, match="its status is 'initializing'") as refused:
            bench.with_table(nnodes=2, node_rank=0)
        assert "ranktable check --wait 10m" in str(refused.value.hint)

    def test_a_table_of_several_servers_that_is_refused_is_no_job_of_one(
        self, bench: Bench
    ) -> None:
        bench.nodes(range(8))
        whole = json.loads(uneven(0))
        whole["server_list"][1]["device"][0]["rank_id"] = "0"
        bench.table.write_text(json.dumps(whole))
        with pytest.raises(JobError, match="is 0, which 2 devices have"):
            bench.with_table()
        whole["server_list"][1]["device"][0]["rank_id"] = 3
        bench.table.write_text(json.dumps(whole))
        with pytest.raises(JobError, match="HCCL takes texts only"):
            bench.with_table()

    def test_superpods_need_no_addresses_of_devices(self, bench: Bench) -> None:
        bench.nodes(range(8))
        whole = json.loads(uneven(0))
        for server in whole["server_list"]:
            for device in server["device"]:
                del device["device_ip"]
        bench.table.write_text(json.dumps(whole))
        assert len(bench.with_table().ranks) == 3
        assert bench.with_table(nnodes=2, node_rank=0).ranks[0].environment["RANK_SIZE"] == "4"

    def test_a_table_of_other_machines_means_nothing_on_the_stub(self, bench: Bench) -> None:
        bench.table.write_text(uneven(0))
        bench.environ["RANK_TABLE_FILE"] = str(bench.table)
        made = bench.plan(processes=2)
        assert made.nodes.count == 1
        [note] = made.notes
        assert note.startswith(f"RANK_TABLE_FILE={str(bench.table)!r} is ignored: on the stub the")
        assert note.endswith("Give rank_table to go by the table.")

    def test_one_rank_on_a_device_says_that_it_goes_without_the_table(self, bench: Bench) -> None:
        bench.nodes(range(2))
        bench.table.write_text(table({"node_0": {0: "192.168.1.1"}}))
        bench.environ["RANK_TABLE_FILE"] = str(bench.table)
        made = bench.plan(processes=1)
        assert "is ignored: this launch is one rank alone" in made.notes[0]
        assert "RANK_TABLE_FILE" not in made.ranks[0].environment

    def test_a_table_that_is_followed_is_not_said_to_be_ignored(self, bench: Bench) -> None:
        bench.nodes(range(8))
        bench.table.write_text(uneven(0))
        bench.environ["RANK_TABLE_FILE"] = str(bench.table)
        made = bench.plan()
        assert made.size == 4
        assert not any("ignored" in note for note in made.notes)

    @pytest.mark.parametrize("layout", [{}, {"deploy_mode": "lab"}])
    def test_a_table_of_a_former_layout_is_left_to_hccl(
        self, bench: Bench, layout: Dict[str, str]
    ) -> None:
        bench.nodes(range(8))
        bench.table.write_text(json.dumps({"status": "completed", "group_list": [], **layout}))
        alone = bench.with_table(processes=2)
        assert (alone.nodes.count, alone.size) == (1, 2)
        assert alone.ranks[0].environment["RANK_TABLE_FILE"] == str(bench.table)
        second = bench.with_table(processes=2, nnodes=2, node_rank=1)
        assert [rank.rank for rank in second.ranks] == [2, 3]


class TestKubernetes:
    @pytest.fixture
    def pod(self, bench: Bench) -> Bench:
        """A pod whose controller has mounted a table of two hosts."""
        mounted = Path(bench.environ["ASCEND_SESSION_HOST_ROOT"], MOUNTED.lstrip("/"))
        mounted.parent.mkdir(parents=True)
        devices = {device: f"192.168.1.{device + 1}" for device in range(2)}
        others = {device: f"192.168.2.{device + 1}" for device in range(2)}
        mounted.write_text(table({"192.0.2.201": devices, "192.0.2.202": others}))
        bench.environ.update(KUBERNETES_SERVICE_HOST="10.0.0.1", XDL_IP="192.0.2.202")
        return bench

    def test_the_mounted_table_is_the_jobs(self, pod: Bench) -> None:
        pod.nodes(range(2))
        made = pod.plan()
        assert places(made) == [["2", "4", "0", "2", "0"], ["3", "4", "1", "2", "1"]]
        assert made.ranks[0].environment["RANK_TABLE_FILE"].endswith(MOUNTED)
        assert "192.0.2.202 is XDL_IP, server=1" in made.notes[0]

    def test_both_pods_come_to_the_same_place_and_job(self, pod: Bench) -> None:
        devices = {device: f"192.168.1.{device + 1}" for device in range(2)}
        others = {device: f"192.168.2.{device + 1}" for device in range(2)}
        mounted = Path(pod.environ["ASCEND_SESSION_HOST_ROOT"], MOUNTED.lstrip("/"))
        mounted.write_text(table({"127.0.0.1": devices, "192.0.2.202": others}))
        other = pod.plan()
        pod.environ["XDL_IP"] = "127.0.0.1"
        first = pod.plan()
        assert first.nodes.rank == 0
        assert first.job_id == other.job_id

    def test_servers_that_are_other_machines_are_refused_with_both_names(
        self, bench: Bench
    ) -> None:
        devices = {device: f"192.168.1.{device + 1}" for device in range(2)}
        others = {device: f"192.168.2.{device + 1}" for device in range(2)}
        bench.table.write_text(table({"192.0.2.201": devices, "192.0.2.202": others}))
        with pytest.raises(JobError, match=r"Rank 0 of this job is on 192\.0\.2\.201") as refused:
            bench.with_table(nnodes=2, node_rank=1)
        assert f"this machine is {socket.gethostname()};" in refused.value.message
        assert "start all ranks on one machine" in str(refused.value.hint)

    def test_a_mounted_table_of_one_host_says_how_many_ranks_there_are(self, pod: Bench) -> None:
        mounted = Path(pod.environ["ASCEND_SESSION_HOST_ROOT"], MOUNTED.lstrip("/"))
        mounted.write_text(table({"192.0.2.201": {0: "192.168.1.1", 1: "192.168.1.2"}}))
        made = pod.plan()
        assert (made.nodes.count, made.size, made.backend.name) == (1, 2, "stub")

    def test_a_table_of_one_server_that_is_given_counts_on_the_stub(self, bench: Bench) -> None:
        bench.table.write_text(table({"192.0.2.201": {0: "192.168.1.1", 1: "192.168.1.2"}}))
        assert bench.with_table().size == 2
        with pytest.raises(JobError, match="3 ranks would run on this node, but the rank table"):
            bench.with_table(processes=3)

    def test_a_pod_that_the_table_does_not_know_is_refused(self, pod: Bench) -> None:
        pod.environ["XDL_IP"] = "192.0.2.209"
        with pytest.raises(ConfigError, match="number of this node is missing"):
            pod.plan()

    def test_a_mounted_table_of_a_former_layout_needs_the_number_of_nodes(self, pod: Bench) -> None:
        mounted = Path(pod.environ["ASCEND_SESSION_HOST_ROOT"], MOUNTED.lstrip("/"))
        mounted.write_text(json.dumps({"status": "completed", "group_list": []}))
        with pytest.raises(JobError, match="the former layout 'template 2'"):
            pod.plan(processes=2)
        assert pod.plan(processes=2, nnodes=2, node_rank=1).size == 4
