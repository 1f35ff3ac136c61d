"""``0-3,6`` and its faults."""

from typing import Any, Tuple

import pytest

from ascend_session.errors import DeviceError
from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId
from ascend_session.launcher.plan.devices import parse_devices


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ("0", (0,)),
        ("0-3,6", (0, 1, 2, 3, 6)),
        ("8-15", tuple(range(8, 16))),
        ("3, 1", (3, 1)),
        ("2-2", (2,)),
        ([5, 4], (5, 4)),
        (range(2), (0, 1)),
        ((LogicalDeviceId(1),), (1,)),
    ],
)
def test_devices_are_logical_ids_in_the_order_given(given: Any, ids: Tuple[int, ...]) -> None:
    found = parse_devices(given)
    assert found == ids
    assert all(type(one) is LogicalDeviceId for one in found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "'' is neither a device id nor a range"),
        ("0,,1", "'' is neither a device id nor a range"),
        ("0-", "'0-' is neither"),
        ("-1", "'-1' is neither"),
        ("a", "'a' is neither"),
        ("\u0662", "is neither"),
        ("0-99999999999", "is neither"),
        ("3-1", "the range 3-1 ends before it begins"),
        ("0-3,2,0", "names 0, 2 more than once"),
        ([], "names no device"),
        ([-1], "-1 in devices is not a device id"),
        ([True], "True in devices is not a device id"),
        (["0"], "'0' in devices is not a device id"),
        (4, "devices must be a text or a list of ids, not 4"),
        ([PhysicalDeviceId(4)], "PhysicalDeviceId(4) is physical; a launch takes logical ids"),
    ],
)
def test_what_is_no_list_of_devices_is_refused(given: Any, said: str) -> None:
    with pytest.raises(DeviceError) as refused:
        parse_devices(given)
    assert said in refused.value.message
    assert refused.value.hint
