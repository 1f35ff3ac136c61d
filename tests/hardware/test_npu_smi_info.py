"""The table of ``npu-smi info`` in every layout: what is a device, and what is a process."""

from typing import Any, List, Tuple

import pytest

from ascend_session.hardware.npu_smi import Chip, InfoTable, Memory, Process, parse_info
from tests.fake_host.chips import FakeChip, FakeProcess, a2_chips, a3_chips
from tests.fake_host.layouts import LAYOUTS, draw
from tests.hardware.samples import SAMPLES


def keys(table: InfoTable) -> List[Tuple[int, int]]:
    return [(chip.npu_id, chip.chip_id) for chip in table.chips]


@pytest.mark.parametrize(
    ("sample", "version", "found"),
    [
        ("910a", "21.0.2", [(4, 0), (5, 0), (6, 0), (7, 0)]),
        ("910b", "23.0.rc3", [(n, 0) for n in range(8)]),
        ("a3", "25.2.1", [(n // 2, n % 2) for n in range(16)]),
        ("310", "22.0.4", [(0, 0)]),
        ("310b", "23.0.rc3", [(0, 0)]),
        ("310p", "22.0.3", [(0, 0), (32, 0), (96, 0)]),
        ("310p_duo", "25.2.0", [(2, 0), (2, 1)]),
        ("26", "26.0.rc2", [(n, 0) for n in range(4)]),
        ("26_a3", "26.0.rc2", [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ("950", "25.7.rc1", [(0, 0), (1, 0)]),
        ("translated", "24.1.0", [(0, 0), (1, 0)]),
    ],
)
def test_every_layout_gives_its_devices(sample: str, version: str, found: Any) -> None:
    table = parse_info(SAMPLES[sample])
    assert (table.driver_version, keys(table), table.unread) == (version, found, ())


def test_every_sample_is_tested() -> None:
    cases = test_every_layout_gives_its_devices.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {case[0] for case in cases} == set(SAMPLES)


@pytest.mark.parametrize(
    ("sample", "place", "chip"),
    [
        (
            "910a",
            2,
            Chip(
                npu_id=6, chip_id=0, name="910A", health="Warning", power=65.2, temperature=71,
                bus_id="0000:C0:00.0", ddr=Memory(2719, 15038), hbm=Memory(31012, 32768),
                physical_id=None, logical_id=None,
            ),
        ),
        (
            "910b",
            0,
            Chip(
                npu_id=0, chip_id=0, name="910B3", health="OK", power=247.8, temperature=52,
                bus_id="0000:C1:00.0", ddr=Memory(0, 0), hbm=Memory(20701, 65536),
                physical_id=None, logical_id=None,
            ),
        ),
        (
            "a3",
            13,
            Chip(
                npu_id=6, chip_id=1, name="Ascend910", health="OK", power=None, temperature=47,
                bus_id="0000:87:00.0", ddr=Memory(0, 0), hbm=Memory(2893, 65536),
                physical_id=13, logical_id=None,
            ),
        ),
        (
            "310p",
            1,
            Chip(
                npu_id=32, chip_id=0, name="310P3", health="Alarm", power=None, temperature=87,
                bus_id=None, ddr=Memory(1075, 21534), hbm=None, physical_id=None, logical_id=1,
            ),
        ),
        (
            "310",
            0,
            Chip(
                npu_id=0, chip_id=0, name="310", health="OK", power=12.8, temperature=51,
                bus_id=None, ddr=Memory(5744, 7757), hbm=None, physical_id=None, logical_id=0,
            ),
        ),
        (
            "950",
            1,
            Chip(
                npu_id=1, chip_id=0, name="Ascend950PR", health="Alarm", power=196.0,
                temperature=52, bus_id=None, ddr=Memory(0, 0), hbm=Memory(10573, 131072),
                physical_id=None, logical_id=None,
            ),
        ),
    ],
)  # fmt: skip
def test_every_field_is_read(sample: str, place: int, chip: Chip) -> None:
    assert parse_info(SAMPLES[sample]).chips[place] == chip


def test_a_slash_needs_no_blank_before_it() -> None:
    chips = parse_info(SAMPLES["910b"]).chips
    assert [chip.hbm for chip in (chips[0], chips[6])] == [(20701, 65536), (131072, 131072)]


@pytest.mark.parametrize(
    ("sample", "processes"),
    [
        ("910a", []),
        (
            "910b",
            [
                Process(0, 0, 4321, "python3", 17211, None),
                Process(0, 0, 4388, "", 98, None),
                Process(6, 0, 90017, "a|b worker", 127500, None),
            ],
        ),
        (
            "a3",
            [
                Process(0, 0, 771201, "python3.7", 30110, None),
                Process(0, 1, 771202, "python3.7", 30112, None),
                Process(7, 1, 5, "x", 1, None),
            ],
        ),
        ("310p", [Process(96, 0, 612, "ffmpeg", 420, None)]),
        ("310b", []),
        (
            "26",
            [
                Process(1, 0, 1504884, "", 35358, 412),
                Process(1, 0, 1504990, "python3", 150, None),
            ],
        ),
        ("950", [Process(1, 0, 846720, "", 332, None)]),
        ("translated", [Process(1, 0, 4321, "python3", 30000, None)]),
    ],
)
def test_processes_are_never_devices(sample: str, processes: List[Process]) -> None:
    assert list(parse_info(SAMPLES[sample]).processes) == processes


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("name", ["", "OK", "7", "python3 -u x.py", "0 / 0", "|", "91.3 36"])
def test_no_process_name_makes_a_device(layout: str, name: str) -> None:
    processes = [FakeProcess(0, 0, 7, name, 3, "9"), FakeProcess(1, 0, 8, name, 4)]
    table = parse_info(draw(layout, a2_chips(2), processes))
    assert keys(table) == [(0, 0), (1, 0)]
    if LAYOUTS[layout].process:
        assert [process.pid for process in table.processes] == [7, 8]


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_colours_and_carriage_returns_change_nothing(sample: str) -> None:
    text = SAMPLES[sample]
    coloured = text.replace("OK", "\x1b[32mOK\x1b[0m").replace("Alarm", "\x1b[1;31mAlarm\x1b[m")
    assert parse_info(coloured.replace("\n", "\r\n")) == parse_info(text)


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_a_table_without_rules_and_headers_has_the_same_devices(sample: str) -> None:
    kept = [
        line
        for line in SAMPLES[sample].splitlines()
        if line.startswith("|") and any(character.isdigit() for character in line)
    ]
    assert parse_info("\n".join(kept)).chips == parse_info(SAMPLES[sample]).chips


@pytest.mark.parametrize("name", ["9" * 5, "32768"])
def test_large_card_numbers_are_read(name: str) -> None:
    chip = FakeChip(int(name), 0, 0, 0, "310P3", power="NA", hbm=None, ddr=(1, 2))
    assert keys(parse_info(draw("310", [chip]))) == [(int(name), 0)]


def test_values_that_are_not_available_stay_open() -> None:
    chip = FakeChip(0, 0, 0, 0, "310B4", "UNKNOWN", "NA", "NA", "NA", hbm=None, ddr=(0, 11577))
    text = draw("310", [chip]).replace("0    / 11577", "NA / 11577   ")
    (found,) = parse_info(text).chips
    assert (found.power, found.temperature, found.bus_id) == (None, None, None)
    assert (found.health, found.ddr) == ("UNKNOWN", (None, 11577))


def test_a_device_without_a_name_is_one() -> None:
    chip = FakeChip(3, 0, 3, 3, "", "UNKNOWN", "0.0", "0", "0000:00:00.0", hbm=(0, 0))
    (found,) = parse_info(draw("910B", [chip])).chips
    assert (found.npu_id, found.name, found.health) == (3, "", "UNKNOWN")


def test_a_device_listed_twice_is_one() -> None:
    assert keys(parse_info(SAMPLES["26"] * 2)) == [(n, 0) for n in range(4)]


def test_a_damaged_row_costs_its_device_only() -> None:
    lines = SAMPLES["910b"].splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("| 3     910B3"))
    lines[place] = lines[place].replace("| 3  ", "| \ufffd  ")
    table = parse_info("\n".join(lines))
    assert keys(table) == [(n, 0) for n in range(8) if n != 3]
    assert len(table.processes) == 3
    assert [row.split()[1] for row in table.unread] == ["\ufffd", "0"]


def test_a_cut_table_says_so() -> None:
    text = SAMPLES["910b"]
    table = parse_info(text[: text.index("0000:C0:00.0")])
    assert keys(table) == [(0, 0)]
    assert table.unread == ("NPU 1 910B3: one row only",)


@pytest.mark.parametrize("text", ["", "\n", "garbage", "|", "||", "| |", "|\x00|", "| a | b |"])
def test_what_is_no_table_is_empty(text: str) -> None:
    assert parse_info(text) == InfoTable(None, (), (), ())


@pytest.mark.parametrize(
    ("sample", "layout"),
    [("910b", "910B"), ("a3", "A3"), ("26_a3", "26-A3"), ("310p", "310"), ("910a", "910A")],
)
def test_the_fake_draws_as_the_samples_look(sample: str, layout: str) -> None:
    def shape(text: str) -> List[str]:
        head = text.splitlines()[2:9]
        return ["".join("9" if c.isalnum() else c for c in line) for line in head[:4]]

    drawn = draw(layout, a3_chips(2))
    assert shape(drawn) == shape(SAMPLES[sample])
    assert {len(line) for line in drawn.splitlines()} == {len(SAMPLES[sample].splitlines()[0])}


FIRST = "0     910B3 | OK | 91.3   36   0    / 0"
WIDE_FIRST = "0 | Ascend950PR | OK | 91.3   36   0 / 0"
SECOND = "0 | 0000:C1:00.0 | 0   0 / 0   3465 / 65536"
WIDE_SECOND = " | | 0000:C1:00.0 | 0   0 / 0   3465 / 65536"


def read_rows(*rows: str) -> InfoTable:
    return parse_info("\n".join(f"| {row} |" for row in rows))


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
    second = WIDE_SECOND if len(cells) == 4 else SECOND
    table = read_rows(" | ".join(cells), second)
    assert [chip.name for chip in table.chips] == [name]
    assert table.unread == ()


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
    for second in (SECOND, WIDE_SECOND):
        table = read_rows(" | ".join(cells), second)
        assert table.chips == ()
        assert len(table.unread) == 2


@pytest.mark.parametrize(
    ("cells", "header", "numbers"),
    [
        (["0", "0000:C1:00.0", "0   0 / 0   3465 / 65536"], "Chip", (0, None, None)),
        (["1     13", "0000:87:00.0", "0   0 / 0   3465 / 65536"], "Chip", (1, 13, None)),
        (["0     2", "0000:81:00.0", "0   1074 / 21534"], "Chip", (0, None, 2)),
        (["0     2", "0000:81:00.0", "0   1074 / 21534"], "Chip  Phy-ID", (0, 2, None)),
        (["0     2", "0000:81:00.0", "0   0 / 0   1 / 2"], "Chip  Device", (0, None, 2)),
        (["0     2", "NA", "1074 / 21534"], "Chip", (0, None, 2)),
    ],
)
def test_chip_rows(cells: List[str], header: str, numbers: object) -> None:
    (found,) = read_rows(f"{header} | Bus-Id | Memory", FIRST, " | ".join(cells)).chips
    assert (found.chip_id, found.physical_id, found.logical_id) == numbers


@pytest.mark.parametrize(
    ("first", "cells"),
    [
        (FIRST, ["0     910B3", "OK", "91.3   36   0    / 0"]),
        (FIRST, ["0", "OK", "0   0 / 0   3465 / 65536"]),
        (FIRST, ["0", "4321", "0   0 / 0   3465 / 65536"]),
        (FIRST, ["0 0 0", "NA", "0   0 / 0   3465 / 65536"]),
        (FIRST, ["0", "NA", "0   0 / 0   3465"]),
        (FIRST, ["", "", "NA", "0   0 / 0   3465 / 65536"]),
        (WIDE_FIRST, ["0", "NA", "0   0 / 0   3465 / 65536"]),
        (WIDE_FIRST, ["0", "1", "NA", "0   0 / 0   3465 / 65536"]),
    ],
)
def test_no_chip_rows(first: str, cells: List[str]) -> None:
    table = read_rows(first, " | ".join(cells))
    assert table.chips == ()
    assert table.unread


def read_process(cells: List[str], width: int) -> InfoTable:
    """Read a row below the header of a table of processes, which is ``width`` cells wide."""
    header = " | ".join(["NPU Chip", "Process id", "Process name", "memory", "pid"][:width])
    table = read_rows("NPU | Health", FIRST, SECOND, header, " | ".join(cells))
    assert len(table.chips) == 1
    return table


@pytest.mark.parametrize("pid", ["NA", "-", "N/A", "0"])
def test_a_row_without_a_process_gives_none(pid: str) -> None:
    table = read_process(["2", pid, "NA", "NA", "NA"], 5)
    assert (table.processes, table.unread) == ((), ())


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
def test_a_row_of_another_shape_is_unread(cells: List[str], width: int) -> None:
    table = read_process(cells, width)
    assert table.processes == ()
    assert len(table.unread) == 1
