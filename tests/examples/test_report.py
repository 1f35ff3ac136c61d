"""What the examples print and draw."""

from pathlib import Path
from typing import Any

import pytest

from ascend_session.examples import _report

HISTORY = [_report.Epoch(1, 1.25, 0.75, 0.5), _report.Epoch(2, 0.5, 0.25, 0.975)]


def test_the_table_has_a_line_for_each_epoch(capsys: Any) -> None:
    _report.print_table(HISTORY)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "1.250", "0.750", "0.500"] in lines
    assert ["2", "0.500", "0.250", "0.975"] in lines


def test_the_titles_of_the_columns_are_whole_at_80_columns(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _report.print_table(HISTORY)
    assert "Epoch   Training loss   Held-out loss   Held-out accuracy" in capsys.readouterr().out


def test_the_curve_can_be_drawn_from_a_single_epoch(tmp_path: Path) -> None:
    path = _report.save_curve(HISTORY[:1], tmp_path)
    assert path == tmp_path / "curve.png"
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_a_second_curve_replaces_the_first(tmp_path: Path) -> None:
    before = _report.save_curve(HISTORY[:1], tmp_path).read_bytes()
    assert _report.save_curve(HISTORY, tmp_path).read_bytes() != before
    assert len(list(tmp_path.iterdir())) == 1


def test_the_numbers_are_kept_as_they_were(tmp_path: Path) -> None:
    history = [_report.Epoch(1, 0.1 + 0.2, 1 / 3, 0.5, "0badcafe")]
    assert _report.save(history, tmp_path) == tmp_path / "curve.png"
    assert _report.load(tmp_path) == history


def test_two_trainings_stand_next_to_each_other_at_80_columns(
    capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _report.print_both(HISTORY, HISTORY[::-1], ("1 x 512", "8 x 64"))
    said = capsys.readouterr().out
    assert "Epoch   Loss, 1 x 512   Loss, 8 x 64   Accuracy, 1 x 512   Accuracy, 8 x 64" in said
    lines = [line.split() for line in said.splitlines()]
    assert ["1", "1.250000", "0.500000", "0.500", "0.975"] in lines


def test_the_difference_of_two_trainings_is_their_largest() -> None:
    other = [HISTORY[0]._replace(training_loss=1.3), HISTORY[1]._replace(training_loss=0.25)]
    assert _report.difference(HISTORY, other) == pytest.approx(0.25)


def test_of_a_long_training_every_some_epochs_and_the_last_are_printed(capsys: Any) -> None:
    history = [HISTORY[0]._replace(number=number) for number in range(1, 32)]
    _report.print_both(history, history, ("1 x 512", "8 x 64"))
    numbers = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert numbers[-8:] == ["4", "8", "12", "16", "20", "24", "28", "31"]
