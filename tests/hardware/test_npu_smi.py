"""Asking a fake ``npu-smi``: what is known afterwards, and what the notes say."""

from typing import Any, Tuple

import pytest

from ascend_session.hardware.npu_smi import (
    Affinity,
    ChipIds,
    NpuSmi,
    parse_mapping,
    parse_remap,
    parse_super_pod,
    parse_topology,
)
from tests.fake_host import FakeHost, Reply, npu_smi_answers
from tests.fake_host.chips import FakeChip, FakeProcess, a2_chips, a3_chips, inference_chips
from tests.fake_host.npu_smi import (
    said_mapping,
    said_remap,
    said_topology,
)


def asked(host: FakeHost, timeout: float = 30.0) -> NpuSmi:
    return NpuSmi(host.environ, str(host.root), timeout)


def test_every_question_has_its_answer(host: FakeHost) -> None:
    processes = [FakeProcess(1, 1, 99, "python3", 5)]
    host.npu_smi(npu_smi_answers("A3", a3_chips(2), processes))
    npu_smi = asked(host)
    assert len(npu_smi.info().chips) == 4
    assert [mapped.physical_id for mapped in npu_smi.mapping()] == [0, 1, 2, 3]
    remapped = npu_smi.remap(3)
    assert remapped is not None
    assert (remapped.npu_id, remapped.chip_id) == (1, 1)
    assert npu_smi.topology()[3].physical
    assert npu_smi.notes == []


def test_it_runs_in_english_and_without_input(host: FakeHost) -> None:
    host.npu_smi(npu_smi_answers("910B", a2_chips(1)))
    asked(host).info()
    (call,) = host.calls()
    assert (call.arguments, call.lc_all, call.stdin) == ("info", "C", "")


def test_a_missing_program_is_said_once(host: FakeHost) -> None:
    npu_smi = asked(host)
    assert not npu_smi.answers
    assert npu_smi.info().chips == npu_smi.mapping() == npu_smi.topology() == ()
    (note,) = npu_smi.notes
    assert "npu-smi" in note
    assert "not found" in note


def test_a_hanging_program_is_asked_once(host: FakeHost) -> None:
    table = npu_smi_answers("910B", a2_chips(2))["info"].out
    host.npu_smi({"": Reply(table, then="hang")})
    npu_smi = asked(host, timeout=2.0)
    assert len(npu_smi.info().chips) == 2
    assert npu_smi.mapping() == ()
    assert [call.arguments for call in host.calls() if call.arguments != "child"] == ["info"]
    assert npu_smi.notes == [
        "'npu-smi info' did not answer within 2 s and was killed.",
        "npu-smi is not asked again: a faulty card can block it.",
    ]


def test_a_program_that_has_hung_is_not_asked_again_by_anybody_in_this_process(
    host: FakeHost,
) -> None:
    host.npu_smi({"": Reply(then="hang")})
    first = asked(host, timeout=0.5)
    assert first.info().chips == ()
    second = asked(host, timeout=60.0)
    assert second.is_installed
    assert not second.answers
    assert second.info().chips == second.mapping() == ()
    assert second.notes == first.notes
    assert [call.arguments for call in host.calls() if call.arguments != "child"] == ["info"]


def test_a_failure_is_said_in_its_words_and_explained(host: FakeHost) -> None:
    text = "dcmi model initialized failed, because the device is used. ret is -8020\n"
    host.npu_smi({"": Reply(text, code=255)})
    npu_smi = asked(host)
    assert npu_smi.info().chips == ()
    said, explained = npu_smi.notes
    assert said.startswith("'npu-smi info' exited with code 255 and printed 'dcmi model")
    assert "another container" in explained
    assert npu_smi.answers


@pytest.mark.parametrize("out", ["", "\x00\x01\x02", "Segmentation fault?\n", "| 0 | 1 |\n" * 9])
def test_garbage_is_said(host: FakeHost, out: str) -> None:
    host.npu_smi({"": Reply(out)})
    npu_smi = asked(host)
    assert npu_smi.info().chips == ()
    assert npu_smi.mapping() == ()
    assert "could" in npu_smi.notes[0]
    assert "read" in npu_smi.notes[0]
    assert len(npu_smi.notes) == 2


def test_rows_that_cannot_be_read_are_counted_and_the_first_is_quoted(host: FakeHost) -> None:
    text = npu_smi_answers("910B", a2_chips(3))["info"].out.replace(
        "| 0     910B3", "| ?     910B3"
    )
    host.npu_smi({"info": Reply(text)})
    npu_smi = asked(host)
    assert [chip.npu_id for chip in npu_smi.info().chips] == [1, 2]
    (note,) = npu_smi.notes
    assert note.startswith("2 row(s) of 'npu-smi info' could not be read, the first: '| ?    ")


def test_the_same_failure_twice_is_one_note(host: FakeHost) -> None:
    host.npu_smi({"": Reply("DrvMngGetConsoleLogLevel failed.\n")})
    npu_smi = asked(host)
    npu_smi.info()
    npu_smi.mapping()
    assert len(npu_smi.notes) == 1


def test_a_mapping_has_logical_ids_and_no_controllers() -> None:
    found = parse_mapping(said_mapping(inference_chips(), physical=False))
    assert found == (
        ChipIds(0, 0, 0, None, "Ascend 310P3"),
        ChipIds(32, 0, 1, None, "Ascend 310P3"),
        ChipIds(96, 0, 2, None, "Ascend 310P3"),
    )


def test_on_a3_a_mapping_has_physical_ids() -> None:
    chips = [chip._replace(physical=chip.physical + 14) for chip in a3_chips(1)]
    found = parse_mapping(said_mapping(chips, physical=True))
    assert found == (ChipIds(0, 0, 0, 14, "Ascend910"), ChipIds(0, 1, 1, 15, "Ascend910"))


def test_a_slot_is_no_chip() -> None:
    text = (
        "\tNPU ID    Slot ID    Chip ID    Chip Phy-ID    Chip Name\n"
        "\t0         7          0          3              Ascend950PR\n"
    )
    assert parse_mapping(text) == (ChipIds(0, 0, None, 3, "Ascend950PR"),)


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


def test_a_remap_brings_four_numbers_together() -> None:
    chip = FakeChip(npu=3, chip=0, physical=6, logical=2, name="910B3")
    assert parse_remap(said_remap(chip)) == ChipIds(3, 0, 2, 6, "")


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


def test_both_numbers_are_read():
    text = (
        "\tSDID       : 16777216\n\tSuper Pod Size : 384\n\tSuper Pod ID : 0\n\tServer Index : 4\n"
    )
    assert parse_super_pod(text) == ("16777216", "0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SDID : 1",
        "Super Pod ID : 1",
        "SDID : NA\nSuper Pod ID : 0",
        "SDID : 1\nSuper Pod ID : x",
    ],
)
def test_what_is_not_said_is_none(text):
    assert parse_super_pod(text) is None
