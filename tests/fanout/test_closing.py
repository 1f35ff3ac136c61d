"""What is closed when opening, the body or closing itself fails, and what the user is told."""

import signal
from typing import Any, Optional

import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    LifecycleError,
    ShutdownError,
    ascend_system,
    current_system,
)
from ascend_session.errors import FanOutError
from ascend_session.fanout import fan_out
from hardware_tests.backend_contract import steps
from tests.signals import signal_this_thread


def enter_only(block: Any) -> None:
    """Enters a block that must refuse."""
    with block:
        pass


def test_a_failing_build_closes_the_devices_before(recording: Any, build: Any) -> None:
    def failing(device_id: int) -> Any:
        if device_id == 5:
            raise ZeroDivisionError("no such model")
        return build(device_id)

    with pytest.raises(FanOutError) as failed:
        enter_only(fan_out(None, [3, 4, 5, 6], failing))
    error = failed.value
    assert error.message == "Device 5 failed in the phase build: ZeroDivisionError: no such model"
    assert (error.device_id, error.phase) == (5, "build")
    assert error.failures == {5: error.__cause__}
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert recording.said[-2:] == ["close 4", "close 3"]
    assert "open 5" not in recording.said
    assert current_system() is None


def test_a_session_that_does_not_open_closes_the_devices_before(recording: Any, build: Any) -> None:
    recording.fail_to_open = 2
    with ascend_system() as system:
        with pytest.raises(FanOutError) as failed:
            enter_only(fan_out(None, [0, 1, 2], build))
        assert (failed.value.device_id, failed.value.phase) == (2, "start")
        assert isinstance(failed.value.__cause__, MemoryError)
        assert recording.said[-2:] == ["close 1", "close 0"]
        assert system.is_open
        assert "0 sessions" in repr(system)


def test_a_first_run_that_fails_closes_that_device_as_well(
    tf: Any, recording: Any, build: Any
) -> None:
    recording.fail_to_run = 1
    with pytest.raises(FanOutError, match="Device 1 failed in the phase start: InternalError"):
        enter_only(fan_out(None, [0, 1, 2], build))
    assert recording.said[-3:] == ["run Const 1", "close 1", "close 0"]
    assert current_system() is None


def test_the_advice_of_an_error_of_ours_is_passed_on(tf: Any) -> None:
    def build(device_id: int) -> None:
        tf.data.make_one_shot_iterator(tf.data.Dataset.range(3))

    with pytest.warns(AscendConfigWarning), pytest.raises(FanOutError) as failed:
        enter_only(fan_out(AscendConfig(iterations_per_loop=10), [0], build))
    assert isinstance(failed.value.__cause__, LifecycleError)
    assert "LifecycleError: iterations_per_loop=10" in failed.value.message
    assert "make_initializable_iterator" in str(failed.value.hint)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_failure_comes_out_of_build_as_it_is(recording: Any, error: Any) -> None:
    raised = error("mine")

    def build(device_id: int) -> None:
        if device_id:
            raise raised

    with pytest.raises(error) as caught:
        enter_only(fan_out(None, [0, 1], build))
    assert caught.value is raised
    assert recording.said == ["open 0", "close 0"]


def test_an_exception_of_the_body_comes_out_as_it_is(recording: Any, build: Any) -> None:
    raised = StopIteration("mine")
    caught: Any = None
    try:
        with fan_out(None, [0, 1], build):
            raise raised
    except BaseException as error:
        caught = error
    assert caught is raised
    assert recording.said[-2:] == ["close 1", "close 0"]
    assert current_system() is None


def test_what_fails_while_closing_keeps_nothing_open(recording: Any, build: Any) -> None:
    def fail(device: int) -> None:
        raise OSError(f"device {device} is on fire")

    recording.at_close = fail
    with pytest.raises(ShutdownError, match="device 1 is on fire") as raised:
        enter_only(fan_out(None, [0, 1], build))
    error: Any = raised.value
    assert ["device 0 is on fire" in str(other) for other in error.closing_errors] == [True]
    assert recording.said[-2:] == ["close 1", "close 0"]
    assert current_system() is None


def test_a_failing_build_counts_more_than_what_fails_while_closing(
    recording: Any, build: Any
) -> None:
    def fail(device: int) -> None:
        raise OSError(f"device {device} is on fire")

    recording.at_close = fail
    with pytest.raises(FanOutError, match="Device 1 failed in the phase build") as raised:
        enter_only(fan_out(None, [0, 1], lambda device: build(1 // (1 - device))))
    error: Any = raised.value
    assert ["device 0 is on fire" in str(other) for other in error.closing_errors] == [True]
    assert current_system() is None


@pytest.mark.parametrize("body", [None, ZeroDivisionError("mine")])
def test_ctrl_c_while_closing_waits_until_all_is_closed(
    recording: Any, build: Any, body: Optional[Exception]
) -> None:
    recording.at_close = lambda device: signal_this_thread(signal.SIGINT) if device else None
    block = fan_out(None, [0, 1], build)
    devices = block.__enter__()
    with pytest.raises(KeyboardInterrupt):
        block.__exit__(type(body), body, None)
    assert recording.said[-2:] == ["close 1", "close 0"]
    assert steps(devices.system)[-3:] == ["session close", "session close", "shutdown"]


def test_ctrl_c_counts_more_than_what_fails_while_closing(recording: Any, build: Any) -> None:
    def interrupt_and_fail(device: int) -> None:
        if device:
            signal_this_thread(signal.SIGINT)
        raise OSError(f"device {device} is on fire")

    recording.at_close = interrupt_and_fail
    with pytest.raises(KeyboardInterrupt) as raised:
        enter_only(fan_out(None, [0, 1], build))
    error: Any = raised.value
    assert [type(other) for other in error.closing_errors] == [ShutdownError]
    assert current_system() is None


def test_a_session_left_open_inside_is_closed_and_told(tf: Any, build: Any) -> None:
    block = fan_out(None, [0, 1], build)
    devices = block.__enter__()
    devices.system.session().__enter__()
    with pytest.raises(LifecycleError, match=r"1 session\(s\) opened inside it"):
        block.__exit__(None, None, None)
    assert steps(devices.system)[-4:] == ["session close"] * 3 + ["shutdown"]
