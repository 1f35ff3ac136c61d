"""Which devices a process gets, and what it may ask for."""

from pathlib import Path
from typing import Any, Dict, Sequence

import pytest

from ascend_session.backends.npu_job import Devices
from ascend_session.errors import DeviceError
from tests.fake_host import FakeHost


def seen(tmp_path: Path, nodes: Sequence[int], **environ: str) -> Any:
    """The devices of a host with these nodes, and its environment."""
    host = FakeHost(tmp_path / "host")
    host.nodes(nodes)
    variables: Dict[str, str] = {**host.environ, **environ}
    return Devices.of(variables), variables


def test_the_place_among_the_visible_devices_is_the_logical_id(tmp_path: Path) -> None:
    devices, _ = seen(tmp_path, [2, 3, 5, 11], ASCEND_RT_VISIBLE_DEVICES="1,3")
    assert devices.physical == (3, 11)
    assert [devices.logical(physical) for physical in (3, 11, 2, 99)] == [0, 1, None, None]


@pytest.mark.parametrize(
    ("environ", "parameters", "said"),
    [
        ({}, {"session_device_id": 2}, ["session_device_id=2: this process gets 2 device(s), 0 "]),
        ({"ASCEND_DEVICE_ID": "5"}, {}, ["ASCEND_DEVICE_ID=5: this process gets 2 device(s)"]),
        (
            {"DEVICE_ID": "0"},
            {},
            ["DEVICE_ID=0 is not the physical id of a device that this process"],
        ),
        (
            {"ASCEND_DEVICE_ID": "7", "DEVICE_ID": "99"},
            {"session_device_id": 9},
            ["ASCEND_DEVICE_ID=7", "session_device_id=9"],
        ),
    ],
)
def test_what_is_not_there_is_refused_all_at_once(
    tmp_path: Path, environ: Dict[str, str], parameters: Dict[str, int], said: Sequence[str]
) -> None:
    devices, variables = seen(tmp_path, [4, 5], **environ)
    with pytest.raises(DeviceError) as refused:
        devices.check(variables, parameters)
    lines = refused.value.message.splitlines()
    assert len(lines) == len(said)
    assert all(line.startswith(start) for line, start in zip(lines, said))
    assert refused.value.hint == "ascend-session devices"


def test_what_is_there_is_taken(tmp_path: Path) -> None:
    devices, variables = seen(tmp_path, [4, 5], DEVICE_ID="5")
    devices.check(variables, {"session_device_id": 1})
    devices.check({**variables, "ASCEND_DEVICE_ID": "0"}, {})
    assert devices.notes == devices.traps == ()


def test_a_list_that_hides_everything_is_refused_with_the_reason(tmp_path: Path) -> None:
    devices, variables = seen(tmp_path, [0, 1], ASCEND_RT_VISIBLE_DEVICES="1,0")
    with pytest.raises(DeviceError, match="0 comes after 1"):
        devices.check(variables, {})


def test_where_no_node_is_seen_nothing_can_be_refused_but_it_is_said(tmp_path: Path) -> None:
    devices, variables = seen(tmp_path, [])
    devices.check(variables, {"session_device_id": 3})
    assert devices.notes == ("There is no /dev/davinci<N>: initialising will abort this process.",)


def test_a_missing_control_node_is_said(tmp_path: Path) -> None:
    host = FakeHost(tmp_path / "host")
    host.nodes([0], control=False)
    notes = Devices.of(host.environ).notes
    missing = [note.split("/dev/")[1].split(",")[0] for note in notes]
    assert missing == ["davinci_manager", "devmm_svm", "hisi_hdc"]
