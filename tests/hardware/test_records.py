"""One device's record, made of the facts about it."""

from typing import Any, List

import pytest

from ascend_session.hardware.npu_smi_rows import Chip, Memory
from ascend_session.hardware.occupancy import Holder
from ascend_session.hardware.records import Facts, may_have_address, record
from ascend_session.ids import PhysicalDeviceId
from tests.fake_host import FakeHost

CHIP = Chip(
    npu_id=3, chip_id=1, name="910B3", health="Warning", power=91.3, temperature=36,
    bus_id="0000:C1:00.0", ddr=Memory(1, 2), hbm=Memory(3, 4), physical_id=None, logical_id=None,
)  # fmt: skip
FACTS = Facts(PhysicalDeviceId(3), 3, (3, 1), CHIP, "910B3", listed=True)


@pytest.fixture
def root(host: FakeHost) -> str:
    """The root of a host with the device's node."""
    host.nodes([3])
    return str(host.root)


def test_it_has_what_the_chip_has(root: str) -> None:
    device = record(7, FACTS, root)
    assert (device.index, device.npu_id, device.chip_id) == (7, 3, 1)
    assert (device.health, device.power_w, device.temperature_c) == ("Warning", 91.3, 36)
    assert (device.memory_kind, device.memory_used_mb, device.memory_total_mb) == ("HBM", 3, 4)
    assert device.notes == ()


def test_without_hbm_its_memory_is_the_ddr(root: str) -> None:
    device = record(0, FACTS._replace(chip=CHIP._replace(hbm=None)), root)
    assert (device.memory_kind, device.memory_used_mb, device.memory_total_mb) == ("DDR", 1, 2)


def test_without_a_chip_all_stays_open(root: str) -> None:
    device = record(0, Facts(PhysicalDeviceId(3), 3, None, None, "", listed=False), root)
    values = (device.name, device.family, device.health, device.memory_kind, device.npu_id)
    assert values == (None,) * 5
    assert device.notes == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"physical": None}, ["/dev/davinci<N>", "cannot be told"]),
        ({"physical": PhysicalDeviceId(5)}, ["no /dev/davinci5"]),
        ({"hidden_by": "X='1'"}, ["X='1' hides it"]),
        ({"key": None, "chip": None}, ["npu-smi does not list it"]),
        (
            {"holders": (Holder(9, "", None, 1, own=False, here=False),)},
            ["Process 9", "not in /proc"],
        ),
    ],
)
def test_what_is_odd_is_a_note(root: str, changes: Any, words: List[str]) -> None:
    (note,) = record(0, FACTS._replace(**changes), root).notes
    assert all(word in note for word in words)


@pytest.mark.parametrize(
    ("name", "may"), [("910B3", True), ("310P3", False), ("", True), ("unheard of", True)]
)
def test_only_known_families_have_no_address(name: str, may: bool) -> None:
    assert may_have_address(FACTS._replace(name=name)) is may
