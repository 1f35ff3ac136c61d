"""A table against the host it is used on."""

from dataclasses import replace

import pytest

from ascend_session.cluster.rank_table.host import check_host
from ascend_session.hardware.device_report import DeviceReport
from ascend_session.hardware.families import family
from ascend_session.ids import PhysicalDeviceId
from tests.cluster.rank_table.tables import device, parsed, v1_0, v1_2
from tests.cluster.rank_table.test_building import report


def said(table, host, opened=None, names=("node_0",)):
    findings = check_host(parsed(table), host, names, opened)
    return [(each.severity, each.place, each.message) for each in findings]


def problems(*arguments, **settings):
    return [one for one in said(*arguments, **settings) if one[0] == "error"]


def test_a_table_that_fits_its_host_is_told_which_server_it_is():
    assert said(v1_0(), report(range(8))) == [
        ("info", "", "This host is server 'node_0' of the table: node_0 is this host.")
    ]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["10.0.0.7"], "10.0.0.7 is this host"),
        ([], "192.168.1.8 is an address of a device of this host"),
    ],
)
def test_a_host_is_known_by_its_address_or_those_of_its_devices(names, reason):
    table = v1_0()
    table["server_list"][0]["host_ip"] = "10.0.0.7"
    table["server_list"][1]["host_ip"] = "10.0.0.8"
    [only] = said(table, report(range(8)), names=names)
    assert reason in only[2]


def test_the_only_server_of_a_table_is_this_one():
    table = v1_0(servers=1)
    for number in range(2):
        device(table, 0, number)["device_ip"] = f"10.0.0.{number}"
    [first, *others] = said(table, report([0, 1], addresses=False), names=[])
    assert "the table has one server only" in first[2] or others


def test_a_host_that_is_in_no_table_is_not_checked():
    [only] = said(v1_0(), report([0], addresses=False), names=["elsewhere"])
    assert only[0] == "not checked"
    assert "no server_id, host_ip or device_ip in it is one of this host's" in only[2]


def test_a_host_without_devices_is_not_checked():
    assert [one[0] for one in said(v1_0(), DeviceReport(()))] == ["not checked"]


def test_a_device_that_is_not_here_is_a_problem():
    assert problems(v1_0(), report([0, 2])) == [
        ("error", "server_list[0].device[1].device_id", "is 1, but this host has 0, 2.")
    ]


def test_a_device_that_is_hidden_is_a_problem():
    [only] = problems(v1_0(), report([0, 1], visible=[0]))
    assert only[1] == "server_list[0].device[1].device_id"
    assert "which no process here can open" in only[2]


def test_an_address_that_is_not_the_cards_is_a_problem_and_one_nobody_knows_is_not_checked():
    table = v1_0()
    device(table, 0, 1)["device_ip"] = "192.168.1.77"
    assert problems(table, report([0, 1])) == [
        (
            "error",
            "server_list[0].device[1].device_ip",
            "is 192.168.1.77, but device 1 has 192.168.1.9.",
        )
    ]
    unknown = said(table, report([0, 1], addresses=False))
    assert [one[0] for one in unknown] == ["not checked", "not checked", "info"]


def test_a_rank_opens_the_device_of_the_table():
    opened = {0: PhysicalDeviceId(1), 1: PhysicalDeviceId(0)}
    assert [one[1:] for one in problems(v1_0(), report([0, 1]), opened)] == [
        (
            "server_list[0].device[0].device_id",
            "is 0, but rank 0 opens the physical device 1.",
        ),
        (
            "server_list[0].device[1].device_id",
            "is 1, but rank 1 opens the physical device 0.",
        ),
    ]
    assert problems(v1_0(), report([0, 1]), {0: PhysicalDeviceId(0)}) == []


def test_a_rank_that_the_table_does_not_have_is_a_problem():
    [only] = problems(v1_0(), report([0, 1]), {4: PhysicalDeviceId(0)})
    assert only[2] == "Rank 4 would run, but the table has ranks 0 to 3."


def answering(host, address):
    """A host whose hccn_tool says this of each device; None does not answer."""
    return host.with_tools(lambda physical: address)


@pytest.mark.parametrize(
    ("address", "severity", "words"),
    [
        ("192.168.1.77", None, ""),
        ("10.9.9.9", "error", "but device 1 has 10.9.9.9, as hccn_tool says."),
        (None, "warning", "but device 1 has 192.168.1.9, as /etc/hccn.conf says; hccn_tool does"),
    ],
)
def test_the_tool_is_asked_before_the_files_address_of_a_card_counts(address, severity, words):
    table = v1_0()
    device(table, 0, 1)["device_ip"] = "192.168.1.77"
    found = [one for one in said(table, answering(report([0, 1]), address)) if one[0] != "info"]
    assert [one[0] for one in found] == ([severity] if severity else [])
    assert all(words in one[2] for one in found)


def test_addresses_of_two_kinds_are_not_compared():
    table = v1_0()
    for server in range(2):
        for number in range(2):
            device(table, server, number)["device_ip"] = f"fd00::{server}:{number}"
    found = said(table, report([0, 1]))
    assert [one[0] for one in found] == ["not checked", "not checked", "info"]
    assert "of device 0 only 192.168.1.8 is known, which is of the other kind" in found[0][2]


@pytest.mark.parametrize(
    ("product", "numbers", "severity"),
    [
        ("910B", [0, 1], "warning"),
        ("910B", [0, 8], "error"),
        ("910C", [0, 8], "warning"),
        ("910A", [0, 1], "error"),
    ],
)
def test_inside_a_mesh_or_a_superpod_addresses_of_cards_are_not_used(product, numbers, severity):
    table = v1_0(servers=1)
    for place, number in enumerate(numbers):
        device(table, 0, place).update(device_id=str(number), device_ip=f"10.0.0.{number}")
    found = said(table, report(numbers, product=family(product)))
    assert [one[0] for one in found if "10.0.0." in one[2]] == [severity] * 2


@pytest.mark.parametrize(("servers", "severity"), [(2, "warning"), (4, "error")])
def test_superpods_meet_at_the_addresses_of_cards_and_servers_of_one_do_not(servers, severity):
    table = v1_2(servers=servers)
    device(table, 0, 1)["device_ip"] = "10.0.0.1"
    found = said(table, report(range(4), product=family("910C")))
    assert [one[0] for one in found if "10.0.0.1" in one[2]] == [severity]


def test_devices_of_another_pod_on_the_host_need_not_be_seen_in_this_one():
    opened = {0: PhysicalDeviceId(0)}
    assert problems(v1_0(), report([0]), opened) == []
    assert problems(v1_0(), report([0]))


@pytest.mark.parametrize(("own", "count"), [("0", 0), ("7", 1)])
def test_the_number_in_a_superpod_is_that_of_the_card(own, count):
    a3 = family("910C")
    devices = [replace(each, npu_id=0, chip_id=0) for each in report([0], product=a3)]
    host = DeviceReport(tuple(devices)).with_tools(
        lambda physical: None, lambda npu, chip: (own, "0")
    )
    errors = problems(v1_2(devices=1), host, names=["node_0"])
    assert [one[1] for one in errors] == ["server_list[0].device[0].super_device_id"] * count
