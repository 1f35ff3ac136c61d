"""Each of HCCL's rules, broken on purpose."""

import json
from dataclasses import replace
from itertools import combinations

import pytest

from ascend_session import JobError, RankTable
from ascend_session.cluster.rank_table import TableServer
from ascend_session.hardware.families import family
from tests.cluster.rank_table.tables import device, parsed, v1_0, v1_2

TRAINING, A2, A3 = family("910A"), family("910B"), family("910C")
DUO, A5 = family("310P3"), family("950")


def server(table, index=0):
    return table["server_list"][index]


def found(table, product=None, environ=None):
    return [
        (one.severity, one.place, one.message)
        for one in parsed(table).findings(product, environ)
        if one.severity != "info"
    ]


def without_addresses(servers):
    table = v1_0(servers=servers)
    for one in table["server_list"]:
        for own in one["device"]:
            del own["device_ip"]
    return table


def moved(table, numbers):
    """The table with these physical ids on each server."""
    for one in table["server_list"]:
        for own, number in zip(one["device"], numbers):
            own["device_id"] = str(number)
    return table


FIRST = "server_list[0].device[0]"
SECOND = "server_list[0].device[1]"

# What is done to a good table, the product, and what is then said: severity, place, words.
BROKEN = [
    ("status", lambda t: t.update(status="initializing"), None, "error", "status", "not ready"),
    ("status", lambda t: t.update(status="Completed"), None, "error", "status", "not ready"),
    ("status", lambda t: t.update(status=""), None, "error", "status", "not ready"),
    (
        "rank twice",
        lambda t: device(t, 0, 1).update(rank_id="0"),
        None,
        "error",
        f"{SECOND}.rank_id",
        "is 0, which 2 devices have",
    ),
    (
        "rank gap",
        lambda t: device(t, 0, 1).update(rank_id="0"),
        None,
        "error",
        "",
        "No device has rank 1",
    ),
    (
        "rank too large",
        lambda t: device(t, 1, 1).update(rank_id="4"),
        None,
        "error",
        "server_list[1].device[1].rank_id",
        "is 4, but the ranks of 4 devices are 0 to 3.",
    ),
    (
        "ranks mixed",
        lambda t: (device(t, 0, 1).update(rank_id="3"), device(t, 1, 1).update(rank_id="1")),
        None,
        "warning",
        "server_list[0]",
        "mixed with those of other servers",
    ),
    (
        "ranks of two servers in turn",
        lambda t: (device(t, 0, 1).update(rank_id="2"), device(t, 1, 0).update(rank_id="1")),
        None,
        "warning",
        "server_list[0]",
        "mixed with those of other servers",
    ),
    (
        "server twice",
        lambda t: server(t, 1).update(server_id="node_0"),
        None,
        "error",
        "server_list[1].server_id",
        "as is server_list[0]",
    ),
    (
        "servers alike",
        lambda t: server(t, 1).update(server_id="node_0 "),
        None,
        "warning",
        "server_list[1].server_id",
        "differs from 'node_0' in blanks only",
    ),
    ("count", lambda t: t.pop("server_count"), None, "warning", "server_count", "is missing"),
    (
        "device twice",
        lambda t: device(t, 0, 1).update(device_id="0"),
        None,
        "error",
        f"{SECOND}.device_id",
        "as is that of rank 0",
    ),
    (
        "address twice",
        lambda t: device(t, 1, 0).update(device_ip="192.168.1.8"),
        None,
        "error",
        "server_list[1].device[0].device_ip",
        f"as is {FIRST}.device_ip",
    ),
    (
        "as many addresses",
        lambda t: device(t, 1, 0).update(device_ip="10.0.0.1,10.0.0.2"),
        None,
        "error",
        "server_list[1].device[0].device_ip",
        "has 2 addresses, but the first device has 1",
    ),
    (
        "one kind of address",
        lambda t: device(t, 1, 0).update(device_ip="fe80::1"),
        None,
        "error",
        "server_list[1].device[0].device_ip",
        "but 192.168.1.8 is of the other kind",
    ),
    (
        "one kind of host address",
        lambda t: (server(t).update(host_ip="10.0.0.1"), server(t, 1).update(host_ip="fe80::1")),
        None,
        "error",
        "server_list[1].host_ip",
        "of the other kind",
    ),
    (
        "address missing",
        lambda t: device(t, 1, 0).pop("device_ip"),
        A2,
        "error",
        "server_list[1].device[0].device_ip",
        "a job of several servers cannot work without it",
    ),
    (
        "address empty",
        lambda t: device(t, 1, 0).update(device_ip=""),
        TRAINING,
        "error",
        "server_list[1].device[0].device_ip",
        "is missing or empty; a job of several servers cannot work without it",
    ),
    (
        "address missing on a product that is not known",
        lambda t: device(t, 1, 0).pop("device_ip"),
        None,
        "not checked",
        "server_list[1].device[0].device_ip",
        "Only on A3, within one superpod, it may be left out.",
    ),
    (
        "address missing on A3",
        lambda t: device(t, 1, 0).pop("device_ip"),
        A3,
        "warning",
        "server_list[1].device[0].device_ip",
        "the manual wants it",
    ),
    (
        "no address beside a host_ip",
        lambda t: (device(t, 1, 0).pop("device_ip"), server(t, 1).update(host_ip="10.0.0.1")),
        None,
        "not checked",
        "server_list[1].device[0].device_ip",
        "but not on A2",
    ),
    (
        "no address beside a host_ip on A2",
        lambda t: (device(t, 1, 0).pop("device_ip"), server(t, 1).update(host_ip="10.0.0.1")),
        A2,
        "error",
        "server_list[1].device[0].device_ip",
        "cannot work without it",
    ),
    (
        "servers' own network",
        lambda t: device(t, 0, 0).update(net_position="host"),
        None,
        "error",
        "server_list[1].host_ip",
        "ranks use the servers' own network",
    ),
    (
        "host_port twice",
        lambda t: [device(t, 0, n).update(host_port="16666") for n in (0, 1)],
        None,
        "warning",
        f"{SECOND}.host_port",
        "as is that of rank 0",
    ),
    (
        "device too large for any",
        lambda t: device(t, 0, 1).update(device_id="32"),
        None,
        "error",
        f"{SECOND}.device_id",
        "on any product HCCL takes 0 to 31",
    ),
    (
        "device for some",
        lambda t: device(t, 0, 1).update(device_id="8"),
        None,
        "not checked",
        f"{SECOND}.device_id",
        "only A2, A3 and 310P take",
    ),
    (
        "device for one",
        lambda t: device(t, 0, 1).update(device_id="16"),
        None,
        "not checked",
        f"{SECOND}.device_id",
        "only 310P takes",
    ),
    (
        "device on the training series",
        lambda t: device(t, 0, 1).update(device_id="8"),
        TRAINING,
        "error",
        f"{SECOND}.device_id",
        "HCCL takes 0 to 7",
    ),
    (
        "device on A2",
        lambda t: device(t, 0, 1).update(device_id="16"),
        A2,
        "error",
        f"{SECOND}.device_id",
        "HCCL takes 0 to 15",
    ),
    (
        "unequal servers",
        lambda t: server(t, 1)["device"].pop(),
        TRAINING,
        "error",
        "",
        "takes the same number in each only",
    ),
    (
        "unequal servers on A2",
        lambda t: server(t, 1)["device"].pop(),
        A2,
        "warning",
        "",
        "the manual advises the same number",
    ),
    (
        "unequal servers of an unknown product",
        lambda t: server(t, 1)["device"].pop(),
        None,
        "not checked",
        "",
        "only A2 and A3 take that",
    ),
    (
        "two rings",
        lambda t: moved(t, (3, 4)),
        TRAINING,
        "warning",
        "server_list[0]",
        "must stay inside 0-3 or 4-7",
    ),
    (
        "two rings of an unknown product",
        lambda t: moved(t, (3, 4)),
        None,
        "not checked",
        "server_list[0]",
        "If this is the Atlas training series",
    ),
    (
        "blanks at an end",
        lambda t: server(t, 1).update(server_id=" node_1"),
        None,
        "warning",
        "server_list[1].server_id",
        "HCCL cuts the blanks off in one place",
    ),
    ("A5", lambda t: None, A5, "error", "version", "takes version 2.0 only"),
    (
        "an empty status",
        lambda t: t.update(status=""),
        None,
        "error",
        "status",
        "is empty: the table is not ready. GE, by which TensorFlow reads it, refuses it.",
    ),
]


@pytest.mark.parametrize(
    ("spoil", "product", "severity", "place", "words"),
    [case[1:] for case in BROKEN],
    ids=[case[0] for case in BROKEN],
)
def test_a_broken_rule_is_told_with_its_place(spoil, product, severity, place, words):
    table = v1_0()
    spoil(table)
    said = found(table, product)
    assert any((one[0], one[1]) == (severity, place) and words in one[2] for one in said), said


PODS = [
    (lambda t: t.pop("super_pod_list"), "warning", "super_pod_list", "as in version 1.0"),
    (
        lambda t: t["super_pod_list"][0]["server_list"].pop(),
        "error",
        "server_list[1].server_id",
        "which no superpod has",
    ),
    (
        lambda t: device(t).pop("super_device_id"),
        "error",
        f"{FIRST}.super_device_id",
        "is missing",
    ),
    (
        lambda t: device(t).update(super_device_id="4294967295"),
        "error",
        f"{FIRST}.super_device_id",
        "is 4294967295",
    ),
    (
        lambda t: device(t, 1, 0).update(super_device_id="0"),
        "error",
        "server_list[1].device[0].super_device_id",
        f"as is {FIRST}.super_device_id in the same superpod",
    ),
    (
        lambda t: t.update(
            super_pod_list=[
                {"super_pod_id": "a", "server_list": [{"server_id": f"node_{n}"} for n in (0, 3)]},
                {"super_pod_id": "b", "server_list": [{"server_id": f"node_{n}"} for n in (1, 2)]},
            ]
        ),
        "warning",
        "server_list[3]",
        "the manual wants its servers side by side",
    ),
    (
        lambda t: t["super_pod_list"][0]["server_list"].append({"server_id": "node_2"}),
        "warning",
        "super_pod_list[1].server_list[0].server_id",
        "HCCL takes the last superpod",
    ),
]


@pytest.mark.parametrize(("spoil", "severity", "place", "words"), PODS)
def test_a_broken_rule_on_superpods_is_told_with_its_place(spoil, severity, place, words):
    table = v1_2()
    spoil(table)
    said = found(table, A3)
    assert any((one[0], one[1]) == (severity, place) and words in one[2] for one in said), said


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda t: t["super_pod_list"][0].update(super_pod_id=""),
            "super_pod_list[0].super_pod_id: is empty",
        ),
        (
            lambda t: t["super_pod_list"][1].update(super_pod_id="0"),
            "super_pod_list[1].super_pod_id: is the text '0', as is super_pod_list[0]",
        ),
        (
            lambda t: t["super_pod_list"][0].update(super_pod_id=0),
            "super_pod_list[0].super_pod_id: is the number 0",
        ),
        (
            lambda t: t["super_pod_list"][0]["server_list"].append({"server_id": "x"}),
            "super_pod_list[0].server_list[2].server_id: is the text 'x', which",
        ),
        (
            lambda t: t["super_pod_list"][0].update(super_pod_id="x" * 128),
            "longer than 127 bytes",
        ),
        (lambda t: t.update(super_pod_list=[]), "super_pod_list: is an empty list"),
        (lambda t: device(t).update(super_device_id="x"), "super_device_id: is the text 'x'"),
        (lambda t: device(t).update(super_device_id=1), "super_device_id: is the number 1"),
    ],
)
def test_wrong_fields_of_superpods_are_refused(spoil, words):
    table = v1_2()
    spoil(table)
    with pytest.raises(JobError) as caught:
        RankTable.from_text(json.dumps(table), family=A3)
    assert words in caught.value.message


def test_superpods_are_not_looked_at_on_other_products():
    table = v1_2()
    device(table).pop("super_device_id")
    assert not parsed(table).problems(A2)
    assert parsed(table).problems(A3)
    assert {one.severity for one in parsed(table).findings()} == {"not checked"}


@pytest.mark.parametrize("pods", [[], 7, [{"super_pod_id": ""}]])
def test_a_list_of_superpods_that_is_wrong_is_refused_where_hccl_reads_it(pods):
    text = json.dumps({**v1_2(), "super_pod_list": pods})
    for product in (TRAINING, A2, DUO):
        table = RankTable.from_text(text, family=product)
        assert not table.problems(product)
        assert any("super_pod_list" in one.place for one in table.findings(product))
    unknown = RankTable.from_text(text)
    assert not unknown.problems()
    assert "not checked" in {one.severity for one in unknown.findings()}
    with pytest.raises(JobError, match="super_pod_list"):
        RankTable.from_text(text, family=A3)


FOURS = ["0123", "4567", "0145", "0246", "0347", "1256", "1357", "2367"]


@pytest.mark.parametrize("four", list(map("".join, combinations("01234567", 4))))
def test_of_four_devices_the_training_series_takes_eight_sets(four):
    table = parsed(moved(v1_0(servers=2, devices=4), four))
    problems = table.problems(TRAINING)
    assert len(problems) == (0 if four in FOURS else 2)
    assert all("HCCL takes only 0123, 4567," in one.message for one in problems)
    assert table.problems(A2) == table.problems() == []
    warned = [one for one in table.findings(TRAINING) if one.severity == "warning"]
    assert bool(warned) == (four in FOURS[2:])


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ((0, 1, 8), ["error"]),
        ((0, 1, 8, 10), ["error"]),
        ((0, 1, 8, 9), []),
        ((8, 9, 10), []),
        (tuple(range(16)), []),
        ((0, 9), ["warning"]),  # the loader takes two devices for standard cards
    ],
)
def test_one_a2_server_uses_both_halves_alike(devices, said):
    table = parsed(moved(v1_0(servers=1, devices=len(devices)), devices))
    assert [one.severity for one in table.findings(A2)] == said
    assert table.findings(A2, {"HCCL_INTRA_ROCE_ENABLE": "1"}) == []
    unknown = [one for one in table.findings() if one.message.startswith("If this is A2")]
    assert [one.severity for one in unknown] == ["not checked" for _ in said]
    several = parsed(moved(v1_0(servers=2, devices=len(devices)), devices))
    assert several.findings(A2) == []


def superpods(pods, count=8, missing=()):
    """Two servers of a superpod each, or of one; some devices have no address."""
    table = v1_2(servers=2, devices=count)
    ids = [{"server_id": "node_0"}, {"server_id": "node_1"}]
    listed = [ids] if pods == 1 else [ids[:1], ids[1:]]
    table["super_pod_list"] = [
        {"super_pod_id": str(n), "server_list": one} for n, one in enumerate(listed)
    ]
    for number, one in enumerate(table["server_list"]):
        del one["host_ip"]
        for own in one["device"]:
            own["super_device_id"] = str(number * count + int(own["device_id"]))
            if (number, int(own["device_id"])) in missing:
                del own["device_ip"]
    return parsed(table)


EACH = [(server, device) for server in (0, 1) for device in range(16)]


@pytest.mark.parametrize(
    ("pods", "count", "missing", "errors"),
    [
        (2, 8, EACH, 2),
        (2, 8, EACH[:1], 1),  # 7 addresses, and all 8
        (2, 8, [(0, 7), (1, 6)], 2),
        (2, 8, [(n, device) for n in (0, 1) for device in range(4)], 0),
        (2, 8, (), 0),
        (2, 7, EACH, 0),
        (2, 16, EACH, 0),
        (1, 8, EACH, 0),
    ],
)
def test_servers_of_eight_devices_have_addresses_for_the_same_ones(pods, count, missing, errors):
    table = superpods(pods, count, missing)
    assert len(table.problems(A3)) == errors
    without_pods = replace(table, format="1.0")
    assert len(without_pods.problems(A3)) == (errors if pods > 1 else 0)


@pytest.mark.parametrize("product", [TRAINING, A2, A3, DUO, None])
def test_blanks_at_an_end_of_a_server_id_are_refused_with_servers_of_eight_devices(product):
    for count, errors in ((8, 1), (2, 0)):
        table = v1_0(servers=2, devices=count)
        server(table, 1)["server_id"] = "node_1 "
        assert len(parsed(table).problems(product)) == errors


RETRY = {"HCCL_OP_RETRY_ENABLE": "L0:0,L1:1,L2:1"}


@pytest.mark.parametrize(
    ("product", "environ", "severity"),
    [
        (A3, RETRY, "error"),
        (A3, {"HCCL_OP_RETRY_ENABLE": "L0:0, L1:1, L2:1"}, "error"),
        (A3, {**RETRY, "HCCL_OP_EXPANSION_MODE": "AI_CPU"}, "error"),
        (A3, {**RETRY, "HCCL_OP_EXPANSION_MODE": "AIV"}, "error"),
        (A3, {**RETRY, "HCCL_OP_EXPANSION_MODE": "HOST_TS"}, "error"),
        (A3, {**RETRY, "HCCL_OP_EXPANSION_MODE": "HOST"}, "warning"),
        (A3, {"HCCL_OP_RETRY_ENABLE": "L0:0,L1:1,L2:0"}, "warning"),
        (A3, {}, "warning"),
        (A2, RETRY, "warning"),
        (None, RETRY, "not checked"),
        (None, {}, "warning"),
    ],
)
def test_backup_addresses_are_read_where_hccl_retries_between_superpods(product, environ, severity):
    table = v1_0(servers=1)
    device(table)["backup_device_ip"] = "x"
    found = [one.severity for one in parsed(table).findings(product, environ)]
    assert found == [severity]


@pytest.mark.parametrize(
    ("backups", "says"),
    [
        (["192.168.1.9", "192.168.1.9"], "[1].backup_device_ip: is 192.168.1.9, as is"),
        (["10.9.0.1", "10.9.0.1"], "[1].backup_device_ip: is 10.9.0.1, as is"),
        (["10.9.0.1,10.9.0.1", ""], "[0].backup_device_ip: is 10.9.0.1, as is"),
        (["192.168.1.8", ""], "[0].backup_device_ip: is 192.168.1.8, an address of this very"),
        (["0.0.0.0", ""], "[0].backup_device_ip: is the text '0.0.0.0'"),
        (["192.168.1.10", ""], "[0].backup_device_ip: is 192.168.1.10 of device 2; HCCL takes"),
        (["192.168.1.9", "192.168.1.8"], ""),
        (["10.9.0.1", "10.9.0.2"], ""),
    ],
)
def test_a_backup_is_another_address_of_the_same_npu(backups, says):
    table = v1_0(servers=1, devices=4)
    for index, backup in enumerate(backups):
        device(table, 0, index)["backup_device_ip"] = backup
    problems = [str(one) for one in parsed(table).problems(A3, RETRY)]
    assert len(problems) == bool(says)
    assert says in "".join(problems)
    unknown = parsed(table).findings(None, RETRY)
    assert {one.severity for one in unknown} <= {"not checked"}
    assert bool(unknown) == bool(says)
    assert parsed(table).problems(A3, {**RETRY, "HCCL_OP_EXPANSION_MODE": "HOST"}) == []


@pytest.mark.parametrize(("port", "count"), [("16666", 1), ("16667", 0)])
def test_the_port_of_a_backup_is_not_that_of_the_device_itself(port, count):
    table = v1_0(servers=1)
    device(table)["backup_device_ip"] = "192.168.1.9"
    device(table)["backup_device_port"] = port
    device(table, 0, 1)["device_port"] = "16666"
    assert len(parsed(table).problems(A3, RETRY)) == count


def test_the_port_of_a_backup_is_not_read_without_an_address():
    table = v1_0(servers=1)
    device(table)["backup_device_port"] = "x"
    assert [one.severity for one in parsed(table).findings(A3, RETRY)] == ["info"]


def test_one_server_needs_no_addresses_but_the_manual_wants_them_on_some_products():
    table = without_addresses(1)
    assert found(table) == []
    assert found(table, A2) == []
    for product in (TRAINING, DUO):
        assert {one[0] for one in found(table, product)} == {"warning"}


@pytest.mark.parametrize("value", ["1", "01"])
def test_roce_inside_a_server_needs_addresses(value):
    said = parsed(without_addresses(1)).problems(A2, {"HCCL_INTRA_ROCE_ENABLE": value})
    assert [one.place for one in said] == [f"{FIRST}.device_ip", f"{SECOND}.device_ip"]
    assert all("HCCL_INTRA_ROCE_ENABLE=1 cannot work without it" in one.message for one in said)


@pytest.mark.parametrize("product", [None, A3])
def test_roce_needs_addresses_on_every_product(product):
    said = parsed(without_addresses(2)).problems(product, {"HCCL_INTRA_ROCE_ENABLE": "1"})
    assert len(said) == 4


def test_ipv6_everywhere_is_one_kind():
    table = v1_0()
    for number, one in enumerate(table["server_list"]):
        for index, own in enumerate(one["device"]):
            own["device_ip"] = f"fd00::{number}:{index + 1}"
    assert found(table) == []


def test_one_server_may_have_both_kinds():
    table = v1_0(servers=1)
    device(table, 0, 1)["device_ip"] = "fd00::1"
    assert found(table) == []


def test_an_address_written_in_two_ways_is_a_warning_for_hccl_compares_the_texts():
    table = v1_0(servers=1)
    device(table)["device_ip"], device(table, 0, 1)["device_ip"] = "fd00::1", "fd00:0::1"
    assert [one[0] for one in found(table)] == ["warning"]


@pytest.mark.parametrize(
    ("count", "errors"), [(1, 0), (2, 0), (3, 1), (4, 0), (5, 1), (6, 1), (7, 1), (8, 0)]
)
def test_the_training_series_takes_1_2_4_or_8_devices(count, errors):
    table = parsed(v1_0(servers=1, devices=count))
    assert len(table.problems(TRAINING)) == errors
    assert table.problems(A2) == []
    assert table.problems() == []


def test_a_device_for_each_of_sixteen_ranks_is_fine_on_a2_and_a3():
    table = parsed(v1_0(servers=2, devices=16))
    for product in (A2, A3):
        assert table.findings(product) == []


def test_all_problems_are_in_one_error_each_with_its_place():
    table = v1_0()
    device(table, 0, 1)["rank_id"] = "0"
    device(table, 1, 0)["device_ip"] = "192.168.1.8"
    with pytest.raises(JobError) as caught:
        parsed(table).check()
    lines = caught.value.message.splitlines()
    assert lines[0] == "t.json: 4 problems:"
    assert [line[:4] for line in lines[1:]] == [f"  {n}." for n in (1, 2, 3, 4)]


def test_a_table_without_servers_or_devices_is_refused_however_it_was_made():
    for servers in ((), (TableServer("a", ()),)):
        made = RankTable("1.0", "completed", servers)
        with pytest.raises(JobError, match="is an empty list"):
            made.check()
        with pytest.raises(JobError, match="is an empty list"):
            RankTable.merge([made])


def test_a_single_problem_has_its_hint():
    table = v1_0(servers=1, devices=1)
    table["status"] = "initializing"
    with pytest.raises(JobError) as caught:
        parsed(table).check()
    assert caught.value.message.startswith("t.json: status: is 'initializing': the table is not")
    assert "--wait 10m" in caught.value.hint


@pytest.mark.parametrize("name", ["A2", "a2", "910B", "910B3", "Ascend 910B1", "A2 (910B)"])
def test_a_product_may_be_called_by_any_of_its_names(name):
    table = parsed(v1_0(servers=1, devices=3))
    assert table.findings(name) == []
    assert len(table.problems("910A")) == 1


@pytest.mark.parametrize("name", ["", "H100", "Atlas", "910"])
def test_a_product_that_is_none_is_an_error(name):
    with pytest.raises(JobError, match="is not a known product"):
        parsed(v1_0()).findings(name)


def notes(table):
    return [(one.place, one.message) for one in parsed(table).findings() if one.severity == "info"]


def test_an_address_that_is_alone_in_its_subnet_is_a_note():
    table = v1_0(servers=2, devices=8)
    device(table, 1, 3)["device_ip"] = "192.168.22.11"
    [(place, message)] = notes(table)
    assert place == "server_list[1].device[3].device_ip"
    assert message.startswith("is 192.168.22.11; no other device")
    assert "192.168.22.0/24" in message


@pytest.mark.parametrize("servers", [1, 2])
def test_devices_that_all_have_subnets_of_their_own_are_no_news(servers):
    table = v1_0(servers=servers, devices=8)
    for one in table["server_list"]:
        for own in one["device"]:
            own["device_ip"] = f"10.{servers}.{own['rank_id']}.1"
    assert notes(table) == []


def test_ranks_in_another_order_than_the_devices_of_their_server_are_a_note():
    table = v1_0(servers=2, devices=4)
    for own, number in zip(server(table, 1)["device"], (0, 2, 1, 3)):
        own["device_id"] = str(number)
    [(place, message)] = notes(table)
    assert place == "server_list[1]"
    assert "on the devices 0, 2, 1, 3" in message


def test_devices_of_two_superpods_may_have_the_same_number():
    table = v1_2()
    assert device(table, 0, 0)["super_device_id"] == device(table, 2, 0)["super_device_id"]
    assert [one for one in found(table, A3) if "super_device_id" in one[1]] == []
