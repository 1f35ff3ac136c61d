"""What the report says, and how it is laid out."""

from typing import Any, Dict, List

import pytest

from ascend_session.compat.report import RunReport, build_report, compare_ranks, report_lines


def setting(key: str, value: Any, why: str = "checked", effect: str = "device") -> Dict[str, Any]:
    return {"key": key, "value": value, "effect": effect, "why": why}


def session(number: int, *settings: Dict[str, Any], **options: Any) -> Dict[str, Any]:
    where = f"train.py:{number}"
    return {
        "number": number,
        "kind": "Session",
        "where": where,
        "has_entry": bool(settings or options),
        "settings": [*settings, *(setting(key, value) for key, value in options.items())],
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


def test_sessions_without_an_entry_need_no_sentence_before_theirs() -> None:
    [line] = build_report([session(1)]).sentences
    assert line.startswith("Session 1 without an NpuOptimizer entry, which a device leaves on")


def test_an_option_names_its_sessions_if_another_has_an_entry_without_it() -> None:
    empty = {**session(2), "has_entry": True}
    assert lines_of(session(1, a=1), empty)[1] == "    a=1 (session 1): checked"
    assert lines_of(session(1, a=1), session(2))[1] == "    a=1: checked"


def test_no_session_is_said() -> None:
    assert build_report([]) == RunReport([], ["The script did not open a session."])


def lines_of(*sessions: Dict[str, Any]) -> List[str]:
    return report_lines(build_report(sessions), "head")[1:]


def test_a_value_is_kept_short_and_harmless() -> None:
    [_, line, _] = lines_of(session(1, a="\x1b[31m", b="x" * 100, c=""))
    assert line.startswith("    a=\\x1b[31m, b=xxxx")
    assert "x" * 40 not in line
    assert line.endswith(", c='' (3 options): checked")


def test_what_is_wrong_comes_before_what_is_ignored_and_what_is_honoured() -> None:
    settings = [
        setting("a", 1),
        setting("b", 2, "b=2 has no effect on the stub.", "stub"),
        setting("c", 3, "The adapter has no key 'c'.", "silent"),
        setting("d", 4, "d=4 is not one of 1, 2.", "refused"),
    ]
    assert lines_of(session(1, *settings))[:8] == [
        "  Errors that abort the run on a device:",
        "    d=4 is not one of 1, 2.",
        "  Ignored:",
        "    The adapter has no key 'c'.",
        "  Without effect on the stub:",
        "    b=2 has no effect on the stub.",
        "  Correct; in effect only on a device:",
        "    a=1: checked",
    ]


def test_the_same_sentence_about_several_options_is_one_line_with_a_count() -> None:
    unread = [setting(k, 1, f"The adapter has no key '{k}'.", "silent") for k in ("x1", "x2")]
    [_, line, *_] = lines_of(session(1, *unread))
    assert line == "    The adapter has no key 'x1'. The same holds for 1 more: x2=1."


def test_options_that_not_all_sessions_have_name_their_sessions() -> None:
    late = setting("b", 2, "b=2 comes too late.", "silent")
    lines = lines_of(session(1, a=1), session(2, late, a=1, c=3))
    assert lines[:4] == [
        "  Ignored:",
        "    Session 2: b=2 comes too late.",
        "  Correct; in effect only on a device:",
        "    c=3 (session 2), a=1 (sessions 1-2) (2 options): checked",
    ]


def test_a_terminal_gets_lines_that_fit() -> None:
    report = build_report([session(1, **{f"option_{number}": number for number in range(30)})])
    lines = report_lines(report, "head", width=80)
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()) == " ".join(
        " ".join(report_lines(report, "head")).split()
    )


def record(rank: int, sessions: Any = ()) -> Dict[str, Any]:
    return {"rank": rank, "sessions": sessions}


def compared(own: Any, theirs: Dict[int, Any]) -> List[str]:
    """What is said of the sessions of ranks."""
    return compare_ranks(record(0, own), [record(*each) for each in theirs.items()])


@pytest.mark.parametrize(
    ("theirs", "sentences"),
    [
        ({3: [session(1, a=1)]}, []),
        ({3: [session(1, a=2)]}, ["Rank 3 differs in session 1: a is 2 there and 1 here."]),
        (
            {3: [session(1, a=1, b=0)]},
            ["Rank 3 differs in session 1: b is 0 there and not set here."],
        ),
        (
            {n: [session(1, a=2)] for n in (1, 2, 3)},
            ["Ranks 1-3 differ in session 1: a is 2 there and 1 here."],
        ),
        (
            {n: [session(1, a=n)] for n in (1, 2, 3)},
            ["Ranks 2-3 differ in session 1: a is 2 on rank 2 and 1 here."],
        ),
        ({3: [session(1, a=1, session_device_id=3)]}, []),
        ({3: []}, []),
    ],
)
def test_ranks_are_compared_session_by_session(theirs: Any, sentences: List[str]) -> None:
    assert compared([session(1, a=1)], theirs) == sentences


def test_the_same_difference_in_several_sessions_is_told_once() -> None:
    own, theirs = ([session(n, a=value) for n in (1, 2)] for value in (1, 2))
    assert compared(own, {1: theirs}) == [
        "Rank 1 differs in sessions 1-2: a is 2 there and 1 here."
    ]
