"""Which device ids are refused, all at once and before anything is started."""

from typing import Any, List

import numpy as np
import pytest

from ascend_session import (
    AscendConfig,
    BackendError,
    ConfigError,
    DeviceError,
    InitializationError,
    ascend_system,
    current_system,
)
from ascend_session.fanout import fan_out
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from tests.session.backends import FailingStart


def build_nothing(device_id: int) -> None:
    pass


@pytest.mark.parametrize(
    ("device_ids", "said"),
    [
        ([], "device_ids is empty: fan_out needs at least one device."),
        (4, "device_ids must be a list of device ids, not 4."),
        ([True], "A device id is an int, not bool True."),
        ([np.bool_(True)], "A device id is an int, not bool"),
        ([1.0], "A device id is an int, not float 1.0."),
        ("0", "A device id is an int, not str '0'."),
        ([None], "A device id is an int, not NoneType None."),
        ([-1], "A device id is 0 or more, not -1."),
        ([PhysicalDeviceId(3)], "PhysicalDeviceId(3) is physical"),
        ([2, 0, 2, np.int64(2)], "Device 2 is given 3 times."),
    ],
)
def test_ids_that_cannot_be_are_refused_by_name(device_ids: Any, said: str) -> None:
    with pytest.raises(DeviceError) as refused:
        fan_out(None, device_ids, build_nothing)
    assert refused.value.message.startswith(said)


def test_a_device_that_is_not_there_is_refused_before_the_system_opens(
    tf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whose initialisation fails, so that the refusal can only have come before.
    monkeypatch.setattr("ascend_session.backends.stub.StubBackend", FailingStart)
    with pytest.raises(DeviceError, match="device_id=8: the stub has 8 devices"):
        fan_out(None, [0, 8], build_nothing).__enter__()
    with pytest.raises(InitializationError):
        fan_out(None, [0], build_nothing).__enter__()


def test_everything_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(DeviceError) as refused:
        fan_out(None, [0, -1, "1", 3, 3, 5, 5], build_nothing)  # type: ignore[list-item]
    assert refused.value.message.splitlines() == [
        "4 problems in device_ids:",
        "  1. A device id is 0 or more, not -1.",
        "  2. A device id is an int, not str '1'.",
        "  3. Device 3 is given 2 times.",
        "  4. Device 5 is given 2 times.",
    ]


@pytest.mark.parametrize(
    "device_ids",
    [
        range(2),
        (0, 1),
        iter([0, 1]),
        np.arange(2),
        [np.int32(0), np.uint8(1)],
        [LogicalDeviceId(0), LogicalDeviceId(1)],
    ],
    ids=["range", "tuple", "iterator", "array", "numpy ints", "logical ids"],
)
def test_any_iterable_of_ints_will_do(tf: Any, device_ids: Any) -> None:
    asked: List[int] = []
    with fan_out(None, device_ids, asked.append) as devices:
        assert devices.device_ids == (0, 1)
    assert asked == [0, 1]
    assert {type(device_id) for device_id in asked} == {int}


def test_devices_that_are_not_here_are_refused_together_before_anything_is_built(
    tf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_SESSION_STUB_DEVICES", "2")
    asked: List[int] = []
    with pytest.raises(DeviceError) as refused:
        fan_out(None, [0, 7, 1, 2], asked.append).__enter__()
    assert asked == []
    assert refused.value.message.splitlines() == [
        "2 devices are not there:",
        "  1. session_device_id=7: the stub has 2 devices, 0 to 1.",
        "  2. session_device_id=2: the stub has 2 devices, 0 to 1.",
    ]
    assert refused.value.hint == "export ASCEND_SESSION_STUB_DEVICES=8"
    assert current_system() is None


def test_all_devices_that_are_here_can_be_had(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_SESSION_STUB_DEVICES", "2")
    with fan_out(None, range(2), build_nothing) as devices:
        assert len(devices) == 2


def test_a_device_in_the_config_as_well_is_refused() -> None:
    with pytest.raises(ConfigError, match="session_device_id=0 in the AscendConfig") as refused:
        fan_out(AscendConfig(session_device_id=0), [0], build_nothing)
    assert refused.value.hint == "Give fan_out an AscendConfig without session_device_id."


def test_a_device_in_the_config_of_the_open_system_is_refused_unless_another_config_is_given(
    tf: Any,
) -> None:
    with ascend_system(AscendConfig(session_device_id=1)) as system:
        with pytest.raises(ConfigError, match="session_device_id=1"):
            fan_out(None, [1], build_nothing).__enter__()
        assert system.is_open
        with fan_out(AscendConfig(), [0, 1], build_nothing) as devices:
            assert devices.system is system


def test_what_else_cannot_be_is_refused_at_the_call() -> None:
    with pytest.raises(TypeError, match="build must be a function of a device id"):
        fan_out(None, [0], None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="config must be an AscendConfig, this is dict"):
        fan_out({}, [0], build_nothing)  # type: ignore[arg-type]
    with pytest.raises(BackendError, match="is not a backend"):
        fan_out(None, [0], build_nothing, backend="gpu")
