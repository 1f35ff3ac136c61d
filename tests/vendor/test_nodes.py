"""Devices: which node is open, since when and until when, and who may have it.

Source: guides/facts/process.md#the-device-of-a-process; guides/facts/devices.md#device-nodes,
guides/facts/devices.md#visible-devices; guides/facts/failures.md#devices-in-use.
"""

import os
import subprocess
import sys
from typing import Any, Callable, Dict, Iterator, List

import psutil
import pytest

from ascend_session.hardware import open_devices
from tests.fake_host import FakeHost
from tests.fake_host.vendor import Loaded, environment, loaded, recorded
from tests.vendor.system import System


def held(host: FakeHost, pid: int = 0) -> List[int]:
    """The devices that a process, this one by default, has open."""
    pids = open_devices(str(host.root)).pids
    return sorted(int(device) for device in pids if (pid or os.getpid()) in pids[device])


def test_the_own_node_is_open_while_ge_is_up(
    ge: Loaded, tf: Any, system: Any, proto: Callable[..., Any]
) -> None:
    assert held(ge.host) == []
    system.start()
    assert held(ge.host) == [0]
    system.end()
    assert held(ge.host) == []


def test_a_session_opens_its_own_besides(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    with tf.Session(config=proto(session_device_id=3)) as sess:
        assert sess.run(product) == [[6.0]]
        assert held(ge.host) == [0, 3]
    assert held(ge.host) == []
    assert ge.of("Run")[0]["device"] == ge.of("GESession")[0]["device"] == 3
    assert ge.of("GEInitialize")[0]["device"] == 0


@pytest.mark.parametrize(
    ("variables", "logical", "physical"),
    [
        ({"ASCEND_DEVICE_ID": "5", "DEVICE_ID": "2"}, 5, 5),
        ({"DEVICE_ID": "2"}, 2, 2),
        ({"ASCEND_RT_VISIBLE_DEVICES": "4,6", "ASCEND_DEVICE_ID": "1"}, 1, 6),
        ({"ASCEND_RT_VISIBLE_DEVICES": "4,6", "DEVICE_ID": "6"}, 1, 6),
        ({"ASCEND_RT_VISIBLE_DEVICES": "4, 6"}, 0, 4),
    ],
    ids=str,
)
def test_the_own_device_is_named_by_the_environment(
    ge: Loaded,
    system: Any,
    monkeypatch: Any,
    variables: Dict[str, str],
    logical: int,
    physical: int,
) -> None:
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        system.start()
    assert ge.of("GEInitialize")[0]["device"] == logical
    assert held(ge.host) == [physical]


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"ASCEND_DEVICE_ID": "8"}, "EE1001"),
        ({"ASCEND_RT_VISIBLE_DEVICES": "4,6", "ASCEND_DEVICE_ID": "2"}, "EE1001"),
        ({"ASCEND_RT_VISIBLE_DEVICES": "x"}, "EE2002"),
        ({"ASCEND_RT_VISIBLE_DEVICES": "1,1"}, "EE2002"),
    ],
    ids=str,
)
def test_a_device_that_is_not_there_fails_the_initialisation(
    ge: Loaded,
    tf: Any,
    proto: Callable[..., Any],
    product: Any,
    monkeypatch: Any,
    variables: Dict[str, str],
    code: str,
) -> None:
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with tf.Session(config=proto()) as sess:
            with pytest.raises(tf.errors.InternalError, match=code):
                sess.run(product)
    assert ge.of("GEInitialize")[0]["failed"] is True


def test_a_session_on_a_device_that_is_not_there_fails(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    with tf.Session(config=proto(session_device_id=8)) as sess:
        with pytest.raises(tf.errors.InternalError, match="Get ge session failed"):
            sess.run(product)


@pytest.fixture
def holder(host: FakeHost) -> Iterator[Any]:
    """Another process that holds device 0 until its stdin is closed."""
    program = (
        "import sys; from fake_ge import nodes; nodes.hold(0); print(flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **environment(host)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process
        end(process)


def end(process: Any) -> None:
    """Lets the holder end."""
    process.stdin.close()
    process.wait(60)


def test_with_collectives_a_device_that_another_process_holds_is_busy(
    holder: Any, ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, monkeypatch: Any
) -> None:
    assert held(ge.host, holder.pid) == [0]
    with monkeypatch.context() as patch:
        patch.setenv("HELP_CLUSTER", "1")
        with tf.Session(config=proto()) as sess:
            busy = "EJ0001: Failed to initialize the HCCP process. Reason: Maybe the last training"
            with pytest.raises(tf.errors.InternalError, match=busy):
                sess.run(product)
        assert held(ge.host) == []
        end(holder)
        with tf.Session(config=proto()) as sess:
            assert sess.run(product) == [[6.0]]


def test_without_collectives_two_processes_share_a_device(
    holder: Any, ge: Loaded, system: Any
) -> None:
    system.start()
    assert held(ge.host) == [0]


def test_a_kept_device_stays_open_after_the_shutdown(host: FakeHost, tf: Any, proto: Any) -> None:
    with loaded(host, faults="keeps-device"):
        system = System(tf, proto())
        system.start()
        system.end()
        system.session.close()
        assert held(host) == [0]
    assert held(host) == []


def test_an_orphan_holds_the_device_and_is_ended_with_the_loading(
    host: FakeHost, tf: Any, proto: Any
) -> None:
    with loaded(host, faults="orphan"):
        system = System(tf, proto())
        for _ in range(2):
            system.start()
            system.end()
        system.session.close()
        (orphan,) = [e["orphan"] for e in recorded(host) if e["call"] == "orphan"]
        assert held(host) == []
        assert held(host, orphan) == [0]
        assert orphan not in [child.pid for child in psutil.Process().children(recursive=True)]
    assert held(host, orphan) == []
