"""The stub's groups follow HCCL's rules (hccl/manage/api.py, hcom.cc)."""

from typing import Any, Callable, List

import pytest

from ascend_session.backends.stub_job import StubGroups
from ascend_session.errors import CollectiveError

WORLD = "hccl_world_group"


def make_groups(rank: int, size: int) -> StubGroups:
    return StubGroups(rank, [f"host {number // 4}" for number in range(size)])


@pytest.fixture
def groups() -> StubGroups:
    """Rank 5 of a job of 8, with 4 on each host."""
    return make_groups(5, 8)


def test_the_group_of_all_ranks_is_always_there(groups: StubGroups) -> None:
    assert groups.members(WORLD) == tuple(range(8))
    assert (groups.rank(WORLD), groups.size(WORLD)) == (5, 8)
    assert (groups.local_rank(WORLD), groups.local_size(WORLD)) == (1, 4)
    assert (groups.world_rank(WORLD, 3), groups.group_rank(3, WORLD)) == (3, 3)


def test_a_groups_ranks_are_numbered_in_ascending_order(groups: StubGroups) -> None:
    groups.create("odd", [7, 5, 1, 3])
    assert groups.members("odd") == (1, 3, 5, 7)
    assert (groups.rank("odd"), groups.size("odd")) == (2, 4)
    assert (groups.local_rank("odd"), groups.local_size("odd")) == (0, 2)
    assert [groups.world_rank("odd", rank) for rank in range(4)] == [1, 3, 5, 7]
    assert [groups.group_rank(rank, "odd") for rank in (1, 3, 5, 7)] == [0, 1, 2, 3]


def test_a_group_of_one(groups: StubGroups) -> None:
    groups.create("mine", [5])
    assert (groups.rank("mine"), groups.size("mine"), groups.local_size("mine")) == (
        0,
        1,
        1,
    )


def test_the_last_host_may_have_fewer_ranks() -> None:
    assert make_groups(8, 10).local_size(WORLD) == 2
    assert make_groups(9, 10).local_rank(WORLD) == 1


def test_a_name_is_free_again_after_the_groups_end(groups: StubGroups) -> None:
    groups.create("odd", [1, 5])
    groups.destroy("odd")
    groups.create("odd", [3, 5])
    assert groups.members("odd") == (3, 5)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([5, 8], "the job has ranks 0 to 7, not 8"),
        ([-1, 5, 9], "not -1, 9"),
        ([1, 2], "this process is rank 5, which is not among them"),
    ],
)
def test_what_is_no_group_of_this_rank_is_refused(
    groups: StubGroups, ranks: List[int], message: str
) -> None:
    with pytest.raises(
        CollectiveError, match=f"'odd' of the ranks .* cannot be created: .*{message}"
    ):
        groups.create("odd", ranks)
    assert refused(lambda: groups.members("odd"))


def test_a_second_group_of_one_name_is_refused(groups: StubGroups) -> None:
    groups.create("odd", [1, 5])
    with pytest.raises(CollectiveError, match=r"of this name already, of rank 1 and rank 5") as no:
        groups.create("odd", [1, 5])
    assert "hccl.destroy_group" in str(no.value.hint)
    with pytest.raises(CollectiveError, match="already, of ranks 0 to 7"):
        groups.create(WORLD, [5])


@pytest.mark.parametrize(
    "ask",
    [
        lambda groups: groups.members("odd"),
        lambda groups: groups.destroy("odd"),
        lambda groups: groups.rank("odd"),
        lambda groups: groups.size("odd"),
        lambda groups: groups.local_rank("odd"),
        lambda groups: groups.local_size("odd"),
        lambda groups: groups.world_rank("odd", 0),
        lambda groups: groups.group_rank(5, "odd"),
    ],
)
def test_an_unknown_group_is_named_with_those_that_are_there(
    groups: StubGroups, ask: Callable[[StubGroups], Any]
) -> None:
    groups.create("mine", [5])
    said = "no group 'odd' in this process, rank 5; it has 'hccl_world_group', 'mine'"
    with pytest.raises(CollectiveError, match=said) as no:
        ask(groups)
    assert "hccl.create_group" in str(no.value.hint)


def test_a_rank_that_the_group_does_not_have(groups: StubGroups) -> None:
    groups.create("odd", [1, 5, 7])
    for rank in (3, -1):
        with pytest.raises(CollectiveError, match=f"'odd' has no rank {rank}: it has 0 to 2"):
            groups.world_rank("odd", rank)
    with pytest.raises(CollectiveError, match="Rank 2 of the job is not in the group 'odd', which"):
        groups.group_rank(2, "odd")


def refused(ask: Callable[[], Any]) -> bool:
    """Whether CollectiveError is raised."""
    try:
        ask()
    except CollectiveError:
        return True
    return False
