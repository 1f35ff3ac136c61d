from typing import Any, Dict, List

import pytest

from ascend_session.backends.ranks.coordinator import Coordinator, Numbers, RefusedError
from ascend_session.backends.ranks.operation import Operation
from ascend_session.backends.ranks.verdict import Wait


def operation(key: str = "k", ranks: Any = (0, 1)) -> Operation:
    return Operation(key, f"op/{key}", tuple(ranks), "allreduce sum float32 [4]")


def events(coordinator: Coordinator, rank: int) -> List[Any]:
    waiting = coordinator._seats[rank].events
    found: List[Any] = []
    while not waiting.empty():
        event: Any = waiting.get()
        found.append(event if event is None else event["event"])
    return found


@pytest.fixture
def two() -> Coordinator:
    coordinator = Coordinator(2, Numbers.fresh())
    for rank in (0, 1):
        coordinator.come(rank, f"token {rank}", 100 + rank)
    return coordinator


def test_all_hear_when_the_last_has_come(two: Coordinator) -> None:
    assert [events(two, rank) for rank in (0, 1)] == [["welcome", "together"]] * 2


def test_only_the_process_that_came_speaks_for_a_rank(two: Coordinator) -> None:
    assert two.knows(0, "token 0")
    assert not two.knows(0, "token 1")
    assert not two.knows(7, "token 7")


def test_an_older_report_that_arrives_later_counts_no_more(two: Coordinator) -> None:
    two.report(0, 2, [])
    two.report(0, 1, [Wait(0, operation(), 1)])
    assert two.waits == []


def test_everybody_hears_the_end_once_and_its_stream_ends(two: Coordinator) -> None:
    two.end("first")
    two.end("second")
    two.cut(0)
    assert two.ended == "first"
    assert events(two, 1) == ["welcome", "together", "end", None]


def test_it_is_settled_when_the_last_stream_has_ended(two: Coordinator) -> None:
    two.end("over")
    two.cut(0)
    assert not two.settled.is_set()
    two.cut(1)
    assert two.settled.is_set()


def test_a_stream_that_ends_after_leaving_is_no_failure(two: Coordinator) -> None:
    two.leave(1, {})
    two.cut(1)
    assert two.ended is None
    two.leave(0, {})
    two.cut(0)
    assert two.ended is None
    assert two.settled.is_set()
    assert events(two, 0) == ["welcome", "together", "left", "over", None, None]


def test_what_a_rank_entered_goes_with_it(two: Coordinator) -> None:
    two.enter(0, operation())
    two.leave(0, {})
    two.enter(1, operation())
    assert "rank 0 has left" in str(two.ended)


def test_numbers_go_on_over_systems() -> None:
    numbers = Numbers.fresh()
    given: List[Dict[str, Any]] = []
    for _ in range(2):
        coordinator = Coordinator(1, numbers)
        seat = coordinator.come(0, "token", 1)
        coordinator.enter(0, operation(ranks=[0]))
        found = [seat.events.get() for _ in range(3)]
        given += [event for event in found if event and event["event"] == "agreed"]
    assert [event["numbers"] for event in given] == [[1, 1], [2, 2]]


def test_nobody_joins_what_is_over(two: Coordinator) -> None:
    two.leave(0, {})
    two.leave(1, {})
    with pytest.raises(RefusedError, match="met and parted before"):
        two.come(1, "another", 7)
    with pytest.raises(RefusedError, match="met and parted before"):
        two.come(0, "another", 7)


def test_a_late_complaint_about_a_collective_that_was_agreed_meanwhile(two: Coordinator) -> None:
    two.enter(0, operation())
    two.enter(1, operation())
    two.too_long(0, "k", 5)
    assert two.ended is None
