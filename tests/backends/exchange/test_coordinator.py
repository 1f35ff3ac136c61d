"""What follows from what the ranks say, without any socket."""

from typing import Any, List, Optional

import pytest

from ascend_session.backends.exchange.coordinator import (
    Coordinator,
    Entry,
    RankInfo,
    RefusedError,
    Run,
    read_entry,
)
from ascend_session.backends.exchange.messages import (
    CANNOT_GO_ON,
    Operation,
    name_ranks,
    ordinal,
    rank_ended,
)


class Ranks:
    """The ranks of a coordinator, and what it tells all of them."""

    def __init__(self, size: int) -> None:
        self.told: List[Any] = []
        self.runs: List[Run] = []
        self._size = size
        self.coordinator = Coordinator(size, self.told.append, self.runs.append)

    def admit(self, rank: int, info: RankInfo) -> None:
        self.coordinator.admit(rank, self._size, info)

    def admit_all(self) -> Coordinator:
        """Let all join."""
        for rank in range(self._size):
            self.admit(rank, RankInfo(100 + rank, node=f"node {rank // 2}"))
        self.coordinator.announce()
        return self.coordinator

    @property
    def events(self) -> List[str]:
        return [header["event"] for header in self.told]


def operation(key: str = "k", ranks: Any = (0, 1)) -> Operation:
    return Operation(key, f"op/{key}", tuple(ranks), "allreduce sum float32 [4]")


def entry(
    key: str = "k", ranks: Any = (0, 1), payload: Optional[bytes] = b"", plan: str = "gather"
) -> Entry:
    size_bytes = 1 << 20 if payload is None else len(payload)
    return Entry(operation(key, ranks), plan, size_bytes, payload)


@pytest.fixture
def two() -> Ranks:
    ranks = Ranks(2)
    ranks.admit_all()
    return ranks


def test_all_hear_when_the_last_has_joined_and_who_is_on_which_node() -> None:
    ranks = Ranks(3)
    ranks.admit(1, RankInfo(101, "b"))
    ranks.admit(0, RankInfo(100, "a"))
    ranks.coordinator.announce()
    assert ranks.told == []
    ranks.admit(2, RankInfo(102, "b"))
    ranks.coordinator.announce()
    assert ranks.told == [{"event": "together", "nodes": ["a", "b", "b"]}]


def test_a_collective_begins_when_its_last_rank_enters(two: Ranks) -> None:
    two.coordinator.enter(1, entry(payload=b"one"))
    assert two.runs == []
    assert [(wait.rank, wait.times) for wait in two.coordinator.waits] == [(1, 1)]
    two.coordinator.enter(0, entry(payload=b""))
    assert two.runs == [Run(1, operation(), "gather", (0, 3), b"one")]
    assert not two.coordinator.is_busy


def test_what_little_all_have_is_reduced_in_the_order_of_the_ranks(two: Ranks) -> None:
    for rank, numbers in ((1, b"\x05\xff"), (0, b"\x02\x01")):
        two.coordinator.enter(rank, entry(payload=numbers, plan="sum uint8"))
    assert two.runs == [Run(1, operation(), "sum uint8", (2, 2), b"\x07\x00")]


def test_a_rank_that_has_another_length_to_reduce_ends_the_job_and_is_named(two: Ranks) -> None:
    two.coordinator.enter(0, entry(payload=b"\x02\x01", plan="sum uint8"))
    two.coordinator.enter(1, entry(payload=b"\x05", plan="sum uint8"))
    assert two.runs == []
    assert "rank 0 sends 2 bytes; rank 1 sends 1 byte" in str(two.coordinator.ended)


@pytest.mark.parametrize(
    ("plan", "payload", "reason"),
    [
        ("gather", b"xyz", "as many bytes as it says"),
        ("sum float32", b"xy", "no whole number of float32"),
        ("open uint8", b"xy", "no plan for an exchange"),
    ],
)
def test_an_entry_whose_bytes_do_not_fit_is_none(plan: str, payload: bytes, reason: str) -> None:
    header = {"key": "k", "name": "n", "ranks": [0, 1], "signature": "s", "is_small": True}
    header.update(plan="gather", size_bytes=2)
    assert read_entry(header, b"xy").payload == b"xy"
    with pytest.raises(ValueError, match=reason):
        read_entry({**header, "plan": plan}, payload)


def test_an_entry_with_more_than_little_is_none() -> None:
    header = {"key": "k", "name": "n", "ranks": [0, 1], "signature": "s", "is_small": True}
    header.update(plan="gather", size_bytes=60_000)
    with pytest.raises(ValueError, match="is small"):
        read_entry(header, bytes(60_000))


def test_a_collective_travels_as_a_whole_only_if_all_have_little(two: Ranks) -> None:
    two.coordinator.enter(0, entry(payload=None))
    two.coordinator.enter(1, entry(payload=b"one"))
    assert two.runs == [Run(1, operation(), "gather", (1 << 20, 3))]


def test_each_run_has_another_number(two: Ranks) -> None:
    for key in ("k", "l", "k"):
        for rank in (0, 1):
            two.coordinator.enter(rank, entry(key))
    assert [run.number for run in two.runs] == [1, 2, 3]


def test_runs_are_counted_for_each_rank_and_collective(two: Ranks) -> None:
    for _ in range(2):
        for rank in (0, 1):
            two.coordinator.enter(rank, entry())
    two.coordinator.enter(0, entry())
    two.coordinator.enter(0, entry("other"))
    found = {wait.operation.key: wait.times for wait in two.coordinator.waits}
    assert found == {"k": 3, "other": 1}


@pytest.mark.parametrize("differs", [{"plan": "sum float32"}, {"ranks": (0, 1, 2)}])
def test_ranks_that_mean_something_else_end_the_job(differs: Any) -> None:
    ranks = Ranks(3)
    coordinator = ranks.admit_all()
    coordinator.enter(0, entry())
    coordinator.enter(1, entry(**differs))
    assert "the ranks disagree about k" in str(coordinator.ended)


def test_everybody_hears_the_end_once(two: Ranks) -> None:
    two.coordinator.end("first")
    two.coordinator.end("second")
    two.coordinator.disconnect(0)
    assert two.coordinator.ended == "first"
    assert two.told[1:] == [{"event": "end", "reason": "first", "rank": None}]
    assert two.coordinator.is_over


def test_what_a_rank_says_after_the_end_changes_nothing(two: Ranks) -> None:
    two.coordinator.enter(0, entry())
    two.coordinator.end("over")
    two.coordinator.enter(1, entry())
    two.coordinator.leave(1)
    two.coordinator.finish(1)
    assert (two.runs, two.coordinator.waits) == ([], [])
    assert two.events == ["together", "end"]


def test_a_connection_that_ends_after_leaving_is_no_failure(two: Ranks) -> None:
    two.coordinator.leave(1)
    two.coordinator.disconnect(1)
    assert two.coordinator.ended is None
    assert not two.coordinator.is_over
    two.coordinator.leave(0)
    two.coordinator.disconnect(0)
    assert two.coordinator.ended is None
    assert two.coordinator.is_over
    assert two.events == ["together", "over"]


def test_what_a_rank_entered_goes_with_it(two: Ranks) -> None:
    two.coordinator.enter(0, entry())
    two.coordinator.leave(0)
    two.coordinator.enter(1, entry())
    assert two.runs == []
    assert "rank 0 has left" in str(two.coordinator.ended)


def test_a_rank_may_leave_what_it_has_finished_while_others_are_in_it(two: Ranks) -> None:
    for rank in (0, 1):
        two.coordinator.enter(rank, entry(payload=None))
    two.coordinator.finish(1)
    two.coordinator.leave(1)
    assert two.coordinator.ended is None


def test_a_rank_that_leaves_in_the_midst_of_a_run_ends_the_job(two: Ranks) -> None:
    for rank in (0, 1):
        two.coordinator.enter(rank, entry(payload=None))
    two.coordinator.leave(1)
    assert 'rank 1 has left (it closed its system), but rank 0 waits for it in "op/k"' in str(
        two.coordinator.ended
    )


def test_who_left_is_missed_only_in_what_it_belongs_to() -> None:
    ranks = Ranks(3)
    coordinator = ranks.admit_all()
    coordinator.enter(0, entry("k", (0, 1)))
    coordinator.leave(2)
    coordinator.enter(1, entry("k", (0, 1)))
    assert (len(ranks.runs), coordinator.ended) == (1, None)
    coordinator.enter(1, entry("l", (1, 2)))
    assert "rank 2 has left" in str(coordinator.ended)


def test_nobody_joins_what_is_over(two: Ranks) -> None:
    two.coordinator.leave(0)
    with pytest.raises(RefusedError, match="met and parted before"):
        two.admit(0, RankInfo(7))
    two.coordinator.leave(1)
    with pytest.raises(RefusedError, match="met and parted before"):
        two.admit(1, RankInfo(7))


def test_nobody_joins_what_has_failed() -> None:
    ranks = Ranks(2)
    ranks.admit(0, RankInfo(100))
    ranks.coordinator.give_up(5)
    with pytest.raises(RefusedError, match="rank 1 came when the others had given up: rank 1 of 2"):
        ranks.admit(1, RankInfo(101))


def test_a_late_complaint_about_a_collective_that_has_begun_meanwhile(two: Ranks) -> None:
    two.coordinator.enter(0, entry())
    two.coordinator.enter(1, entry())
    two.coordinator.time_out(0, "k", 5)
    assert two.coordinator.ended is None


def test_a_late_complaint_about_ranks_that_have_come_meanwhile(two: Ranks) -> None:
    two.coordinator.give_up(5)
    with pytest.raises(RefusedError, match="Rank 1 says that the job has 3 ranks"):
        two.coordinator.admit(1, 3, RankInfo(7))
    assert two.coordinator.ended is None


def test_what_does_not_belong_to_a_rank_is_not_heard_from_it(two: Ranks) -> None:
    two.coordinator.enter(0, entry("k", (1,)))
    two.coordinator.enter(1, entry("l", ()))
    two.coordinator.finish(0)
    two.coordinator.time_out(0, "unknown", 5)
    two.coordinator.leave(9)
    assert (two.coordinator.waits, two.coordinator.ended) == ([], None)


def test_whole_nodes_that_do_not_come_are_named() -> None:
    ranks = Ranks(8)
    coordinator = ranks.coordinator
    for rank in (0, 1, 4):
        ranks.admit(rank, RankInfo(1, node=str(rank - rank % 2), local_size=2))
    coordinator.give_up(30)
    assert "ranks 2, 3 and 5 to 7 of 8 (all of node 1 and node 3) did not" in str(coordinator.ended)


@pytest.mark.parametrize(
    "infos",
    [
        [RankInfo(1, node="0", local_size=2), RankInfo(1, node="0", local_size=3)],
        [RankInfo(1, node="host a", local_size=2), RankInfo(1, node="host b", local_size=2)],
        [RankInfo(1, node="0", local_size=4), RankInfo(1, node="0", local_size=4)],
    ],
    ids=["uneven", "in turn", "one node"],
)
def test_nodes_are_not_named_where_it_is_not_clear_who_is_on_them(infos: List[RankInfo]) -> None:
    ranks = Ranks(4)
    coordinator = ranks.coordinator
    for rank, info in enumerate(infos):
        ranks.admit(rank, info)
    coordinator.give_up(30)
    assert "rank 2 and rank 3 of 4 did not come" in str(coordinator.ended)


def test_a_second_process_of_a_rank_hears_on_which_host_the_first_is() -> None:
    ranks = Ranks(2)
    ranks.admit(1, RankInfo(4321, host="192.0.2.7"))
    with pytest.raises(
        RefusedError, match=r"process 4321 on 192.0.2.7 has that rank already"
    ) as refused:
        ranks.admit(1, RankInfo(77, host="192.0.2.8"))
    assert "each node a number" in str(refused.value)
    with pytest.raises(RefusedError, match=r"process 4321 has that rank already. Give"):
        ranks.admit(1, RankInfo(77, host="192.0.2.7"))


def test_ranks_and_numbers_are_named_as_people_do() -> None:
    named = [name_ranks(ranks) for ranks in ([3], [5, 3], [0, 1, 2], [0, 1, 4], [0, 1, 2, 5, 7])]
    assert named == [
        "rank 3",
        "rank 3 and rank 5",
        "ranks 0 to 2",
        "ranks 0, 1 and 4",
        "ranks 0 to 2, 5 and 7",
    ]
    assert name_ranks([1, 3, 4, 5, 6]) == "ranks 1 and 3 to 6"
    numbers = " ".join(ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111))
    assert numbers == "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th"


def test_a_rank_that_comes_late_hears_one_beginning_of_the_sentence() -> None:
    ended = rank_ended(2)
    ranks = Ranks(4)
    ranks.coordinator.end(ended)
    with pytest.raises(RefusedError) as refused:
        ranks.admit(3, RankInfo(7))
    assert str(refused.value).count(CANNOT_GO_ON) == 1
