"""Which format a table has, what it says, and what is wrong with its fields."""

import json

import pytest

from ascend_session import JobError, RankTable, UnsupportedError
from tests.cluster.rank_table.tables import device, lab, parsed, template_2, v1_0, v1_2


def refused(table, name="t.json"):
    with pytest.raises(JobError) as caught:
        RankTable.from_text(table if isinstance(table, str) else json.dumps(table), name)
    return caught.value


def ranks(table):
    return [(d.rank_id, d.server_id, int(d.device_id), d.device_ip) for d in table.devices]


def test_the_removed_name_of_a_pod_is_refused_in_a_sentence():
    with pytest.raises(UnsupportedError, match=r"^TableDevice.pod_name has been removed: "):
        _ = parsed(v1_0()).devices[0].pod_name


def test_version_1_0_says_who_has_which_device():
    table = parsed(v1_0())
    assert (table.format, table.status, table.size, len(table.servers)) == (
        "1.0",
        "completed",
        4,
        2,
    )
    assert ranks(table) == [
        (0, "node_0", 0, ("192.168.1.8",)),
        (1, "node_0", 1, ("192.168.1.9",)),
        (2, "node_1", 0, ("192.168.2.8",)),
        (3, "node_1", 1, ("192.168.2.9",)),
    ]
    assert table.findings() == []


def test_the_manuals_example_of_version_1_2_has_superpods():
    table = parsed(v1_2())
    assert table.format == "1.2"
    assert [server.super_pod_id for server in table.servers] == ["0", "0", "1", "1"]
    last = table.devices[-1]
    assert (last.super_device_id, last.host_ip, last.device_port) == ("7", "172.16.0.103", 16666)
    assert (last.backup_device_ip, last.backup_device_port) == (("192.168.4.10",), 16667)
    assert table.findings("A3") == []


@pytest.mark.parametrize(("made", "layout"), [(lab, "lab"), (template_2, "template 2")])
def test_former_layouts_are_named_and_not_checked(made, layout):
    error = refused(made())
    assert f"a group_list and no version: the former layout {layout!r}" in error.message
    assert [one.severity for one in error.findings] == ["not checked"]
    waiting = RankTable.from_text(json.dumps({**made(), "status": "initializing"}))
    assert waiting.status == "initializing"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.1", "has version 1.1, which is for jobs of processors and host CPUs together."),
        ("2.0", "has version 2.0, which is for A5 (950), with rank_list and a topology file."),
        ("3", "version is the text '3', which HCCL does not accept."),
        ("", "version is the text '', which HCCL does not accept."),
        (1.0, "version is the number 1.0, which HCCL does not accept."),
    ],
)
def test_other_versions_are_refused_by_name(version, said):
    error = refused({**v1_0(), "version": version})
    assert said in error.message
    assert "Versions 1.0 and 1.2 are read here" in error.message


def test_a_table_without_its_version_is_told_so():
    table = v1_0()
    del table["version"]
    assert refused(table).hint == 'Write "version": "1.0".'


def test_numbers_where_hccl_takes_texts_are_named_with_their_paths_all_at_once():
    table = v1_0()
    table["server_count"] = 2
    device(table, 1, 1)["rank_id"] = 3
    device(table, 0, 0)["device_id"] = 0
    error = refused(table)
    assert len(error.findings) == 3
    assert str(error) == (
        "t.json: 3 problems:\n"
        '  1. server_count: is the number 2; HCCL takes texts only. Write "server_count": "2".\n'
        "  2. server_list[0].device[0].device_id: is the number 0; HCCL takes texts only. "
        'Write "device_id": "0".\n'
        "  3. server_list[1].device[1].rank_id: is the number 3; HCCL takes texts only. "
        'Write "rank_id": "3".'
    )


def test_fields_and_rules_are_told_together():
    table = v1_0()
    table["status"] = "complete"
    device(table, 0, 0)["rank_id"] = 0
    device(table, 1, 0)["device_ip"] = device(table, 0, 0)["device_ip"]
    places = [one.place for one in refused(table).findings]
    assert places == [
        "server_list[0].device[0].rank_id",
        "status",
        "server_list[1].device[0].device_ip",
    ]


@pytest.mark.parametrize("key", ["rank_id", "device_id"])
@pytest.mark.parametrize(
    "value", [None, True, [], {}, -1, 1.5, "", "x", "-1", "4294967296", "9" * 99]
)
def test_what_is_no_number_is_refused(key, value):
    table = v1_0()
    device(table, 0, 1)[key] = value
    assert f"server_list[0].device[1].{key}: is " in refused(table).message


@pytest.mark.parametrize(
    ("text", "read"),
    [("1abc", 1), (" 1", 1), ("+1", 1), ("\t01 ", 1), ("-18446744073709551615", 1), ("1.9", 1)],
)
def test_a_number_that_hccl_reads_in_its_own_way_is_a_warning(text, read):
    table = v1_0()
    device(table, 0, 1)["rank_id"] = text
    found = parsed(table)
    assert found.devices[1].rank_id == read
    [only] = found.findings()
    assert (only.severity, only.place) == ("warning", "server_list[0].device[1].rank_id")
    assert f"which HCCL reads as {read}." in only.message


def test_leading_zeros_are_numbers():
    table = v1_0()
    device(table, 0, 1)["rank_id"] = "0001"
    assert parsed(table).findings() == []


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("status", "status: is missing"),
        ("server_list", "server_list: is missing"),
    ],
)
def test_what_is_missing_is_named(key, said):
    table = v1_0()
    del table[key]
    assert said in refused(table).message


@pytest.mark.parametrize("value", [[], {}, "x", None, 3, [None], ["x"], [[]]])
@pytest.mark.parametrize("key", ["server_list", "device"])
def test_a_list_of_objects_is_nothing_else(key, value):
    table = v1_0()
    holder = table if key == "server_list" else table["server_list"][1]
    holder[key] = value
    message = refused(table).message
    assert key in message
    assert "is " in message


@pytest.mark.parametrize(
    "address", ["x", "192.168.1", "192.168.1.256", "192.168.001.1", "a,b", ",192.168.1.1", "%eth0"]
)
def test_what_is_no_address_is_refused(address):
    table = v1_0()
    device(table, 1, 0)["device_ip"] = address
    assert "server_list[1].device[0].device_ip: is " in refused(table).message


@pytest.mark.parametrize("made", [v1_0, v1_2])
@pytest.mark.parametrize("address", ["0.0.0.0", "0.0.0.0%eth0"])
def test_an_address_that_stands_for_none_is_refused_in_every_format(made, address):
    text = json.dumps(made()).replace('device_ip": "192.168.1.9"', f'device_ip": "{address}"')
    with pytest.raises(JobError, match=r"HCCL takes 0\.0\.0\.0 for no address") as caught:
        RankTable.from_text(text)
    assert len(caught.value.findings) == len({one.place for one in caught.value.findings})


def test_an_address_of_a_server_that_stands_for_none_counts_for_none():
    table = v1_0()
    for server in table["server_list"]:
        server["host_ip"] = "0.0.0.0"
        for own in server["device"]:
            del own["device_ip"]
    assert len(parsed(table).problems("910A")) == 4
    single = v1_0(servers=1)
    single["server_list"][0]["host_ip"] = "0.0.0.0"
    [only] = parsed(single).findings("910A")
    assert (only.severity, only.place) == ("warning", "server_list[0].host_ip")


@pytest.mark.parametrize("wrong", ["192.168.101.999", 5, "", ["10.0.0.1"]])
def test_a_wrong_address_is_one_error(wrong):
    table = v1_0()
    device(table, 1, 0)["device_ip"] = wrong
    try:
        found = parsed(table).findings("910A")
    except JobError as error:
        found = error.findings
    assert [one.place for one in found] == ["server_list[1].device[0].device_ip"]


@pytest.mark.parametrize("product", [None, "910A", "A2", "A3"])
def test_a_wrong_address_is_one_error_on_servers_of_eight_devices_too(product):
    table = v1_0(servers=2, devices=8)
    device(table, 1, 3)["device_ip"] = "192.168.101.999"
    with pytest.raises(JobError) as refused:
        RankTable.from_text(json.dumps(table), family=product)
    assert [one.place for one in refused.value.findings] == ["server_list[1].device[3].device_ip"]
    assert str(refused.value).count("192.168.101.999") == 1


@pytest.mark.parametrize("address", ["192.168.9.1", "192.168.9.1,", "fe80::1%eth0"])
def test_what_hccl_takes_for_an_address_is_taken(address):
    table = v1_0(servers=1, devices=1)
    device(table)["device_ip"] = address
    assert parsed(table).devices[0].device_ip == (address.rstrip(","),)


@pytest.mark.parametrize("port", ["0", "65536", "x", 16666])
def test_what_is_no_port_is_refused(port):
    for key in ("device_port", "host_port"):
        table = v1_0()
        device(table)[key] = port
        assert f"server_list[0].device[0].{key}: is " in refused(table).message


def test_the_backup_which_hccl_seldom_reads_is_a_warning():
    table = v1_2()
    device(table)["backup_device_port"] = "0"
    device(table)["backup_device_ip"] = "x"
    severities = {one.severity for one in parsed(table).findings("A3")}
    assert severities == {"warning"}


def test_the_virtual_port_is_read_only_beside_a_port():
    table = v1_0()
    device(table)["device_vnic_port"] = "0"
    assert [one.severity for one in parsed(table).findings()] == ["warning"]
    device(table)["device_port"] = "16666"
    assert "device_vnic_port: is 0" in refused(table).message


def test_server_ids_are_texts_of_1_to_64_bytes():
    for server_id, said in (("", "is empty"), ("é" * 33, "longer than 64 bytes"), (3, "number 3")):
        table = v1_0()
        table["server_list"][1]["server_id"] = server_id
        assert said in refused(table).message
    table["server_list"][1]["server_id"] = "é" * 32
    assert parsed(table).servers[1].server_id == "é" * 32


def test_keys_of_other_tools_are_left_out_with_a_word_and_slips_with_a_hint():
    table = v1_0(servers=1, devices=1)
    table["server_list"][0]["container_ip"] = "10.0.0.1"
    device(table)["devise_port"] = "16666"
    found = {one.place: one for one in parsed(table).findings()}
    assert found["server_list[0].container_ip"].severity == "info"
    slip = found["server_list[0].device[0].devise_port"]
    assert (slip.severity, slip.hint) == ("warning", "Did you mean 'device_port'?")


def test_superpods_in_version_1_0_are_not_read():
    table = v1_2()
    table["version"] = "1.0"
    found = parsed(table)
    assert {server.super_pod_id for server in found.servers} == {None}
    assert found.problems("A3") == []


def test_the_same_fault_in_a_large_table_is_told_some_times_and_then_counted():
    table = v1_0(servers=64, devices=8)
    for server in table["server_list"]:
        for one in server["device"]:
            one["rank_id"] = int(one["rank_id"])
    lines = str(refused(table)).splitlines()
    assert len(lines) == 12
    assert lines[-1].endswith("And 502 more like the last one.")


@pytest.mark.parametrize(
    "table",
    [
        {"status": "initializing"},
        {"status": "initializing", "version": "1.0", "server_count": "0", "server_list": []},
        {"status": "initializing", "version": "1.2", "server_list": [{"device": 3}]},
        {**v1_0(), "status": "initializing", "server_count": "7"},
    ],
)
def test_of_a_table_at_initializing_only_that_is_said(table):
    found = parsed(table)
    assert found.status == "initializing"
    assert [one.place for one in found.findings()] == ["status"]


def test_very_many_unknown_keys_are_told_in_a_few_lines():
    table = {**v1_0(), **{f"device_{n}": n for n in range(20000)}}
    assert len(parsed(table).findings()) < 60


def test_nothing_in_a_table_controls_the_terminal_that_it_is_shown_on():
    table = v1_0()
    table["\x1b[2J" + "x" * 9999] = 1
    table["server_list"][0]["server_id"] = "\x1b]0;" + "y" * 9999
    device(table, 0, 1)["device_id"] = "0"
    for one in refused(table).findings:
        assert str(one).isprintable()
        assert len(str(one)) < 1000


@pytest.mark.parametrize("made", [v1_0, v1_2])
def test_a_fault_is_told_once(made):
    def numbers(value):
        """The value with every number in a text as the number."""
        if isinstance(value, dict):
            return {key: numbers(below) for key, below in value.items()}
        if isinstance(value, list):
            return [numbers(below) for below in value]
        return int(value) if value.isdigit() else value

    table = numbers(made())
    table["version"] = made().get("version")
    if table["version"] is None:
        del table["version"]
    found = [one for one in refused(table).findings if one.place]
    assert len({(one.place, one.message) for one in found}) == len(found)
    assert sum("is the number" in one.message for one in found) >= 6
