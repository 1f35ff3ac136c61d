"""What the report says, in lines and on a terminal."""

from typing import Any, Dict, List

import pytest

from ascend_session.cli import run
from ascend_session.compat.report import RunReport, build_report, rank_differences, report_lines


def session(number: int, **options: Any) -> Dict[str, Any]:
    settings = [
        {"key": key, "value": value, "effect": "device", "why": "checked"}
        for key, value in options.items()
    ]
    where = f"train.py:{number}"
    return {
        "number": number,
        "kind": "Session",
        "where": where,
        "has_entry": bool(options),
        "settings": settings,
        "notes": [],
    }


def test_the_same_option_of_several_sessions_is_one_row() -> None:
    sessions = [session(n, precision_mode="fp16") for n in (1, 2, 3, 5)]
    [row] = build_report(sessions).rows
    assert (row.key, row.value, row.sessions) == ("precision_mode", "fp16", "1-3,5")


def test_the_values_of_an_option_come_in_the_order_of_the_sessions() -> None:
    sessions = [session(1, b="z", a=1), session(2, b="y", a=1)]
    assert [(row.key, row.value) for row in build_report(sessions).rows] == [
        ("a", "1"),
        ("b", "z"),
        ("b", "y"),
    ]


def test_sessions_without_an_entry_are_named() -> None:
    said = build_report([session(1, a=1), session(2), session(3)]).sentences
    assert said == [
        "Session 1 with an NpuOptimizer entry: train.py:1",
        "Sessions 2-3 without one, which a device leaves on the host, too: train.py:2, train.py:3",
    ]


def test_no_session_is_said() -> None:
    assert build_report([]) == RunReport([], ["The script has opened no session."])


def test_a_value_is_kept_short_and_harmless() -> None:
    text = report_lines(build_report([session(1, a="\x1b[31m", b="x" * 100, c="")]), "head")
    assert "\\x1b[31m" in text[2]
    assert "x" * 100 not in text[3]
    assert "''" in text[4]


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ([session(1, a=1)], []),
        ([session(1, a=2)], ["Rank 3 differs in session 1: a is 2 there and 1 here."]),
        ([session(1, a=1, b=0)], ["Rank 3 differs in session 1: b is 0 there and not set here."]),
        ([session(1, a=1, session_device_id=3)], []),
        ([], []),
    ],
)
def test_ranks_are_compared_session_by_session(theirs: List[Any], said: List[str]) -> None:
    assert rank_differences([session(1, a=1)], 3, theirs) == said


def test_a_terminal_gets_all_of_it(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run.show(build_report([session(1, precision_mode="fp16")], ["Rank 1 differs."]), "The [head].")
    shown = capsys.readouterr().err
    for text in ("The [head].", "precision_mode", "fp16", "checked", "Rank 1 differs."):
        assert text in shown
