"""The shapes of single rows, near the borders between them."""

from typing import List, Optional

import pytest

from ascend_session.hardware.npu_smi_rows import First, chip_row, first_row, process_row

NARROW = First(0, "910B3", "OK", 91.3, 36, wide=False)
WIDE = First(0, "Ascend950PR", "OK", 91.3, 36, wide=True)


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        (["0     910B3", "OK", "91.3   36   0    / 0"], "910B3"),
        (["0     910A", "OK", "67.2   30"], "910A"),
        (["32    310P3", "Alarm", "NA  37  15 / 15"], "310P3"),
        (["0     910 ProB", "OK", "-  36"], "910 ProB"),
        (["0     310", "OK", "12.8  51  0 / 187"], "310"),
        (["0     910B3", "\u6b63\u5e38", "91.3   36"], "910B3"),
        (["0     910B3", "0K", "91.3   36"], "910B3"),
        (["0     910B3", "OK", "91.3   -5"], "910B3"),
        (["0", "OK", "91.3   36"], ""),
        (["0", "Ascend950DT", "OK", "91.3   36   0 / 0"], "Ascend950DT"),
    ],
)
def test_first_rows(cells: List[str], name: str) -> None:
    found = first_row(cells)
    assert found is not None
    assert found.name == name
    assert found.wide == (len(cells) == 4)


@pytest.mark.parametrize(
    "cells",
    [
        ["0     0", "0000:C1:00.0", "0   1074 / 21534"],
        ["0", "0000:C1:00.0", "0   0 / 0   3465 / 65536"],
        ["0", "NA", "0   1074 / 21534"],
        ["0       0", "4321", "python3", "30000"],
        ["0", "4321", "", "332"],
        ["0       0", "4321", "python3", "30000", "NA"],
        ["0", "4321", "91.3", "91.3 36"],
        ["0     910B3", "OK"],
        ["0     910B3", "OK", "91.3"],
        ["0     910B3", "OK", "91.3  36  0"],
        ["-1    910B3", "OK", "91.3  36"],
        ["9999999999 910B3", "OK", "91.3  36"],
        ["", "", "0000:C1:00.0", "0   0 / 0   3465 / 65536"],
    ],
)
def test_no_first_rows(cells: List[str]) -> None:
    assert first_row(cells) is None


@pytest.mark.parametrize(
    ("cells", "physical", "numbers"),
    [
        (["0", "0000:C1:00.0", "0   0 / 0   3465 / 65536"], None, (0, None, None)),
        (["1     13", "0000:87:00.0", "0   0 / 0   3465 / 65536"], None, (1, 13, None)),
        (["0     2", "0000:81:00.0", "0   1074 / 21534"], None, (0, None, 2)),
        (["0     2", "0000:81:00.0", "0   1074 / 21534"], True, (0, 2, None)),
        (["0     2", "0000:81:00.0", "0   0 / 0   1 / 2"], False, (0, None, 2)),
        (["0     2", "NA", "1074 / 21534"], None, (0, None, 2)),
    ],
)
def test_chip_rows(cells: List[str], physical: Optional[bool], numbers: object) -> None:
    found = chip_row(NARROW, cells, physical)
    assert found is not None
    assert (found.chip_id, found.physical_id, found.logical_id) == numbers


@pytest.mark.parametrize(
    ("first", "cells"),
    [
        (NARROW, ["0     910B3", "OK", "91.3   36   0    / 0"]),
        (NARROW, ["0", "OK", "0   0 / 0   3465 / 65536"]),
        (NARROW, ["0", "4321", "0   0 / 0   3465 / 65536"]),
        (NARROW, ["0 0 0", "NA", "0   0 / 0   3465 / 65536"]),
        (NARROW, ["0", "NA", "0   0 / 0   3465"]),
        (NARROW, ["", "", "NA", "0   0 / 0   3465 / 65536"]),
        (WIDE, ["0", "NA", "0   0 / 0   3465 / 65536"]),
        (WIDE, ["0", "1", "NA", "0   0 / 0   3465 / 65536"]),
    ],
)
def test_no_chip_rows(first: First, cells: List[str]) -> None:
    assert chip_row(first, cells, None) is None


@pytest.mark.parametrize("pid", ["NA", "-", "N/A", "0"])
def test_a_row_without_a_process_gives_none(pid: str) -> None:
    assert process_row(["2", pid, "NA", "NA", "NA"], 5) == []


@pytest.mark.parametrize(
    ("cells", "width"),
    [
        (["x", "1", "", "2"], 4),
        (["0", "x", "", "2"], 4),
        (["0", "1", "", "2"], 5),
        (["0", "1", "a", "b"], 4),
        (["0", "1", "a", ""], 4),
        (["0", "1", "a", "2", "x"], 5),
    ],
)
def test_a_row_of_another_shape_is_refused(cells: List[str], width: int) -> None:
    with pytest.raises(ValueError, match=cells[1]):
        process_row(cells, width)
