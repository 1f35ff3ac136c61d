"""Tables that are made: from lists, from this host, and from other tables."""

import pytest

from ascend_session import JobError, RankTable
from ascend_session.cluster.rank_table import TableDevice, TableServer
from ascend_session.hardware.device_report import Device, DeviceReport
from ascend_session.hardware.families import family
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from tests.cluster.rank_table.tables import parsed, v1_0, v1_2

TRAINING, A2 = family("910A"), family("910B")
NODES = {
    "node_0": {0: "192.168.1.8", 1: "192.168.1.9"},
    "node_1": {0: "192.168.2.8", 1: "192.168.2.9"},
}


def report(physical, addresses=True, product=A2, visible=None):
    """A host with these devices, of which some are visible, in this order."""
    order = physical if visible is None else visible
    return DeviceReport(
        tuple(
            Device(
                index=index,
                physical_id=PhysicalDeviceId(number),
                logical_id=LogicalDeviceId(index) if number in order else None,
                family=product,
                address=f"192.168.1.{number + 8}" if addresses else None,
            )
            for index, number in enumerate([*order, *(n for n in physical if n not in order)])
        )
    )


def test_a_table_of_lists_is_the_table_as_it_would_be_written_by_hand():
    assert RankTable.build(NODES) == parsed(v1_0())


def test_ranks_follow_the_order_in_which_devices_are_given():
    table = RankTable.build({"b": {3: "10.0.0.3", 1: "10.0.0.1"}, "a": {0: "10.0.1.0"}})
    assert [(d.server_id, int(d.device_id)) for d in table.devices] == [
        ("b", 3),
        ("b", 1),
        ("a", 0),
    ]


def test_one_server_may_be_without_addresses_and_several_addresses_are_a_list():
    assert RankTable.build({"a": {0: None, 1: None}}, family=A2).devices[1].device_ip == ()
    table = RankTable.build({"a": {0: ["10.0.0.1", "10.0.0.2"]}})
    assert table.devices[0].device_ip == ("10.0.0.1", "10.0.0.2")


def test_servers_with_superpods_make_version_1_2():
    made = RankTable.build(parsed(v1_2()).servers)
    assert made == parsed(v1_2())
    assert made.format == "1.2"


def test_ranks_of_given_servers_are_given_anew():
    device = TableDevice(17, PhysicalDeviceId(2), "x", ("10.0.0.1",))
    table = RankTable.build([TableServer("a", (device,))])
    assert [(d.rank_id, d.server_id) for d in table.devices] == [(0, "a")]


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ({}, "at least one server"),
        ([], "server_list"),
        ({"a": {}}, "Server 'a' has no devices."),
        ({"a": {-1: None}}, "-1 is not a physical device id"),
        ({"a": {"0": None}}, "'0' is not a physical device id"),
        ({"a": {True: None}}, "True is not a physical device id"),
        ({"a": {LogicalDeviceId(0): None}}, "LogicalDeviceId(0) is logical"),
        ({"a": {0: "x"}}, "server_list[0].device[0].device_ip: is the text 'x'"),
        ({"": {0: None}}, "server_list[0].server_id: is empty"),
        ({"a" * 65: {0: None}}, "longer than 64 bytes"),
        ({"a": {0: "10.0.0.1", 1: "10.0.0.1"}}, "device_ip: is 10.0.0.1, as is"),
        ({"a": {99: None}}, "is 99, but on any product HCCL takes 0 to 31"),
    ],
)
def test_what_hccl_would_refuse_is_not_made(servers, words):
    with pytest.raises(JobError) as caught:
        RankTable.build(servers)
    assert words in str(caught.value)


def test_the_training_series_takes_no_three_devices():
    with pytest.raises(JobError, match="has 1, 2, 4 or 8 devices of a server, not 3"):
        RankTable.build({"a": {n: f"10.0.0.{n}" for n in range(3)}}, family=TRAINING)


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ({3: "10.0.0.3", 4: "10.0.0.4"}, "must stay inside 0-3 or 4-7"),
        ({0: None, 1: "10.0.0.1"}, "the address of device 0 is not known"),
    ],
)
def test_what_the_manual_advises_against_on_the_training_series_has_to_be_asked_for(devices, words):
    with pytest.raises(JobError, match=words) as caught:
        RankTable.build({"a": devices}, family=TRAINING)
    assert caught.value.hint == "Give force to make it anyway."
    assert RankTable.build({"a": devices}, family=TRAINING, force=True).size == 2
    assert RankTable.build({"a": devices}, family=A2).size == 2


@pytest.mark.parametrize("force", [False, True])
def test_devices_that_hccl_refuses_are_not_made_with_force_either(force):
    four = {n: f"10.0.0.{n + 1}" for n in (0, 1, 2, 4)}
    with pytest.raises(JobError, match="HCCL takes only 0123, 4567"):
        RankTable.build({"a": four}, family=TRAINING, force=force)
    with pytest.raises(JobError, match="n and n \\+ 8"):
        RankTable.build({"a": {0: None, 1: None, 8: None}}, family=A2, force=force)
    bare = {name: dict.fromkeys(range(8)) for name in ("a", "b")}
    with pytest.raises(JobError, match="has addresses for none of its 8 devices"):
        RankTable.build(bare, family="A3", force=force)


def test_devices_of_an_a2_host_are_taken_as_the_environment_says(monkeypatch):
    host = report([0, 1, 8])
    monkeypatch.delenv("HCCL_INTRA_ROCE_ENABLE", raising=False)
    with pytest.raises(JobError, match="uses both 0-7 and 8-15"):
        RankTable.of_host(host)
    monkeypatch.setenv("HCCL_INTRA_ROCE_ENABLE", "1")
    assert RankTable.of_host(host).size == 3


@pytest.mark.parametrize("family", [None, "A3"])
def test_superpods_that_hccl_refuses_are_not_made(family):
    table = v1_2()
    table["server_list"][1]["device"][0]["super_device_id"] = "0"
    with pytest.raises(JobError, match="in the same superpod"):
        RankTable.build(parsed(table).servers, family=family)
    with pytest.raises(JobError, match="in the same superpod"):
        RankTable.merge([parsed(table)], family=family)


def test_a_host_is_a_server_of_its_name_with_the_devices_that_a_process_gets():
    table = RankTable.of_host(report(range(8), visible=[6, 2]), server_id="node_7")
    assert [(d.rank_id, int(d.device_id), d.device_ip) for d in table.devices] == [
        (0, 6, ("192.168.1.14",)),
        (1, 2, ("192.168.1.10",)),
    ]
    assert [server.server_id for server in table.servers] == ["node_7"]
    import socket

    named = RankTable.of_host(report([0]), host_ip="10.1.1.1").servers[0]
    assert (named.server_id, named.host_ip) == (socket.gethostname()[:64], "10.1.1.1")


def test_a_host_without_devices_makes_no_table():
    with pytest.raises(JobError, match="This machine has no Ascend device"):
        RankTable.of_host(DeviceReport(()))


def test_a_device_whose_physical_id_nobody_knows_makes_no_table():
    with pytest.raises(JobError, match="is not known"):
        RankTable.of_host([Device(0, None, LogicalDeviceId(0), npu_id=3, chip_id=0)])


def test_tables_of_servers_become_one_with_ranks_that_go_on():
    tables = [RankTable.build({name: devices}) for name, devices in NODES.items()]
    assert RankTable.merge(tables) == RankTable.build(NODES)
    assert RankTable.merge([*tables[::-1]]).devices[0].server_id == "node_1"


def test_merging_keeps_the_order_of_ranks():
    mixed = v1_0(servers=1, devices=3)
    for number, own in enumerate(mixed["server_list"][0]["device"]):
        own["rank_id"] = str(2 - number)
        own["device_ip"] = f"10.9.9.{number}"
    mixed["server_list"][0]["server_id"] = "x"
    table = RankTable.merge([parsed(mixed), parsed(v1_0(servers=1))])
    assert table.format == "1.0"
    assert [(d.server_id, int(d.device_id)) for d in table.devices] == [
        ("x", 2),
        ("x", 1),
        ("x", 0),
        ("node_0", 0),
        ("node_0", 1),
    ]


def test_superpods_stay_when_all_tables_have_them():
    assert RankTable.merge([parsed(v1_2())]) == parsed(v1_2())


def test_two_tables_of_one_server_are_not_merged():
    one = RankTable.build({"node_0": {0: "10.0.0.1"}})
    with pytest.raises(JobError, match="both have a server 'node_0'") as caught:
        RankTable.merge([one, one])
    assert "--server-id" in caught.value.hint


def test_a_table_that_is_not_completed_is_not_merged():
    with pytest.raises(JobError, match="not ready"):
        RankTable.merge([parsed({**v1_0(), "status": "initializing"})])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: RankTable.build("abc"), "servers takes a list of TableServer, not 'abc'"),
        (lambda: RankTable.build(5), "servers takes a list of TableServer, not 5"),
        (lambda: RankTable.build([None]), "servers takes a list of TableServer"),
        (lambda: RankTable.build({"a": [0, 1]}), r"Server 'a' takes {physical id: address}, not"),
        (lambda: RankTable.build({"a": {0: 5}}), "Device 0 of server 'a' takes its address as"),
        (lambda: RankTable.build({"a": {0: [5]}}), "Device 0 of server 'a' takes its address as"),
        (lambda: RankTable.build({"a": {0: b"1.2.3.4"}}), "Device 0 of server 'a' takes its"),
        (lambda: RankTable.build({"\ud800": {0: None}}), "can be encoded as UTF-8"),
        (lambda: RankTable.build(NODES, family=5), "5 is not a known product"),
        (lambda: RankTable.merge(RankTable.build(NODES)), "tables takes a list of RankTable, not"),
        (lambda: RankTable.merge("ab"), "tables takes a list of RankTable"),
        (lambda: RankTable.merge(["hccl.json"]), "tables takes a list of RankTable"),
        (lambda: RankTable.of_host("hccl.json"), "report takes a list of Device"),
        (lambda: RankTable.from_text(None), "the text of a table is a str"),
        (lambda: RankTable.from_text(b"{}"), "the text of a table is a str"),
        (lambda: RankTable.from_text('"\ud800"'), "can be encoded as UTF-8"),
    ],
)
def test_arguments_of_another_type_are_refused_in_words(call, words):
    with pytest.raises(JobError, match=words):
        call()


def test_servers_and_tables_may_come_from_any_iterable():
    table = parsed(v1_0())
    assert RankTable.build(iter(table.servers)) == table
    single = {name: RankTable.build({name: devices}) for name, devices in NODES.items()}
    assert RankTable.merge(single.values()) == RankTable.merge(iter(single.values())) == table
    assert RankTable.build({"a": {0: iter(["10.0.0.1"])}}).devices[0].device_ip == ("10.0.0.1",)


def test_nothing_to_merge_is_an_error():
    with pytest.raises(JobError, match="There are no rank tables"):
        RankTable.merge([])


def test_servers_without_addresses_make_a_table_on_a3_only(tmp_path):
    tables = [RankTable.build({name: {0: None}}) for name in ("a", "b")]
    for product in (TRAINING, A2):
        with pytest.raises(JobError, match="a job of several servers cannot work without it"):
            RankTable.merge(tables, family=product)
    path = str(tmp_path / "hccl.json")
    RankTable.merge(tables, family="A3").write(path)
    assert RankTable.read(path) == RankTable.merge(tables)
