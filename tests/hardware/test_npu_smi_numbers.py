"""``npu-smi info -m``, ``-l``, ``-t phyid-remap`` and ``-t topo``."""

from typing import Any, Tuple

import pytest

from ascend_session.hardware.npu_smi_numbers import (
    Affinity,
    Mapped,
    parse_list,
    parse_mapping,
    parse_remap,
    parse_topology,
)
from tests.fake_host.chips import FakeChip, a2_chips, a3_chips, inference_chips
from tests.fake_host.npu_smi import said_list, said_mapping, said_remap, said_topology


def test_a_mapping_has_logical_ids_and_no_controllers() -> None:
    found = parse_mapping(said_mapping(inference_chips(), physical=False))
    assert found == (
        Mapped(0, 0, 0, None, "Ascend 310P3"),
        Mapped(32, 0, 1, None, "Ascend 310P3"),
        Mapped(96, 0, 2, None, "Ascend 310P3"),
    )


def test_on_a3_a_mapping_has_physical_ids() -> None:
    chips = [chip._replace(physical=chip.physical + 14) for chip in a3_chips(1)]
    found = parse_mapping(said_mapping(chips, physical=True))
    assert found == (Mapped(0, 0, 0, 14, "Ascend910"), Mapped(0, 1, 1, 15, "Ascend910"))


def test_a_slot_is_no_chip() -> None:
    text = (
        "\tNPU ID    Slot ID    Chip ID    Chip Phy-ID    Chip Name\n"
        "\t0         7          0          3              Ascend950PR\n"
    )
    assert parse_mapping(text) == (Mapped(0, 0, None, 3, "Ascend950PR"),)


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("0 0 0 Ascend", "Ascend"),
        ("  8   0   0   910B", "910B"),
        ("8 0 0 MiniD", "MiniD"),
        ("8 0 0 0 Ascend910", "Ascend910"),
        ("8 1 - Mcu", None),
        ("8 2 - - Mcu", None),
        ("8 2 - - 3559", None),
        ("8 2 5 3559", None),
        ("8 0 N/A 910B", None),
        ("0 0 Ascend", None),
        ("NPU ID  Chip ID  Chip Logic ID  Chip Name", None),
    ],
)
def test_only_rows_with_a_logical_id_and_a_name_count(row: str, name: Any) -> None:
    assert [mapped.name for mapped in parse_mapping(row)] == ([name] if name else [])


@pytest.mark.parametrize(
    ("chips", "cards"),
    [
        (a2_chips(2), ((0, 1), (1, 1))),
        (a3_chips(2), ((0, 2), (1, 2))),
        (inference_chips((0, 96)), ((0, 1), (96, 1))),
    ],
)
def test_a_list_has_cards_and_their_chips(chips: Any, cards: Tuple[Any, ...]) -> None:
    assert parse_list(said_list(chips)) == cards


def test_products_and_serial_numbers_in_a_list_are_skipped() -> None:
    text = "Card Count : 1\n\nNPU ID : 8\nProduct Name : NA\nSerial Number : 033\nChip Count : 2\n"
    assert parse_list(text) == ((8, 2),)


def test_a_remap_brings_four_numbers_together() -> None:
    chip = FakeChip(npu=3, chip=0, physical=6, logical=2, name="910B3")
    assert parse_remap(said_remap(chip)) == Mapped(3, 0, 2, 6, "")


def test_half_a_remap_is_none() -> None:
    text = said_remap(a2_chips(1)[0])
    assert parse_remap(text.replace("Chip ID", "Chop ID")) is None
    assert parse_remap("") is None


def test_a_topology_gives_the_cpus_near_each_card() -> None:
    found = parse_topology(said_topology(a2_chips(3), physical=False))
    assert [(row.number, row.physical) for row in found] == [(0, False), (1, False), (2, False)]
    assert found[0].cpus == (*range(0, 24), *range(192, 216))
    assert found[2].cpus == tuple(range(48, 72))


def test_on_a3_a_topology_is_by_physical_id_and_may_lack_cpus() -> None:
    text = (
        "           Phy-ID12   Phy-ID13\n"
        "Phy-ID12   X          SIO\n"
        "Phy-ID13   HCCS_SW    X\n"
        "\nLegend:\n  SYS  = Path traversing PCIe\n"
    )
    assert parse_topology(text) == (Affinity(12, True, ()), Affinity(13, True, ()))


@pytest.mark.parametrize(
    ("cpus", "found"),
    [
        ("144-167", tuple(range(144, 168))),
        ("0-1,4-5", (0, 1, 4, 5)),
        ("7", (7,)),
        ("5-4", ()),
        ("0-99999999", ()),
        ("1,,2", ()),
    ],
)
def test_lists_of_cpus(cpus: str, found: Tuple[int, ...]) -> None:
    assert parse_topology(f"NPU0 X HCCS {cpus}") == (Affinity(0, False, found),)
