"""The shared parts of the grammars: numbers in ASCII, and the sentence of a refusal."""

import pytest

from ascend_session.config.grammars import (
    UnusableError,
    grammar,
    has_blank,
    is_list,
    is_whole,
    parse_whole,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("9", 9), ("007", 7), ("10", None), ("", None), ("-1", None), ("+1", None)],
)
def test_whole_reads_ascii_digits_within_the_limits(text, number):
    assert parse_whole(text, 0, 9) == number


@pytest.mark.parametrize(
    "text", ["5\n", " 5", "5 ", "\u0665", "\uff15", "\u00b2", "5.0", "1_0", "0x5", "9" * 5000]
)
def test_whole_takes_nothing_that_only_python_reads_as_a_number(text):
    assert parse_whole(text, 0, 10**30) is None


def test_a_bool_is_no_whole_number():
    assert not is_whole(True)
    assert is_whole(1)


def test_text_and_bytes_are_no_lists():
    assert [is_list(v) for v in ([], (), range(1), "ab", b"ab", {}, {1})] == [True] * 3 + [
        False
    ] * 4


def test_blanks_are_found_wherever_they_stand():
    assert [has_blank(text) for text in ("ab", " ab", "a\tb", "ab\n", "a\u00a0b")] == [False] + [
        True
    ] * 4


@grammar("text, an int", "1")
def odd_number(value):
    """A grammar that takes nothing."""
    if isinstance(value, str):
        raise UnusableError("it is even", "3" if value == "2" else None)
    raise UnusableError


def refusal(value):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        odd_number(value)
    return str(caught.value)


def test_a_refusal_quotes_the_value_and_shows_a_right_one():
    assert refusal("0") == "'0' cannot be used: it is even; write for example '1'."
    assert refusal("2") == "'2' cannot be used: it is even; write for example '3'."


def test_a_long_value_is_shortened_in_the_middle():
    text = "a" * 80 + "b" * 80
    assert refusal(text).startswith(repr(text)[:70] + "..." + repr(text)[-20:] + " cannot")


def test_bytes_get_the_advice_to_decode_them():
    assert "decode it first" in refusal(b"0|5")


def test_a_wrong_type_is_named_with_the_accepted_forms():
    assert refusal(1.5) == (
        "1.5 cannot be used: a value of type float is not among the accepted forms (text, an int); "
        "write for example '1'."
    )
