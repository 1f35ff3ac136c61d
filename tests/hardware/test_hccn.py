"""``/etc/hccn.conf`` and ``hccn_tool``, as guides/facts/devices.md#hccn has them."""

from typing import List, Optional

import pytest

from ascend_session.hardware.hccn import (
    HccnTool,
    conf_address,
    parse_address,
    parse_conf,
    parse_link,
    parse_tls,
    read_conf,
)
from tests.fake_host import FakeHost, Reply, hccn_answers

CONF = """\
address_0=192.168.100.101
netmask_0=255.255.255.0
netdetect_0=192.168.100.1
gateway_0=192.168.100.1
send_arp_status_0=1
tls_enable_0=0
arp_0=-i eth0 -s 192.168.100.1 aa:bb:cc:dd:ee:ff
"""


def test_keys_lose_their_number_and_values_keep_all_they_have() -> None:
    (entries,) = parse_conf(CONF).values()
    assert entries["send_arp_status"] == "1"
    assert entries["arp"] == "-i eth0 -s 192.168.100.1 aa:bb:cc:dd:ee:ff"
    assert conf_address(entries) == "192.168.100.101"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("b_10=x\na_0=1\nb_0=2\na_10=y\n", {10: {"b": "x", "a": "y"}, 0: {"a": "1", "b": "2"}}),
        (" address_3 = 10.0.0.3 \r\n", {3: {"address": "10.0.0.3"}}),
        ("route_1=-a b=c=d\n", {1: {"route": "-a b=c=d"}}),
        ("key_1=\n", {1: {"key": ""}}),
        ("# address_0=1.2.3.4\naddress=1.2.3.4\n_0=1\naddress_x=1\n=\n", {}),
        ("", {}),
    ],
)
def test_entries_come_in_any_order(text: str, found: object) -> None:
    assert parse_conf(text) == found


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("address_0=10.20.0.10\n", "10.20.0.10"),
        ("IPv6address_0=fd00::7\n", "fd00::7"),
        ("IPv6address_0=fd00::7\naddress_0=10.20.0.10\n", "10.20.0.10"),
        ("address_0=300.1.1.1\n", None),
        ("address_0=\n", None),
        ("netmask_0=255.0.0.0\n", None),
    ],
)
def test_only_a_valid_address_counts(text: str, address: Optional[str]) -> None:
    assert conf_address(parse_conf(text)[0]) == address


def test_a_missing_file_is_no_entries(host: FakeHost) -> None:
    notes: List[str] = []
    assert read_conf(str(host.root), notes) == {}
    assert notes == []


def test_a_file_that_cannot_be_read_is_a_note(host: FakeHost) -> None:
    (host.root / "etc/hccn.conf").mkdir()
    notes: List[str] = []
    assert read_conf(str(host.root), notes) == {}
    assert notes == ["/etc/hccn.conf could not be read: Is a directory."]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ipaddr:10.20.0.10\nnetmask:255.255.255.0\n", "10.20.0.10"),
        ("ipaddr:10.20.0.10\n", "10.20.0.10"),
        ("ipv6_address:fd00::10\n", "fd00::10"),
        ("ipv6_address : FD00::0010/64\n", "fd00::10"),
        ("ipaddr:\nnetmask:\n", None),
        ("no ip\n", None),
        ("", None),
    ],
)
def test_addresses(text: str, found: Optional[str]) -> None:
    assert parse_address(text) == found


@pytest.mark.parametrize(
    ("text", "up"),
    [("link status: UP\n", True), ("link status: DOWN", False), ("link: UP", None), ("", None)],
)
def test_links(text: str, up: Optional[bool]) -> None:
    assert parse_link(text) is up


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("dev_id:0, tls switch[0](0:disable, 1:enable), tls alarm time threshold[60]days", False),
        ("dev_id:7, tls switch[1](0:disable, 1:enable), tls preconfigured[1](0:non)", True),
        ("dev_id:0, tls preconfigured[1]", None),
        ("tls switch[2]", None),
    ],
)
def test_tls_switches(text: str, on: Optional[bool]) -> None:
    assert parse_tls(text) is on


def test_the_tool_is_found_where_the_driver_has_it(host: FakeHost) -> None:
    host.hccn_tool(hccn_answers({0: "10.20.0.10"}, link="DOWN", tls=1))
    tool = HccnTool(host.environ, str(host.root), 30.0)
    assert tool.address(0) == "10.20.0.10"
    assert tool.link(0) is False
    assert tool.tls(0) is True
    assert tool.notes == []
    assert {call.lc_all for call in host.calls()} == {"C"}


def test_ipv6_is_asked_for_after_ipv4(host: FakeHost) -> None:
    host.hccn_tool(hccn_answers({3: "fd00::3"}))
    tool = HccnTool(host.environ, str(host.root), 30.0)
    assert tool.address(3) == "fd00::3"
    assert [call.arguments for call in host.calls()] == ["-i 3 -ip -g", "-i 3 -ip -inet6 -g"]
    assert tool.notes == []


def test_a_device_that_the_tool_refuses_is_a_note(host: FakeHost) -> None:
    host.hccn_tool(hccn_answers({0: "10.20.0.10"}))
    tool = HccnTool(host.environ, str(host.root), 30.0)
    assert tool.link(9) is None
    assert tool.notes == [
        "'hccn_tool -i 9 -link -g' exited with code 1 and printed 'hccn_tool: invalid device id'."
    ]


def test_a_hanging_tool_is_asked_once(host: FakeHost) -> None:
    host.hccn_tool({"": Reply(then="hang")})
    tool = HccnTool(host.environ, str(host.root), 2.0)
    assert (tool.address(0), tool.address(1), tool.tls(0)) == (None, None, None)
    assert len([call for call in host.calls() if call.arguments != "child"]) == 1
    assert "did not answer within 2 s" in tool.notes[0]


def test_a_missing_tool_says_nothing(host: FakeHost) -> None:
    tool = HccnTool(host.environ, str(host.root))
    assert (tool.answers, tool.address(0), tool.notes) == (False, None, [])


@pytest.mark.parametrize("out", ["what?\n", ""])
def test_an_answer_that_cannot_be_read_is_a_note(host: FakeHost, out: str) -> None:
    host.hccn_tool({"": Reply(out)})
    tool = HccnTool(host.environ, str(host.root), 30.0)
    assert tool.tls(0) is None
    (note,) = tool.notes
    assert note.startswith("'hccn_tool -i 0 -tls -g' printed nothing that could be read")
