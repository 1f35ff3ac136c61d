"""Waiting for a device that another process holds."""

import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from ascend_session.checks.availability import await_free, find_holders
from ascend_session.errors import DeviceTimeoutError
from tests.fake_host import (
    USER,
    FakeHost,
    FakeProcess,
    Reply,
    a2_chips,
    hccn_answers,
    npu_smi_answers,
)


@pytest.fixture
def host(tmp_path: Path) -> Any:
    """Two devices; a training holds the second one."""
    host = FakeHost(tmp_path / "host")
    host.nodes([4, 5])
    host.process(4321, "python3 train.py", devices=[5])
    yield host
    host.close()


def test_the_holder_is_found_by_the_devices_logical_id(host: FakeHost) -> None:
    seen = find_holders([0, 1], host.environ)
    assert list(seen.held) == ["device 1 (/dev/davinci5)"]
    assert [holder.pid for holder in seen.held["device 1 (/dev/davinci5)"]] == [4321]
    assert find_holders([0], host.environ).is_free


def test_a_device_that_nobody_holds_is_not_waited_for(host: FakeHost, caplog: Any) -> None:
    await_free([0], 3600, host.environ)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_what_this_process_holds_itself_is_free_for_it(host: FakeHost) -> None:
    host.process(os.getpid(), "python3 train.py", devices=[4])
    assert find_holders([0], host.environ).is_free


def test_the_time_that_is_over_names_device_holder_and_what_to_do(host: FakeHost) -> None:
    with pytest.raises(DeviceTimeoutError) as refused:
        await_free([0, 1], 0.01, host.environ)
    assert refused.value.message == (
        "After 0.01 s device 1 (/dev/davinci5) is held by process 4321 (python3 train.py) of user "
        f"{USER}."
    )
    assert "kill 4321" in str(refused.value.hint)


def test_nobody_is_told_to_kill_a_process_that_is_not_here(tmp_path: Path) -> None:
    host = FakeHost(tmp_path / "host")
    chips = a2_chips(2)
    host.nodes([0, 1])
    host.npu_smi(npu_smi_answers("910B", chips, [FakeProcess(1, 0, 77, "python3", 3000)]))
    with pytest.raises(DeviceTimeoutError) as refused:
        await_free([1], 0.01, host.environ)
    assert "process 77 (python3) on the host or in another container" in refused.value.message
    assert refused.value.hint == "Wait longer, or use another device."
    host.close()


def test_a_device_that_another_container_hides_is_waited_for(tmp_path: Path) -> None:
    host = FakeHost(tmp_path / "host")
    host.nodes([0])
    text = "dcmi model initialized failed, because the device is used. ret is -8020\n"
    host.npu_smi({"info": Reply(text, code=1), "info -m": Reply(text, code=1)})
    with pytest.raises(
        DeviceTimeoutError, match="held by another container, which hides the process"
    ):
        await_free([0], 0.01, host.environ)
    host.close()


def test_no_time_at_all_is_no_look(host: FakeHost) -> None:
    host.npu_smi(npu_smi_answers("910B", a2_chips(2)))
    await_free([1], 0, host.environ)
    assert host.calls() == []
    find_holders([1], host.environ)
    assert host.calls() != []


def test_a_look_asks_for_no_address(host: FakeHost) -> None:
    host.hccn_tool(hccn_answers({4: "192.168.1.8", 5: "192.168.1.9"}))
    assert list(find_holders([1], host.environ).held) == ["device 1 (/dev/davinci5)"]
    assert host.calls() == []


def test_it_goes_on_as_soon_as_the_holder_has_gone(host: FakeHost, caplog: Any) -> None:
    """The holder goes when the wait is announced, so nothing depends on the clock."""
    gone = threading.Event()

    class Goes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.WARNING:
                shutil.rmtree(str(host.root / "proc" / "4321"))
                gone.set()

    log = logging.getLogger("ascend_session.checks.availability")
    handler = Goes()
    log.addHandler(handler)
    try:
        await_free([1], 600, host.environ)
    finally:
        log.removeHandler(handler)
    assert gone.is_set()
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "Waiting for at most 600 s: device 1 (/dev/davinci5) is held by process 4321 (python3 "
        f"train.py) of user {USER}."
    ]
