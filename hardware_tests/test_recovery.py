"""Devices that another process holds, or held until it was killed."""

import signal
from typing import Any

import pytest

from ascend_session import DeviceTimeoutError, RetryPolicy, ascend_system, devices
from hardware_tests import limits
from hardware_tests.graphs import product
from hardware_tests.running import started


def check_computes(tf: Any, system: Any) -> None:
    fetch, feed, expected = product(tf)
    with system.session() as sess:
        assert (sess.run(fetch, feed) == expected).all()


def test_the_device_can_be_had_again_after_its_holder_was_killed(tf: Any) -> None:
    with started("holding") as holder:
        holder.await_word("holding")
        holder.send(signal.SIGKILL)
        assert holder.end().code == -signal.SIGKILL
        with ascend_system(backend="npu", wait_for_device=limits.RELEASE) as system:
            check_computes(tf, system)


def test_a_device_that_stays_held_is_refused_with_the_name_of_its_holder(tf: Any) -> None:
    with started("holding") as holder:
        holder.await_word("holding")
        if holder.pid not in [one.pid for device in devices() for one in device.holders]:
            pytest.skip("that another process holds a device cannot be seen here")
        with pytest.raises(DeviceTimeoutError, match=f"process {holder.pid} "):
            with ascend_system(backend="npu", wait_for_device=limits.HELD):
                pass
        assert holder.end().code == 0


def test_a_device_that_was_tried_in_another_process_opens(tf: Any) -> None:
    with ascend_system(backend="npu", probe=RetryPolicy()) as system:
        check_computes(tf, system)
    assert [event.name for event in system.events][:2] == ["probe", "initialize"]
