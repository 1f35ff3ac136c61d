from typing import Dict, List, Optional, Tuple

import pytest

from ascend_session.backends.ranks.operation import Operation
from ascend_session.backends.ranks.verdict import Situation, Wait, behind, contradiction, verdict

A, B, C = "abc"
WORLD = (0, 1, 2)

Waits = List[Tuple[int, str, int]]


def operation(key: str, ranks: Tuple[int, ...] = WORLD) -> Operation:
    return Operation(key, f"op/{key}", ranks, "allreduce sum float32 [4]")


def situation(
    waits: Waits,
    staying: Tuple[int, ...] = WORLD,
    seconds: float = 3.5,
    computed: Optional[Dict[int, Optional[float]]] = None,
    ranks: Optional[Dict[str, Tuple[int, ...]]] = None,
) -> Situation:
    found = [
        Wait(rank, operation(key, (ranks or {}).get(key, WORLD)), times)
        for rank, key, times in waits
    ]
    used: Dict[int, Optional[float]] = dict.fromkeys(staying, 0.01)
    used.update(computed or {})
    return Situation(staying, found, seconds, used)


APART: Waits = [(0, A, 1), (1, B, 1), (2, A, 1)]

FOREVER = {
    "in different collectives": situation(APART),
    "at different times of one": situation([(0, A, 2), (1, A, 1), (2, A, 2)]),
    "some to agree and some to exchange": situation([(0, A, 0), (1, A, 1), (2, A, 1)]),
    "to agree on different ones": situation([(0, A, 0), (1, B, 0), (2, B, 0)]),
    "in several each": situation([(0, A, 1), (0, B, 1), (1, C, 1), (2, C, 1)]),
    "in two halves that need the third": situation(
        [(0, A, 1), (1, B, 1), (2, B, 1)], ranks={A: (0, 1), B: (0, 1, 2)}
    ),
    "after one has left that had done its part": situation([(0, A, 1), (1, B, 1)], staying=(0, 1)),
}

PERHAPS_NOT = {
    "somebody does not wait": situation([(0, A, 1), (1, B, 1)]),
    "it is not long yet": situation(APART, seconds=2.9),
    "somebody computes": situation(APART, computed={1: 1.2}),
    "nobody knows what somebody computes": situation(APART, computed={1: None}),
    "all wait in one exchange, whose data moves": situation([(0, A, 1), (1, A, 1), (2, A, 1)]),
    "a part of the ranks is together": situation(
        [(0, A, 1), (1, A, 1), (2, B, 1)], ranks={A: (0, 1)}
    ),
    "one thread of each is": situation([(0, A, 1), (0, B, 1), (1, B, 1), (2, B, 1)]),
    "all that have not left are together": situation([(0, A, 1), (1, A, 1)], staying=(0, 1)),
    "nobody is there": situation([], staying=()),
}


@pytest.mark.parametrize("name", FOREVER)
def test_ranks_wait_forever(name: str) -> None:
    assert "the ranks wait for different collectives" in str(verdict(FOREVER[name]))


@pytest.mark.parametrize("name", PERHAPS_NOT)
def test_ranks_may_go_on_when(name: str) -> None:
    assert verdict(PERHAPS_NOT[name]) is None


def test_the_sentence_says_where_each_waits_in_groups() -> None:
    eight = tuple(range(8))
    waits = [(rank, B if rank == 5 else A, 12) for rank in eight]
    said = str(verdict(situation(waits, staying=eight, ranks={A: eight, B: eight})))
    assert (
        'ranks 0 to 4, 6 and 7 wait in "op/a" (allreduce sum float32 [4]) for the 12th time; '
        'rank 5 waits in "op/b" (allreduce sum float32 [4]) for the 12th time.'
    ) in said


def test_one_exchange_of_different_tensors_is_none() -> None:
    waits = [Wait(rank, operation(A), 3) for rank in WORLD]
    waits[1] = Wait(1, operation(A)._replace(signature="allreduce sum float32 [5]"), 3)
    assert verdict(Situation(WORLD, waits, 4.0, dict.fromkeys(WORLD, 0.0))) is not None
    assert 'rank 1 runs "op/a" as allreduce sum float32 [5]' in str(contradiction(waits))


def test_other_times_and_other_names_are_no_contradiction() -> None:
    waits = [Wait(0, operation(A), 3), Wait(1, operation(A)._replace(name="other"), 3)]
    waits.append(Wait(2, operation(A)._replace(signature="allreduce sum float32 [5]"), 4))
    assert contradiction(waits) is None


def test_how_much_computing_counts_depends_on_the_time() -> None:
    assert verdict(situation(APART, seconds=3.5, computed={0: 0.2})) is None
    assert verdict(situation(APART, seconds=35, computed={0: 0.2})) is not None


BEHIND = [
    ({}, 1, None),
    ({2: {A: 3}}, 3, None),
    ({2: {A: 3}}, 4, 2),
    ({2: {}}, 1, 2),
    ({2: {A: 3}}, 0, 2),  # to agree, it would have to come again
    ({1: {A: 3}, 2: {A: 1}}, 2, 2),
    ({5: {}}, 1, None),  # not one of them
]


@pytest.mark.parametrize(("left", "times", "found"), BEHIND)
def test_a_rank_that_left_is_missed_in_what_it_has_not_done(
    left: Dict[int, Dict[str, int]], times: int, found: Optional[int]
) -> None:
    assert behind(Wait(0, operation(A), times), left) == found
