"""Dirty text: colours, control characters, numbers of any size."""

from typing import List, Optional

import pytest

from ascend_session.hardware._text import lines, number, pairs, quoted, real


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b", ""]),
        ("a\rb", ["a", "b"]),
        ("\x1b[1;31mAlarm\x1b[0m", ["Alarm"]),
        ("\x1b]0;title\x07OK", ["OK"]),
        ("a\x00b\x07", ["ab"]),
        ("a   ", ["a"]),
        ("x" * 1001, []),
        ("x" * 1000, ["x" * 1000]),
    ],
)
def test_lines_are_clean(text: str, clean: List[str]) -> None:
    assert lines(text) == clean


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        (" 65536 ", 65536),
        ("007", 7),
        ("NA", None),
        ("-", None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("\u0661", None),
        ("9" * 9, 999999999),
        ("9" * 10, None),
        ("9" * 10000, None),
    ],
)
def test_a_number_is_at_most_nine_ascii_digits(text: str, value: Optional[int]) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("91.3", 91.3), ("-5", -5.0), ("0", 0.0), ("NA", None), ("-", None), ("1e5", None)],
)
def test_a_decimal_number_has_no_exponent(text: str, value: Optional[float]) -> None:
    assert real(text) == value


def test_pairs_have_lower_case_keys_and_either_colon() -> None:
    text = "\tNPU   ID    : 0\nHealth\uff1aOK\nno pair\n: 3\nipv6_address:fd00::7\nEmpty :\n"
    assert list(pairs(text)) == [
        ["npu id", "0"],
        ["health", "OK"],
        ["ipv6_address", "fd00::7"],
        ["empty", ""],
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "nothing"),
        ("\n  \n", "nothing"),
        ("\n  first \nsecond", "'first'"),
        ("x" * 130, repr("x" * 120 + "...")),
    ],
)
def test_a_quotation_is_the_first_line_that_says_something(text: str, shown: str) -> None:
    assert quoted(text) == shown
