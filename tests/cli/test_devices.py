"""``ascend-session devices`` on fake hosts: in pipes and as JSON."""

import json
import re
import time

import pytest

from tests.fake_host import (
    FakeProcess,
    Reply,
    a2_chips,
    a3_chips,
    atlas_chips,
    hccn_answers,
    inference_chips,
    npu_smi_answers,
)

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


def a2_server(host, chips=None, processes=()):
    found = a2_chips(4) if chips is None else chips
    host.nodes([chip.physical for chip in found])
    host.npu_smi(npu_smi_answers("910B", found, processes))


def seconds_ago(host, seconds):
    return time.time() - seconds - host.begun(0)


def test_a_server_is_one_line_a_device_and_its_versions(call, host):
    a2_server(host)
    host.driver("24.1.rc2")
    host.toolkit("8.0.RC2")
    host.hccn_conf({f"address_{n}": f"192.168.100.{100 + n}" for n in range(4)})
    started = seconds_ago(host, 3 * 3600 + 12 * 60 + 5)
    host.process(4321, "python3 train.py --epochs 3", devices=[2], seconds=started)
    assert call("devices") == (
        0,
        """\
LOG  PHYS  NAME   FAMILY     HEALTH  MEMORY GB  TEMP  ADDRESS          HOLDER
0    0     910B3  A2 (910B)  OK      3.3/64.0   35 C  192.168.100.100  -
1    1     910B3  A2 (910B)  OK      3.3/64.0   36 C  192.168.100.101  -
2    2     910B3  A2 (910B)  OK      3.3/64.0   37 C  192.168.100.102  \
4321 python3 train.py --epochs 3 (3 h 12 min)
3    3     910B3  A2 (910B)  OK      3.3/64.0   38 C  192.168.100.103  -

Driver    24.1.rc2
Firmware  7.1.0.6.220
Toolkit   8.0.RC2 in /usr/local/Ascend/ascend-toolkit/8.0.RC2
""",
        "",
    )


def test_what_is_not_known_is_a_dash(call, host):
    host.nodes([4])
    called = call("devices")
    assert called.code == 0
    assert called.out.splitlines()[1].split() == ["0", "4", *"-------"]
    assert "\nDriver    -\nFirmware  -\nToolkit   -\nNotes     npu-smi, which comes" in called.out


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(3 * 86400 + 30, "3 d"), (7265, "2 h 1 min"), (2 * 86400 + 3605, "2 d 1 h")],
)
def test_the_age_of_a_holder_has_two_units_at_most(call, host, seconds, said):
    a2_server(host)
    host.process(7, "python3", devices=[1], seconds=seconds_ago(host, seconds))
    assert f" 7 python3 ({said})\n" in call("devices").out


def test_a_holder_that_has_just_begun_has_seconds(call, host):
    a2_server(host)
    host.process(7, "python3", devices=[1], seconds=seconds_ago(host, 1))
    assert re.search(r" 7 python3 \([0-9]{1,2} s\)\n", call("devices").out)


def test_of_several_holders_the_others_are_counted(call, host):
    a2_server(host)
    for pid in (30, 7, 200):
        host.process(pid, f"python3 {pid}.py", devices=[1])
    assert " 7 python3 7.py (" in call("devices").out
    assert call("devices").out.splitlines()[2].endswith(") +2 more")
    found = json.loads(call("devices", "--json").out)
    assert [holder["pid"] for holder in found["devices"][1]["holders"]] == [7, 30, 200]


def test_a_command_is_one_line_without_codes_for_the_terminal(call, host):
    a2_server(host)
    host.process(7, "x", devices=[0])
    (host.root / "proc/7/cmdline").write_bytes(b"python3\0-c\0import os\nos\x1b[31m.abort()\0")
    assert " 7 python3 -c import os os [31m.abort() (" in call("devices").out


def test_nothing_is_cut_in_a_pipe(call, host):
    a2_server(host)
    host.process(7, "python3 " + "--name=value " * 50, devices=[0])
    assert "--name=value " * 49 in call("devices").out


def test_notes_name_their_device_and_are_said_once(call, host, monkeypatch):
    a2_server(host)
    monkeypatch.setenv(VISIBLE, "1,3")
    called = call("devices")
    assert called.code == 0
    assert [line.split()[:2] for line in called.out.splitlines()[1:5]] == [
        ["0", "1"],
        ["1", "3"],
        ["-", "0"],
        ["-", "2"],
    ]
    assert called.out.endswith(
        "Notes     davinci0, davinci2 (910B3): ASCEND_RT_VISIBLE_DEVICES='1,3' hides it from this "
        "process.\n"
    )


def test_no_device_is_one_and_the_stub_is_named(call, host):
    assert call("devices") == (
        1,
        "Driver    -\nFirmware  -\nToolkit   -\n"
        "Notes     This machine has no Ascend device (there is no /dev/davinci<N>).\n"
        "          Scripts run on the stub here, with TensorFlow on the CPU.\n",
        "",
    )


def test_no_visible_device_is_one_and_the_reason(call, host, monkeypatch):
    a2_server(host)
    monkeypatch.setenv(VISIBLE, "1,0")
    called = call("devices")
    assert called.code == 1
    assert "\nNotes     This process has no device.\n" in called.out
    assert " 0 comes after 1. " in called.out
    assert "stub" not in called.out


def test_chips_without_nodes_are_one_and_named_as_npu_smi_does(call, host):
    host.npu_smi(npu_smi_answers("910B", a2_chips(2), [FakeProcess(1, 0, 77, "python3", 5)]))
    called = call("devices")
    assert called.code == 1
    assert called.out.splitlines()[2].endswith(" 77 python3")
    assert "NPU 1 chip 0 (910B3): Process 77 is listed by npu-smi but not in /proc" in called.out
    assert "Scripts run on the stub here" in called.out


@pytest.mark.parametrize("health", ["Warning", "Alarm", "Critical", "UNKNOWN"])
def test_a_device_that_is_not_healthy_is_one(call, host, monkeypatch, health):
    chips = a2_chips(3)
    a2_server(host, [chips[0], chips[1]._replace(health=health), chips[2]])
    called = call("devices")
    assert called.code == 1
    assert f"davinci1 (910B3) is not healthy: npu-smi reports {health}.\n" in called.out
    monkeypatch.setenv(VISIBLE, "0,2")
    assert call("devices").code == 0


def test_devices_that_nobody_can_open_are_not_in_order(call, host):
    a2_server(host)
    assert call("devices").code == 0
    (host.root / "dev/hisi_hdc").unlink()
    called = call("devices")
    assert called.code == 1
    assert "There is no /dev/hisi_hdc" in called.out


def test_the_exit_code_is_explained_in_the_help(call):
    text = " ".join(call("devices", "--help").out.split())
    assert "Exit code: 0 if this process can open a device and the health of all" in text
    assert "--timeout SECONDS" in text


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_the_exit_code_is_the_same_in_every_form(call, host, arguments):
    assert call("devices", *arguments).code == 1
    a2_server(host)
    assert call("devices", *arguments).code == 0


def test_json_is_the_whole_report(call, host, monkeypatch):
    a2_server(host, processes=[FakeProcess(2, 0, 99, "python3", 30000)])
    host.driver("24.1.rc2", "V100")
    monkeypatch.setenv(VISIBLE, "2")
    found = json.loads(call("devices", "--json").out)
    keys = {"devices", "driver", "firmware", "toolkits", "notes", "unanswered", "visible"}
    assert set(found) == keys
    assert found["visible"] == [0]
    assert found["driver"] == {
        "version": "24.1.rc2",
        "inner_version": "V100",
        "path": "/usr/local/Ascend/driver/version.info",
    }
    first = found["devices"][0]
    assert {key: first[key] for key in ("index", "physical_id", "logical_id", "driver_id")} == {
        "index": 0,
        "physical_id": 2,
        "logical_id": 0,
        "driver_id": 2,
    }
    assert (first["memory_kind"], first["memory_used_mb"], first["power_w"]) == ("HBM", 3402, 92.4)
    assert first["holders"] == [
        {
            "pid": 99,
            "command": "python3",
            "since": None,
            "memory_mb": 30000,
            "own": False,
            "here": False,
            "user": None,
        }
    ]
    assert found["devices"][1]["logical_id"] is None


def test_json_of_nothing_has_the_same_names(call, host):
    empty = json.loads(call("devices", "--json").out)
    assert (empty["devices"], empty["visible"]) == ([], [])
    a2_server(host)
    assert set(json.loads(call("devices", "--json").out)) == set(empty)


@pytest.mark.parametrize(
    ("layout", "chips", "family"),
    [
        ("910A", atlas_chips(2), "Atlas training (910A)"),
        ("910B", a2_chips(2), "A2 (910B)"),
        ("26", a2_chips(2), "A2 (910B)"),
        ("A3", a3_chips(1), "A3"),
        ("26-A3", a3_chips(1), "A3"),
        ("310", inference_chips((0, 96)), "310P"),
    ],
)
def test_every_layout_is_a_row_for_each_device(call, host, layout, chips, family):
    host.nodes([0, 1])
    host.npu_smi(npu_smi_answers(layout, chips))
    rows = call("devices").out.splitlines()[1:3]
    assert [row.split()[:3] for row in rows] == [[str(n), str(n), chips[n].name] for n in (0, 1)]
    assert all(f"  {family}  " in row for row in rows)


def test_a_hanging_npu_smi_costs_its_time_limit_only(call, host):
    host.nodes([0, 1])
    host.npu_smi({"": Reply(then="hang")})
    host.hccn_tool(hccn_answers({0: "10.0.0.1", 1: "10.0.0.2"}))
    begun = time.monotonic()
    called = call("devices", "--timeout", "0.5")
    assert time.monotonic() - begun < 30
    assert called.code == 0
    assert "'npu-smi info' did not answer within 0.5 s and was killed." in called.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--timeout", "0"], "0 is not from 0.1 to 86400 seconds."),
        (["--timeout", "nan"], "nan is not from 0.1 to 86400 seconds."),
        (["--timeout", "inf"], "inf is not from 0.1 to 86400 seconds."),
        (["--timeout", "soon"], "Invalid value for '--timeout': "),
        (["0"], "unexpected extra argument"),
    ],
)
def test_a_wrong_call_is_two(call, host, arguments, said):
    called = call("devices", *arguments)
    assert (called.code, called.out) == (2, "")
    assert said in " ".join(called.err.split())


def test_tensorflow_is_not_loaded(program, host):
    a2_server(host)
    called = program("devices", python=["-X", "importtime"])
    loaded = {line.rpartition("|")[2].strip() for line in called.err.splitlines()}
    assert called.code == 0
    assert "ascend_session.hardware.device_report" in loaded
    assert not {name for name in loaded if name.split(".")[0] in ("tensorflow", "numpy")}
