"""All devices of this process at the same time."""

import threading
from typing import Any, List

import pytest

from ascend_session import DeviceError, device_count, devices, fan_out
from hardware_tests import limits
from hardware_tests.graphs import product


@pytest.mark.needs(devices=2)
def test_every_device_has_its_own_result_at_the_same_time(tf: Any) -> None:
    count = device_count()
    together = threading.Barrier(count, timeout=limits.PROGRAM)

    def computed(session: Any, built: Any) -> bool:
        fetch, feed, expected = built
        together.wait()
        return bool((session.run(fetch, feed) == expected).all())

    with fan_out(None, range(count), lambda n: product(tf, n + 1.0), backend="npu") as opened:
        assert opened.map(computed) == [True] * count


@pytest.mark.needs(devices=2)
def test_every_device_is_held_by_this_process(tf: Any) -> None:
    with fan_out(None, range(device_count()), lambda n: product(tf), backend="npu") as opened:
        opened.map(lambda session, built: session.run(built[0], built[1]))
        held = [any(holder.own for holder in device.holders) for device in devices().visible]
    if not any(held):
        pytest.skip("that this process holds a device cannot be seen here")
    assert held == [True] * device_count()


def test_an_absent_device_is_refused_before_anything_is_built(tf: Any) -> None:
    absent = device_count()
    built: List[int] = []
    with pytest.raises(DeviceError, match=str(absent)):
        with fan_out(None, [0, absent], built.append, backend="npu"):
            pass
    assert built == []
