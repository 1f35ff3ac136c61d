from typing import List

import pytest

from ascend_session.backends.ranks import wording


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([3], "rank 3"),
        ([5, 3], "rank 3 and rank 5"),
        ([0, 1, 2], "ranks 0 to 2"),
        ([0, 1, 4], "ranks 0, 1 and 4"),
        ([0, 1, 2, 5, 7], "ranks 0 to 2, 5 and 7"),
        ([1, 3, 4, 5, 6], "ranks 1 and 3 to 6"),
    ],
)
def test_ranks_are_named(ranks: List[int], said: str) -> None:
    assert wording.named(ranks) == said


def test_numbers_are_counted() -> None:
    said = [wording.ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)]
    assert " ".join(said) == "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th"


def test_a_sentence_that_goes_round_keeps_one_beginning() -> None:
    gone = wording.gone(2)
    assert wording.rank_failed(1, gone) == gone
    assert wording.too_late(3, gone).count(wording.CANNOT_GO_ON) == 1
