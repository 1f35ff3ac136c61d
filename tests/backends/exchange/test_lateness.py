"""Which rank is called slow, by what the ranks report of their hosts' time between two runs."""

from typing import Any, Dict, List, Sequence, Tuple

import pytest

from ascend_session.backends.exchange.lateness import ReportedGaps

_FIRST, _LEAST = 5, 50  # steps that do not count, and those from which a rank can be slow


def report(
    gaps: ReportedGaps, steps: Sequence[Tuple[Sequence[float], float]], **message: Any
) -> None:
    """Have all ranks report their time before each run, in seconds, and that of the whole step."""
    for rank in range(len(steps[0][0])):
        rows: List[Any] = [[0, n, own[rank], step_s] for n, (own, step_s) in enumerate(steps)]
        values: Dict[str, Any] = {"have_parts": False, "gaps": rows, **message}
        gaps.note(rank, 100 + rank, values)


def of(steps: Sequence[Tuple[Sequence[float], float]]) -> ReportedGaps:
    gaps = ReportedGaps(range(len(steps[0][0])))
    report(gaps, steps)
    return gaps


# Rank 1 takes 60 ms of each step of 100 ms, and the others none.
_SLOW = ((0.0, 0.06, 0.0), 0.1)
_EVEN = ((0.0, 0.0, 0.0), 0.1)


def test_the_rank_that_the_others_wait_for_in_most_steps_is_slow() -> None:
    slow = of([_SLOW] * (_FIRST + _LEAST)).find_slow()
    assert slow is not None
    assert slow.rank == 1
    assert slow.sentence.startswith(
        "the other ranks waited for rank 1 in 50 of 50 steps, 60% of their time: 60 ms of a step "
        "of 100 ms. "
    )


@pytest.mark.parametrize(
    "steps",
    [
        [_SLOW] * (_FIRST + _LEAST - 1),
        # Half of the steps is not most of them.
        [_SLOW] * (_FIRST + _LEAST // 2) + [_EVEN] * (_LEAST // 2),
        # A third of a step is not more than a third.
        [((0.0, 0.25, 0.0), 0.75)] * (_FIRST + _LEAST),
        # Two ranks that are slow alike: nobody waits for one of them.
        [((0.0, 0.06, 0.06), 0.1)] * (_FIRST + _LEAST),
        # It is slow in most steps, but a few others take nearly all of the time.
        [_SLOW] * (_FIRST + _LEAST) + [((0.0, 0.0, 0.0), 10.0)] * 2,
        # Less than 5 ms is the machine's.
        [((0.0, 0.004, 0.0), 0.005)] * (_FIRST + _LEAST),
        # In the first steps graphs are compiled.
        [((0.0, 60.0, 0.0), 60.0)] * _FIRST + [_EVEN] * _LEAST,
    ],
)
def test_what_is_not_slow_in_most_of_the_steps_and_of_the_time_is_not_called_so(
    steps: List[Any],
) -> None:
    assert of(steps).find_slow() is None


def test_ranks_with_parts_of_their_own_are_not_called_slow() -> None:
    gaps = ReportedGaps(range(3))
    report(gaps, [_SLOW] * (_FIRST + _LEAST), have_parts=True)
    assert gaps.find_slow() is None
    assert gaps.measure_shares() == (0.0, 0.6, 0.0)


def test_ranks_of_a_later_node_have_their_numbers_in_the_job() -> None:
    gaps = ReportedGaps([8, 9])
    for rank, own_s in ((8, 0.0), (9, 0.06)):
        rows = [[0, number, own_s, 0.1] for number in range(_FIRST + _LEAST)]
        gaps.note(rank, rank, {"have_parts": False, "gaps": rows})
    slow = gaps.find_slow()
    assert slow is not None
    assert (slow.rank, "waited for rank 9 in" in slow.sentence) == (9, True)


def test_of_several_processes_of_a_rank_the_first_counts() -> None:
    gaps = ReportedGaps(range(3))
    evaluation = [[0, number, 5.0, 5.0] for number in range(_FIRST + _LEAST)]
    report(gaps, [_EVEN])
    gaps.note(2, 777, {"have_parts": True, "gaps": evaluation})
    report(gaps, [_SLOW] * (_FIRST + _LEAST))
    slow = gaps.find_slow()
    assert slow is not None
    assert slow.rank == 1


def test_a_step_takes_as_long_as_it_does_on_the_rank_with_the_longest() -> None:
    gaps = ReportedGaps(range(2))
    for rank, (own_s, step_s) in enumerate([(0.0, 0.04), (0.02, 0.1)]):
        rows = [[0, number, own_s, step_s] for number in range(_FIRST + _LEAST)]
        gaps.note(rank, rank, {"have_parts": False, "gaps": rows})
    assert gaps.measure_shares() == (0.0, 0.2)
    assert gaps.find_slow() is None


def test_the_runs_of_two_kinds_are_apart() -> None:
    gaps = ReportedGaps(range(2))
    for rank in range(2):
        rows = [[kind, n, rank * 0.06, 0.1] for n in range(_LEAST) for kind in (0, 1)]
        gaps.note(rank, rank, {"have_parts": False, "gaps": rows})
    assert gaps.find_slow() is None  # neither of them has made enough
    assert gaps.measure_shares() == ()
