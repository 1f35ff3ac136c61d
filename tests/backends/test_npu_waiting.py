"""Waiting for a device that another process holds."""

import logging
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from ascend_session.backends.npu_waiting import await_free, holders_of
from ascend_session.errors import DeviceTimeoutError
from tests.fake_host import FakeHost


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """Two devices; a training holds the second one."""
    host = FakeHost(tmp_path / "host")
    host.nodes([4, 5])
    host.process(4321, "python3 train.py", devices=[5])
    return host


def test_the_holder_is_found_by_the_devices_logical_id(host: FakeHost) -> None:
    held = holders_of([0, 1], host.environ)
    assert list(held) == ["device 1 (/dev/davinci5)"]
    assert [holder.pid for holder in held["device 1 (/dev/davinci5)"]] == [4321]
    assert holders_of([0], host.environ) == {}


def test_a_device_that_nobody_holds_is_not_waited_for(host: FakeHost) -> None:
    await_free([0], 3600, host.environ)
    assert holders_of([0], host.environ) == {}


def test_the_time_that_is_over_names_device_holder_and_what_to_do(host: FakeHost) -> None:
    with pytest.raises(DeviceTimeoutError) as refused:
        await_free([0, 1], 0.01, host.environ)
    assert refused.value.message == (
        "After 0.01 s device 1 (/dev/davinci5) is held by process 4321 (python3 train.py)."
    )
    assert "kill 4321" in str(refused.value.hint)


def test_no_time_at_all_is_no_look(tmp_path: Path, host: FakeHost) -> None:
    await_free([1], 0, host.environ)
    assert host.calls() == []


def test_it_goes_on_as_soon_as_the_holder_has_gone(host: FakeHost, caplog: Any) -> None:
    """The holder goes when the wait is announced, so nothing depends on the clock."""
    gone = threading.Event()

    class Goes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            shutil.rmtree(str(host.root / "proc" / "4321"))
            gone.set()

    log = logging.getLogger("ascend_session.backends.npu_waiting")
    handler = Goes()
    log.addHandler(handler)
    try:
        await_free([1], 600, host.environ)
    finally:
        log.removeHandler(handler)
    assert gone.is_set()
    assert caplog.messages == [
        "Waiting: device 1 (/dev/davinci5) is held by process 4321 (python3 train.py)."
    ]
