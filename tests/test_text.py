"""Words and numbers as messages show them, and the text of others."""

from typing import List

import pytest

from ascend_session.text import (
    did_you_mean,
    fold_counting,
    format_count,
    format_duration,
    format_ordinal,
    format_ranges,
    join_words,
    label_ranks,
    one_line,
    printable,
    split_counting,
)


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [([], ""), ([3], "3"), ([0, 1, 2, 5], "0-2, 5"), ([7, 6, 6, 1], "1, 6-7")],
)
def test_runs_of_numbers_are_collapsed(numbers: List[int], shown: str) -> None:
    assert format_ranges(numbers) == shown


def test_places_are_counted_as_people_count() -> None:
    numbers = (1, 2, 8, 9, 11, 12, 21, 22, 23, 111, 112)
    expected = "first second eighth 9th 11th 12th 21st 22nd 23rd 111th 112th"
    assert [format_ordinal(number) for number in numbers] == expected.split()


@pytest.mark.parametrize(
    ("texts", "folded"),
    [
        (["r0 of 4", "r1 of 4", "r2 of 4"], ["r{0..2} of 4"]),
        (["8 on 0", "9 on 1", "10 on 2"], ["{8..10} on {0..2}"]),
        (["a"], ["a"]),
        (["a", "a"], ["a"]),
        (["a0", "b1"], ["a0", "b1"]),
        (["0", "2", "3", "4"], ["0", "{2..4}"]),
        (["1", "0"], ["1", "0"]),
        (["0", "1", "1"], ["{0..1}", "1"]),
        (["x08", "x09"], ["x08", "x09"]),
        (["0 0", "1 0", "2 1"], ["{0..1} 0", "2 1"]),
    ],
)
def test_texts_that_count_are_folded(texts: List[str], folded: List[str]) -> None:
    runs = split_counting([[text] for text in texts])
    assert [fold_counting(texts[start:end]) for start, end in runs] == folded


def test_ranges_can_be_joined_otherwise() -> None:
    assert format_ranges([0, 1, 2, 5], ",") == "0-2,5"
    assert (label_ranks([3]), label_ranks([5, 0, 1], ",")) == ("rank 3", "ranks 0-1,5")


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(1, "rank", "1 rank"), (0, "error", "0 errors"), (1024, "entry", "1,024 entries")],
)
def test_a_noun_behind_a_number_is_in_the_plural_where_it_needs_one(
    count: int, noun: str, text: str
) -> None:
    assert format_count(count, noun) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0 s"),
        (0.2, "0 s"),
        (59.7, "1 min"),
        (543.0, "9 min 3 s"),
        (3600.0, "1 h"),
        (3605.0, "1 h"),
        (7265.0, "2 h 1 min"),
        (2 * 86400 + 3605.0, "2 d 1 h"),
    ],
)
def test_a_time_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("words", "shown"),
    [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")],
)
def test_words_are_joined_as_in_a_sentence(words: List[str], shown: str) -> None:
    assert join_words(words, "or") == shown


def test_what_controls_a_terminal_is_shown_and_not_obeyed() -> None:
    assert printable("\x1b[31mred") == "\\x1b[31mred"
    assert one_line("\x1b[31mred\nline", 100) == "[31mred line"


def test_long_text_is_cut() -> None:
    assert printable("x" * 500, 10) == "xxxxxxxxxx..."
    assert one_line("x " * 500, 10) == "x x x x x ..."


def test_the_nearest_word_is_found_or_none() -> None:
    assert did_you_mean("precison_mode", ["job", "precision_mode"]) == "precision_mode"
    assert did_you_mean("zzz", ["job", "precision_mode"]) is None
    assert did_you_mean("x" * 1_000_000, ["job"]) is None
