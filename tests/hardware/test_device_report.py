"""Whole hosts: what is said of their devices, with all sources, and with some of them broken."""

import json
import os
import re
from dataclasses import FrozenInstanceError, asdict
from typing import Any, Dict, List, Optional

import pytest

from ascend_session import DeviceError, device_count, devices, is_available
from ascend_session.hardware.device_report import Device, DeviceReport
from ascend_session.hardware.installation import Component
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from tests.fake_host import (
    FakeHost,
    FakeProcess,
    Reply,
    a2_chips,
    a3_chips,
    atlas_chips,
    hccn_answers,
    inference_chips,
    npu_smi_answers,
)


def environ(host: FakeHost, visible: Optional[str] = None) -> Dict[str, str]:
    listed = {} if visible is None else {"ASCEND_RT_VISIBLE_DEVICES": visible}
    return {**host.environ, **listed}


@pytest.mark.parametrize(
    ("visible", "count"),
    [(None, 4), ("0,2", 2), ("", 0), ("2,1", 0), ("1, 2", 1), ("0,9", 1), ("9", 0)],
)
def test_the_count_is_what_the_runtime_leaves(
    host: FakeHost, visible: Optional[str], count: int
) -> None:
    host.nodes([4, 5, 6, 7])
    assert device_count(environ(host, visible)) == count
    assert is_available(environ(host, visible)) is (count > 0)


def test_counting_runs_no_program(host: FakeHost) -> None:
    host.nodes([0])
    host.npu_smi({})
    assert device_count(host.environ) == 1
    assert host.calls() == []


def test_an_empty_host_has_none(host: FakeHost) -> None:
    assert device_count(host.environ) == 0
    assert not is_available(host.environ)


def test_the_root_may_be_given(host: FakeHost) -> None:
    host.nodes([0, 1])
    assert device_count({}, root=str(host.root)) == 2
    assert is_available({}, root=str(host.root))
    assert len(devices({}, root=str(host.root))) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"environ": 8}, "environ takes a mapping of variables, not 8"),
        ({"environ": {"A": 1}}, "map names to values, both str without NUL; 'A' is 1.\n"),
        ({"environ": {"A": 1}}, "hint: Write {'A': str(value)}, or leave it out."),
        ({"environ": {"HOME": "/\0"}}, r"without NUL; 'HOME' is '/\x00'."),
        ({"environ": {"ASCEND_OPP_PATH": "\ud800"}}, "nothing has half a surrogate pair"),
        ({"environ": {8: "x"}}, "without NUL; 8 is 'x'."),
        ({"environ": {"A=B": "x"}}, "A name has no '='"),
        ({"root": 8}, "root takes the path of a folder, not 8"),
        ({"root": "/\0"}, "root takes the path"),
        ({"timeout": "10"}, "timeout takes a number of seconds above 0, not '10'"),
        ({"timeout": 0}, "above 0, not 0"),
    ],
)
def test_an_argument_of_another_type_is_refused(arguments: Dict[str, Any], message: str) -> None:
    with pytest.raises(DeviceError, match=re.escape(message)):
        devices(**arguments)


def test_the_environment_is_this_processs_if_none_is_given(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.nodes([0, 1, 2])
    monkeypatch.setenv("ASCEND_SESSION_HOST_ROOT", str(host.root))
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "2")
    assert device_count() == 1
    assert is_available()
    assert [device.physical_id for device in devices().visible] == [2]


def test_a_report_is_a_sequence_of_devices() -> None:
    first = Device(index=0, physical_id=PhysicalDeviceId(1), logical_id=LogicalDeviceId(0))
    second = Device(index=1, physical_id=PhysicalDeviceId(0), logical_id=None)
    report = DeviceReport((first, second))
    assert list(report) == [first, second]
    assert (len(report), report[1], report.visible) == (2, second, (first,))


def test_a_device_cannot_be_changed() -> None:
    device = Device(index=0, physical_id=None, logical_id=None)
    with pytest.raises(FrozenInstanceError):
        device.index = 1  # type: ignore[misc]


def test_a_report_can_be_written_as_json(host: FakeHost) -> None:
    host.nodes([0, 1])
    host.process(7, "python3 train.py", devices=[1])
    host.npu_smi(npu_smi_answers("910B", a2_chips(2)))
    written = json.loads(json.dumps(asdict(devices(host.environ))))
    assert written["devices"][1]["physical_id"] == 1
    assert written["devices"][1]["memory_total_mb"] == 65536
    assert written["devices"][1]["holders"][0]["command"] == "python3 train.py"
    assert written["driver"]["version"] == "24.1.rc2"


def report(host: FakeHost, timeout: float = 30.0, **variables: str) -> DeviceReport:
    return devices({**host.environ, **variables}, timeout=timeout)


def physical(found: DeviceReport) -> List[Any]:
    return [device.physical_id for device in found]


def logical(found: DeviceReport) -> List[Any]:
    return [device.logical_id for device in found]


def test_a_healthy_server_is_known_in_every_detail(host: FakeHost) -> None:
    host.nodes(range(8))
    host.driver("24.1.rc2")
    host.toolkit("8.0.RC2")
    host.hccn_conf({f"address_{n}": f"192.168.100.{100 + n}" for n in range(8)})
    host.process(4321, "python3 train.py", devices=[5], seconds=9)
    chips = a2_chips(8)
    host.npu_smi(npu_smi_answers("910B", chips, [FakeProcess(5, 0, 4321, "python3", 30000)]))
    found = report(host)
    assert found.notes == ()
    assert found.driver is not None
    assert found.firmware is not None
    assert [one.version for one in (found.driver, found.firmware, *found.toolkits)] == [
        "24.1.rc2",
        "7.1.0.6.220",
        "8.0.RC2",
    ]
    assert physical(found) == list(range(8))
    assert logical(found) == list(range(8))
    (holder,) = found[5].holders
    assert (holder.pid, holder.command, holder.since, holder.memory_mb) == (
        4321,
        "python3 train.py",
        host.begun(9),
        30000,
    )
    assert found[5] == Device(
        index=5,
        physical_id=PhysicalDeviceId(5),
        logical_id=LogicalDeviceId(5),
        driver_id=5,
        npu_id=5,
        chip_id=0,
        name="910B3",
        family="A2 (910B)",
        health="OK",
        memory_kind="HBM",
        memory_used_mb=3405,
        memory_total_mb=65536,
        temperature_c=40,
        power_w=95.4,
        bus_id="0000:BC:00.0",
        address="192.168.100.105",
        holders=(holder,),
        notes=(),
    )


def test_an_atlas_server_has_hbm_though_it_counts_ddr_too(host: FakeHost) -> None:
    host.nodes([0])
    host.npu_smi(npu_smi_answers("910A", atlas_chips(1)))
    (device,) = report(host)
    assert (device.memory_kind, device.memory_used_mb, device.memory_total_mb) == ("HBM", 0, 32768)
    assert device.family == "Atlas training (910A)"


def test_sixteen_dies_are_sixteen_devices(host: FakeHost) -> None:
    host.nodes(range(16))
    host.npu_smi(npu_smi_answers("A3", a3_chips(8), [FakeProcess(6, 1, 99, "python3", 5)]))
    found = report(host)
    assert physical(found) == list(range(16))
    assert {device.family for device in found} == {"A3"}
    assert [(d.npu_id, d.chip_id) for d in found] == [(n // 2, n % 2) for n in range(16)]
    assert [device.index for device in found if device.holders] == [13]


def test_sparse_cards_have_dense_ids_and_ddr_and_no_address(host: FakeHost) -> None:
    host.nodes([0, 1, 2])
    host.hccn_conf({"address_0": "192.168.100.100"})
    host.hccn_tool(hccn_answers({0: "192.168.100.100"}))
    chips = inference_chips((0, 32, 96))
    host.npu_smi(npu_smi_answers("310", [chips[0], chips[1]._replace(health="Alarm"), chips[2]]))
    found = report(host)
    assert [(d.physical_id, d.npu_id, d.health) for d in found] == [
        (0, 0, "OK"),
        (1, 32, "Alarm"),
        (2, 96, "OK"),
    ]
    assert (found[2].memory_kind, found[2].memory_total_mb) == ("DDR", 21534)
    assert (found[2].power_w, found[2].bus_id, found[0].address) == (None, None, None)


def test_in_a_container_ids_count_what_is_there(host: FakeHost) -> None:
    host.nodes([14, 15])
    chips = [chip._replace(npu=7, physical=14 + n, logical=n) for n, chip in enumerate(a3_chips(1))]
    host.npu_smi(npu_smi_answers("26-A3", chips))
    found = report(host)
    assert (physical(found), logical(found)) == ([14, 15], [0, 1])
    assert found.notes == ()


def test_visible_devices_come_first_and_the_others_say_why_they_are_hidden(
    host: FakeHost,
) -> None:
    host.nodes(range(4))
    host.npu_smi(npu_smi_answers("910B", a2_chips(4)))
    found = report(host, ASCEND_RT_VISIBLE_DEVICES="1,3")
    assert physical(found) == [1, 3, 0, 2]
    assert logical(found) == [0, 1, None, None]
    assert [device.index for device in found] == [0, 1, 2, 3]
    assert [device.driver_id for device in found] == [1, 3, 0, 2]
    assert [bool(device.notes) for device in found] == [False, False, True, True]
    assert found[2].notes == ("ASCEND_RT_VISIBLE_DEVICES='1,3' hides it from this process.",)
    assert found.notes == ()


def test_a_trap_in_the_list_of_visible_devices_is_said(host: FakeHost) -> None:
    host.nodes(range(4))
    host.npu_smi(npu_smi_answers("910B", a2_chips(4)))
    found = report(host, ASCEND_RT_VISIBLE_DEVICES="1,0")
    assert found.visible == ()
    assert len(found) == 4
    (note,) = found.notes
    assert "0 comes after 1" in note


def test_the_drivers_order_counts_for_visible_devices(host: FakeHost) -> None:
    host.nodes([0, 1])
    chips = [chip._replace(logical=1 - chip.logical) for chip in a3_chips(1)]
    host.npu_smi(npu_smi_answers("A3", chips))
    found = report(host, ASCEND_RT_VISIBLE_DEVICES="0")
    assert physical(found) == [1, 0]
    assert logical(found) == [0, None]


def test_without_npu_smi_the_nodes_and_proc_remain(host: FakeHost) -> None:
    host.nodes([0, 1])
    host.process(7, "python3 train.py", devices=[1])
    found = report(host)
    assert physical(found) == [0, 1]
    assert [len(device.holders) for device in found] == [0, 1]
    assert {(d.name, d.health, d.memory_total_mb, d.notes) for d in found} == {
        (None, None, None, ())
    }
    (note,) = found.notes
    assert "npu-smi" in note


def test_a_hanging_npu_smi_costs_one_time_limit(host: FakeHost) -> None:
    host.nodes([0, 1])
    host.driver()
    host.process(7, "python3 train.py", devices=[1])
    host.npu_smi({"": Reply(then="hang")})
    found = report(host, timeout=2.0)
    assert physical(found) == [0, 1]
    assert found[1].holders[0].pid == 7
    assert found.driver is not None
    assert "did not answer within 2 s" in found.notes[0]
    assert len([call for call in host.calls() if call.arguments != "child"]) == 1


def test_a_card_held_by_another_container_is_explained(host: FakeHost) -> None:
    host.nodes([0])
    text = (
        "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
        "dcmi model initialized failed, because the device is used. ret is -8020\n"
    )
    host.npu_smi({"": Reply(text, code=1)})
    found = report(host)
    assert len(found) == 1
    assert any("another container" in note for note in found.notes)
    assert any("LD_LIBRARY_PATH" in note for note in found.notes)


def test_a_device_that_npu_smi_has_lost_is_still_there(host: FakeHost) -> None:
    host.nodes(range(3))
    chips = a2_chips(3)
    lost = npu_smi_answers("910B", [chips[0], chips[2]])
    host.npu_smi(lost)
    found = report(host)
    assert physical(found) == [0, 1, 2]
    assert [device.name for device in found] == ["910B3", None, "910B3"]
    (note,) = found[1].notes
    assert "npu-smi does not list it" in note


def test_a_device_without_a_node_cannot_be_opened(host: FakeHost) -> None:
    host.nodes([0])
    host.npu_smi(npu_smi_answers("A3", a3_chips(1)))
    found = report(host)
    assert physical(found) == [0, 1]
    assert logical(found) == [0, None]
    assert found[1].name == "Ascend910"
    (note,) = found[1].notes
    assert "no /dev/davinci1" in note


def test_chips_without_any_node_are_listed(host: FakeHost) -> None:
    host.npu_smi(npu_smi_answers("910B", a2_chips(2)))
    found = report(host)
    assert (physical(found), logical(found)) == ([None, None], [None, None])
    assert [device.npu_id for device in found] == [0, 1]
    assert "no /dev/davinci<N>" in found.notes[0]
    assert all("is not known" in device.notes[0] for device in found)


def test_holders_of_chips_without_any_node_are_those_that_npu_smi_lists(host: FakeHost) -> None:
    processes = [FakeProcess(1, 0, 4321, "python3", 30000)]
    host.npu_smi(npu_smi_answers("910B", a2_chips(2), processes))
    first, second = report(host)
    assert first.holders == ()
    assert [(one.pid, one.command, one.memory_mb) for one in second.holders] == [
        (4321, "python3", 30000)
    ]


def test_the_mapping_alone_gives_names(host: FakeHost) -> None:
    host.nodes([0, 1])
    answers = npu_smi_answers("910B", a2_chips(2))
    host.npu_smi({**answers, "info": Reply("", "", 1)})
    found = report(host)
    assert [device.name for device in found] == ["Ascend 910B3"] * 2
    assert {device.family for device in found} == {"A2 (910B)"}
    assert found[0].health is None


def test_a_machine_without_anything_says_so_in_one_sentence(host: FakeHost) -> None:
    assert report(host) == DeviceReport(
        (), notes=("This machine has no Ascend device (there is no /dev/davinci<N>).",)
    )


@pytest.mark.parametrize("has_writer", [False, True])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(host: FakeHost, has_writer: bool) -> None:
    host.nodes([0])
    paths = [host.root / "etc" / name for name in ("hccn.conf", "ascend_install.info")]
    paths[0].parent.mkdir(exist_ok=True)
    writers = []
    for path in paths:
        os.mkfifo(str(path))
        writers += [os.open(str(path), os.O_RDWR)] if has_writer else []
    report = devices(host.environ)
    for writer in writers:
        os.close(writer)
    assert len(report) == 1
    note = "/etc/hccn.conf could not be read: it is a pipe."
    assert (note in report.notes) is has_writer


def test_missing_control_nodes_are_said(host: FakeHost) -> None:
    host.nodes([0], control=False)
    host.npu_smi(npu_smi_answers("910B", a2_chips(1)))
    assert len(report(host).notes) == 3


def test_the_driver_may_be_known_from_npu_smi_only(host: FakeHost) -> None:
    host.nodes([0])
    host.npu_smi(npu_smi_answers("910B", a2_chips(1)))
    assert report(host).driver == Component("24.1.rc2", None, None)


def test_addresses_that_the_file_lacks_are_asked_for(host: FakeHost) -> None:
    host.nodes([0, 1])
    host.hccn_conf({"address_0": "10.0.0.10"})
    host.hccn_tool(hccn_answers({1: "10.0.0.11"}))
    host.npu_smi(npu_smi_answers("910B", a2_chips(2)))
    found = report(host)
    assert [device.address for device in found] == ["10.0.0.10", "10.0.0.11"]
    assert [call.arguments for call in host.calls()][-1] == "-i 1 -ip -g"


def test_a_tool_that_fails_for_all_devices_is_not_quoted_for_each(host: FakeHost) -> None:
    host.nodes(range(8))
    host.hccn_tool({"": Reply(err="no permission\n", code=1)})
    host.npu_smi(npu_smi_answers("910B", a2_chips(8)))
    notes = report(host).notes
    assert len(notes) == 5
    assert notes[0] == ("'hccn_tool -i 0 -ip -g' exited with code 1 and printed 'no permission'.")
    assert notes[4] == "12 more answers of this program could not be read either."


def test_a_process_of_another_container_is_marked(host: FakeHost) -> None:
    host.nodes([0])
    host.npu_smi(npu_smi_answers("910B", a2_chips(1), [FakeProcess(0, 0, 90412, "python3", 5)]))
    (device,) = report(host)
    assert [(holder.pid, holder.here) for holder in device.holders] == [(90412, False)]
    (note,) = device.notes
    assert "90412" in note


@pytest.mark.parametrize(
    ("layout", "chips", "family"),
    [
        ("910A", atlas_chips(2), "Atlas training (910A)"),
        ("910B", a2_chips(2), "A2 (910B)"),
        ("26", a2_chips(2), "A2 (910B)"),
        ("A3", a3_chips(1), "A3"),
        ("26-A3", a3_chips(1), "A3"),
        ("310", inference_chips((0, 32)), "310P"),
    ],
)
def test_every_layout_gives_a_whole_report(
    host: FakeHost, layout: str, chips: Any, family: str
) -> None:
    host.nodes([0, 1])
    host.npu_smi(npu_smi_answers(layout, chips))
    found = report(host)
    assert found.notes == ()
    assert physical(found) == [0, 1]
    assert {device.family for device in found} == {family}
    fields: Dict[str, Any] = vars(found[0])
    empty = {name for name, value in fields.items() if value is None}
    assert empty <= {"address", "power_w", "bus_id"}


@pytest.mark.parametrize(("name", "address"), [("unheard of", "10.0.0.1"), ("310P3", None)])
def test_only_devices_of_known_families_have_no_address(
    host: FakeHost, name: str, address: Optional[str]
) -> None:
    host.nodes([0])
    host.hccn_conf({"address_0": "10.0.0.1"})
    host.npu_smi(npu_smi_answers("910B", [a2_chips(1)[0]._replace(name=name)]))
    assert report(host)[0].address == address
