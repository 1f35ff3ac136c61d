"""The public functions: how many devices there are for this process."""

import json
from dataclasses import FrozenInstanceError, asdict
from typing import Dict, Optional

import pytest

from ascend_session.hardware.device import (
    Device,
    DeviceReport,
    device_count,
    devices,
    is_available,
)
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from tests.fake_host import FakeHost, a2_chips, npu_smi_answers


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
