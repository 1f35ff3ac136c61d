"""Asking a fake ``npu-smi``: what is known afterwards, and what the notes say."""

import pytest

from ascend_session.hardware.npu_smi import NpuSmi
from tests.fake_host import FakeHost, FakeProcess, Reply, a2_chips, a3_chips, npu_smi_answers


def asked(host: FakeHost, timeout: float = 30.0) -> NpuSmi:
    return NpuSmi(host.environ, str(host.root), timeout)


def test_every_question_has_its_answer(host: FakeHost) -> None:
    processes = [FakeProcess(1, 1, 99, "python3", 5)]
    host.npu_smi(npu_smi_answers("A3", a3_chips(2), processes))
    npu_smi = asked(host)
    assert len(npu_smi.info().chips) == 4
    assert [mapped.physical_id for mapped in npu_smi.mapping()] == [0, 1, 2, 3]
    assert npu_smi.cards() == ((0, 2), (1, 2))
    remapped = npu_smi.remap(3)
    assert remapped is not None
    assert (remapped.npu_id, remapped.chip_id) == (1, 1)
    assert [usage.capacity for usage in npu_smi.usages(1)] == [65536, 65536]
    assert [chip.health for chip in npu_smi.health(0)] == ["OK", "OK"]
    assert [holder.pid for holder in npu_smi.process_memory(1)] == [99]
    assert npu_smi.process_memory(0) == ()
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
        "'npu-smi info' did not answer within 2 s and was ended.",
        "npu-smi is not asked again: it can be blocked by a card that is sick.",
    ]


def test_a_failure_is_said_in_its_words_and_explained(host: FakeHost) -> None:
    text = "dcmi model initialized failed, because the device is used. ret is -8020\n"
    host.npu_smi({"": Reply(text, code=255)})
    npu_smi = asked(host)
    assert npu_smi.info().chips == ()
    said, explained = npu_smi.notes
    assert said.startswith("'npu-smi info' ended with exit code 255 and said 'dcmi model")
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
