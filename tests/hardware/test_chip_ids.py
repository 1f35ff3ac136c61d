"""Nodes, logical ids and the numbers of ``npu-smi``, brought together."""

from typing import Any, Callable, Dict, List, Optional, Sequence

import pytest

from ascend_session.hardware.npu_smi import ChipIds, ChipListing, InfoTable, parse_info
from ascend_session.ids import PhysicalDeviceId
from tests.fake_host import FakeChip, a2_chips, a3_chips, inference_chips
from tests.fake_host.layouts import draw


def nodes(*numbers: int) -> List[PhysicalDeviceId]:
    return [PhysicalDeviceId(number) for number in numbers]


def table(layout: str, chips: Sequence[FakeChip]) -> InfoTable:
    return parse_info(draw(layout, chips))


def mapped(chips: Sequence[FakeChip], physical: bool = False) -> List[ChipIds]:
    return [
        ChipIds(one.npu, one.chip, one.logical, one.physical if physical else None, one.name)
        for one in chips
    ]


def never(physical_id: int) -> Optional[ChipIds]:
    raise AssertionError(f"phyid-remap was asked for {physical_id}")


NO_TABLE = InfoTable(None, (), (), ())


class Answers:
    """An ``npu-smi`` that gives these answers."""

    def __init__(
        self,
        info: InfoTable,
        mapping: Sequence[ChipIds],
        remap: Callable[[int], Optional[ChipIds]] = never,
    ) -> None:
        self.info = lambda: info
        self.mapping = lambda: mapping
        self.remap = remap


def physical_ids(nodes: List[PhysicalDeviceId], *answers: Any) -> Dict[Any, PhysicalDeviceId]:
    return ChipListing(Answers(*answers), nodes).physical  # type: ignore[arg-type]


def test_what_is_printed_counts() -> None:
    chips = [chip._replace(physical=chip.physical + 14) for chip in a3_chips(1)]
    found = physical_ids(nodes(0, 1), table("A3", chips), [], never)
    assert found == {(0, 0): 14, (0, 1): 15}


def test_the_mapping_prints_physical_ids_too() -> None:
    chips = [chip._replace(physical=chip.physical + 14) for chip in a3_chips(1)]
    found = physical_ids(nodes(14, 15), NO_TABLE, mapped(chips, physical=True), never)
    assert found == {(0, 0): 14, (0, 1): 15}


def test_as_many_chips_as_nodes_stand_in_the_order_of_logical_ids() -> None:
    chips = [chip._replace(logical=2 - n) for n, chip in enumerate(inference_chips())]
    found = physical_ids(nodes(3, 5, 9), table("310", chips), mapped(chips), never)
    assert found == {(96, 0): 3, (32, 0): 5, (0, 0): 9}


def test_a_chip_without_a_logical_id_does_not_move_the_others() -> None:
    chips = a2_chips(4)
    some = mapped([chips[0], chips[1], chips[3]])
    found = physical_ids(nodes(4, 5, 6, 7), table("910B", chips), some, never)
    assert found == {(npu, 0): 4 + npu for npu in range(4)}


def test_without_logical_ids_they_stand_in_the_order_of_cards() -> None:
    chips = [chip._replace(npu=chip.npu + 4) for chip in a2_chips(4)]
    found = physical_ids(nodes(4, 5, 6, 7), table("910B", chips), [], never)
    assert found == {(npu, 0): npu for npu in (4, 5, 6, 7)}


def test_if_the_counts_differ_the_tool_is_asked() -> None:
    chips = a2_chips(8)
    answers = {chip.physical: ChipIds(chip.npu, 0, None, chip.physical, "") for chip in chips[1:]}
    found = physical_ids(nodes(*range(8)), table("910B", chips[1:]), [], answers.get)
    assert found == {(n, 0): n for n in range(1, 8)}


def test_an_answer_about_another_device_is_not_believed() -> None:
    def wrong(physical_id: int) -> ChipIds:
        return ChipIds(0, 0, 0, physical_id + 1, "")

    found = physical_ids(nodes(0, 1), table("910B", a2_chips(1)), [], wrong)
    assert found == {(0, 0): 0}


def test_if_the_tool_knows_nothing_equal_numbers_belong_together() -> None:
    found = physical_ids(nodes(0, 1, 2), table("910B", a2_chips(2)), [], {}.get)
    assert found == {(0, 0): 0, (1, 0): 1}


def test_on_cards_with_two_chips_equal_numbers_say_nothing() -> None:
    chips = [chip._replace(npu=1, chip=n) for n, chip in enumerate(inference_chips((0, 1)))]
    assert physical_ids(nodes(0, 1, 2), table("310", chips), [], {}.get) == {}


def test_no_physical_id_is_given_twice() -> None:
    chips = [chip._replace(physical=3) for chip in a3_chips(1)]
    found = physical_ids(nodes(3), table("A3", chips), [], {}.get)
    assert found == {(0, 0): 3}


def test_the_chips_are_those_of_the_table_and_else_of_the_mapping() -> None:
    chips = a2_chips(2)
    seen = Answers(table("910B", chips[:1]), mapped(chips))
    assert list(ChipListing(seen, nodes(0)).names) == [(0, 0)]  # type: ignore[arg-type]
    seen = Answers(NO_TABLE, mapped(chips))
    assert list(ChipListing(seen, nodes(0, 1)).names) == [(0, 0), (1, 0)]  # type: ignore[arg-type]


def test_logical_ids_are_those_of_the_mapping_and_else_of_the_table() -> None:
    chips = inference_chips((8, 9))
    swapped = [chip._replace(logical=1 - chip.logical) for chip in chips]
    seen = Answers(table("310", swapped), [])
    assert ChipListing(seen, nodes(3, 4)).physical == {(8, 0): 4, (9, 0): 3}  # type: ignore[arg-type]
    seen = Answers(table("310", swapped), mapped(chips))
    assert ChipListing(seen, nodes(3, 4)).physical == {(8, 0): 3, (9, 0): 4}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("logical", "found"),
    [
        ({}, {4: 0, 5: 1}),
        ({(4, 0): 0, (5, 0): 1}, {4: 0, 5: 1}),
        ({(4, 0): 1, (5, 0): 0}, {4: 1, 5: 0}),
        ({(4, 0): 4, (5, 0): 5}, {4: 0, 5: 1}),
        ({(4, 0): 1}, {4: 0, 5: 1}),
        ({(4, 0): 1, (5, 0): 0, (6, 0): 2}, {4: 1, 5: 0}),
    ],
)
def test_the_drivers_numbers_have_no_gaps(logical: Dict[Any, int], found: Dict[int, int]) -> None:
    printed = {(4, 0): 4, (5, 0): 5}
    rows = [ChipIds(*key, logical.get(key), printed.get(key), "") for key in {**printed, **logical}]
    assert ChipListing(Answers(NO_TABLE, rows), nodes(4, 5)).driver == found  # type: ignore[arg-type]
